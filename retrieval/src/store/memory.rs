//! Opening a memory and reading what it holds.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use engine_contract::EmbedderInfo;
use heed::types::{Bytes, Str};
use heed::{Database, RoTxn, RwTxn};
use jiff::civil::DateTime;
use serde::de::DeserializeOwned;

use super::databases::{Databases, id_key, session_key};
use super::edit::missing;
use super::environment::{DATA_FILE, Environment};
use super::migrate::open_header;
use super::records::{ConversationRecord, Counters, FORMAT_VERSION, Header, SessionRecord, StoredTurn};
use super::vectors::VectorSpace;
use crate::text::Analyzer;
use crate::{ConversationId, Language, RetrievalError, SessionId, TurnId, TurnRecord};

/// Sizes at which the store changes its ways; tests make them small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The map's first size, a multiple of the page size; it doubles when full.
    pub(crate) map_bytes: usize,
    /// Up to this many turns a scan of all vectors is faster than the trees, and exact. Measured with 384 dimensions on
    /// one core: a scan takes 3 ms at 20,000 turns, the trees 10 ms and more at any size.
    pub(crate) scan_turns: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            map_bytes: 64 << 20,
            scan_turns: 100_000,
        }
    }
}

/// What a new memory is made for; an existing one must have been made with the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemorySettings {
    /// Whose vectors are stored; `None` makes a memory searched by keywords alone.
    pub embedder: Option<EmbedderInfo>,
    /// Whose stems and stop words the keyword index uses.
    pub language: Language,
}

impl From<&EmbedderInfo> for MemorySettings {
    fn from(embedder: &EmbedderInfo) -> Self {
        Self {
            embedder: Some(embedder.clone()),
            language: Language::default(),
        }
    }
}

/// A stored history in a folder of its own: cheap to clone, shared by threads.
#[derive(Debug, Clone)]
pub struct Memory {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) environment: Arc<Environment>,
    pub(super) databases: Databases,
    pub(super) header: Header,
    pub(super) analyzer: Analyzer,
    pub(super) limits: Limits,
    /// See [`super::tokens`].
    pub(super) token_centre: OnceLock<Vec<f32>>,
}

/// What the memory holds of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    /// Its id.
    pub id: ConversationId,
    /// What people call it.
    pub title: Option<String>,
    /// Distinct speakers, in order of appearance.
    pub speakers: Vec<String>,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of turns.
    pub turns: usize,
    /// Begin of the earliest dated session.
    pub first: Option<DateTime>,
    /// Begin of the latest dated session.
    pub last: Option<DateTime>,
}

impl Memory {
    /// Opens the memory in this folder, or makes one there.
    ///
    /// # Errors
    /// [`RetrievalError::EmbedderMismatch`] and [`RetrievalError::FormatVersion`] when it was made with something
    /// else, [`RetrievalError::Store`] when the folder cannot be used.
    pub fn create_or_open(path: &Path, settings: impl Into<MemorySettings>) -> Result<Self, RetrievalError> {
        Self::create_with(path, &settings.into(), Limits::default())
    }

    pub(crate) fn create_with(
        path: &Path,
        settings: &MemorySettings,
        limits: Limits,
    ) -> Result<Self, RetrievalError> {
        fs::create_dir_all(path).map_err(|error| RetrievalError::Store {
            path: path.to_owned(),
            source: error.into(),
        })?;
        let environment = Environment::open(path, limits.map_bytes)?;
        let databases = match Databases::open(&environment)? {
            Some(databases) => databases,
            None if environment.is_empty() => Self::initialise(&environment, settings)?,
            // Another process may have made it between the two looks.
            None => Databases::open(&environment)?.ok_or_else(|| RetrievalError::NotAMemory {
                path: path.to_owned(),
            })?,
        };
        let memory = Self::assemble(Arc::new(environment), databases, limits)?;
        memory.check_embedder(settings.embedder.as_ref())?;
        Ok(memory)
    }

    fn initialise(environment: &Environment, settings: &MemorySettings) -> Result<Databases, RetrievalError> {
        let header = Header {
            format: FORMAT_VERSION,
            language: settings.language,
            embedder: settings.embedder.clone(),
            vectors: 0,
        };
        Databases::create(environment, |meta, txn| {
            // Another process may have made the memory meanwhile: then its header stands.
            if meta.get(txn, HEADER)?.is_none() {
                put_json(meta, txn, HEADER, &header)?;
                put_json(meta, txn, COUNTERS, &Counters::default())?;
            }
            Ok(())
        })
    }

