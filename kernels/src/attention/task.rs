#![expect(unsafe_code, reason = "tasks write disjoint rows of one output")]

use super::merge::{Segment, Total, record_len, write_normalised};
use super::panel::{MAX_PANEL, PanelQueries, PanelState, Tiles};
use super::plan::{Plan, QueryRows, Task};
use super::source::{Chunk, ChunkAt, Source};
use super::{CHUNK, Heads, SEGMENT};
use crate::Rows;
use crate::parallel::{Scratch, SharedSlice};
use crate::simd::{Kernel, LANES, Lanes, Simd};

/// What all tasks of an attention share.
pub(super) struct Work<'a, T> {
    pub(super) source: &'a T,
    pub(super) q: Rows<'a>,
    pub(super) heads: Heads,
    pub(super) plan: &'a Plan,
    pub(super) out: SharedSlice<'a, f32>,
    pub(super) partials: SharedSlice<'a, f32>,
}

/// Runs one task. `STORED` tasks may read half-precision tiles as they are stored; the code for that stands apart
/// because it cost the other tasks their registers.
pub(super) struct RunTask<'a, T, const STORED: bool> {
    pub(super) work: &'a Work<'a, T>,
    pub(super) task: &'a Task,
}

/// Consecutive queries of one run of rows: query `i` is head `i % group` of row `i / group`.
struct Panel {
    /// Index of the rows in the plan.
    rows: usize,
    first: usize,
    count: usize,
}

/// Working memory of one panel.
struct PanelMemory<'a> {
    queries: &'a mut [f32],
    state: PanelState<'a>,
    total: Total<'a>,
}

/// Vectors of working memory per panel.
fn panel_vectors(columns: usize) -> usize {
    // Queries, sums and values of the state, values of the total; three maxima or sums.
    MAX_PANEL * (columns * 3 + 1) + 3
}

impl<'a> PanelMemory<'a> {
    fn new(memory: &'a mut [Lanes], columns: usize, count: usize) -> Self {
        let (queries, rest) = memory.split_at_mut(MAX_PANEL * columns);
        let (values, rest) = rest.split_at_mut(MAX_PANEL * columns);
        let (total, rest) = rest.split_at_mut(MAX_PANEL * columns);
        let (sums, rest) = rest.split_at_mut(MAX_PANEL);
        let [max, total_max, total_sum] = rest else {
            unreachable!("three vectors remain")
        };
        PanelMemory {
            queries: &mut queries.as_flattened_mut()[..count * columns * LANES],
            state: PanelState {
                max,
                sums: &mut sums[..count],
                values: &mut values[..count * columns],
            },
            total: Total {
                max: total_max,
                sum: total_sum,
                values: &mut total[..count * columns],
            },
        }
    }
}

impl<T: Source, const STORED: bool> Kernel for RunTask<'_, T, STORED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let columns = self.work.heads.head_dim / LANES;
        let panels = self.panels(S::ACCUMULATORS);
        let chunk_len = CHUNK * columns;
        let vectors = 2 * chunk_len + panels.len() * panel_vectors(columns);
        let mut scratch = Scratch::Task.take(vectors * LANES);
        let memory = scratch.values().as_chunks_mut().0;
        let (keys, memory) = memory.split_at_mut(chunk_len);
        let (values, memory) = memory.split_at_mut(chunk_len);
        let mut chunk = Chunk { keys, values };
        for (panel, memory) in panels.iter().zip(memory.chunks_exact_mut(panel_vectors(columns))) {
            self.pack(panel, PanelMemory::new(memory, columns, panel.count).queries);
        }
        for segment in self.task.segments.clone() {
            self.run_segment(simd, segment, &panels, (&mut chunk, &mut *memory));
        }
        if self.work.plan.partials() == 0 {
            for (panel, memory) in panels.iter().zip(memory.chunks_exact_mut(panel_vectors(columns))) {
                let total = PanelMemory::new(memory, columns, panel.count).total;
                self.write_out(simd, panel, &total);
            }
        }
    }
}

