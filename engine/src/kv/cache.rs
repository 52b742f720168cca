//! The block tables of sequences above the free list and the prefix tree.

use kernels::BLOCK_TOKENS;

use super::blocks::FreeBlocks;
use super::tree::{BlockKey, Entry, Inserted, NodeId, Parent, PrefixTree};

/// The blocks of one sequence, in order of positions.
///
/// The first `path.len()` blocks belong to the prefix tree, the others to the table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    namespace: u64,
    blocks: Vec<u32>,
    path: Vec<NodeId>,
}

impl Table {
    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    fn parent(&self) -> Parent {
        self.path
            .last()
            .map_or(Parent::Root(self.namespace), |&node| Parent::Node(node))
    }
}

/// Rows to be copied from one block to another before the next forward pass, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockCopy {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) rows: usize,
}

/// A table that begins with everything the tree holds of a sequence.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) table: Table,
    /// Rows that need no computing, after `copy` is done.
    pub(crate) rows: usize,
    pub(crate) copy: Option<BlockCopy>,
}

/// All blocks of one KV pool: free, in use, or kept for later.
#[derive(Debug)]
pub(crate) struct KvCache {
    free: FreeBlocks,
    tree: PrefixTree,
    keep: bool,
    evicted: u64,
}

impl KvCache {
    /// A cache over `capacity` blocks; without `keep`, no block outlives its sequence or is shared.
    pub(crate) fn new(capacity: u32, keep: bool) -> Self {
        Self {
            free: FreeBlocks::new(capacity),
            tree: PrefixTree::default(),
            keep,
            evicted: 0,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.free.capacity()
    }

    /// Whether blocks are kept and shared.
    pub(crate) fn keeps(&self) -> bool {
        self.keep
    }

    /// Blocks in use or kept.
    pub(crate) fn occupied(&self) -> usize {
        self.free.capacity() - self.free.available()
    }

    /// Blocks evicted to make room since the start.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Rows of `tokens` that need no computing.
    pub(crate) fn cached_rows(&self, namespace: u64, tokens: &[u32]) -> usize {
        self.tree.lookup(namespace, tokens).rows()
    }

    /// Whether a sequence can take `blocks` blocks in all and still leave `reserve` for others to grow.
    pub(crate) fn fits(&self, namespace: u64, tokens: &[u32], blocks: usize, reserve: usize) -> bool {
        let found = self.tree.lookup(namespace, tokens);
        let awakened = found
            .nodes
            .iter()
            .filter(|&&node| self.tree.is_unused(node))
            .count();
        let needed = blocks.saturating_sub(found.nodes.len()) + awakened + reserve;
        needed <= self.free.available() + self.tree.unused()
    }

    /// Begins a table with what the tree holds of `tokens`: full blocks are shared, the beginning of a
    /// further block is copied.
    pub(crate) fn acquire(&mut self, namespace: u64, tokens: &[u32]) -> Acquired {
        let found = self.tree.lookup(namespace, tokens);
        let mut table = Table {
            namespace,
            ..Table::default()
        };
        for node in found.nodes {
            self.tree.retain(node);
            table.blocks.push(self.tree.block(node));
            table.path.push(node);
        }
        let mut rows = table.blocks.len() * BLOCK_TOKENS;
        let mut copy = None;
        if let Some((node, partial)) = found.partial {
            self.tree.touch(node);
            let from = self.tree.block(node);
            // When the source is the last block that can be evicted, it becomes the target as it is.
            if let Some(to) = self.take() {
                table.blocks.push(to);
                rows += partial;
                copy = (from != to).then_some(BlockCopy {
                    from,
                    to,
                    rows: partial,
                });
            }
        }
        Acquired { table, rows, copy }
    }

    /// Extends a table to hold `rows` rows, evicting what nobody uses; false when there is no room, and
    /// the table then keeps what it got.
    pub(crate) fn grow(&mut self, table: &mut Table, rows: usize) -> bool {
        while table.blocks.len() * BLOCK_TOKENS < rows {
            match self.take() {
                Some(block) => table.blocks.push(block),
                None => return false,
            }
        }
        true
    }

    /// Lets others share the full blocks among the first `computed` rows of a sequence.
    pub(crate) fn share(&mut self, table: &mut Table, tokens: &[u32], computed: usize) {
        if !self.keep {
            return;
        }
        while (table.path.len() + 1) * BLOCK_TOKENS <= computed {
            let index = table.path.len();
            let own = table.blocks[index];
            let key = BlockKey::first_of(&tokens[index * BLOCK_TOKENS..]);
            let node = match self.tree.insert(table.parent(), key, own) {
                Inserted::New { node, replaced } => {
                    replaced.into_iter().for_each(|block| self.free.give_back(block));
                    node
                }
                Inserted::Present(node) => {
                    // Equal tokens after equal tokens have bitwise equal rows, so either block will do.
                    self.free.give_back(own);
                    table.blocks[index] = self.tree.block(node);
                    node
                }
                Inserted::Covered => unreachable!("no key is longer than a full block"),
            };
            self.tree.retain(node);
            table.path.push(node);
        }
    }

    /// Ends a table; its first `computed` rows stay for later prompts.
    pub(crate) fn release(&mut self, mut table: Table, tokens: &[u32], computed: usize) {
        self.share(&mut table, tokens, computed);
        let shared = table.path.len();
        let mut rest = table.blocks.split_off(shared).into_iter();
        let tail = &tokens[shared * BLOCK_TOKENS..computed.max(shared * BLOCK_TOKENS)];
        if self.keep && !tail.is_empty() {
            let block = rest.next().expect("computed rows have a block");
            match self.tree.insert(table.parent(), BlockKey::first_of(tail), block) {
                Inserted::New { replaced, .. } => {
                    replaced.into_iter().for_each(|block| self.free.give_back(block));
                }
                Inserted::Present(node) => {
                    self.tree.touch(node);
                    self.free.give_back(block);
                }
                Inserted::Covered => self.free.give_back(block),
            }
        }
        rest.for_each(|block| self.free.give_back(block));
        self.tree.release(&table.path);
    }

    /// Keeps the full blocks that the tree holds of `tokens` until the lease is released with
    /// [`KvCache::release`] and no computed rows of its own.
    pub(crate) fn lease(&mut self, namespace: u64, tokens: &[u32]) -> Table {
        let found = self.tree.lookup(namespace, tokens);
        let mut table = Table {
            namespace,
            ..Table::default()
        };
        for node in found.nodes {
            self.tree.retain(node);
            table.blocks.push(self.tree.block(node));
            table.path.push(node);
        }
        table
    }

    /// Ends a lease.
    pub(crate) fn end_lease(&mut self, lease: &Table) {
        self.tree.release(&lease.path);
    }

    /// Kept blocks, parents before children, the most recently used paths first.
    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        self.tree.entries()
    }

