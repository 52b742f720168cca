//! Exact attention, blocked: online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) over fixed chunks of
//! positions, for several sequences of different lengths at once.
//!
//! What makes a row's result the same bit for bit in every batch: its positions are taken in chunks of 64 counted from
//! position 0; chunks are reduced in order within segments of 256 positions, and segments merged in order; masked
//! positions contribute exact zeros. Which rows, sequences and segments share a task changes nothing but the speed.

mod merge;
mod panel;
mod plan;
mod source;
mod task;

use plan::{Plan, QueryRows};
use source::{PagedSource, PlainSource, Source};
use task::{MergeRows, RunTask, Work};

use crate::parallel::{Scratch, SharedSlice};
use crate::{BLOCK_TOKENS, Cpu, KvLayer, Rows, SequenceRows};

/// Positions whose scores of a query are held at once.
const CHUNK: usize = 64;

/// Positions reduced without a merge; several threads may share a row by segments.
const SEGMENT: usize = 4 * CHUNK;

/// Multiplications below which waking another thread does not pay.
const SERIAL_PRODUCTS: usize = 200_000;

/// Heads of a layer.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// Query heads.
    count: usize,
    /// Query heads that share a key-value head.
    group: usize,
    head_dim: usize,
}

impl Cpu {
    /// Causal attention of one layer over paged keys and values, grouped queries included (Vaswani et al. 2017,
    /// eq. 1; Ainslie et al. 2023): query head `h` attends with KV head `h / (heads / kv_heads)`. Rows of `q` and of
    /// `out` hold `[heads * head_dim]`; rows of `out` that belong to no sequence are left as they are. The keys and
    /// values of the rows themselves must have been stored.
    ///
    /// Sequences that share blocks read them once. Within 2e-5 of
    /// [`reference::attention`](crate::reference::attention) over the stored values, relative to the largest value.
    ///
    /// # Panics
    /// When a shape does not fit: heads no multiple of the KV heads, blocks that are too few or not in the pool, rows
    /// that do not fit `q` or `out` or belong to two sequences.
    pub fn attention(
        &self,
        kv: KvLayer<'_>,
        queries: Queries<'_>,
        sequences: &[SequenceRows<'_>],
        out: &mut [f32],
    ) {
        let layout = kv.pool().layout();
        let Queries { rows: q, heads } = queries;
        assert!(
            heads > 0 && heads.is_multiple_of(layout.kv_heads),
            "{heads} query heads over {} KV heads",
            layout.kv_heads
        );
        let heads = Heads {
            count: heads,
            group: heads / layout.kv_heads,
            head_dim: layout.head_dim,
        };
        let source = PagedSource::new(kv, sequences);
        let rows = sequences.iter().enumerate().map(|(sequence, s)| {
            assert!(
                s.blocks.len() * BLOCK_TOKENS >= s.start + s.rows,
                "{} blocks for {} positions",
                s.blocks.len(),
                s.start + s.rows
            );
            QueryRows {
                sequence,
                first_row: s.first_row,
                rows: s.rows,
                limit: s.start + 1,
                step: 1,
            }
        });
        self.attend(
            &source,
            Inputs {
                q,
                heads,
                kv_heads: layout.kv_heads,
                rows: rows.collect(),
            },
            out,
        );
    }

    /// Attention of each row to all rows of its sequence, as in BERT (Devlin et al. 2019): the rows of several
    /// sequences follow each other, `lengths` of them each. Rows of `out` hold `[heads * head_dim]`.
    ///
    /// Within 2e-5 of [`reference::bidirectional_attention`](crate::reference::bidirectional_attention), relative to
    /// the largest value.
    ///
    /// # Panics
    /// When a shape does not fit.
    pub fn bidirectional_attention(&self, qkv: Qkv<'_>, lengths: &[usize], out: &mut [f32]) {
        let Qkv {
            q,
            k,
            v,
            heads,
            head_dim,
        } = qkv;
        assert!(
            head_dim > 0 && head_dim.is_multiple_of(16),
            "head size {head_dim} must be a multiple of 16"
        );
        let total = lengths.iter().sum();
        k.check("keys", total, heads * head_dim);
        v.check("values", total, heads * head_dim);
        let source = PlainSource::new(k, v, head_dim, lengths);
        let mut first_row = 0;
        let rows = lengths.iter().enumerate().map(|(sequence, &length)| {
            first_row += length;
            QueryRows {
                sequence,
                first_row: first_row - length,
                rows: length,
                limit: length,
                step: 0,
            }
        });
        let shape = Heads {
            count: heads,
            group: 1,
            head_dim,
        };
        self.attend(
            &source,
            Inputs {
                q,
                heads: shape,
                kv_heads: heads,
                rows: rows.collect(),
            },
            out,
        );
    }

    fn run_task<T: Source>(&self, work: &Work<'_, T>, task: &plan::Task) {
        if work.plan.is_single_row(task) {
            self.dispatch(RunTask::<T, true> { work, task });
        } else {
            self.dispatch(RunTask::<T, false> { work, task });
        }
    }

    fn attend<T: Source>(&self, source: &T, inputs: Inputs<'_>, out: &mut [f32]) {
        let Inputs {
            q,
            heads,
            kv_heads,
            rows,
        } = inputs;
        let width = heads.count * heads.head_dim;
        let end = check_disjoint(&rows);
        q.check("queries", end, width);
        assert!(
            out.len() >= end * width,
            "room for {} values, {end} rows of {width} needed",
            out.len()
        );
        let threads = if products(&rows, width) < SERIAL_PRODUCTS {
            1
        } else {
            self.threads()
        };
        let plan = Plan::new(
            source,
            rows,
            plan::Shape {
                group: heads.group,
                kv_heads,
                threads,
            },
        );
        let mut scratch = Scratch::Operation.take(plan.partials() * merge::record_len(heads.head_dim));
        let work = Work {
            source,
            q,
            heads,
            plan: &plan,
            out: SharedSlice::new(out),
            partials: SharedSlice::new(scratch.values()),
        };
        let run = |index: usize| self.run_task(&work, &plan.tasks()[index]);
        if threads == 1 {
            (0..plan.tasks().len()).for_each(run);
        } else {
            self.pool().run(plan.tasks().len(), &run);
        }
        if plan.partials() > 0 {
            let merges = plan.rows().len() * kv_heads;
            let merge = |index: usize| {
                self.dispatch(MergeRows {
                    work: &work,
                    rows: index / kv_heads,
                    head: index % kv_heads,
                });
            };
            self.pool().run(merges, &merge);
        }
    }
}

/// Queries of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// Rows of `[heads * head_dim]`.
    pub rows: Rows<'a>,
    /// Query heads per row.
    pub heads: usize,
}

