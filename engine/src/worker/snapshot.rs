//! Kept KV blocks on their way to a file and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kernels::BLOCK_TOKENS;

use super::Worker;
use crate::kv::{Parent, Restored};
use crate::qwen2::{Batch, BatchSequence};
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
    ///
    /// Blocks are refused as a whole when computing one of them again gives other bits: whatever the file's
    /// fingerprint says, this program would not have written them.
    pub(super) fn import(&mut self, saved: &[SavedBlock]) -> usize {
        if !self.computes_the_same(saved) {
            tracing::warn!("the prefix snapshot is ignored: its blocks are not what this program computes");
            return 0;
        }
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

    /// Computes the first full block of a prompt again and compares its bits.
    fn computes_the_same(&mut self, saved: &[SavedBlock]) -> bool {
        let is_first = |block: &&SavedBlock| {
            matches!(block.parent, SavedParent::Root(_)) && block.tokens.len() == BLOCK_TOKENS
        };
        let Some(first) = saved.iter().find(is_first) else {
            return false;
        };
        let Some(block) = self.scheduler.kv_mut().borrow_block() else {
            return false;
        };
        let blocks = [block];
        let sequence = BatchSequence {
            tokens: &first.tokens,
            start: 0,
            blocks: &blocks,
            outputs: 0,
        };
        let batch = Batch::new(&[sequence]);
        let (runner, logits) = (&mut self.runner, &mut self.logits);
        let computed = catch_unwind(AssertUnwindSafe(|| runner.forward(&batch, logits))).is_ok();
        let same = computed && self.runner.export_block(block) == first.bytes;
        self.scheduler.kv_mut().return_block(block);
        same
    }
}
