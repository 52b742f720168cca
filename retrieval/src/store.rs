//! One LMDB environment per memory: turns, keyword postings and vectors, always in step.

mod check;
mod databases;
mod delete;
mod dump;
mod edit;
mod environment;
mod graph;
mod ingest;
mod memory;
mod migrate;
mod namespace;
mod passages;
mod postings;
mod records;
mod reindex;
mod stats;
#[cfg(test)]
mod tests;
mod tokens;
mod transfer;
mod vectors;
mod wordvectors;

pub use check::{CheckReport, Finding};
pub use delete::Deletion;
pub(crate) use graph::normalised;
pub use graph::{Entity, GraphCost, GraphSummary, Relation, TurnGraph};
pub use ingest::{IngestProgress, IngestReport, IngestStage};
#[cfg(test)]
pub(crate) use memory::Limits;
pub(crate) use memory::Reading;
pub use memory::{ConversationSummary, Memory, MemorySettings};
pub use namespace::{namespace_folder, namespaces};
pub(crate) use postings::{Posting, read as read_postings};
pub(crate) use records::{ConversationRecord, SessionRecord, TurnFlags};
pub use stats::{Stats, Table};
pub use transfer::export_embedder;
pub(crate) use wordvectors::decode as decode_word_vector;
