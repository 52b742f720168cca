#![expect(unsafe_code, reason = "threads write disjoint columns of one output")]

use crate::output::Output;
use crate::{Cpu, KernelError, OutMode};

/// Columns a task computes.
const COLUMNS: usize = 32;

/// An `n` x `k` matrix of single-precision weights, row `i` those of output `i`: BERT models and references.
#[derive(Debug, Clone)]
pub struct F32Matrix {
    n: usize,
    k: usize,
    values: Vec<f32>,
}

impl F32Matrix {
    /// Takes `values`, `[n, k]`.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when there are not `n * k` values.
    pub fn new(n: usize, k: usize, values: &[f32]) -> Result<F32Matrix, KernelError> {
        let expected = n.saturating_mul(k);
        if values.len() != expected {
            return Err(KernelError::Shape {
                what: "values of a matrix",
                expected,
                received: values.len(),
            });
        }
        Ok(F32Matrix {
            n,
            k,
            values: values.to_vec(),
        })
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
}

impl Cpu {
    /// Multiplies the rows of `x`, `[rows, k]`, with `w`: `out` is `[rows, n]`. A row's result does not depend on
    /// other rows of the call or on the number of threads.
    ///
    /// # Panics
    /// When shapes do not fit.
    pub fn linear_f32(&self, w: &F32Matrix, x: &[f32], out: &mut [f32], mode: OutMode) {
        let rows = x.len() / w.k;
        assert_eq!(x.len(), rows * w.k, "whole rows of inputs");
        assert_eq!(out.len(), rows * w.n, "rows times outputs of the layer");
        let output = Output::new(out, w.n);
        self.pool().run(w.n.div_ceil(COLUMNS), &|task| {
            let columns = task * COLUMNS..w.n.min((task + 1) * COLUMNS);
            for (row, x) in x.chunks_exact(w.k).enumerate() {
                // SAFETY: no two tasks share a column, and each runs once.
                let out = unsafe { output.cells(row, columns.start, columns.len()) };
                for (column, out) in columns.clone().zip(out) {
                    let weights = &w.values[column * w.k..][..w.k];
                    let sum: f32 = weights.iter().zip(x).map(|(w, x)| w * x).sum();
                    *out = if mode == OutMode::Add { *out + sum } else { sum };
                }
            }
        });
    }
}
