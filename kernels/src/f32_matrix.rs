#![expect(unsafe_code, reason = "threads write disjoint cells of one output")]

use std::ops::Range;

use crate::memory::HugeBuffer;
use crate::output::Output;
use crate::simd::{Kernel, LANES, Simd};
use crate::{Cpu, Isa, KernelError, OutMode};

/// Rows of a task: few enough for their inputs to stay in the second-level cache.
const ROWS_PER_TASK: usize = 96;

/// Tasks per thread that are enough to even out the threads' speeds.
const TASKS_PER_THREAD: usize = 4;

/// Multiplications below which one thread is faster than waking another.
const ALONE: usize = 64 << 10;

/// An `n` x `k` matrix of single-precision weights, row `i` those of output `i`: BERT models and references. In memory
/// 16 rows lie side by side, `[n / 16][k][16]`, so that a kernel reads one stream.
#[derive(Debug)]
pub struct F32Matrix {
    n: usize,
    k: usize,
    tiles: HugeBuffer,
}

impl F32Matrix {
    /// Copies `values`, `[n, k]`.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when there are not `n * k` values, [`KernelError::OutOfMemory`].
    pub fn new(n: usize, k: usize, values: &[f32]) -> Result<F32Matrix, KernelError> {
        let expected = n.saturating_mul(k);
        if values.len() != expected || k == 0 {
            return Err(KernelError::Shape {
                what: "values of a matrix",
                expected,
                received: values.len(),
            });
        }
        let mut matrix = F32Matrix {
            n,
            k,
            tiles: HugeBuffer::zeroed(n.next_multiple_of(LANES) * k * 4)?,
        };
        let tiles = matrix.tiles.as_f32_mut();
        for (row, values) in values.chunks_exact(k).enumerate() {
            let tile = &mut tiles[row / LANES * LANES * k..][..LANES * k];
            for (lanes, value) in tile.as_chunks_mut::<LANES>().0.iter_mut().zip(values) {
                lanes[row % LANES] = *value;
            }
        }
        Ok(matrix)
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

    /// Bytes of weights, padding included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tiles.len()
    }

    /// Writes row `index` to `out`, `k` values.
    ///
    /// # Panics
    /// When `index` is not below `n` or `out` does not hold `k` values.
    pub fn row(&self, index: usize, out: &mut [f32]) {
        assert!(index < self.n, "row {index} of a matrix of {} rows", self.n);
        assert_eq!(out.len(), self.k, "a row holds k values");
        for (lanes, out) in self.tile(index / LANES).iter().zip(out) {
            *out = lanes[index % LANES];
        }
    }

    fn tile(&self, index: usize) -> &[[f32; LANES]] {
        let lanes = self.tiles.as_f32().as_chunks::<LANES>().0;
        &lanes[index * self.k..(index + 1) * self.k]
    }
}

impl Cpu {
    /// Multiplies the rows of `x`, `[rows, k]`, with `w`: `out` is `[rows, n]`. Terms are added in the order of k, so
    /// a row's result is the same bit for bit whatever other rows are in the call, whatever the number of threads,
    /// and on every instruction set with fused multiply-add.
    ///
    /// # Panics
    /// When shapes do not fit.
    pub fn linear_f32(&self, w: &F32Matrix, x: &[f32], out: &mut [f32], mode: OutMode) {
        let rows = x.len() / w.k;
        assert_eq!(x.len(), rows * w.k, "whole rows of inputs");
        assert_eq!(out.len(), rows * w.n, "rows times outputs of the layer");
        if out.is_empty() {
            return;
        }
        let passes = rows.div_ceil(ROWS_PER_TASK);
        let tiles = w.n.div_ceil(LANES);
        let shares = (TASKS_PER_THREAD * self.threads()).div_ceil(passes);
        // Whole pairs of tiles: a kernel may take two at once.
        let step = tiles.div_ceil(shares).next_multiple_of(2);
        let out = Output::new(out, w.n);
        let task = |task: usize| {
            let (pass, share) = (task % passes, task / passes);
            let rows = rows * pass / passes..rows * (pass + 1) / passes;
            let tiles = share * step..tiles.min((share + 1) * step);
            self.dispatch(Product {
                w,
                x,
                out: &out,
                mode,
                rows,
                tiles,
                isa: self.isa(),
            });
        };
        let tasks = passes * tiles.div_ceil(step);
        if rows * w.n * w.k <= ALONE {
            (0..tasks).for_each(task)
        } else {
            self.pool().run(tasks, &task)
        }
    }
}

