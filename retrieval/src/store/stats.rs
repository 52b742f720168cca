//! What a memory is made of, in numbers.

use engine_contract::EmbedderInfo;
use serde::Serialize;

use super::Memory;
use super::records::FORMAT_VERSION;
use crate::{Language, RetrievalError};

/// One database of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Number of records.
    pub entries: usize,
    /// Bytes of its pages.
    pub bytes: usize,
}

/// Counts and sizes of a memory, of one state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// Version of the stored records.
    pub schema: u32,
    /// Whose vectors are stored.
    pub embedder: Option<EmbedderInfo>,
    /// Languages of the keyword index.
    pub languages: Vec<Language>,
    /// Number of conversations.
    pub conversations: usize,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of turns.
    pub turns: usize,
    /// Words with vectors.
    pub words: usize,
    /// Bytes of the data file; its free pages are reused before it grows.
    pub file_bytes: u64,
    /// Bytes of address space that the file may grow to before the map is enlarged.
    pub map_bytes: usize,
    /// The databases.
    pub tables: Vec<Table>,
    /// Whether a reindexing was begun and not finished.
    pub reindexing: bool,
}

impl Memory {
    /// Counts and sizes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stats(&self) -> Result<Stats, RetrievalError> {
        let (file_bytes, map_bytes) = self.inner.environment.sizes()?;
        self.read(|reading| {
            let tables = reading.databases.tables(reading.txn)?;
            let entries = |name: &str| {
                tables
                    .iter()
                    .find(|table| table.name == name)
                    .map_or(0, |table| table.entries)
            };
            Ok(Stats {
                schema: FORMAT_VERSION,
                embedder: self.embedder().cloned(),
                languages: vec![self.language()],
                conversations: entries("conversations"),
                sessions: entries("sessions"),
                turns: entries("turns"),
                words: entries("words"),
                file_bytes,
                map_bytes,
                reindexing: reading
                    .databases
                    .meta
                    .get(reading.txn, super::reindex::REINDEX)?
                    .is_some(),
                tables,
            })
        })
    }
}
