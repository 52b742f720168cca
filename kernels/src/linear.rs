#![expect(
    unsafe_code,
    reason = "threads write disjoint columns of one output; working memory is taken as bytes"
)]

use crate::gemm::{self, MAX_PANEL, Sums};
use crate::output::Output;
use crate::parallel::Scratch;
use crate::quantize::Panels;
use crate::simd::{Kernel, Simd};
use crate::tile::{COLUMNS, Source, Weights};
use crate::{BlockFormat, Cpu, KernelError, QuantizedRows, TilePolicy, TiledMatrix};

/// Rows that are multiplied with all tiles of a task before the next: what stays in the second-level cache.
const ROWS_PER_PASS: usize = 20 * MAX_PANEL;

/// Tasks per thread: enough that the last one to end, or a thread that loses its core, holds little back.
const TASKS_PER_THREAD: usize = 16;

/// What becomes of the values an output holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutMode {
    /// They are overwritten.
    Write,
    /// The product is added to them (a residual).
    Add,
}

/// A linear layer: matrices of equal `k` side by side, their outputs one after the other (q, k and v; gate and up),
/// and a bias. All parts are computed in one parallel region.
#[derive(Debug, Clone)]
pub struct Linear {
    parts: Vec<Part>,
    bias: Option<Vec<f32>>,
    n: usize,
    k: usize,
}

#[derive(Debug, Clone)]
struct Part {
    matrix: TiledMatrix,
    /// The first output.
    column: usize,
    /// The first tile, counted over all parts.
    tile: usize,
}

impl Linear {
    /// Joins `parts`; `bias` holds a value for each output.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when there is no part, the parts differ in `k`, or the bias has another length than
    /// the outputs.
    pub fn new(parts: Vec<TiledMatrix>, bias: Option<Vec<f32>>) -> Result<Linear, KernelError> {
        let Some(k) = parts.first().map(TiledMatrix::k) else {
            return Err(KernelError::Shape {
                what: "parts of a linear layer",
                expected: 1,
                received: 0,
            });
        };
        let (mut column, mut tile) = (0, 0);
        let mut placed = Vec::with_capacity(parts.len());
        for matrix in parts {
            if matrix.k() != k {
                let what = "inputs of a part of a linear layer";
                return Err(KernelError::Shape {
                    what,
                    expected: k,
                    received: matrix.k(),
                });
            }
            let (n, tiles) = (matrix.n(), matrix.tiles());
            placed.push(Part { matrix, column, tile });
            column += n;
            tile += tiles;
        }
        if let Some(bias) = bias.as_ref().filter(|bias| bias.len() != column) {
            let what = "bias of a linear layer";
            return Err(KernelError::Shape {
                what,
                expected: column,
                received: bias.len(),
            });
        }
        Ok(Linear {
            parts: placed,
            bias,
            n: column,
            k,
        })
    }

    /// Outputs.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Inputs.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// Bytes a product reads: weights, scales and bias.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, |bias| size_of_val(&bias[..]));
        self.parts.iter().map(|part| part.matrix.bytes()).sum::<usize>() + bias
    }

    /// The matrices, in the order of their outputs.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &TiledMatrix> {
        self.parts.iter().map(|part| &part.matrix)
    }

    /// The bias, one value for each output.
    #[must_use]
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    fn tiles(&self) -> usize {
        self.parts
            .last()
            .map_or(0, |part| part.tile + part.matrix.tiles())
    }

    /// The part that holds a tile counted over all parts.
    fn part_of(&self, tile: usize) -> &Part {
        &self.parts[self.parts.partition_point(|part| part.tile <= tile) - 1]
    }
}

impl Cpu {
    /// Re-tiles weights on all threads; see [`TiledMatrix::from_blocks`].
    ///
    /// # Errors
    /// As [`TiledMatrix::from_blocks`].
    pub fn tile(
        &self,
        format: BlockFormat,
        (n, k): (usize, usize),
        bytes: &[u8],
        policy: TilePolicy,
    ) -> Result<TiledMatrix, KernelError> {
        Source {
            n,
            k,
            weights: Weights::Blocks(format, bytes),
        }
        .tile(policy, self.pool())
    }

