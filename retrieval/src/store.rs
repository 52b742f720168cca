//! One LMDB environment per memory: turns, keyword postings and vectors, always in step.

mod databases;
mod dump;
mod environment;
mod ingest;
mod memory;
mod passages;
mod postings;
mod records;
#[cfg(test)]
mod tests;
mod tokens;
mod vectors;
mod wordvectors;

pub use ingest::{IngestProgress, IngestReport, IngestStage};
#[cfg(test)]
pub(crate) use memory::Limits;
pub(crate) use memory::Reading;
pub use memory::{ConversationSummary, Memory, MemorySettings};
pub(crate) use postings::{Posting, read as read_postings};
pub(crate) use records::{ConversationRecord, SessionRecord, TurnFlags};
pub(crate) use wordvectors::decode as decode_word_vector;