/// Queries, keys and values of a layer without grouped queries.
#[derive(Debug, Clone, Copy)]
pub struct Qkv<'a> {
    /// Rows of `[heads * head_dim]`.
    pub q: Rows<'a>,
    /// As `q`.
    pub k: Rows<'a>,
    /// As `q`.
    pub v: Rows<'a>,
    /// Heads per row.
    pub heads: usize,
    /// Values per head, a multiple of 16.
    pub head_dim: usize,
}

struct Inputs<'a> {
    q: Rows<'a>,
    heads: Heads,
    kv_heads: usize,
    rows: Vec<QueryRows>,
}

/// Multiplications of all scores and sums.
fn products(rows: &[QueryRows], width: usize) -> usize {
    rows.iter()
        .map(|rows| rows.rows * rows.last_limit() * width * 2)
        .sum()
}

/// Panics when a row belongs to two sequences; returns the end of the last.
fn check_disjoint(rows: &[QueryRows]) -> usize {
    let mut spans: Vec<_> = rows
        .iter()
        .map(|rows| (rows.first_row, rows.first_row + rows.rows))
        .collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(
            pair[0].1 <= pair[1].0,
            "rows {:?} and {:?} of two sequences overlap",
            pair[0],
            pair[1]
        );
    }
    spans.last().map_or(0, |span| span.1)
}

#[cfg(test)]
mod tests;
