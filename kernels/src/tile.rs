use half::f16;

use crate::memory::{HugeBuffer, SharedBytes};
use crate::{BlockFormat, KernelError, ThreadPool};

mod cache;
mod encode;
mod layout;

pub use layout::TileKind;
pub(crate) use layout::{BLOCK, COLUMNS, Layout, place};

use encode::TileMut;

/// Which tiles a file's weights become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TilePolicy {
    /// 8-bit integers for everything: the fastest where arithmetic binds (prefill, large batches). Q4_0, Q5_0 and
    /// Q8_0 keep their integers and scales; the others are rounded once more, in blocks of 32.
    Int8,
    /// The smallest tile without further loss: 5 bits for Q5_0, 4 bits with a minimum for Q4_0, Q4_1 and Q4_K, else
    /// 8 bits. Faster where memory binds (decoding few sequences).
    Native,
}

/// An `n` x `k` matrix of quantised weights (row `i` holds the weights of output `i`), laid out for the kernels:
/// tiles of 16 rows, cut along `k` in blocks of 32 that share a half-precision scale for each row.
#[derive(Debug, Clone)]
pub struct TiledMatrix {
    n: usize,
    k: usize,
    layout: Layout,
    gain: f32,
    bytes: SharedBytes,
}

/// One tile as the kernels read it, all sections `[block]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) kind: TileKind,
    pub(crate) blocks: usize,
    pub(crate) quants: &'a [u8],
    pub(crate) planes: &'a [u8],
    pub(crate) scales: &'a [u8],
    pub(crate) minima: &'a [u8],
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
        let alone = ThreadPool::new(1)?;
        Source { format, n, k, bytes }.tile(policy, &alone)
    }

    /// Rounds `n` rows of `k` values to 8 bits in blocks of 32.
    ///
    /// # Errors
    /// As [`TiledMatrix::from_blocks`].
    pub fn from_f32(n: usize, k: usize, values: &[f32]) -> Result<TiledMatrix, KernelError> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        TiledMatrix::from_blocks(BlockFormat::F32, n, k, &bytes, TilePolicy::Int8)
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
            let scale = tile.scale(block, column) * self.gain;
            let minimum = tile.minimum(block, column) * self.gain;
            for (at, out) in out.iter_mut().enumerate() {
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
            TileKind::Int4Min => nibble(quants, place),
        }
    }

    pub(crate) fn scale(&self, block: usize, column: usize) -> f32 {
        half_at(self.scales, block * COLUMNS + column)
    }

    /// 0 where the kind has none.
    pub(crate) fn minimum(&self, block: usize, column: usize) -> f32 {
        if self.minima.is_empty() {
            0.0
        } else {
            half_at(self.minima, block * COLUMNS + column)
        }
    }
}

fn nibble(quants: &[u8], place: usize) -> u8 {
    (quants[place % quants.len()] >> (place / quants.len() * 4)) & 15
}

fn half_at(bytes: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]).to_f32()
}

/// Weights as a file stores them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) format: BlockFormat,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) bytes: &'a [u8],
}

impl Source<'_> {
    pub(crate) fn tile(&self, policy: TilePolicy, pool: &ThreadPool) -> Result<TiledMatrix, KernelError> {
        let row_bytes = self.check()?;
        let kind = match policy {
            TilePolicy::Int8 => TileKind::Int8,
            TilePolicy::Native => encode::native_kind(self.format),
        };
        let layout = Layout::new(kind, self.n, self.k);
        let gain = self.gain(kind, row_bytes)?;
        let mut buffer = HugeBuffer::zeroed(layout.bytes())?;
        let damaged = std::sync::atomic::AtomicUsize::new(usize::MAX);
        pool.run_pieces(&mut split(&mut buffer, &layout), 1, &|index, tile| {
            let rows = index * COLUMNS..self.n.min((index + 1) * COLUMNS);
            for row in rows {
                let bytes = &self.bytes[row * row_bytes..][..row_bytes];
                if !self.encode_row(kind, gain, bytes, (&mut tile[0], row % COLUMNS)) {
                    damaged.fetch_min(row, std::sync::atomic::Ordering::Relaxed);
                }
            }
        });
        match damaged.into_inner() {
            usize::MAX => Ok(TiledMatrix {
                n: self.n,
                k: self.k,
                layout,
                gain,
                bytes: SharedBytes::from(buffer),
            }),
            row => Err(KernelError::NotFinite {
                format: self.format,
                row,
            }),
        }
    }

    fn check(&self) -> Result<usize, KernelError> {
        if !self.k.is_multiple_of(BLOCK) {
            return Err(KernelError::PartialBlock {
                k: self.k,
                block_len: BLOCK,
            });
        }
        let row_bytes = self.format.row_bytes(self.k)?;
        let expected = row_bytes.saturating_mul(self.n);
        if self.bytes.len() != expected {
            let what = "bytes of a weight matrix";
            return Err(KernelError::Shape {
                what,
                expected,
                received: self.bytes.len(),
            });
        }
        Ok(row_bytes)
    }

    fn gain(&self, kind: TileKind, row_bytes: usize) -> Result<f32, KernelError> {
        if encode::keeps_integers(self.format, kind) {
            return Ok(1.0);
        }
        let mut values = vec![0.0; self.k];
        let mut largest = 0.0_f32;
        for row in self.bytes.chunks_exact(row_bytes.max(1)) {
            self.format.dequantize(row, &mut values)?;
            largest = values
                .iter()
                .fold(largest, |largest, value| largest.max(value.abs()));
        }
        Ok(encode::gain_for(largest))
    }

    /// Writes one row into a column of a tile; false when a weight is not finite.
    fn encode_row(&self, kind: TileKind, gain: f32, bytes: &[u8], place: (&mut TileMut<'_>, usize)) -> bool {
        let (tile, column) = place;
        let mut finite = true;
        if encode::keeps_integers(self.format, kind) {
            encode::keep(self.format, kind, bytes, |block, values| {
                finite &= values.scale.is_finite() && values.minimum.is_finite();
                tile.set(kind, (block, column), values);
            });
            return finite;
        }
        let mut values = vec![0.0; self.k];
        finite &= self.format.dequantize(bytes, &mut values).is_ok();
        for (block, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
            match encode::round_to_int8(values, gain) {
                Some(rounded) => tile.set(kind, (block, column), &rounded),
                None => finite = false,
            }
        }
        finite
    }
}

fn split<'a>(mut buffer: &'a mut [u8], layout: &Layout) -> Vec<TileMut<'a>> {
    let ([_, planes, scales, minima], sizes) = (layout.starts(), layout.tile_bytes());
    let mut quants = cut(&mut buffer, planes);
    let mut bits = cut(&mut buffer, scales - planes);
    let mut factors = cut(&mut buffer, minima - scales);
    (0..layout.tiles)
        .map(|_| TileMut {
            quants: cut(&mut quants, sizes[0]),
            planes: cut(&mut bits, sizes[1]),
            scales: cut(&mut factors, sizes[2]),
            minima: cut(&mut buffer, sizes[3]),
        })
        .collect()
}

/// Takes the first `len` bytes off `rest`.
fn cut<'a>(rest: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let (piece, left) = std::mem::take(rest).split_at_mut(len);
    *rest = left;
    piece
}

#[cfg(test)]
mod tests;
