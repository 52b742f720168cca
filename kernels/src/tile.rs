use half::f16;

use crate::memory::SharedBytes;
use crate::{BlockFormat, KernelError, ThreadPool};

mod cache;
mod encode;
mod layout;
mod source;

pub use layout::TileKind;
pub(crate) use layout::{BLOCK, COLUMNS, Layout, SUPER, place};
pub(crate) use source::{Source, Weights};

/// Which tiles a file's weights become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TilePolicy {
    /// 8-bit integers for everything: the fastest where arithmetic binds (prefill, large batches). Q4_0, Q5_0 and
    /// Q8_0 keep their integers and scales; the others are rounded once more, in blocks of 32.
    Int8,
    /// The smallest tile without further loss: 4 bits for Q4_0, Q4_1 and Q4_K, 5 for Q5_0, 6 for Q6_K, else 8. Faster
    /// where memory binds (decoding few sequences).
    Native,
}

impl TilePolicy {
    /// The tiles that weights of this format become.
    #[must_use]
    pub fn kind(self, format: BlockFormat) -> TileKind {
        match self {
            TilePolicy::Int8 => TileKind::Int8,
            TilePolicy::Native => encode::native_kind(format),
        }
    }
}

/// An `n` x `k` matrix of quantised weights (row `i` holds the weights of output `i`), laid out for the kernels:
/// tiles of 16 rows, cut along `k` in blocks of 32 that share a scale for each row.
#[derive(Debug, Clone)]
pub struct TiledMatrix {
    n: usize,
    k: usize,
    layout: Layout,
    gain: f32,
    bytes: SharedBytes,
}

/// One tile as the kernels read it, all sections `[block]` but the factors, which are `[block / 8]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) kind: TileKind,
    pub(crate) blocks: usize,
    pub(crate) quants: &'a [u8],
    pub(crate) planes: &'a [u8],
    pub(crate) scales: &'a [u8],
    pub(crate) minima: &'a [u8],
    pub(crate) factors: &'a [u8],
}

impl TiledMatrix {
    /// Re-tiles `n` rows of `k` values stored in `format`, on this thread. [`Cpu::tile`](crate::Cpu::tile) does the
    /// same on all.
    ///
    /// # Errors
    /// [`KernelError::PartialBlock`] when `k` is not a multiple of 32 and of the format's block,
    /// [`KernelError::Shape`] when `bytes` has another length than `n` rows, [`KernelError::NotFinite`] for damaged
    /// weights, [`KernelError::OutOfMemory`].
    pub fn from_blocks(
        format: BlockFormat,
        n: usize,
        k: usize,
        bytes: &[u8],
        policy: TilePolicy,
    ) -> Result<TiledMatrix, KernelError> {
        Source {
            n,
            k,
            weights: Weights::Blocks(format, bytes),
        }
        .tile(policy, &ThreadPool::new(1)?)
    }

    /// Rounds `n` rows of `k` values to 8 bits in blocks of 32.
    ///
    /// # Errors
    /// As [`TiledMatrix::from_blocks`].
    pub fn from_f32(n: usize, k: usize, values: &[f32]) -> Result<TiledMatrix, KernelError> {
        Source {
            n,
            k,
            weights: Weights::Values(values),
        }
        .tile(TilePolicy::Int8, &ThreadPool::new(1)?)
    }

    /// Rows, that is, outputs.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Values per row, that is, inputs.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// How the weights are stored.
    #[must_use]
    pub fn kind(&self) -> TileKind {
        self.layout.kind
    }

    /// Bytes of weights and scales, padding included: what a product reads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// Bytes that a matrix of this shape would take as tiles of this kind.
    #[must_use]
    pub fn bytes_as(kind: TileKind, n: usize, k: usize) -> usize {
        Layout::new(kind, n, k).bytes()
    }

    /// Writes row `index` (an embedding, say) to `out`, `k` values.
    ///
    /// # Panics
    /// When `index` is not below `n` or `out` does not hold `k` values.
    pub fn row(&self, index: usize, out: &mut [f32]) {
        assert!(index < self.n, "row {index} of a matrix of {} rows", self.n);
        assert_eq!(out.len(), self.k, "a row holds k values");
        let tile = self.tile(index / COLUMNS);
        let column = index % COLUMNS;
        for (block, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let minimum = tile.minimum(block, column) * self.gain;
            for (at, out) in out.iter_mut().enumerate() {
                let scale = tile.scale((block, at), column) * self.gain;
                let signed = i32::from(tile.quant(block, column, at)) - i32::from(tile.kind.offset());
                *out = scale * signed as f32 - minimum;
            }
        }
    }

