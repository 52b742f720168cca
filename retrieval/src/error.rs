//! Everything that can go wrong between a conversation file and a found turn.

use std::path::PathBuf;

use engine_contract::EngineError;

/// Why a file was refused or a store could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// The conversation file could not be opened or read.
    #[error("cannot read {path}: {source}; expected a conversation file this user may read")]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file fits no known format.
    #[error(
        "{path}, line {line}: not a known conversation format, found {received}; expected one of {} (docs/formats.md)",
        crate::Format::names()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// From 1, in the decompressed text.
        line: usize,
        /// What is there.
        received: String,
    },
    /// The file has a known format, but breaks its rules.
    #[error("{path}, line {line}: {reason}; see docs/formats.md for {format}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1, in the decompressed text.
        line: usize,
        /// The format it was read as.
        format: &'static str,
        /// What was expected and what is there.
        reason: String,
    },
    /// A WhatsApp chat whose dates can be read in more than one order, or in none.
    #[error(
        "{path}: its dates, such as {example}, {why}; say how they are written with --date-order dmy, mdy or ymd"
    )]
    AmbiguousDates {
        /// The file.
        path: PathBuf,
        /// A date of it.
        example: String,
        /// What the dates of the whole file leave open.
        why: &'static str,
    },
    /// The file has no conversation of that id.
    #[error("{path} has no conversation {sample}; it has {}", known.join(", "))]
    UnknownSample {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        sample: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The file or the conversation has not one turn.
    #[error("{path} holds no turn; expected at least one conversation with one turn")]
    NothingToIngest {
        /// The file.
        path: PathBuf,
    },
    /// A conversation that cannot be stored as it is.
    #[error("conversation {conversation} cannot be stored: {reason}")]
    InvalidConversation {
        /// Its id.
        conversation: String,
        /// What was expected and what is there.
        reason: String,
    },
    /// There is no memory in this folder.
    #[error("{path} holds no memory; `mneme ingest FILE --memory {}` creates one", path.display())]
    NotAMemory {
        /// The folder.
        path: PathBuf,
    },
    /// The store was written by another version of this crate.
    #[error(
        "the memory {path} has format {received}, this version reads format {expected}; ingest the conversations again \
         into a new memory"
    )]
    FormatVersion {
        /// The folder.
        path: PathBuf,
        /// What this version reads.
        expected: u32,
        /// What the header says.
        received: u32,
    },
    /// The store's vectors come from another embedder.
    #[error(
        "the memory {path} was made with {expected}, but {received} is in use; use the first, or make the vectors anew with \
         `mneme memory reindex`"
    )]
    EmbedderMismatch {
        /// The folder.
        path: PathBuf,
        /// What the header says.
        expected: String,
        /// What was given.
        received: String,
    },
    /// A search needs vectors that the store or the searcher does not have.
    #[error("dense search needs an embedder, and this {what} has none; search with keywords (bm25) instead")]
    NoEmbedder {
        /// `memory` or `searcher`.
        what: &'static str,
    },
    /// No such conversation in the store.
    #[error("the memory has no conversation {conversation}; it has {}", known.join(", "))]
    UnknownConversation {
        /// What was asked for.
        conversation: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such session in the store.
    #[error("conversation {conversation} has no session {session}; `mneme memory show` lists what is stored")]
    UnknownSession {
        /// The conversation looked in.
        conversation: String,
        /// The session looked for.
        session: String,
    },
    /// A name that no namespace can have.
    #[error("the namespace {name:?} has {bytes} bytes, expected 1 to 120")]
    InvalidNamespace {
        /// What was given.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// The store's vectors were made anew since it was opened.
    #[error("the memory {path} was reindexed with {embedder} meanwhile; open it again")]
    Reindexed {
        /// The folder.
        path: PathBuf,
        /// Whose vectors it has now.
        embedder: String,
    },
    /// No such turn in the store.
    #[error("conversation {conversation} has no turn {turn}; `mneme memory show` lists what is stored")]
    UnknownTurn {
        /// The conversation looked in.
        conversation: String,
        /// The turn looked for.
        turn: String,
    },
    /// A setting of the ranking has a value that makes no sense.
    #[error("invalid ranking setting: {field} is {received}, expected {expected}")]
    InvalidRanking {
        /// Name of the field.
        field: &'static str,
        /// What was given.
        received: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Another process changed what this ingest had read.
    #[error("another process changed the memory during this ingest; what was stored is whole, run it again")]
    ChangedMeanwhile,
    /// The disk is full; the store is as it was before the transaction.
    #[error(
        "no space is left for the memory {path} ({reason}); what was committed before is whole, free some space and run \
         again"
    )]
    DiskFull {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// LMDB failed.
    #[error("the memory {path} cannot be used: {source}")]
    Store {
        /// The folder.
        path: PathBuf,
        /// What LMDB said.
        source: heed::Error,
    },
    /// A record of the store contradicts another.
    #[error("the memory is damaged: {reason}; ingest the conversations again into a new memory")]
    Damaged {
        /// Which records.
        reason: String,
    },
    /// LMDB failed, before the folder is known.
    #[error("LMDB: {0}")]
    Lmdb(#[from] heed::Error),
    /// The vector index failed.
    #[error("the vector index failed: {0}")]
    Vectors(arroy::Error),
    /// An export could not be written.
    #[error("the export cannot be written: {source}")]
    Export {
        /// What the system said.
        source: std::io::Error,
    },
    /// The embedder failed.
    #[error(transparent)]
    Embedder(#[from] EngineError),
}

impl From<arroy::Error> for RetrievalError {
    fn from(error: arroy::Error) -> Self {
        match error {
            arroy::Error::Heed(error) => Self::Lmdb(error),
            arroy::Error::Io(error) => Self::Lmdb(heed::Error::Io(error)),
            error @ (arroy::Error::InvalidVecDimension { .. }
            | arroy::Error::DatabaseFull
            | arroy::Error::InvalidItemAppend
            | arroy::Error::UnmatchingDistance { .. }
            | arroy::Error::MissingMetadata(_)
            | arroy::Error::NeedBuild(_)
            | arroy::Error::BuildCancelled
            | arroy::Error::MissingKey { .. }
            | arroy::Error::CannotDecodeKeyMode { .. }) => Self::Vectors(error),
        }
    }
}
