//! Reading a conversation file: its documents, the format of each, and the conversations in it.

use std::path::Path;

use super::container::Container;
use super::intake::{Intake, ReadOptions, ReadReport};
use super::sniff::sniff;
use super::{
    chatgpt, claude, discord, jsonl, locomo, longmemeval, openai, sharegpt, slack, telegram, whatsapp,
};
use crate::{Conversation, RetrievalError};

/// The formats that [`for_each_conversation`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `locomo10.json` of snap-research/locomo.
    Locomo,
    /// `longmemeval_*.json` of xiaowu0162/LongMemEval: every question is a conversation, its haystack.
    LongMemEval,
    /// Our own, one record a line.
    Jsonl,
    /// `conversations.json` of a ChatGPT data export.
    ChatGpt,
    /// `conversations.json` of a Claude data export.
    Claude,
    /// ShareGPT and its kin: an array, or an object a line.
    ShareGpt,
    /// OpenAI chat messages: an object a line, an array, or one object.
    OpenAi,
    /// The text of a WhatsApp chat.
    WhatsApp,
    /// The zip of a Slack workspace.
    Slack,
    /// `result.json` of Telegram Desktop, of one chat or of all.
    Telegram,
    /// A channel by DiscordChatExporter.
    Discord,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Jsonl,
        Self::ChatGpt,
        Self::Claude,
        Self::WhatsApp,
        Self::Slack,
        Self::Telegram,
        Self::Discord,
        Self::ShareGpt,
        Self::OpenAi,
        Self::Locomo,
        Self::LongMemEval,
    ];

    /// How people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Locomo => "LoCoMo JSON",
            Self::LongMemEval => "LongMemEval JSON",
            Self::Jsonl => "mneme JSONL",
            Self::ChatGpt => "ChatGPT export",
            Self::Claude => "Claude export",
            Self::ShareGpt => "ShareGPT JSON",
            Self::OpenAi => "OpenAI messages",
            Self::WhatsApp => "WhatsApp text",
            Self::Slack => "Slack export zip",
            Self::Telegram => "Telegram JSON",
            Self::Discord => "DiscordChatExporter JSON",
        }
    }

    /// The names of all, for messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

/// Reads the conversations of a file, all of them or the one named `sample`.
///
/// As [`for_each_conversation`], with long conversations put together again: for files that fit in memory.
///
/// # Errors
/// As [`for_each_conversation`].
pub fn read_conversations(path: &Path, sample: Option<&str>) -> Result<Vec<Conversation>, RetrievalError> {
    let options = ReadOptions {
        sample: sample.map(str::to_owned),
        ..ReadOptions::default()
    };
    let mut conversations: Vec<Conversation> = Vec::new();
    for_each_conversation(path, &options, &mut |piece| {
        match conversations.last_mut() {
            Some(last) if last.id == piece.id => last.append(piece),
            _ => conversations.push(piece),
        }
        Ok(())
    })?;
    for conversation in &conversations {
        conversation.validate()?;
    }
    Ok(conversations)
}

/// Calls `each` with the conversations of a file, in the file's order.
///
/// The format is recognised by the content's shape, never by the file's name. Gzip is undone; of a zip every document of
/// a known format is read. Each conversation has at least one turn and unique ids. A long one comes in pieces: several
/// conversations of the same id in a row, each with some of the sessions or with more turns of a session, which
/// [`crate::Memory::ingest`] puts together. So a file of any size needs little memory, as long as no single
/// conversation of a format without messages of their own time is large.
///
/// # Errors
/// [`RetrievalError::UnreadableFile`], [`RetrievalError::UnknownFormat`], [`RetrievalError::Malformed`],
/// [`RetrievalError::AmbiguousDates`], [`RetrievalError::UnknownSample`] with the ids there are,
/// [`RetrievalError::NothingToIngest`], and what `each` returns.
pub fn for_each_conversation(
    path: &Path,
    options: &ReadOptions,
    each: &mut dyn FnMut(Conversation) -> Result<(), RetrievalError>,
) -> Result<ReadReport, RetrievalError> {
    let mut container = Container::open(path)?;
    let mut intake = Intake::new(options, each);
    let mut formats = Vec::new();
    if slack::is_export(&container) {
        slack::read(&mut container, &mut intake)?;
        formats.push(Format::Slack);
        return intake.finish(path, formats);
    }
    let names = container
        .entries()
        .map(|names| names.map(str::to_owned).collect::<Vec<_>>());
    let Some(names) = names else {
        let format = sniff(&mut container, 0)?;
        read_document(&mut container, 0, format, &mut intake)?;
        return intake.finish(path, vec![format]);
    };
    for (index, name) in names.iter().enumerate() {
        if !may_hold_conversations(name) {
            intake.skip("files that are no conversations", name);
            continue;
        }
        match sniff(&mut container, index) {
            Ok(format) => {
                read_document(&mut container, index, format, &mut intake)?;
                formats.push(format);
            }
            Err(RetrievalError::UnknownFormat { .. } | RetrievalError::NothingToIngest { .. }) => {
                intake.skip("files that are no conversations", name);
            }
            Err(error) => return Err(error),
        }
    }
    if formats.is_empty() {
        let names: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
        return Err(RetrievalError::UnknownFormat {
            path: path.to_owned(),
            line: 1,
            received: format!(
                "a zip with {}",
                if names.is_empty() {
                    "no file".into()
                } else {
                    names.join(", ")
                }
            ),
        });
    }
    intake.finish(path, formats)
}

/// Recognises the format of a file by the shape of its content; of a zip, the format of its first conversations.
///
/// # Errors
/// [`RetrievalError::UnreadableFile`], [`RetrievalError::UnknownFormat`], [`RetrievalError::NothingToIngest`] for an
/// empty file.
pub fn recognise(path: &Path) -> Result<Format, RetrievalError> {
    let mut container = Container::open(path)?;
    if slack::is_export(&container) {
        return Ok(Format::Slack);
    }
    let names = container
        .entries()
        .map(|names| names.map(str::to_owned).collect::<Vec<_>>());
    let Some(names) = names else {
        return sniff(&mut container, 0);
    };
    let mut result = Err(RetrievalError::NothingToIngest {
        path: path.to_owned(),
    });
    for (index, _) in names
        .iter()
        .enumerate()
        .filter(|(_, name)| may_hold_conversations(name))
    {
        result = sniff(&mut container, index);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Pictures, films and sounds of a zip are not looked into, nor what an operating system adds.
fn may_hold_conversations(name: &str) -> bool {
    let name = name.to_lowercase();
    let known = [".json", ".jsonl", ".ndjson", ".txt", ".gz"];
    known.iter().any(|ending| name.ends_with(ending)) && !name.starts_with("__macosx/")
}

fn read_document(
    container: &mut Container,
    index: usize,
    format: Format,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    match format {
        Format::Locomo => locomo::read(container, index, intake),
        Format::LongMemEval => longmemeval::read(container, index, intake),
        Format::Jsonl => jsonl::read(container, index, intake),
        Format::ChatGpt => chatgpt::read(container, index, intake),
        Format::Claude => claude::read(container, index, intake),
        Format::ShareGpt => sharegpt::read(container, index, intake),
        Format::OpenAi => openai::read(container, index, intake),
        Format::WhatsApp => whatsapp::read(container, index, intake),
        Format::Telegram => telegram::read(container, index, intake),
        Format::Discord => discord::read(container, index, intake),
        Format::Slack => slack::read(container, intake),
    }
}
