#![expect(unsafe_code, reason = "views the bytes of the pool as the values they hold")]

use std::ops::Range;

use half::f16;

use super::layout::{BLOCK_TOKENS, KvDtype, KvLayout};
use super::rows::Slot;
use crate::{HugeBuffer, KernelError};

/// Blocks of keys and values, all layers of a block side by side.
///
/// Order: `[block][layer][kv_head]`, then the head's keys transposed, `[head_dim][16]`, so that one vector holds one
/// component of 16 positions, then its values, `[16][head_dim]`. The system zeroes memory when it is first touched:
/// blocks never used cost nothing.
#[derive(Debug)]
pub struct KvPool {
    layout: KvLayout,
    blocks: usize,
    memory: HugeBuffer,
}

/// One layer of a pool.
#[derive(Debug, Clone, Copy)]
pub struct KvLayer<'a> {
    pool: &'a KvPool,
    layer: usize,
}

impl<'a> KvLayer<'a> {
    /// The pool it is a layer of.
    #[must_use]
    pub fn pool(&self) -> &'a KvPool {
        self.pool
    }

    /// Its index.
    #[must_use]
    pub fn layer(&self) -> usize {
        self.layer
    }
}

/// The stored values; `F16` holds bit patterns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KvValues<'a> {
    F16(&'a [u16]),
    F32(&'a [f32]),
}

/// The stored values, to be written.
#[derive(Debug)]
pub(crate) enum KvValuesMut<'a> {
    F16(&'a mut [u16]),
    F32(&'a mut [f32]),
}

impl KvPool {
    /// Room for `blocks` blocks, all zero.
    ///
    /// # Errors
    /// [`KernelError::Shape`] for an unusable layout, [`KernelError::OutOfMemory`] when the address space cannot hold
    /// the blocks.
    pub fn new(layout: KvLayout, blocks: usize) -> Result<KvPool, KernelError> {
        layout.check()?;
        let memory = HugeBuffer::zeroed(layout.bytes_per_block().saturating_mul(blocks))?;
        Ok(KvPool {
            layout,
            blocks,
            memory,
        })
    }

    /// The shape of the stored keys and values.
    #[must_use]
    pub fn layout(&self) -> KvLayout {
        self.layout
    }

    /// How many blocks the pool holds; their ids are `0..blocks`.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// One layer, to read.
    ///
    /// # Panics
    /// When the pool has no such layer.
    #[must_use]
    pub fn layer(&self, layer: usize) -> KvLayer<'_> {
        assert!(
            layer < self.layout.layers,
            "layer {layer} of a KV pool of {} layers",
            self.layout.layers
        );
        KvLayer { pool: self, layer }
    }

    /// Copies the first `tokens` positions of block `from` to block `to`, in all layers; the other positions of `to`
    /// keep what they hold.
    ///
    /// # Panics
    /// When a block is not in the pool or `tokens` exceeds [`BLOCK_TOKENS`].
    pub fn copy_block(&mut self, from: u32, to: u32, tokens: usize) {
        assert!(
            tokens <= BLOCK_TOKENS,
            "{tokens} tokens to copy in a block of {BLOCK_TOKENS}"
        );
        let (from, to) = (self.block_bytes(from).start, self.block_bytes(to).start);
        let KvLayout {
            layers,
            kv_heads,
            head_dim,
            dtype,
        } = self.layout;
        let (value, tile) = (dtype.bytes(), self.layout.tile_len() * dtype.bytes());
        let mut copy = |at: usize, len: usize| self.memory.copy_within(from + at..from + at + len, to + at);
        for pair in 0..layers * kv_heads {
            let keys = pair * 2 * tile;
            for d in 0..head_dim {
                copy(keys + d * BLOCK_TOKENS * value, tokens * value);
            }
            copy(keys + tile, tokens * head_dim * value);
        }
    }

    /// The bytes of one block, [`KvLayout::bytes_per_block`] of them, in the pool's order and this machine's byte
    /// order.
    ///
    /// # Panics
    /// When the block is not in the pool.
    #[must_use]
    pub fn export_block(&self, block: u32) -> Vec<u8> {
        self.memory[self.block_bytes(block)].to_vec()
    }

    /// Fills one block with what [`KvPool::export_block`] gave, in this or another pool of the same layout.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when the length is not [`KvLayout::bytes_per_block`].
    ///
    /// # Panics
    /// When the block is not in the pool.
    pub fn import_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), KernelError> {
        let expected = self.layout.bytes_per_block();
        if bytes.len() != expected {
            return Err(KernelError::Shape {
                what: "bytes of a KV block",
                expected,
                received: bytes.len(),
            });
        }
        let range = self.block_bytes(block);
        self.memory[range].copy_from_slice(bytes);
        Ok(())
    }

    /// The key of one position and head, `[head_dim]`, as stored.
    ///
    /// # Panics
    /// When the layer, the head or the slot is not in the pool.
    #[must_use]
    pub fn key(&self, layer: usize, head: usize, slot: Slot) -> Vec<f32> {
        let first = self.tile(slot.block, layer, head).start + self.check_slot(slot);
        (0..self.layout.head_dim)
            .map(|d| self.value_at(first + d * BLOCK_TOKENS))
            .collect()
    }

    /// The value of one position and head, `[head_dim]`, as stored.
    ///
    /// # Panics
    /// When the layer, the head or the slot is not in the pool.
    #[must_use]
    pub fn value(&self, layer: usize, head: usize, slot: Slot) -> Vec<f32> {
        let KvLayout { head_dim, .. } = self.layout;
        let values = self.tile(slot.block, layer, head).start + self.layout.tile_len();
        let first = values + self.check_slot(slot) * head_dim;
        (first..first + head_dim)
            .map(|index| self.value_at(index))
            .collect()
    }

    pub(crate) fn values(&self) -> KvValues<'_> {
        let (start, bytes) = (self.memory.as_ptr(), self.memory.len());
        match self.layout.dtype {
            KvDtype::F16 => {
                // SAFETY: the buffer begins on a 64-byte line and is initialised, every bit pattern is a valid value,
                // and the borrow of `self` covers the view.
                let values = unsafe { std::slice::from_raw_parts(start.cast(), bytes / 2) };
                KvValues::F16(values)
            }
            KvDtype::F32 => {
                // SAFETY: as above.
                let values = unsafe { std::slice::from_raw_parts(start.cast(), bytes / 4) };
                KvValues::F32(values)
            }
        }
    }

    pub(crate) fn values_mut(&mut self) -> KvValuesMut<'_> {
        let (start, bytes) = (self.memory.as_mut_ptr(), self.memory.len());
        match self.layout.dtype {
            KvDtype::F16 => {
                // SAFETY: as in `values`, and `self` is borrowed mutably.
                let values = unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes / 2) };
                KvValuesMut::F16(values)
            }
            KvDtype::F32 => {
                // SAFETY: as above.
                let values = unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes / 4) };
                KvValuesMut::F32(values)
            }
        }
    }

    /// Where a head's keys and, after them, its values lie among the values.
    pub(crate) fn tile(&self, block: u32, layer: usize, head: usize) -> Range<usize> {
        let KvLayout { layers, kv_heads, .. } = self.layout;
        assert!(
            (block as usize) < self.blocks,
            "block {block} of a KV pool of {} blocks",
            self.blocks
        );
        assert!(layer < layers, "layer {layer} of a KV pool of {layers} layers");
        assert!(head < kv_heads, "KV head {head} of a KV pool of {kv_heads} heads");
        let len = 2 * self.layout.tile_len();
        let start = ((block as usize * layers + layer) * kv_heads + head) * len;
        start..start + len
    }

    /// Position of a slot inside its block.
    pub(crate) fn check_slot(&self, slot: Slot) -> usize {
        let offset = usize::from(slot.offset);
        assert!(
            offset < BLOCK_TOKENS,
            "offset {offset} in a block of {BLOCK_TOKENS} positions"
        );
        assert!(
            (slot.block as usize) < self.blocks,
            "block {} of a KV pool of {} blocks",
            slot.block,
            self.blocks
        );
        offset
    }

    fn block_bytes(&self, block: u32) -> Range<usize> {
        assert!(
            (block as usize) < self.blocks,
            "block {block} of a KV pool of {} blocks",
            self.blocks
        );
        let len = self.layout.bytes_per_block();
        block as usize * len..(block as usize + 1) * len
    }

    fn value_at(&self, index: usize) -> f32 {
        match self.values() {
            KvValues::F16(values) => f16::from_bits(values[index]).to_f32(),
            KvValues::F32(values) => values[index],
        }
    }
}
