//! Opening a conversation file: decompression, byte order mark, recognition by shape.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::json::{Keys, Source, for_each};
use super::{jsonl, locomo, longmemeval};
use crate::{Conversation, RetrievalError};

/// The formats that [`read_conversations`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `locomo10.json` of snap-research/locomo.
    Locomo,
    /// `longmemeval_*.json` of xiaowu0162/LongMemEval: every question is a conversation, its haystack.
    LongMemEval,
    /// Our own, one record a line.
    Jsonl,
}

const BUFFER: usize = 1 << 16;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Reads the conversations of a file, all of them or the one named `sample`.
///
/// The format is recognised by the content's shape, never by the file's name; gzip is undone first. Conversations
/// come in the order of the file, each with at least one turn, all ids unique.
///
/// # Errors
/// [`RetrievalError::UnreadableFile`], [`RetrievalError::UnknownFormat`], [`RetrievalError::Malformed`],
/// [`RetrievalError::UnknownSample`] with the ids there are, [`RetrievalError::NothingToIngest`].
pub fn read_conversations(path: &Path, sample: Option<&str>) -> Result<Vec<Conversation>, RetrievalError> {
    let format = recognise(path)?;
    let mut wanted = Wanted {
        sample,
        known: Vec::new(),
        found: Vec::new(),
    };
    let reader = open(path)?;
    match format {
        Format::Locomo => locomo::read(path, reader, &mut wanted)?,
        Format::LongMemEval => longmemeval::read(path, reader, &mut wanted)?,
        Format::Jsonl => jsonl::read(path, reader, &mut wanted)?,
    }
    wanted.finish(path)
}

/// Recognises the format by the first record's shape.
///
/// # Errors
/// [`RetrievalError::UnreadableFile`], [`RetrievalError::UnknownFormat`], [`RetrievalError::NothingToIngest`] for an
/// empty file.
pub fn recognise(path: &Path) -> Result<Format, RetrievalError> {
    let mut reader = open(path)?;
    let start = reader.fill_buf().map_err(|source| unreadable(path, source))?;
    let Some(&first) = start.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return Err(RetrievalError::NothingToIngest {
            path: path.to_owned(),
        });
    };
    if !matches!(first, b'[' | b'{') {
        let received = String::from_utf8_lossy(&start[..start.len().min(40)]).into_owned();
        return Err(unknown(path, 1, format!("text that begins with {received:?}")));
    }
    let line = 1 + newlines_before_text(start);
    let keys = if first == b'{' {
        first_line_keys(path, &mut reader)?
    } else {
        None
    };
    let keys = match keys {
        Some(keys) => keys,
        None => first_element_keys(path)?,
    };
    if keys.has("mneme") || keys.has("turn") || keys.has("session") {
        Ok(Format::Jsonl)
    } else if keys.has("haystack_sessions") {
        Ok(Format::LongMemEval)
    } else if keys.has("conversation") && keys.has("sample_id") {
        Ok(Format::Locomo)
    } else if keys.0.is_empty() {
        Err(unknown(path, line, "an empty array or object".into()))
    } else {
        Err(unknown(
            path,
            line,
            format!("an object with the keys {}", keys.0.join(", ")),
        ))
    }
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

fn first_element_keys(path: &Path) -> Result<Keys, RetrievalError> {
    let mut first = Keys::default();
    let source = Source { path, format: "JSON" };
    let result = for_each(&source, open(path)?, |keys: Keys| {
        first = keys;
        Ok(false)
    });
    match result {
        Ok(()) => Ok(first),
        Err(RetrievalError::Malformed { line, reason, .. }) => {
            Err(unknown(path, line, format!("JSON that breaks off: {reason}")))
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

pub(super) fn unreadable(path: &Path, source: std::io::Error) -> RetrievalError {
    RetrievalError::UnreadableFile {
        path: path.to_owned(),
        source,
    }
}

/// The file's text: gzip undone, byte order mark removed.
fn open(path: &Path) -> Result<Box<dyn BufRead>, RetrievalError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        let source = std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder");
        return Err(unreadable(path, source));
    }
    let mut raw = BufReader::with_capacity(BUFFER, file);
    let start = raw.fill_buf().map_err(|source| unreadable(path, source))?;
    let mut text: Box<dyn BufRead> = if start.starts_with(&GZIP_MAGIC) {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
    } else {
        Box::new(raw)
    };
    let start = text.fill_buf().map_err(|source| unreadable(path, source))?;
    if start.starts_with(&BYTE_ORDER_MARK) {
        text.consume(BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

/// Keeps the conversations asked for, and the ids of all.
pub(super) struct Wanted<'a> {
    sample: Option<&'a str>,
    known: Vec<String>,
    found: Vec<Conversation>,
}

impl Wanted<'_> {
    /// Whether to convert the conversation of this id; notes that it exists.
    pub(super) fn wants(&mut self, id: &str) -> bool {
        self.known.push(id.to_owned());
        self.sample.is_none_or(|sample| sample == id)
    }

    pub(super) fn keep(&mut self, conversation: Conversation) {
        self.found.push(conversation);
    }

    fn finish(self, path: &Path) -> Result<Vec<Conversation>, RetrievalError> {
        if let Some(sample) = self.sample
            && !self.known.is_empty()
            && !self.known.iter().any(|id| id == sample)
        {
            return Err(RetrievalError::UnknownSample {
                path: path.to_owned(),
                sample: sample.to_owned(),
                known: self.known,
            });
        }
        if self.found.is_empty() {
            return Err(RetrievalError::NothingToIngest {
                path: path.to_owned(),
            });
        }
        for conversation in &self.found {
            conversation.validate()?;
        }
        Ok(self.found)
    }
}
