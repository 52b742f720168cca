#![expect(unsafe_code, reason = "threads write disjoint cells of one output")]

use std::ops::Range;

use crate::memory::HugeBuffer;
use crate::output::Output;
use crate::simd::{Kernel, LANES, Simd};
use crate::{BlockFormat, Cpu, Isa, KernelError, OutMode};

/// Rows of a task: few enough for their inputs to stay in the second-level cache.
const ROWS_PER_TASK: usize = 96;

/// Tasks per thread that are enough to even out the threads' speeds.
const TASKS_PER_THREAD: usize = 4;

/// Multiplications below which one thread is faster than waking another.
const ALONE: usize = 64 << 10;

/// An `n` x `k` matrix, row `i` holding the weights of output `i`, that is multiplied in single precision: BERT models,
/// weights from safetensors, references. Half-precision weights stay 16 bits wide in memory. 16 rows lie side by side,
/// `[n / 16][k][16]`, so that a kernel reads one stream.
#[derive(Debug)]
pub struct F32Matrix {
    n: usize,
    k: usize,
    stored: Stored,
    tiles: HugeBuffer,
}

/// What weights are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    F32,
    F16,
    Bf16,
}

impl F32Matrix {
    /// Copies `values`, `[n, k]`.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when there are not `n * k` values or `k` is 0, [`KernelError::OutOfMemory`].
    pub fn new(n: usize, k: usize, values: &[f32]) -> Result<F32Matrix, KernelError> {
        check("values of a matrix", (n, k), k, values.len())?;
        let mut matrix = F32Matrix::empty(n, k, Stored::F32)?;
        for (row, values) in values.chunks_exact(k).enumerate() {
            matrix.set::<4>(row, values.iter().map(|value| value.to_le_bytes()));
        }
        Ok(matrix)
    }

    /// Copies `n` rows of `k` weights. F16 and BF16 are kept as they are, other formats are written out in single
    /// precision.
    ///
    /// # Errors
    /// [`KernelError::PartialBlock`] and [`KernelError::Shape`] when `bytes` is not `n` rows of whole blocks,
    /// [`KernelError::OutOfMemory`].
    pub fn from_blocks(
        format: BlockFormat,
        n: usize,
        k: usize,
        bytes: &[u8],
    ) -> Result<F32Matrix, KernelError> {
        let row_bytes = format.row_bytes(k)?;
        check("bytes of a matrix", (n, k), row_bytes, bytes.len())?;
        let stored = match format {
            BlockFormat::F16 => Stored::F16,
            BlockFormat::Bf16 => Stored::Bf16,
            BlockFormat::F32
            | BlockFormat::Q4_0
            | BlockFormat::Q4_1
            | BlockFormat::Q5_0
            | BlockFormat::Q5_1
            | BlockFormat::Q8_0
            | BlockFormat::Q4K
            | BlockFormat::Q5K
            | BlockFormat::Q6K => Stored::F32,
        };
        let mut matrix = F32Matrix::empty(n, k, stored)?;
        let mut values = vec![0.0; k];
        for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            if stored == Stored::F32 {
                format.dequantize(bytes, &mut values)?;
                matrix.set::<4>(row, values.iter().map(|value| value.to_le_bytes()));
            } else {
                matrix.set::<2>(row, bytes.as_chunks::<2>().0.iter().copied());
            }
        }
        Ok(matrix)
    }

    fn empty(n: usize, k: usize, stored: Stored) -> Result<F32Matrix, KernelError> {
        let cells = n.next_multiple_of(LANES).saturating_mul(k);
        let tiles = HugeBuffer::zeroed(cells.saturating_mul(stored.bytes()))?;
        Ok(F32Matrix { n, k, stored, tiles })
    }

    /// Writes the cells of one row, `B` bytes each.
    fn set<const B: usize>(&mut self, row: usize, cells: impl Iterator<Item = [u8; B]>) {
        let tile = &mut self.tiles[row / LANES * LANES * self.k * B..][..LANES * self.k * B];
        for (place, cell) in tile
            .as_chunks_mut::<B>()
            .0
            .iter_mut()
            .skip(row % LANES)
            .step_by(LANES)
            .zip(cells)
        {
            *place = cell;
        }
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
        let (tile, lane) = (index / LANES, index % LANES);
        match self.stored {
            Stored::F32 => self.column::<Single>(tile, lane, out),
            Stored::F16 => self.column::<Half>(tile, lane, out),
            Stored::Bf16 => self.column::<Brain>(tile, lane, out),
        }
    }

    fn column<C: Cells>(&self, tile: usize, lane: usize, out: &mut [f32]) {
        for (lanes, out) in C::of(self.tile(tile)).iter().zip(out) {
            *out = C::value(lanes[lane]);
        }
    }

    fn tile(&self, index: usize) -> &[u8] {
        let len = LANES * self.k * self.stored.bytes();
        &self.tiles[index * len..][..len]
    }
}

