//! Paged key-value memory: its layout, its blocks, and how new rows enter it.

mod layout;
mod pool;
mod rows;
mod write;

pub use layout::{BLOCK_TOKENS, KvDtype, KvLayout};
pub(crate) use pool::KvValues;
pub use pool::{KvLayer, KvPool};
pub use rows::{KvRows, Rows, SequenceRows, Slot};

#[cfg(test)]
mod tests;
