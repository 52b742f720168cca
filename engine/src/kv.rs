//! Which sequence owns which KV blocks, and which finished prefixes are kept.
//!
//! Pure bookkeeping on block numbers; does not know the memory behind them, requests or models.

mod blocks;
mod cache;
mod tree;

pub(crate) use cache::{BlockCopy, KvCache, Restored, Table};
pub(crate) use tree::Parent;