    /// Multiplies the rows of `x`, `[rows, k]`, with `w` and adds its bias: `out` is `[rows, n]`. A row's result is
    /// the same bit for bit whatever other rows are in the call, and whatever the number of threads.
    ///
    /// # Panics
    /// When `x` was filled by a `Cpu` of another instruction set, or shapes do not fit.
    pub fn linear(&self, w: &Linear, x: &QuantizedRows, out: &mut [f32], mode: OutMode) {
        if x.rows() == 0 {
            assert!(out.is_empty(), "no rows in, no rows out");
            return;
        }
        assert_eq!(x.isa(), Some(self.isa()), "rows quantised for this processor");
        assert_eq!(x.k(), w.k, "inputs of the layer");
        assert_eq!(out.len(), x.rows() * w.n, "rows times outputs of the layer");
        let tiles = w.tiles();
        let step = tiles.div_ceil(self.threads() * TASKS_PER_THREAD).max(1);
        let product = Product {
            cpu: self,
            w,
            x,
            out: Output::new(out, w.n),
            mode,
        };
        let run = |task: usize| product.tiles(task * step..tiles.min((task + 1) * step));
        self.pool().run(tiles.div_ceil(step), &run);
    }
}

struct Product<'a> {
    cpu: &'a Cpu,
    w: &'a Linear,
    x: &'a QuantizedRows,
    out: Output<'a>,
    mode: OutMode,
}

impl Product<'_> {
    /// All rows of some tiles.
    fn tiles(&self, tiles: std::ops::Range<usize>) {
        let isa = self.cpu.isa();
        let panels = Panels::new(self.x.rows(), gemm::panel_rows(isa));
        let per_pass = ROWS_PER_PASS / gemm::panel_rows(isa);
        let mut sums: Sums = [[0.0; COLUMNS]; MAX_PANEL];
        let mut memory =
            Scratch::Task.take(self.wide_bytes(&tiles, panels.count.min(per_pass)) / size_of::<f32>());
        let memory = as_bytes(memory.values());
        for pass in (0..panels.count).step_by(per_pass) {
            for index in tiles.clone() {
                let part = self.w.part_of(index);
                let tile = part.matrix.tile(index - part.tile);
                let pass = pass..panels.count.min(pass + per_pass);
                let wide = &mut memory[..gemm::wide_bytes(isa, &tile, pass.len())];
                gemm::widen(&tile, wide);
                for panel_index in pass {
                    let panel = self.x.panel(panels, panel_index);
                    gemm::multiply(isa, (&tile, wide), panel, &mut sums);
                    self.store(
                        part,
                        index - part.tile,
                        panels.start(panel_index),
                        &sums[..panel.rows],
                    );
                }
            }
        }
    }

    /// Memory for the widest of these tiles.
    fn wide_bytes(&self, tiles: &std::ops::Range<usize>, panels: usize) -> usize {
        let of = |index: usize| {
            let part = self.w.part_of(index);
            gemm::wide_bytes(self.cpu.isa(), &part.matrix.tile(index - part.tile), panels)
        };
        tiles.clone().map(of).max().unwrap_or(0)
    }

    fn store(&self, part: &Part, tile: usize, first_row: usize, sums: &[[f32; COLUMNS]]) {
        let first = tile * COLUMNS;
        let columns = COLUMNS.min(part.matrix.n() - first);
        let gain = part.matrix.gain();
        let mut bias = [0.0; COLUMNS];
        if let Some(values) = &self.w.bias {
            bias[..columns].copy_from_slice(&values[part.column + first..][..columns]);
        }
        self.cpu.dispatch(Store {
            product: self,
            place: (first_row, part.column + first, columns),
            sums,
            gain,
            bias,
        });
    }
}

/// Writes the sums of one tile and one panel to the output.
struct Store<'a> {
    product: &'a Product<'a>,
    /// The first row, the first column and the number of columns.
    place: (usize, usize, usize),
    sums: &'a [[f32; COLUMNS]],
    gain: f32,
    bias: [f32; COLUMNS],
}

impl Kernel for Store<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gain, bias) = (simd.splat(self.gain), simd.load(&self.bias));
        let (first_row, column, columns) = self.place;
        for (row, sums) in self.sums.iter().enumerate() {
            let value = simd.add(simd.mul(simd.load(sums), gain), bias);
            // SAFETY: a tile belongs to one task, a task runs once, and no two tiles share a column.
            let out = unsafe { self.product.out.cells(first_row + row, column, columns) };
            let value = match self.product.mode {
                OutMode::Write => value,
                OutMode::Add => simd.add(simd.load_partial(out, 0.0), value),
            };
            simd.store_partial(value, out);
        }
    }
}

fn as_bytes(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: every byte of a number is a byte, and any bytes are a number; the borrow goes on.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

#[cfg(test)]
mod tests;
