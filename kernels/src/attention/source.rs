use std::cmp::Ordering;

use super::CHUNK;
use super::panel::Tiles;
use crate::kv::KvValues;
use crate::simd::{LANES, Lanes, Simd};
use crate::{BLOCK_TOKENS, KvLayer, Rows, SequenceRows};

/// Blocks of a chunk.
pub(super) const CHUNK_BLOCKS: usize = CHUNK / BLOCK_TOKENS;

/// Where keys and values come from.
pub(super) trait Source: Sync {
    /// Widens the keys and values of one chunk; places beyond the sequence's end may keep anything.
    fn load<S: Simd>(&self, simd: S, at: ChunkAt, chunk: &mut Chunk<'_>);

    /// The tiles of one chunk as they are stored, one by one, where that is in half precision; `None` elsewhere.
    fn stored(&self, at: ChunkAt) -> Option<[Tiles<'_, [u16; LANES]>; CHUNK_BLOCKS]>;

    /// Whether two sequences hold the same memory in a chunk, so that one load serves both.
    fn same_chunk(&self, a: usize, b: usize, chunk: usize) -> bool;

    /// Brings sequences that share chunks next to each other.
    fn order(&self, a: usize, b: usize) -> Ordering;
}

/// Names a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkAt {
    pub(super) sequence: usize,
    pub(super) head: usize,
    pub(super) chunk: usize,
}

/// Keys and values of one chunk and head, widened.
pub(super) struct Chunk<'a> {
    /// `[CHUNK / 16][head_dim]`, each one component of 16 positions.
    pub(super) keys: &'a mut [Lanes],
    /// `[CHUNK][head_dim / 16]`.
    pub(super) values: &'a mut [Lanes],
}

/// Blocks of a pool.
pub(super) struct PagedSource<'a> {
    kv: KvLayer<'a>,
    sequences: &'a [SequenceRows<'a>],
}

impl<'a> PagedSource<'a> {
    pub(super) fn new(kv: KvLayer<'a>, sequences: &'a [SequenceRows<'a>]) -> Self {
        PagedSource { kv, sequences }
    }

    /// The blocks of a chunk, as far as the sequence's rows need them.
    fn blocks(&self, sequence: usize, chunk: usize) -> &'a [u32] {
        let SequenceRows {
            blocks, start, rows, ..
        } = self.sequences[sequence];
        let used = &blocks[..(start + rows).div_ceil(BLOCK_TOKENS)];
        let first = (chunk * CHUNK_BLOCKS).min(used.len());
        &used[first..used.len().min(first + CHUNK_BLOCKS)]
    }
}

impl Source for PagedSource<'_> {
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, at: ChunkAt, chunk: &mut Chunk<'_>) {
        let pool = self.kv.pool();
        let layout = pool.layout();
        let pairs = chunk
            .keys
            .chunks_exact_mut(layout.head_dim)
            .zip(chunk.values.chunks_exact_mut(layout.head_dim));
        let next = self.blocks(at.sequence, at.chunk + 1);
        for (index, ((keys, values), &block)) in pairs.zip(self.blocks(at.sequence, at.chunk)).enumerate() {
            let tile = pool.tile(block, self.kv.layer(), at.head);
            let ahead = next
                .get(index)
                .map_or(tile.clone(), |&block| pool.tile(block, self.kv.layer(), at.head));
            match pool.values() {
                KvValues::F16(stored) => {
                    let (k, v) = stored[tile].split_at(layout.tile_len());
                    let (k_ahead, v_ahead) = stored[ahead].split_at(layout.tile_len());
                    widen(simd, k, k_ahead, keys);
                    widen(simd, v, v_ahead, values);
                }
                KvValues::F32(stored) => {
                    let (k, v) = stored[tile].split_at(layout.tile_len());
                    keys.as_flattened_mut().copy_from_slice(k);
                    values.as_flattened_mut().copy_from_slice(v);
                }
            }
        }
    }

    fn stored(&self, at: ChunkAt) -> Option<[Tiles<'_, [u16; LANES]>; CHUNK_BLOCKS]> {
        let pool = self.kv.pool();
        let KvValues::F16(stored) = pool.values() else {
            return None;
        };
        let half = pool.layout().head_dim;
        let tile = |chunk: usize, index: usize| match self.blocks(at.sequence, chunk).get(index) {
            Some(&block) => stored[pool.tile(block, self.kv.layer(), at.head)].as_chunks().0,
            None => &[],
        };
        Some(std::array::from_fn(|index| {
            let (keys, values) = tile(at.chunk, index).split_at_checked(half).unwrap_or_default();
            let ahead = tile(at.chunk + 1, index);
            Tiles { keys, values, ahead }
        }))
    }

    fn same_chunk(&self, a: usize, b: usize, chunk: usize) -> bool {
        self.blocks(a, chunk) == self.blocks(b, chunk)
    }

    fn order(&self, a: usize, b: usize) -> Ordering {
        self.sequences[a].blocks.cmp(self.sequences[b].blocks)
    }
}

