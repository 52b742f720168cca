//! Recognising a document's format by the shape of its beginning.

use std::io::{BufRead, Read};
use std::path::Path;

use super::container::{BUFFER, Container, unreadable};
use super::json::{Keys, Source, for_each};
use super::read::Format;
use super::whatsapp;
use crate::RetrievalError;

/// Characters of unknown text that a message quotes.
const QUOTED: usize = 40;

pub(super) fn sniff(container: &mut Container, index: usize) -> Result<Format, RetrievalError> {
    let path = container.display(index);
    let mut reader = container.read(index)?;
    let start = reader.fill_buf().map_err(|source| unreadable(&path, source))?;
    let Some(first) = start.iter().find(|byte| !byte.is_ascii_whitespace()).copied() else {
        return Err(RetrievalError::NothingToIngest { path });
    };
    if whatsapp::begins_chat(start) {
        return Ok(Format::WhatsApp);
    }
    if !matches!(first, b'[' | b'{') {
        let text = String::from_utf8_lossy(&start[..start.len().min(4 * QUOTED)]);
        let quoted: String = text.trim_start().chars().take(QUOTED).collect();
        return Err(unknown(&path, 1, format!("text that begins with {quoted:?}")));
    }
    let line = 1 + newlines_before_text(start);
    let by_line = if first == b'{' {
        first_line_keys(&path, &mut reader)?
    } else {
        None
    };
    drop(reader);
    let keys = match by_line {
        Some(keys) => keys,
        None => first_element_keys(container, index)?,
    };
    by_keys(&keys).map_err(|received| unknown(&path, line, received))
}

/// The format of a record with these keys, or what they look like.
fn by_keys(keys: &Keys) -> Result<Format, String> {
    let all = |names: &[&str]| names.iter().all(|name| keys.has(name));
    if !keys.has("mneme_export") && (keys.has("mneme") || keys.has("turn") || keys.has("session")) {
        return Ok(Format::Jsonl);
    }
    // The first whose keys are all there.
    let shapes: [(&[&str], Format); 10] = [
        (&["haystack_sessions"], Format::LongMemEval),
        (&["conversation", "sample_id"], Format::Locomo),
        (&["mapping"], Format::ChatGpt),
        (&["chat_messages"], Format::Claude),
        (&["conversations"], Format::ShareGpt),
        (&["channel", "messages"], Format::Discord),
        (&["chats"], Format::Telegram),
        (&["left_chats"], Format::Telegram),
        (&["type", "id", "messages"], Format::Telegram),
        (&["messages"], Format::OpenAi),
    ];
    let hints: [(&[&str], &str); 5] = [
        (
            &["mneme_export"],
            "an export of a memory; `mneme memory import` reads it",
        ),
        (
            &["participants", "messages"],
            "a Facebook or Instagram chat, which is not read",
        ),
        (
            &["ts", "type"],
            "one day of a Slack channel; give the whole zip of the export",
        ),
        (
            &["ID", "Timestamp", "Contents"],
            "Discord's own data package, which holds one side of every talk",
        ),
        (
            &["role", "content"],
            "a bare list of messages; expected {\"messages\": […]} around it",
        ),
    ];
    if let Some((_, hint)) = hints.iter().find(|(names, _)| all(names)) {
        return Err((*hint).to_owned());
    }
    if let Some((_, format)) = shapes.iter().find(|(names, _)| all(names)) {
        return Ok(*format);
    }
    Err(if keys.0.is_empty() {
        "an empty array or object".to_owned()
    } else {
        format!("an object with the keys {}", keys.0.join(", "))
    })
}

fn newlines_before_text(start: &[u8]) -> usize {
    start
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// The keys of the first line, where that line is a whole object: JSON by lines.
fn first_line_keys(path: &Path, reader: &mut impl BufRead) -> Result<Option<Keys>, RetrievalError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut *reader)
            .take(BUFFER as u64)
            .read_until(b'\n', &mut line)
            .map_err(|source| unreadable(path, source))?;
        if read == 0 || line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            return Ok(serde_json::from_slice(&line).ok());
        }
    }
}

fn first_element_keys(container: &mut Container, index: usize) -> Result<Keys, RetrievalError> {
    let path = container.display(index);
    let mut first = Keys::default();
    let source = Source {
        path: &path,
        format: "JSON",
    };
    let result = for_each(&source, container.read(index)?, |keys: Keys| {
        first = keys;
        Ok(false)
    });
    match result {
        Ok(()) => Ok(first),
        Err(RetrievalError::Malformed { line, reason, .. }) => {
            Err(unknown(&path, line, format!("JSON that breaks off: {reason}")))
        }
        Err(error) => Err(error),
    }
}

fn unknown(path: &Path, line: usize, received: String) -> RetrievalError {
    RetrievalError::UnknownFormat {
        path: path.to_owned(),
        line,
        received,
    }
}