impl<T: Source, const STORED: bool> RunTask<'_, T, STORED> {
    fn panels(&self, limit: usize) -> Vec<Panel> {
        let mut panels = Vec::new();
        for rows in self.task.rows.clone() {
            let queries = self.work.plan.rows()[rows].rows * self.work.heads.group;
            let count = queries.div_ceil(limit.min(MAX_PANEL));
            for index in 0..count {
                let (first, end) = (queries * index / count, queries * (index + 1) / count);
                panels.push(Panel {
                    rows,
                    first,
                    count: end - first,
                });
            }
        }
        panels
    }

    fn rows(&self, panel: &Panel) -> &QueryRows {
        &self.work.plan.rows()[panel.rows]
    }

    /// Query `index` of a panel: its row of the batch and its head.
    fn query(&self, panel: &Panel, index: usize) -> (usize, usize) {
        let group = self.work.heads.group;
        let query = panel.first + index;
        (
            self.rows(panel).first_row + query / group,
            self.task.head * group + query % group,
        )
    }

    /// Positions that query `index` of a panel attends to.
    fn limit(&self, panel: &Panel, index: usize) -> usize {
        self.rows(panel)
            .limit_of((panel.first + index) / self.work.heads.group)
    }

    /// Copies a panel's queries to `[head_dim][queries]`, scaled for scores in powers of two.
    #[inline(always)]
    fn pack(&self, panel: &Panel, packed: &mut [f32]) {
        let head_dim = self.work.heads.head_dim;
        let scale = (std::f64::consts::LOG2_E / (head_dim as f64).sqrt()) as f32;
        for index in 0..panel.count {
            let (row, head) = self.query(panel, index);
            let query = &self.work.q.row(row, (head + 1) * head_dim)[head * head_dim..];
            for (value, packed) in query.iter().zip(packed.chunks_exact_mut(panel.count)) {
                packed[index] = value * scale;
            }
        }
    }

    #[inline(always)]
    fn run_segment<S: Simd>(
        &self,
        simd: S,
        segment: usize,
        panels: &[Panel],
        (chunk, memory): (&mut Chunk<'_>, &mut [Lanes]),
    ) {
        let columns = self.work.heads.head_dim / LANES;
        let first = segment * (SEGMENT / CHUNK);
        for at in first..first + SEGMENT / CHUNK {
            let mut loaded = None;
            for (panel, memory) in panels.iter().zip(memory.chunks_exact_mut(panel_vectors(columns))) {
                if self.limit(panel, panel.count - 1) <= at * CHUNK {
                    continue;
                }
                let sequence = self.rows(panel).sequence;
                let mut memory = PanelMemory::new(memory, columns, panel.count);
                if at == first {
                    memory.state.clear();
                }
                let place = ChunkAt {
                    sequence,
                    head: self.task.head,
                    chunk: at,
                };
                let mut limits = [0; MAX_PANEL];
                for (index, limit) in limits[..panel.count].iter_mut().enumerate() {
                    *limit = self.limit(panel, index).saturating_sub(at * CHUNK).min(CHUNK);
                }
                let input = PanelQueries {
                    packed: memory.queries,
                    count: panel.count,
                    limits: &limits,
                };
                // Widening in memory pays when several panels read the result.
                if STORED
                    && let [_] = panels
                    && let Some(tiles) = self.work.source.stored(place)
                {
                    memory.state.update(simd, &input, &tiles);
                    continue;
                }
                if loaded.is_none_or(|other| {
                    other != sequence && !self.work.source.same_chunk(other, sequence, at)
                }) {
                    self.work.source.load(simd, place, chunk);
                }
                loaded = Some(sequence);
                let tiles = Tiles {
                    keys: &*chunk.keys,
                    values: &*chunk.values,
                    ahead: &[],
                };
                memory.state.update(simd, &input, &[tiles]);
            }
        }
        for (panel, memory) in panels.iter().zip(memory.chunks_exact_mut(panel_vectors(columns))) {
            if self.limit(panel, panel.count - 1) > segment * SEGMENT {
                self.end_segment(
                    simd,
                    segment,
                    panel,
                    PanelMemory::new(memory, columns, panel.count),
                );
            }
        }
    }

    /// Adds a panel's segment to what came before, or stores it for [`MergeRows`].
    #[inline(always)]
    fn end_segment<S: Simd>(&self, simd: S, segment: usize, panel: &Panel, memory: PanelMemory<'_>) {
        let columns = self.work.heads.head_dim / LANES;
        let PanelMemory { state, mut total, .. } = memory;
        let mut sum = [0.0; LANES];
        for (sum, sums) in sum.iter_mut().zip(state.sums.iter()) {
            *sum = simd.reduce_sum(simd.load(sums));
        }
        let reduced = Segment {
            max: state.max,
            sum: &sum,
            values: state.values,
        };
        let plan = self.work.plan;
        if plan.partials() > 0 {
            let record = record_len(self.work.heads.head_dim);
            let first = plan.partial(panel.rows, segment, self.task.head) + panel.first;
            for (index, values) in reduced.values.chunks_exact(columns).enumerate() {
                let start = (first + index) * record;
                // SAFETY: the plan gives each query, segment and head its own record, and one task computes it.
                let record = unsafe { self.work.partials.part(start..start + record) };
                let (stored, scalars) = record.split_at_mut(columns * LANES);
                stored.copy_from_slice(values.as_flattened());
                scalars[0] = reduced.max[index];
                scalars[1] = reduced.sum[index];
            }
        } else if segment == 0 {
            total.begin(&reduced);
        } else {
            total.merge(simd, &reduced, columns);
        }
    }

    #[inline(always)]
    fn write_out<S: Simd>(&self, simd: S, panel: &Panel, total: &Total<'_>) {
        let Heads { count, head_dim, .. } = self.work.heads;
        for (index, values) in total.values.chunks_exact(head_dim / LANES).enumerate() {
            let (row, head) = self.query(panel, index);
            let start = (row * count + head) * head_dim;
            // SAFETY: rows belong to one sequence and one task each, per head; `attend` has checked the former.
            let out = unsafe { self.work.out.part(start..start + head_dim) };
            write_normalised(simd, values, total.sum[index], out);
        }
    }
}