    /// Opens an existing memory.
    ///
    /// # Errors
    /// [`RetrievalError::NotAMemory`] when the folder holds none (nothing is created),
    /// [`RetrievalError::FormatVersion`], [`RetrievalError::Store`].
    pub fn open(path: &Path) -> Result<Self, RetrievalError> {
        let not_a_memory = || RetrievalError::NotAMemory {
            path: path.to_owned(),
        };
        let limits = Limits::default();
        if !path.join(DATA_FILE).is_file() {
            return Err(not_a_memory());
        }
        let environment = Environment::open(path, limits.map_bytes)?;
        let databases = Databases::open(&environment)?.ok_or_else(not_a_memory)?;
        Self::assemble(Arc::new(environment), databases, limits)
    }

    pub(super) fn assemble(
        environment: Arc<Environment>,
        databases: Databases,
        limits: Limits,
    ) -> Result<Self, RetrievalError> {
        let header = open_header(&environment, databases)?;
        let analyzer = Analyzer::new(header.language);
        Ok(Self {
            inner: Arc::new(Inner {
                environment,
                databases,
                header,
                analyzer,
                limits,
                token_centre: OnceLock::new(),
            }),
        })
    }

    /// Whose vectors are stored; `None` for a memory searched by keywords alone.
    #[must_use]
    pub fn embedder(&self) -> Option<&EmbedderInfo> {
        self.inner.header.embedder.as_ref()
    }

    /// The language of the keyword index.
    #[must_use]
    pub fn language(&self) -> Language {
        self.inner.header.language
    }

    /// Compares an embedder with the one whose vectors are stored.
    ///
    /// # Errors
    /// [`RetrievalError::EmbedderMismatch`] names both.
    pub fn check_embedder(&self, embedder: Option<&EmbedderInfo>) -> Result<(), RetrievalError> {
        if self.embedder() == embedder {
            return Ok(());
        }
        Err(RetrievalError::EmbedderMismatch {
            path: self.inner.environment.path().to_owned(),
            expected: describe(self.embedder()),
            received: describe(embedder),
        })
    }

    /// What is stored, in order of arrival.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn conversations(&self) -> Result<Vec<ConversationSummary>, RetrievalError> {
        let records = self.read(|reading| reading.conversations())?;
        Ok(records
            .into_iter()
            .map(|(_, record)| ConversationSummary::from(record))
            .collect())
    }

    /// The turns of a conversation, in the order in which they were said.
    ///
    /// # Errors
    /// [`RetrievalError::UnknownConversation`], or when the store cannot be read.
    pub fn turns(&self, conversation: &ConversationId) -> Result<Vec<TurnRecord>, RetrievalError> {
        self.read(|reading| {
            let (number, record) = reading.conversation(conversation)?;
            let mut turns = Vec::with_capacity(record.turns as usize);
            for session in 0..record.sessions {
                let session = reading.session(number, session)?;
                for index in 0..session.turns.len() {
                    turns.push(reading.turn_of(&record.id, &session, index)?);
                }
            }
            Ok(turns)
        })
    }

    /// Runs `body` on one consistent state of the store. It must not read the memory in any other way.
    pub(crate) fn read<T>(
        &self,
        body: impl FnOnce(&Reading<'_>) -> Result<T, RetrievalError>,
    ) -> Result<T, RetrievalError> {
        let databases = self.inner.databases;
        let vectors = self.inner.header.vectors;
        self.inner.environment.read(|txn| {
            self.check_header(txn)?;
            body(&Reading {
                txn,
                databases,
                vectors,
            })
        })
    }

    /// The header must be the one this memory was opened with.
    pub(super) fn check_header(&self, txn: &RoTxn<'_>) -> Result<(), RetrievalError> {
        let header: Header = get_json(self.inner.databases.meta, txn, HEADER)?;
        if header == self.inner.header {
            return Ok(());
        }
        Err(RetrievalError::Reindexed {
            path: self.inner.environment.path().to_owned(),
            embedder: describe(header.embedder.as_ref()),
        })
    }

    /// Where the vectors lie; `None` for a memory without an embedder.
    pub(super) fn vector_space(&self) -> Option<VectorSpace> {
        let dimension = self.embedder()?.dimension;
        let index = self.inner.header.vectors;
        Some(VectorSpace { index, dimension })
    }

    /// Up to this many turns in reach, all vectors are scanned.
    pub(crate) fn scan_turns(&self) -> usize {
        self.inner.limits.scan_turns
    }

    pub(crate) fn analyzer(&self) -> &Analyzer {
        &self.inner.analyzer
    }
}

fn describe(embedder: Option<&EmbedderInfo>) -> String {
    match embedder {
        None => "no embedder".into(),
        Some(info) => format!(
            "{} ({} dimensions, {}normalised, cut at {} tokens)",
            info.name,
            info.dimension,
            if info.normalised { "" } else { "not " },
            info.max_tokens
        ),
    }
}

