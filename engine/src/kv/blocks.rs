//! Which blocks of the KV pool are free.

/// Hands out block numbers. Every block has one owner at a time: this list, a sequence's table, or a node of
/// the prefix tree (which counts its users).
#[derive(Debug)]
pub(crate) struct FreeBlocks {
    free: Vec<u32>,
    taken: Vec<bool>,
}

impl FreeBlocks {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            // Taken from the end: low numbers first, so that a small load touches little memory.
            free: (0..capacity).rev().collect(),
            taken: vec![false; capacity as usize],
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.taken.len()
    }

    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.taken[block as usize] = true;
        Some(block)
    }

    /// Takes a block back.
    ///
    /// # Panics
    /// When the block is free already: two sequences would then write the same memory.
    pub(crate) fn give_back(&mut self, block: u32) {
        let taken = std::mem::replace(&mut self.taken[block as usize], false);
        assert!(taken, "block {block} was given back twice");
        self.free.push(block);
    }
}
