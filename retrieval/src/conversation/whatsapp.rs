//! The text of a WhatsApp chat: a line per message that begins with a date, in the order and spelling of the phone's locale.
//!
//! In what order day and month come is decided over the whole file, or asked; never line by line. Times are the phone's own,
//! without a zone. System lines have no author; media leave a placeholder; both are left out.

mod dates;
mod header;

use std::collections::HashMap;

use jiff::civil::DateTime;

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_any_line};
use crate::{DateOrder, Moment, RetrievalError, Turn, TurnId};
use dates::Orders;
use header::{Header, strip_marks};

const FORMAT: &str = "WhatsApp";
/// Lines looked at to recognise a chat.
const SNIFFED: usize = 10;
/// Longest placeholder of a medium, in characters: `<Media omitted>` in any language.
const PLACEHOLDER: usize = 40;

/// Whether a text begins like a chat: one of its first lines has the date, and not all authors are the levels of a log.
pub(super) fn begins_chat(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).take(SNIFFED);
    let Some(first) = lines.next() else { return false };
    if header::parse(first).is_none() {
        return false;
    }
    let levels = [
        "trace", "debug", "info", "notice", "warn", "warning", "error", "fatal", "critical",
    ];
    let is_level = |author: &str| levels.contains(&author.to_lowercase().as_str());
    let headers = std::iter::once(first).chain(lines).filter_map(header::parse);
    let mut authors = headers.filter_map(|header| header.author().map(|(author, _)| is_level(&author)));
    authors
        .next()
        .is_none_or(|first| !first || authors.any(|level| !level))
}

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let (path, stem) = (container.display(index), container.stem(index));
    let id = intake.unique(intake.options.name.clone().unwrap_or(stem));
    if !intake.wants(&id) {
        return Ok(());
    }
    let source = Source {
        path: &path,
        format: FORMAT,
    };
    let mut orders = Orders::default();
    for_any_line(&source, container.read(index)?, |_, line| {
        if let Some(header) = header::parse(line) {
            orders.see(&header);
        }
        Ok(())
    })?;
    let order = orders.decide(&path, intake.options.date_order)?;
    let heading = Heading {
        id,
        title: None,
        time: None,
    };
    let mut reading = Messages {
        chat: Chat::new(intake, heading),
        order,
        open: None,
        said: HashMap::new(),
    };
    for_any_line(&source, container.read(index)?, |_, line| {
        Ok(reading.line(line, intake)?)
    })?;
    reading.close(intake)?;
    reading.chat.finish(intake)
}

struct Messages {
    chat: Chat,
    order: DateOrder,
    open: Option<Message>,
    /// How many messages there were of a time, which has the exactness of minutes on many phones.
    said: HashMap<DateTime, usize>,
}

struct Message {
    time: DateTime,
    raw: String,
    /// `None` for a system line.
    author: Option<String>,
    text: String,
}

impl Messages {
    /// A line begins a message or goes on with the last one.
    fn line(&mut self, line: &str, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let header = header::parse(line);
        let begun = header.and_then(|header| Some((header.time(self.order)?, header)));
        let Some((time, header)) = begun else {
            match &mut self.open {
                Some(message) => {
                    message.text.push('\n');
                    message.text.push_str(line);
                }
                None if line.trim().is_empty() => {}
                None => intake.skip("lines before the first message", line),
            }
            return Ok(());
        };
        self.close(intake)?;
        let (author, text) = match header.author() {
            Some((author, text)) => (Some(author), text),
            None => (None, header.rest),
        };
        self.open = Some(Message {
            time,
            raw: header.raw.to_owned(),
            author,
            text: text.to_owned(),
        });
        Ok(())
    }

    fn close(&mut self, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let Some(message) = self.open.take() else {
            return Ok(());
        };
        let count = self.said.entry(message.time).or_insert(0);
        *count += 1;
        let id = format!("{}#{count}", message.time);
        let Some(author) = message.author else {
            intake.skip("system messages", strip_marks(&message.text));
            return Ok(());
        };
        let text = words(&message.text);
        if text.is_empty() {
            intake.skip(
                "media and system messages",
                format!("{id} {}", strip_marks(&message.text)),
            );
            return Ok(());
        }
        let turn = Turn {
            id: TurnId::new(id),
            speaker: author,
            text,
            caption: None,
            time: Some(Moment::local(message.time, message.raw)),
        };
        self.chat.say(turn, intake)
    }
}

/// What was said: without the placeholder of a medium, whose caption follows on further lines, and without notes that
/// WhatsApp marks with U+200E.
fn words(text: &str) -> String {
    let (first, more) = text
        .split_once('\n')
        .map_or((text, None), |(first, more)| (first, Some(more)));
    let text = if is_placeholder(first) {
        more.unwrap_or_default()
    } else {
        text
    };
    // `…<This message was edited>` and `…<attached: file>`, in any language.
    let text = match text.rfind("\u{200e}<") {
        Some(note) if text.trim_end().ends_with('>') => &text[..note],
        _ => text,
    };
    strip_marks(text).trim().to_owned()
}

fn is_placeholder(line: &str) -> bool {
    if line.starts_with('\u{200e}') {
        return true;
    }
    let line = line.trim();
    let inner = line.strip_prefix('<').and_then(|line| line.strip_suffix('>'));
    inner.is_some_and(|inner| inner.chars().count() <= PLACEHOLDER && !inner.contains(['<', '>', '/']))
        && line.contains(' ')
}

impl Header<'_> {
    /// Author and text; `None` for a system line, also for one that quotes a group's name with ": " in it.
    fn author(&self) -> Option<(String, &str)> {
        let (author, text) = match self.rest.split_once(": ") {
            Some(parts) => parts,
            None => (self.rest.strip_suffix(':')?, ""),
        };
        let quoted = author.matches('"').count() % 2 == 1
            || author.matches('“').count() + author.matches('„').count() > author.matches('”').count()
            || author.matches('«').count() > author.matches('»').count();
        let author = strip_marks(author);
        // iOS marks who is no contact.
        let author = author.strip_prefix('~').unwrap_or(&author).trim();
        (!quoted && !author.is_empty()).then(|| (author.to_owned(), text))
    }
}