fn check(what: &'static str, (n, k): (usize, usize), row: usize, received: usize) -> Result<(), KernelError> {
    let expected = n.saturating_mul(row);
    if k == 0 || received != expected {
        return Err(KernelError::Shape {
            what,
            expected,
            received,
        });
    }
    Ok(())
}

impl Stored {
    fn bytes(self) -> usize {
        match self {
            Stored::F32 => size_of::<f32>(),
            Stored::F16 | Stored::Bf16 => size_of::<u16>(),
        }
    }
}

/// How a tile's bytes are read.
trait Cells {
    type Cell: Copy;

    /// The weights at each place along k.
    fn of(tile: &[u8]) -> &[[Self::Cell; LANES]];
    fn value(cell: Self::Cell) -> f32;
    fn load<S: Simd>(simd: S, cells: &[Self::Cell; LANES]) -> S::V;
}

struct Single;
struct Half;
struct Brain;

impl Cells for Single {
    type Cell = [u8; 4];

    #[inline(always)]
    fn of(tile: &[u8]) -> &[[[u8; 4]; LANES]] {
        tile.as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn value(cell: [u8; 4]) -> f32 {
        f32::from_le_bytes(cell)
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, cells: &[[u8; 4]; LANES]) -> S::V {
        simd.load(&cells.map(f32::from_le_bytes))
    }
}

impl Cells for Half {
    type Cell = [u8; 2];

    #[inline(always)]
    fn of(tile: &[u8]) -> &[[[u8; 2]; LANES]] {
        tile.as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn value(cell: [u8; 2]) -> f32 {
        half::f16::from_le_bytes(cell).to_f32()
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, cells: &[[u8; 2]; LANES]) -> S::V {
        simd.load_f16(&cells.map(u16::from_le_bytes))
    }
}

impl Cells for Brain {
    type Cell = [u8; 2];

    #[inline(always)]
    fn of(tile: &[u8]) -> &[[[u8; 2]; LANES]] {
        tile.as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn value(cell: [u8; 2]) -> f32 {
        half::bf16::from_le_bytes(cell).to_f32()
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, cells: &[[u8; 2]; LANES]) -> S::V {
        simd.load(&cells.map(|cell| f32::from_bits(u32::from(u16::from_le_bytes(cell)) << 16)))
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
        match self.w.stored {
            Stored::F32 => self.of::<S, Single>(simd),
            Stored::F16 => self.of::<S, Half>(simd),
            Stored::Bf16 => self.of::<S, Brain>(simd),
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn of<S: Simd, W: Cells>(&self, simd: S) {
        // As many sums as fit the registers: 12 of 512 bits, 4 of several parts.
        match self.isa {
            Isa::Avx512Vnni => self.columns::<S, W, 6, 2>(simd),
            Isa::Avx2 | Isa::Neon | Isa::Scalar => self.columns::<S, W, 4, 1>(simd),
        }
    }

    #[inline(always)]
    fn columns<S: Simd, W: Cells, const R: usize, const C: usize>(&self, simd: S) {
        let mut tile = self.tiles.start;
        while tile < self.tiles.end {
            if tile + C <= self.tiles.end {
                self.rows::<S, W, R, C>(simd, tile);
                tile += C;
            } else {
                self.rows::<S, W, R, 1>(simd, tile);
                tile += 1;
            }
        }
    }

    #[inline(always)]
    fn rows<S: Simd, W: Cells, const R: usize, const C: usize>(&self, simd: S, tile: usize) {
        let mut row = self.rows.start;
        while row + R <= self.rows.end {
            self.cells::<S, W, R, C>(simd, row, tile);
            row += R;
        }
        while row < self.rows.end {
            match self.rows.end - row {
                1 => self.cells::<S, W, 1, C>(simd, row, tile),
                2 => self.cells::<S, W, 2, C>(simd, row, tile),
                _ => self.cells::<S, W, 3, C>(simd, row, tile),
            }
            row += (self.rows.end - row).min(3);
        }
    }

    /// `R` rows times `C` tiles: one sum of 16 columns for each stays in registers.
    #[inline(always)]
    fn cells<S: Simd, W: Cells, const R: usize, const C: usize>(
        &self,
        simd: S,
        first_row: usize,
        first_tile: usize,
    ) {
        let k = self.w.k;
        let x: [&[f32]; R] = std::array::from_fn(|row| &self.x[(first_row + row) * k..][..k]);
        let tiles: [&[[W::Cell; LANES]]; C] =
            std::array::from_fn(|tile| &W::of(self.w.tile(first_tile + tile))[..k]);
        let mut sums = [[simd.zero(); C]; R];
        for at in 0..k {
            for column in 0..C {
                let weights = W::load(simd, &tiles[column][at]);
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
mod tests;