    pub(crate) fn tiles(&self) -> usize {
        self.layout.tiles
    }

    pub(crate) fn gain(&self) -> f32 {
        self.gain
    }

    pub(crate) fn tile(&self, index: usize) -> Tile<'_> {
        let bytes: &[u8] = &self.bytes;
        let (starts, sizes) = (self.layout.starts(), self.layout.tile_bytes());
        let section = |section: usize| &bytes[starts[section] + index * sizes[section]..][..sizes[section]];
        Tile {
            kind: self.layout.kind,
            blocks: self.layout.blocks,
            quants: section(0),
            planes: section(1),
            scales: section(2),
            minima: section(3),
            factors: section(4),
        }
    }
}

impl Tile<'_> {
    /// The unsigned integer of one weight.
    pub(crate) fn quant(&self, block: usize, column: usize, at: usize) -> u8 {
        let place = place(column, at);
        let quants = &self.quants[block * self.kind.quant_bytes()..][..self.kind.quant_bytes()];
        match self.kind {
            TileKind::Int8 => quants[place],
            TileKind::Int5 => {
                let fifth = self.planes[block * self.kind.plane_bytes() + place / 8] >> (place % 8) & 1;
                nibble(quants, place) | fifth << 4
            }
            TileKind::Int4Min | TileKind::Int4Super => nibble(quants, place),
            TileKind::Int6Super => {
                let planes = &self.planes[block * self.kind.plane_bytes()..];
                // Each half of the block has 64 bytes, of which each holds two bits of each of its four groups.
                let (group, within) = (place / (4 * COLUMNS), place % (4 * COLUMNS));
                let pair = planes[group / 4 * (4 * COLUMNS) + within] >> (group % 4 * 2) & 3;
                nibble(quants, place) | pair << 4
            }
        }
    }

    /// The scale of value `at` of a block.
    pub(crate) fn scale(&self, (block, at): (usize, usize), column: usize) -> f32 {
        let place = block * COLUMNS + column;
        let factor = || half_at(self.factors, self.factor(block) + column);
        match self.kind {
            TileKind::Int8 | TileKind::Int5 | TileKind::Int4Min => half_at(self.scales, place),
            TileKind::Int4Super => f32::from(self.scales[place]) * factor(),
            TileKind::Int6Super => {
                let part = at / (BLOCK / 2);
                let scale = self.scales[(2 * block + part) * COLUMNS + column];
                f32::from(scale.cast_signed()) * factor()
            }
        }
    }

    /// 0 where the kind has none.
    pub(crate) fn minimum(&self, block: usize, column: usize) -> f32 {
        let place = block * COLUMNS + column;
        match self.kind {
            TileKind::Int8 | TileKind::Int5 | TileKind::Int6Super => 0.0,
            TileKind::Int4Min => half_at(self.minima, place),
            TileKind::Int4Super => {
                let factor = half_at(self.factors, self.factor(block) + COLUMNS + column);
                f32::from(self.minima[place]) * factor
            }
        }
    }

    /// The index of a block's first factor.
    fn factor(&self, block: usize) -> usize {
        block / SUPER * (self.kind.factor_bytes() / 2)
    }

    /// Whether every section is as long as the kind says.
    pub(crate) fn is_whole(&self) -> bool {
        let (kind, blocks) = (self.kind, self.blocks);
        self.quants.len() == blocks * kind.quant_bytes()
            && self.planes.len() == blocks * kind.plane_bytes()
            && self.scales.len() == blocks * kind.scale_bytes()
            && self.minima.len() == blocks * kind.minimum_bytes()
            && self.factors.len() == blocks / SUPER * kind.factor_bytes()
            && (blocks * BLOCK).is_multiple_of(kind.unit())
    }
}

fn nibble(quants: &[u8], place: usize) -> u8 {
    (quants[place % quants.len()] >> (place / quants.len() * 4)) & 15
}

fn half_at(bytes: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]).to_f32()
}

#[cfg(test)]
mod tests;