    /// Adds a block read from a snapshot, if one is free and the tree does not have it yet. The caller fills
    /// the block's rows when the answer says so.
    pub(crate) fn restore(&mut self, parent: Parent, tokens: &[u32]) -> Restored {
        let Some(block) = self.free.take() else {
            return Restored::Full;
        };
        match self.tree.insert(parent, BlockKey::first_of(tokens), block) {
            Inserted::New { node, replaced } => {
                replaced.into_iter().for_each(|block| self.free.give_back(block));
                Restored::New { node, block }
            }
            Inserted::Present(node) => {
                self.free.give_back(block);
                Restored::Present(node)
            }
            Inserted::Covered => {
                self.free.give_back(block);
                Restored::Covered
            }
        }
    }

    /// A free block for work outside any sequence; to be returned.
    pub(crate) fn borrow_block(&mut self) -> Option<u32> {
        self.free.take()
    }

    /// Takes back what [`KvCache::borrow_block`] gave.
    pub(crate) fn return_block(&mut self, block: u32) {
        self.free.give_back(block);
    }

    /// Drops a block that was just restored.
    pub(crate) fn forget(&mut self, node: NodeId) {
        let block = self.tree.remove(node);
        self.free.give_back(block);
    }

    fn take(&mut self) -> Option<u32> {
        if self.free.available() == 0 {
            let block = self.tree.evict()?;
            self.evicted += 1;
            self.free.give_back(block);
        }
        self.free.take()
    }
}

