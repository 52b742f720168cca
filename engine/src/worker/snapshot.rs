//! Kept KV blocks on their way to a file and back.

use super::Worker;
use crate::kv::{Parent, Restored};
use crate::runner::Runner;

/// Where a saved block hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavedParent {
    /// At the beginning of prompts of a namespace.
    Root(u64),
    /// After an earlier block of the list.
    Block(usize),
}

/// A kept block with the tokens it was computed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedBlock {
    pub(crate) parent: SavedParent,
    /// 1 to 16 tokens; fewer than 16 only where nothing follows.
    pub(crate) tokens: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

impl<R: Runner> Worker<R> {
    /// The most recently used kept blocks, parents first.
    pub(super) fn export(&self, limit: usize) -> Vec<SavedBlock> {
        let entries = self.scheduler.kv().entries();
        let mut index_of = std::collections::HashMap::new();
        let mut saved = Vec::new();
        for entry in entries.iter().take(limit) {
            let parent = match entry.parent {
                Parent::Root(namespace) => SavedParent::Root(namespace),
                Parent::Node(node) => SavedParent::Block(index_of[&node]),
            };
            index_of.insert(entry.node, saved.len());
            saved.push(SavedBlock {
                parent,
                tokens: entry.tokens.to_vec(),
                bytes: self.runner.export_block(entry.block),
            });
        }
        saved
    }

    /// Adds saved blocks while free ones last; evicts nothing. Returns how many were taken.
    pub(super) fn import(&mut self, saved: &[SavedBlock]) -> usize {
        let mut nodes = Vec::with_capacity(saved.len());
        let mut taken = 0;
        for block in saved {
            let parent = match block.parent {
                SavedParent::Root(namespace) => Some(Parent::Root(namespace)),
                SavedParent::Block(index) => nodes.get(index).copied().flatten().map(Parent::Node),
            };
            let Some(parent) = parent else {
                nodes.push(None);
                continue;
            };
            match self.scheduler.kv_mut().restore(parent, &block.tokens) {
                Restored::New { node, block: number } => {
                    if let Err(error) = self.runner.import_block(number, &block.bytes) {
                        tracing::warn!(%error, "a block of the prefix snapshot was refused");
                        self.scheduler.kv_mut().forget(node);
                        return taken;
                    }
                    nodes.push(Some(node));
                    taken += 1;
                }
                Restored::Present(node) => nodes.push(Some(node)),
                Restored::Covered => nodes.push(None),
                Restored::Full => return taken,
            }
        }
        taken
    }
}
