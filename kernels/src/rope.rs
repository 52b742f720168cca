use crate::Cpu;
use crate::simd::{Kernel, LANES, Simd};

/// Cosines and sines of all angles up to a context length: `[positions][head_dim / 2]` each, computed in `f64`.
#[derive(Debug, Clone)]
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// Angles `position * base^(-2d / head_dim)` for positions below `positions` (Su et al. 2021, section 3.2.2).
    ///
    /// # Panics
    /// When `head_dim` is odd or 0.
    #[must_use]
    pub fn new(head_dim: usize, base: f64, positions: usize) -> RopeTable {
        let exponents = (0..head_dim / 2).map(|d| -2.0 * d as f64 / head_dim as f64);
        let frequencies: Vec<f64> = exponents.map(|exponent| base.powf(exponent)).collect();
        assert!(
            head_dim == 2 * frequencies.len() && head_dim > 0,
            "rotary head size {head_dim} must be even"
        );
        RopeTable::from_frequencies(&frequencies, positions)
    }

    /// Angles `position * frequencies[d]`, in radians, for positions below `positions`: for models that scale the
    /// frequencies.
    #[must_use]
    pub fn from_frequencies(frequencies: &[f64], positions: usize) -> RopeTable {
        let mut table = RopeTable {
            half: frequencies.len(),
            cos: Vec::new(),
            sin: Vec::new(),
        };
        table.cos.reserve_exact(positions * table.half);
        table.sin.reserve_exact(positions * table.half);
        for position in 0..positions {
            for frequency in frequencies {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                table.cos.push(cos as f32);
                table.sin.push(sin as f32);
            }
        }
        table
    }

    /// Positions the table covers.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.cos.len() / self.half
    }

    fn row(&self, position: u32) -> (&[f32], &[f32]) {
        let first = position as usize * self.half;
        assert!(
            first < self.cos.len(),
            "position {position} of a rotary table of {}",
            self.positions()
        );
        (
            &self.cos[first..first + self.half],
            &self.sin[first..first + self.half],
        )
    }
}

/// Which values of a row are heads to rotate.
#[derive(Debug, Clone, Copy)]
pub struct RopeHeads {
    /// Values per row.
    pub stride: usize,
    /// Where the first head begins in a row.
    pub offset: usize,
    /// Heads side by side from there.
    pub count: usize,
    /// Values per head.
    pub head_dim: usize,
}

impl Cpu {
    /// Rotates heads of queries or keys by their positions' angles (Su et al. 2021, eq. 34), in place; component `d`
    /// pairs with `d + head_dim / 2` (GPT-NeoX, Qwen2). `x` is `[positions.len(), heads.stride]`.
    ///
    /// Within 3e-7 of [`reference::rope`](crate::reference::rope), relative to the pair's length.
    ///
    /// # Panics
    /// When a position is not in the table, `x` has another number of rows, or the heads do not fit a row or the
    /// table.
    pub fn rope(&self, x: &mut [f32], heads: RopeHeads, positions: &[u32], table: &RopeTable) {
        let RopeHeads {
            stride,
            offset,
            count,
            head_dim,
        } = heads;
        assert_eq!(
            x.len(),
            positions.len() * stride,
            "values for {} rows of {stride}",
            positions.len()
        );
        assert!(
            offset + count * head_dim <= stride,
            "{count} heads of {head_dim} at {offset} of a row of {stride}"
        );
        assert_eq!(head_dim, 2 * table.half, "head size and that of the rotary table");
        if x.is_empty() {
            return;
        }
        self.for_row_runs(x, stride, &|first, x| {
            let positions = &positions[first..][..x.len() / stride];
            self.dispatch(Rope {
                x,
                heads,
                positions,
                table,
            });
        });
    }
}

struct Rope<'a> {
    x: &'a mut [f32],
    heads: RopeHeads,
    positions: &'a [u32],
    table: &'a RopeTable,
}

impl Kernel for Rope<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let RopeHeads {
            stride,
            offset,
            count,
            head_dim,
        } = self.heads;
        for (row, &position) in self.x.chunks_exact_mut(stride).zip(self.positions) {
            let angles = self.table.row(position);
            for head in row[offset..offset + count * head_dim].chunks_exact_mut(head_dim) {
                rotate(simd, head, angles);
            }
        }
    }
}

#[inline(always)]
fn rotate<S: Simd>(simd: S, head: &mut [f32], (cos, sin): (&[f32], &[f32])) {
    let (low, high) = head.split_at_mut(head.len() / 2);
    let angles = cos.chunks(LANES).zip(sin.chunks(LANES));
    for ((low, high), (cos, sin)) in low.chunks_mut(LANES).zip(high.chunks_mut(LANES)).zip(angles) {
        let (a, b) = (simd.load_partial(low, 0.0), simd.load_partial(high, 0.0));
        let (cos, sin) = (simd.load_partial(cos, 0.0), simd.load_partial(sin, 0.0));
        simd.store_partial(simd.sub(simd.mul(a, cos), simd.mul(b, sin)), low);
        simd.store_partial(simd.mul_add(b, cos, simd.mul(a, sin)), high);
    }
}

#[cfg(test)]
mod tests;