/// What became of a block from a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// The block is reserved; its rows must be filled now.
    New { node: NodeId, block: u32 },
    /// The tree has it already.
    Present(NodeId),
    /// The tree has a longer one.
    Covered,
    /// No block is free.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(range: std::ops::Range<u32>) -> Vec<u32> {
        range.collect()
    }

    /// Runs a sequence to its end as the scheduler would.
    fn run(cache: &mut KvCache, tokens: &[u32]) -> usize {
        let mut acquired = cache.acquire(0, &tokens[..tokens.len() - 1]);
        assert!(cache.grow(&mut acquired.table, tokens.len()));
        cache.release(acquired.table, tokens, tokens.len());
        acquired.rows
    }

    #[test]
    fn a_finished_sequence_serves_its_prefix_to_the_token() {
        let mut cache = KvCache::new(8, true);
        assert_eq!(run(&mut cache, &tokens(0..40)), 0);
        assert_eq!(
            run(&mut cache, &tokens(0..40)),
            39,
            "the last row is computed again"
        );
        let mut forked = tokens(0..35);
        forked.extend([900, 901]);
        assert_eq!(run(&mut cache, &forked), 35);
        assert_eq!(cache.occupied(), 4, "stem of 2 blocks, two tails");
    }

    #[test]
    fn a_partial_match_is_copied_not_shared() {
        let mut cache = KvCache::new(8, true);
        run(&mut cache, &tokens(0..20));
        let acquired = cache.acquire(0, &tokens(0..18));
        assert_eq!(acquired.rows, 18);
        let copy = acquired.copy.unwrap();
        assert_eq!(copy.rows, 2);
        assert_eq!(acquired.table.blocks(), [acquired.table.blocks()[0], copy.to]);
        assert_ne!(copy.from, copy.to);
    }

    #[test]
    fn the_last_evictable_block_becomes_its_own_copy() {
        let mut cache = KvCache::new(1, true);
        run(&mut cache, &tokens(0..8));
        let acquired = cache.acquire(0, &tokens(0..7));
        assert_eq!((acquired.rows, acquired.copy), (7, None));
        assert_eq!(cache.entries().len(), 0);
    }

    #[test]
    fn equal_sequences_that_run_together_end_up_with_the_same_blocks() {
        let mut cache = KvCache::new(8, true);
        let tokens = tokens(0..33);
        let (mut a, mut b) = (cache.acquire(0, &tokens).table, cache.acquire(0, &tokens).table);
        assert!(cache.grow(&mut a, 33) && cache.grow(&mut b, 33));
        assert_eq!(cache.occupied(), 6);
        cache.share(&mut a, &tokens, 33);
        cache.share(&mut b, &tokens, 33);
        assert_eq!(a.blocks()[..2], b.blocks()[..2]);
        assert_ne!(a.blocks()[2], b.blocks()[2]);
        assert_eq!(cache.occupied(), 4);
    }

    #[test]
    fn rows_never_computed_are_never_kept() {
        let mut cache = KvCache::new(8, true);
        let tokens = tokens(0..40);
        let mut table = cache.acquire(0, &tokens).table;
        assert!(cache.grow(&mut table, 40));
        cache.release(table, &tokens, 21);
        assert_eq!(cache.cached_rows(0, &tokens), 21);
        assert_eq!(cache.occupied(), 2);
    }

    #[test]
    fn growing_evicts_what_nobody_uses_and_then_says_no() {
        let mut cache = KvCache::new(4, true);
        run(&mut cache, &tokens(0..32));
        let mut table = cache.acquire(0, &tokens(0..16)).table;
        assert!(!cache.fits(0, &tokens(0..16), 5, 0));
        assert!(cache.fits(0, &tokens(0..16), 4, 0));
        assert!(!cache.fits(0, &tokens(0..16), 4, 1));
        assert!(cache.grow(&mut table, 64));
        assert_eq!(cache.evicted(), 1);
        assert!(!cache.grow(&mut table, 65));
    }

    #[test]
    fn without_keeping_nothing_outlives_its_sequence() {
        let mut cache = KvCache::new(4, false);
        assert_eq!(run(&mut cache, &tokens(0..40)), 0);
        assert_eq!(run(&mut cache, &tokens(0..40)), 0);
        assert_eq!(cache.occupied(), 0);
    }

    #[test]
    fn a_lease_pins_the_stem() {
        let mut cache = KvCache::new(3, true);
        run(&mut cache, &tokens(0..32));
        let lease = cache.lease(0, &tokens(0..32));
        run(&mut cache, &tokens(100..108));
        run(&mut cache, &tokens(200..208));
        assert_eq!(cache.cached_rows(0, &tokens(0..32)), 32);
        cache.end_lease(&lease);
        run(&mut cache, &tokens(300..340));
        assert_eq!(cache.cached_rows(0, &tokens(0..32)), 0);
    }
}
