//! From the rows of a file to tiles, on all threads.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::encode::{self, TileMut};
use super::layout::{BLOCK, COLUMNS, Layout, TileKind};
use super::{TilePolicy, TiledMatrix};
use crate::memory::{HugeBuffer, SharedBytes};
use crate::{BlockFormat, KernelError, ThreadPool};

/// `n` rows of `k` weights as they come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) weights: Weights<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Weights<'a> {
    Blocks(BlockFormat, &'a [u8]),
    Values(&'a [f32]),
}

/// What was seen while rows were rounded.
#[derive(Debug)]
struct Seen {
    /// The bits of the largest magnitude: they compare as the magnitudes do.
    largest: AtomicU32,
    /// The first row that is not finite.
    damaged: AtomicUsize,
}

impl Source<'_> {
    pub(crate) fn tile(&self, policy: TilePolicy, pool: &ThreadPool) -> Result<TiledMatrix, KernelError> {
        self.check()?;
        let kind = policy.kind(self.format());
        let layout = Layout::new(kind, self.n, self.k);
        let mut buffer = HugeBuffer::zeroed(layout.bytes())?;
        let mut gain = 1.0;
        let largest = self.fill(&mut buffer, &layout, gain, pool)?;
        if encode::kept(self.format(), kind).is_none() && encode::gain_for(largest) != gain {
            gain = encode::gain_for(largest);
            self.fill(&mut buffer, &layout, gain, pool)?;
        }
        Ok(TiledMatrix {
            n: self.n,
            k: self.k,
            layout,
            gain,
            bytes: SharedBytes::from(buffer),
        })
    }

    fn format(&self) -> BlockFormat {
        match self.weights {
            Weights::Blocks(format, _) => format,
            Weights::Values(_) => BlockFormat::F32,
        }
    }

    fn check(&self) -> Result<(), KernelError> {
        if !self.k.is_multiple_of(BLOCK) {
            return Err(KernelError::PartialBlock {
                k: self.k,
                block_len: BLOCK,
            });
        }
        let (what, row, received) = match self.weights {
            Weights::Blocks(format, bytes) => {
                ("bytes of a weight matrix", format.row_bytes(self.k)?, bytes.len())
            }
            Weights::Values(values) => ("values of a weight matrix", self.k, values.len()),
        };
        match row.checked_mul(self.n) {
            Some(expected) if expected == received => Ok(()),
            expected => Err(KernelError::Shape {
                what,
                expected: expected.unwrap_or(usize::MAX),
                received,
            }),
        }
    }

    /// Writes all tiles and returns the largest magnitude of what was rounded (0 when integers are kept).
    fn fill(
        &self,
        buffer: &mut [u8],
        layout: &Layout,
        gain: f32,
        pool: &ThreadPool,
    ) -> Result<f32, KernelError> {
        let seen = Seen {
            largest: AtomicU32::new(0),
            damaged: AtomicUsize::new(usize::MAX),
        };
        pool.run_pieces(&mut split(buffer, layout), 1, &|index, tile| {
            let mut values = vec![0.0; self.k];
            for row in index * COLUMNS..self.n.min((index + 1) * COLUMNS) {
                if let Some(largest) = self.row(row, (layout.kind, gain), &mut tile[0], &mut values) {
                    seen.largest.fetch_max(largest.to_bits(), Ordering::Relaxed);
                } else {
                    seen.damaged.fetch_min(row, Ordering::Relaxed);
                }
            }
        });
        match seen.damaged.into_inner() {
            usize::MAX => Ok(f32::from_bits(seen.largest.into_inner())),
            row => Err(KernelError::NotFinite {
                format: self.format(),
                row,
            }),
        }
    }

    /// Writes one row to its column of a tile; `scratch` holds `k` values. Returns the largest magnitude, `None` when
    /// a weight is not finite.
    fn row(
        &self,
        row: usize,
        (kind, gain): (TileKind, f32),
        tile: &mut TileMut<'_>,
        scratch: &mut [f32],
    ) -> Option<f32> {
        let column = row % COLUMNS;
        let values = match self.weights {
            Weights::Blocks(format, bytes) => {
                let row_bytes = bytes.len() / self.n;
                let bytes = &bytes[row * row_bytes..][..row_bytes];
                if let Some(kept) = encode::kept(format, kind) {
                    let (mut finite, mut block) = (true, 0);
                    for bytes in bytes.chunks_exact(format.block_bytes()) {
                        kept.columns(kind.offset(), bytes, |values| {
                            finite &= values.factors.is_finite();
                            tile.set(kind, (block, column), &values);
                            block += 1;
                        });
                    }
                    return finite.then_some(0.0);
                }
                format.dequantize(bytes, scratch).ok()?;
                &*scratch
            }
            Weights::Values(values) => &values[row * self.k..][..self.k],
        };
        let mut largest = 0.0_f32;
        for (block, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
            let (rounded, magnitude) = encode::round_to_int8(values, gain)?;
            tile.set(kind, (block, column), &rounded);
            largest = largest.max(magnitude);
        }
        Some(largest)
    }
}

fn split<'a>(mut buffer: &'a mut [u8], layout: &Layout) -> Vec<TileMut<'a>> {
    let (starts, sizes) = (layout.starts(), layout.tile_bytes());
    let mut section = |index: usize| cut(&mut buffer, starts[index + 1] - starts[index]);
    let [mut quants, mut planes, mut scales, mut minima] = std::array::from_fn(&mut section);
    (0..layout.tiles)
        .map(|_| TileMut {
            quants: cut(&mut quants, sizes[0]),
            planes: cut(&mut planes, sizes[1]),
            scales: cut(&mut scales, sizes[2]),
            minima: cut(&mut minima, sizes[3]),
            factors: cut(&mut buffer, sizes[4]),
        })
        .collect()
}

/// Takes the first `len` bytes off `rest`.
fn cut<'a>(rest: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let (piece, left) = std::mem::take(rest).split_at_mut(len);
    *rest = left;
    piece
}