/// Widens one tile, and asks for another of the same size: blocks lie far apart, which no hardware prefetcher sees.
#[inline(always)]
fn widen<S: Simd>(simd: S, stored: &[u16], ahead: &[u16], wide: &mut [Lanes]) {
    /// Half-precision values of a cache line.
    const LINE: usize = 2 * LANES;
    for ((bits, ahead), lanes) in stored
        .chunks_exact(LINE)
        .zip(ahead.chunks_exact(LINE))
        .zip(wide.chunks_exact_mut(2))
    {
        simd.prefetch(ahead);
        for (bits, lanes) in bits.as_chunks().0.iter().zip(lanes) {
            simd.store(simd.load_f16(bits), lanes);
        }
    }
}

/// Rows of keys and values in single precision, those of a sequence side by side.
pub(super) struct PlainSource<'a> {
    k: Rows<'a>,
    v: Rows<'a>,
    head_dim: usize,
    /// First row of each sequence, and the end of the last.
    bounds: Vec<usize>,
}

impl<'a> PlainSource<'a> {
    pub(super) fn new(k: Rows<'a>, v: Rows<'a>, head_dim: usize, lengths: &[usize]) -> Self {
        let mut bounds = vec![0];
        let mut end = 0;
        bounds.extend(lengths.iter().map(|length| {
            end += length;
            end
        }));
        PlainSource {
            k,
            v,
            head_dim,
            bounds,
        }
    }
}

impl Source for PlainSource<'_> {
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, at: ChunkAt, chunk: &mut Chunk<'_>) {
        let first = self.bounds[at.sequence] + at.chunk * CHUNK;
        let end = self.bounds[at.sequence + 1].min(first + CHUNK);
        let (column, width) = (at.head * self.head_dim, self.head_dim);
        for (position, row) in (first..end).enumerate() {
            let tile = &mut chunk.keys[position / LANES * width..][..width];
            for (key, lanes) in self.k.row(row, column + width)[column..].iter().zip(tile) {
                lanes[position % LANES] = *key;
            }
            let values = &mut chunk.values[position * (width / LANES)..][..width / LANES];
            for (value, lanes) in self.v.row(row, column + width)[column..]
                .as_chunks()
                .0
                .iter()
                .zip(values)
            {
                simd.store(simd.load(value), lanes);
            }
        }
    }

    fn stored(&self, _at: ChunkAt) -> Option<[Tiles<'_, [u16; LANES]>; CHUNK_BLOCKS]> {
        None
    }

    fn same_chunk(&self, a: usize, b: usize, _chunk: usize) -> bool {
        a == b
    }

    fn order(&self, a: usize, b: usize) -> Ordering {
        a.cmp(&b)
    }
}