impl From<ConversationRecord> for ConversationSummary {
    fn from(record: ConversationRecord) -> Self {
        Self {
            id: record.id,
            title: record.title,
            speakers: record.speakers,
            sessions: record.sessions as usize,
            turns: record.turns as usize,
            first: record.first,
            last: record.last,
        }
    }
}

pub(super) const HEADER: &str = "header";
pub(super) const COUNTERS: &str = "counters";

pub(super) fn get_json<T: DeserializeOwned>(
    meta: Database<'_, Str, Bytes>,
    txn: &RoTxn<'_>,
    key: &str,
) -> Result<T, RetrievalError> {
    let damaged = |reason: String| RetrievalError::Damaged { reason };
    let bytes = meta
        .get(txn, key)?
        .ok_or_else(|| damaged(format!("it has no {key} record")))?;
    serde_json::from_slice(bytes)
        .map_err(|error| damaged(format!("its {key} record cannot be read: {error}")))
}

pub(super) fn put_json<T: serde::Serialize>(
    meta: Database<'_, Str, Bytes>,
    txn: &mut RwTxn<'_>,
    key: &str,
    value: &T,
) -> Result<(), RetrievalError> {
    let bytes = serde_json::to_vec(value).map_err(|error| heed::Error::Encoding(error.into()))?;
    Ok(meta.put(txn, key, &bytes)?)
}

/// One consistent state of the store.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) txn: &'a RoTxn<'a>,
    pub(crate) databases: Databases,
    /// The arroy index in use.
    pub(super) vectors: u16,
}

impl Reading<'_> {
    /// Names this state: equal for two readings exactly when nothing was committed between them.
    pub(crate) fn state(&self) -> usize {
        self.txn.id()
    }

    pub(crate) fn conversations(&self) -> Result<Vec<(u32, ConversationRecord)>, RetrievalError> {
        Ok(self
            .databases
            .conversations
            .iter(self.txn)?
            .collect::<Result<_, _>>()?)
    }

    pub(crate) fn conversation(
        &self,
        id: &ConversationId,
    ) -> Result<(u32, ConversationRecord), RetrievalError> {
        let Some(number) = self.databases.conversation_ids.get(self.txn, id.as_str())? else {
            let known = self
                .conversations()?
                .into_iter()
                .map(|(_, record)| record.id.to_string());
            return Err(RetrievalError::UnknownConversation {
                conversation: id.to_string(),
                known: known.collect(),
            });
        };
        Ok((number, self.conversation_record(number)?))
    }

    pub(crate) fn conversation_record(&self, number: u32) -> Result<ConversationRecord, RetrievalError> {
        let record = self.databases.conversations.get(self.txn, &number)?;
        record.ok_or_else(|| missing("conversation", number))
    }

    pub(crate) fn session(&self, conversation: u32, session: u32) -> Result<SessionRecord, RetrievalError> {
        let record = self
            .databases
            .sessions
            .get(self.txn, &session_key(conversation, session))?;
        record.ok_or_else(|| missing("session", session))
    }

    pub(crate) fn stored_turn(&self, number: u32) -> Result<StoredTurn, RetrievalError> {
        self.databases
            .turns
            .get(self.txn, &number)?
            .ok_or_else(|| missing("turn", number))
    }

    /// The number of a turn by its ids.
    pub(crate) fn turn_number(&self, conversation: u32, id: &TurnId) -> Result<Option<u32>, RetrievalError> {
        Ok(self
            .databases
            .turn_ids
            .get(self.txn, &id_key(conversation, id.as_str()))?)
    }

    /// The number of a session by its ids.
    pub(crate) fn session_number(
        &self,
        conversation: u32,
        id: &SessionId,
    ) -> Result<Option<u32>, RetrievalError> {
        Ok(self
            .databases
            .session_ids
            .get(self.txn, &id_key(conversation, id.as_str()))?)
    }

    /// The turn at `index` of a session.
    pub(crate) fn turn_of(
        &self,
        conversation: &ConversationId,
        session: &SessionRecord,
        index: usize,
    ) -> Result<TurnRecord, RetrievalError> {
        let turn = self.stored_turn(session.turns[index])?;
        let moment = turn.time.as_ref().or(session.time.as_ref());
        Ok(TurnRecord {
            conversation: conversation.clone(),
            session: session.id.clone(),
            id: turn.id,
            time: moment.map(|moment| moment.time),
            position: session.first_position + u32::try_from(index).unwrap_or(u32::MAX),
            speaker: turn.speaker,
            text: turn.text,
            caption: turn.caption,
        })
    }
}
