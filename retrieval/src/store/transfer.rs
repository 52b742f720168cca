//! A memory as a text file, and back: `docs/memory.md` describes the lines.
//!
//! With vectors, the file is all that a memory is made of, and reading it back needs no embedder. Numbers of turns and
//! conversations, which only the store itself uses, are given anew.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine_contract::{EmbedKind, Embedder, EmbedderInfo, EngineError, TextVectors};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ingest::missing::is_vocabulary;
use super::{IngestProgress, IngestReport, Memory, MemorySettings, Reading, tokens, wordvectors};
use crate::conversation::{read_records, records};
use crate::{Conversation, Language, ReadOptions, RetrievalError, Turn};

const VERSION: u32 = 1;
/// Turns read before they are stored.
const PENDING_TURNS: usize = 1_024;
/// The key that marks the first line of an export.
pub(crate) const MARK: &str = "mneme_export";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    mneme_export: u32,
    language: Language,
    embedder: Option<EmbedderInfo>,
    /// Whether turns and words carry their vectors.
    vectors: bool,
}

impl Memory {
    /// Writes all that is stored, as JSON lines, of one state of the memory; vectors only where they are wanted and there.
    ///
    /// # Errors
    /// [`RetrievalError::Export`] with what the writer says, or when the store cannot be read.
    pub fn export(&self, writer: &mut dyn Write, with_vectors: bool) -> Result<(), RetrievalError> {
        let head = Head {
            mneme_export: VERSION,
            language: self.language(),
            embedder: self.embedder().cloned(),
            vectors: with_vectors && self.embedder().is_some(),
        };
        let dimension = head
            .embedder
            .as_ref()
            .filter(|_| head.vectors)
            .map(|info| info.dimension);
        let mut lines = Lines {
            writer,
            dimension,
            words: HashSet::new(),
        };
        lines.line(&head)?;
        self.read(|reading| {
            for (number, record) in reading.conversations()? {
                lines.line(&records::Conversation::new(
                    record.id.clone(),
                    record.title.clone(),
                ))?;
                for index in 0..record.sessions {
                    let session = reading.session(number, index)?;
                    lines.line(&records::Session::new(session.id.clone(), session.time.clone()))?;
                    for &turn in &session.turns {
                        lines.turn(self, reading, turn)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Reads an export into a memory, which is made with the export's settings where there is none. What is there already
    /// stays. `embedder` is needed only for an export without vectors.
    ///
    /// # Errors
    /// [`RetrievalError::Malformed`], [`RetrievalError::EmbedderMismatch`] when the memory or `embedder` is not of the
    /// export's embedder, and those of [`Memory::ingest`]. What was committed until then stays, and a later call
    /// completes it.
    pub fn import(
        file: &Path,
        folder: &Path,
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<(Self, IngestReport), RetrievalError> {
        let head = head(file)?;
        let memory = Self::create_or_open(
            folder,
            MemorySettings {
                embedder: head.embedder.clone(),
                language: head.language,
            },
        )?;
        let recorded = Recorded {
            info: head.embedder.clone(),
            dimension: head.embedder.as_ref().map_or(0, |info| info.dimension),
            vectors: Mutex::new(HashMap::new()),
            tokens: Mutex::new(HashMap::new()),
        };
        let embedder: Option<&dyn Embedder> = match (&head.embedder, head.vectors) {
            (None, _) => None,
            (Some(_), true) => Some(&recorded),
            (Some(_), false) => {
                memory.check_embedder(embedder.map(Embedder::info))?;
                embedder
            }
        };
        let mut report = IngestReport::default();
        let mut pending: Vec<Conversation> = Vec::new();
        let mut store = |pending: &mut Vec<Conversation>| {
            for added in memory.ingest_all(pending, embedder, progress)? {
                report.add(&added);
            }
            pending.clear();
            recorded.clear();
            Ok::<_, RetrievalError>(())
        };
        read_records(
            file,
            &ReadOptions::default(),
            &mut |line| recorded.take(line),
            &mut |piece: Conversation| {
                pending.push(piece);
                if pending.iter().map(Conversation::turn_count).sum::<usize>() >= PENDING_TURNS {
                    store(&mut pending)?;
                }
                Ok(())
            },
        )?;
        store(&mut pending)?;
        Ok((memory, report))
    }
}

/// Whose vectors an export was made with, and whether it holds them.
///
/// # Errors
/// As [`Memory::import`].
pub fn export_embedder(file: &Path) -> Result<(Option<EmbedderInfo>, bool), RetrievalError> {
    head(file).map(|head| (head.embedder, head.vectors))
}

fn head(file: &Path) -> Result<Head, RetrievalError> {
    let malformed = |reason: String| RetrievalError::Malformed {
        path: file.to_owned(),
        line: 1,
        format: "the export",
        reason,
    };
    let first = crate::conversation::first_line(file)?;
    let head: Head = serde_json::from_str(&first).map_err(|error| {
        malformed(format!(
            "not the first line of an export of `mneme memory export`: {error}"
        ))
    })?;
    if head.mneme_export != VERSION {
        return Err(malformed(format!(
            "export version {}, expected {VERSION}",
            head.mneme_export
        )));
    }
    Ok(head)
}

struct Lines<'w> {
    writer: &'w mut dyn Write,
    /// `None` without vectors.
    dimension: Option<usize>,
    /// Words whose vectors were written.
    words: HashSet<String>,
}

#[derive(Serialize)]
struct WordLine<'w> {
    word: &'w str,
    vector: String,
}

impl Lines<'_> {
    fn line(&mut self, record: &impl Serialize) -> Result<(), RetrievalError> {
        serde_json::to_writer(&mut *self.writer, record)
            .map_err(std::io::Error::from)
            .and_then(|()| self.writer.write_all(b"\n"))
            .map_err(|source| RetrievalError::Export { source })
    }

    /// A turn with its vector, after the words that it is the first to say.
    fn turn(&mut self, memory: &Memory, reading: &Reading<'_>, number: u32) -> Result<(), RetrievalError> {
        let stored = reading.stored_turn(number)?;
        let passage = stored.passage();
        let turn = records::Turn::from(Turn::from(stored));
        let Some(dimension) = self.dimension else {
            return self.line(&turn);
        };
        for word in memory.analyzer().content_words(&passage) {
            if !is_vocabulary(&word) || self.words.contains(&word) {
                continue;
            }
            let vector = reading.databases.words.get(reading.txn, &word)?;
            let vector =
                STANDARD.encode(vector.ok_or_else(|| damaged(format!("the word {word} has no vector")))?);
            self.line(&WordLine { word: &word, vector })?;
            self.words.insert(word);
        }
        let vector = reading.vector(dimension, number)?;
        let vector = vector.ok_or_else(|| damaged(format!("turn {number} has no vector")))?;
        let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut line = serde_json::to_value(&turn).map_err(|error| damaged(error.to_string()))?;
        if let Value::Object(line) = &mut line {
            line.insert("vector".into(), STANDARD.encode(bytes).into());
            let tokens = reading.tokens(number)?;
            if !tokens.is_empty() {
                line.insert("tokens".into(), STANDARD.encode(tokens).into());
            }
        }
        self.line(&line)
    }
}

fn damaged(reason: String) -> RetrievalError {
    RetrievalError::Damaged { reason }
}

/// Gives back the vectors that an export holds, by text: [`Memory::ingest`] takes it for an embedder.
struct Recorded {
    info: Option<EmbedderInfo>,
    dimension: usize,
    vectors: Mutex<HashMap<String, Vec<f32>>>,
    /// The bits of tokens, by text.
    tokens: Mutex<HashMap<String, Vec<u8>>>,
}

impl Recorded {
    /// Keeps a line's vector; `false` for a line that holds nothing else.
    fn take(&self, line: &mut Map<String, Value>) -> Result<bool, String> {
        if line.contains_key(MARK) {
            return Ok(false);
        }
        let tokens = line.remove("tokens");
        let vector = line.remove("vector");
        let Some(vector) = &vector else {
            return Ok(!line.contains_key("word"));
        };
        let bytes = vector.as_str().and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.ok_or("a vector that is not base64")?;
        if let Some(word) = line.get("word").and_then(Value::as_str) {
            let vector = wordvectors::decode(&bytes, self.dimension).map_err(|error| error.to_string())?;
            self.keep(word.to_owned(), vector);
            return Ok(false);
        }
        let (values, []) = bytes.as_chunks() else {
            return Err(format!("a vector of {} bytes, expected 4 a value", bytes.len()));
        };
        let turn: records::Turn =
            serde_json::from_value(Value::Object(line.clone())).map_err(|error| error.to_string())?;
        let passage = Turn::from(turn).passage();
        if let Some(tokens) = tokens {
            let bits = tokens.as_str().and_then(|text| STANDARD.decode(text).ok());
            let bits = bits.ok_or("tokens that are not base64")?;
            locked(&self.tokens).insert(passage.clone(), bits);
        }
        self.keep(
            passage,
            values.iter().map(|value| f32::from_le_bytes(*value)).collect(),
        );
        Ok(true)
    }

    fn keep(&self, text: String, vector: Vec<f32>) {
        self.vectors().insert(text, vector);
    }

    fn clear(&self) {
        self.vectors().clear();
        locked(&self.tokens).clear();
    }

    fn vectors(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<f32>>> {
        locked(&self.vectors)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Embedder for Recorded {
    fn info(&self) -> &EmbedderInfo {
        static NONE: EmbedderInfo = EmbedderInfo {
            name: String::new(),
            dimension: 0,
            normalised: false,
            max_tokens: 0,
        };
        self.info.as_ref().unwrap_or(&NONE)
    }

    fn embed(&self, texts: &[&str], _: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        let vectors = self.vectors();
        let found = texts.iter().map(|text| {
            vectors.get(*text).cloned().ok_or_else(|| EngineError::Backend {
                backend: "export".into(),
                reason: format!("it has no vector for {text:?}"),
            })
        });
        found.collect()
    }

    /// Tokens whose bits are those of the export, against a centre of zeros.
    fn embed_tokens(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<TextVectors>, EngineError> {
        let kept = locked(&self.tokens);
        let of = |text: &str| -> Result<TextVectors, EngineError> {
            if tokens::is_centre(text) {
                return Ok(TextVectors {
                    text: vec![0.0; self.dimension],
                    tokens: vec![0.0; self.dimension],
                });
            }
            let bits = kept.get(text).map_or(&[] as &[u8], Vec::as_slice);
            Ok(TextVectors {
                text: self.embed(&[text], kind)?.concat(),
                tokens: tokens::decode(bits, self.dimension),
            })
        };
        texts.iter().map(|text| of(text)).collect()
    }
}