/// Merges the segments of one run of rows and one KV head, in the order and with the arithmetic of a task that covers
/// all segments.
pub(super) struct MergeRows<'a, T> {
    pub(super) work: &'a Work<'a, T>,
    /// Index of the rows in the plan.
    pub(super) rows: usize,
    pub(super) head: usize,
}

impl<T> Kernel for MergeRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Heads {
            count,
            group,
            head_dim,
        } = self.work.heads;
        let rows = &self.work.plan.rows()[self.rows];
        let mut scratch = Scratch::Task.take(head_dim);
        for query in 0..rows.rows * group {
            let segments = rows.limit_of(query / group).div_ceil(SEGMENT);
            let (row, head) = (rows.first_row + query / group, self.head * group + query % group);
            let start = (row * count + head) * head_dim;
            // SAFETY: rows belong to one sequence and one merge each, per head; `attend` has checked the former.
            let out = unsafe { self.work.out.part(start..start + head_dim) };
            let (mut max, mut sum) = ([0.0; LANES], [0.0; LANES]);
            let mut total = Total {
                max: &mut max,
                sum: &mut sum,
                values: scratch.values().as_chunks_mut().0,
            };
            for segment in 0..segments {
                self.add(simd, segment, query, &mut total);
            }
            write_normalised(simd, total.values, total.sum[0], out);
        }
    }
}

impl<T> MergeRows<'_, T> {
    #[inline(always)]
    fn add<S: Simd>(&self, simd: S, segment: usize, query: usize, total: &mut Total<'_>) {
        let head_dim = self.work.heads.head_dim;
        let record = record_len(head_dim);
        let start = (self.work.plan.partial(self.rows, segment, self.head) + query) * record;
        // SAFETY: all tasks that write records have ended, and this merge alone reads this one.
        let record = unsafe { self.work.partials.part(start..start + record) };
        let (values, scalars) = record.split_at(head_dim);
        let segment_values = values.as_chunks().0;
        let reduced = Segment {
            max: &[scalars[0]; LANES],
            sum: &[scalars[1]; LANES],
            values: segment_values,
        };
        if segment == 0 {
            total.begin(&reduced);
        } else {
            total.merge(simd, &reduced, head_dim / LANES);
        }
    }
}