/// Some rows of the output and some tiles.
struct Product<'a> {
    w: &'a F32Matrix,
    x: &'a [f32],
    out: &'a Output<'a>,
    mode: OutMode,
    rows: Range<usize>,
    tiles: Range<usize>,
    isa: Isa,
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // As many sums as fit the registers: 12 of 512 bits, 4 of more parts.
        match self.isa {
            Isa::Avx512Vnni => self.columns::<S, 6, 2>(simd),
            Isa::Avx2 | Isa::Neon | Isa::Scalar => self.columns::<S, 4, 1>(simd),
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn columns<S: Simd, const R: usize, const C: usize>(&self, simd: S) {
        let mut tile = self.tiles.start;
        while tile < self.tiles.end {
            if tile + C <= self.tiles.end {
                self.rows::<S, R, C>(simd, tile);
                tile += C;
            } else {
                self.rows::<S, R, 1>(simd, tile);
                tile += 1;
            }
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const R: usize, const C: usize>(&self, simd: S, tile: usize) {
        let mut row = self.rows.start;
        while row + R <= self.rows.end {
            self.cells::<S, R, C>(simd, row, tile);
            row += R;
        }
        while row < self.rows.end {
            match self.rows.end - row {
                1 => self.cells::<S, 1, C>(simd, row, tile),
                2 => self.cells::<S, 2, C>(simd, row, tile),
                _ => self.cells::<S, 3, C>(simd, row, tile),
            }
            row += (self.rows.end - row).min(3);
        }
    }

    /// `R` rows times `C` tiles: one sum of 16 columns for each stays in registers.
    #[inline(always)]
    fn cells<S: Simd, const R: usize, const C: usize>(&self, simd: S, first_row: usize, first_tile: usize) {
        let k = self.w.k;
        let x: [&[f32]; R] = std::array::from_fn(|row| &self.x[(first_row + row) * k..][..k]);
        let tiles: [&[[f32; LANES]]; C] = std::array::from_fn(|tile| &self.w.tile(first_tile + tile)[..k]);
        let mut sums = [[simd.zero(); C]; R];
        for at in 0..k {
            for column in 0..C {
                let weights = simd.load(&tiles[column][at]);
                for row in 0..R {
                    sums[row][column] = simd.mul_add(weights, simd.splat(x[row][at]), sums[row][column]);
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            for (tile, sum) in sums.into_iter().enumerate() {
                let column = (first_tile + tile) * LANES;
                let len = LANES.min(self.w.n - column);
                // SAFETY: tasks differ in their rows or their tiles, and each runs once.
                let out = unsafe { self.out.cells(first_row + row, column, len) };
                let sum = match self.mode {
                    OutMode::Write => sum,
                    OutMode::Add => simd.add(simd.load_partial(out, 0.0), sum),
                };
                simd.store_partial(sum, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::numbers;

    fn cpus(threads: usize) -> impl Iterator<Item = Cpu> {
        let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
        available.map(move |isa| Cpu::with_isa(isa, Some(threads)).unwrap())
    }

    fn product(cpu: &Cpu, w: &F32Matrix, x: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() / w.k() * w.n()];
        cpu.linear_f32(w, x, &mut out, OutMode::Write);
        out
    }

    #[test]
    fn every_set_agrees_with_double_precision() {
        for (n, k) in [(1, 1), (16, 7), (50, 64), (97, 384)] {
            let weights = numbers(1, n * k);
            let w = F32Matrix::new(n, k, &weights).unwrap();
            for rows in [1, 2, 3, 4, 5, 11, 12, 100, 197] {
                let x = numbers(2, rows * k);
                for cpu in cpus(2) {
                    let out = product(&cpu, &w, &x);
                    for (index, ours) in out.into_iter().enumerate() {
                        let (row, column) = (index / n, index % n);
                        let terms = x[row * k..][..k].iter().zip(&weights[column * k..][..k]);
                        let (exact, size) = terms
                            .map(|(x, w)| f64::from(*x) * f64::from(*w))
                            .fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                        let error = (f64::from(ours) - exact).abs();
                        assert!(
                            error <= 4e-6 * size,
                            "{} {n}x{k} {rows} rows: {error} of {size}",
                            cpu.isa()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_alone_equals_the_row_in_any_batch() {
        let (n, k) = (70, 96);
        let w = F32Matrix::new(n, k, &numbers(3, n * k)).unwrap();
        for rows in (1..30).chain([95, 96, 97, 250]) {
            let x = numbers(rows as u64, rows * k);
            for cpu in cpus(3) {
                let together = product(&cpu, &w, &x);
                for (x, together) in x.chunks(k).zip(together.chunks(n)) {
                    assert_eq!(product(&cpu, &w, x), together, "{} {rows} rows", cpu.isa());
                }
            }
        }
    }

    #[test]
    fn sums_are_added_to_what_is_there() {
        let (n, k, rows) = (33, 40, 9);
        let w = F32Matrix::new(n, k, &numbers(4, n * k)).unwrap();
        let x = numbers(5, rows * k);
        let residual = numbers(6, rows * n);
        for cpu in cpus(2) {
            let mut out = residual.clone();
            cpu.linear_f32(&w, &x, &mut out, OutMode::Add);
            for ((out, residual), sum) in out.into_iter().zip(&residual).zip(product(&cpu, &w, &x)) {
                assert_eq!(out, residual + sum, "{}", cpu.isa());
            }
        }
    }

    #[test]
    fn rows_come_back() {
        let (n, k) = (21, 5);
        let values = numbers(7, n * k);
        let w = F32Matrix::new(n, k, &values).unwrap();
        for (index, values) in values.chunks(k).enumerate() {
            let mut row = vec![0.0; k];
            w.row(index, &mut row);
            assert_eq!(row, values);
        }
        assert!(matches!(
            F32Matrix::new(2, 3, &[0.0; 5]),
            Err(KernelError::Shape {
                expected: 6,
                received: 5,
                ..
            })
        ));
    }
}
