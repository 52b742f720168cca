use std::ops::Range;

use super::source::Source;
use super::{CHUNK, SEGMENT};

/// Queries of one task: enough to spread the cost of widening a chunk, few enough for their sums to stay in the
/// second-level cache.
const TASK_QUERIES: usize = 168;

/// Rows of a long run are cut in multiples of this, so that they fill whole panels.
const ROW_STEP: usize = 12;

/// Tasks per thread, so that dynamic claiming evens out their different lengths.
const TASKS_PER_THREAD: usize = 4;

/// Consecutive rows of one sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryRows {
    /// Index of the sequence in its source.
    pub(super) sequence: usize,
    /// Row of the batch.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    /// Positions the first row attends to: `0..limit`.
    pub(super) limit: usize,
    /// Positions that each further row attends to beyond those: 1 when causal, else 0.
    pub(super) step: usize,
}

impl QueryRows {
    pub(super) fn limit_of(&self, row: usize) -> usize {
        self.limit + self.step * row
    }

    /// Positions the last row attends to; 0 without rows.
    pub(super) fn last_limit(&self) -> usize {
        self.rows.checked_sub(1).map_or(0, |last| self.limit_of(last))
    }

    fn segments(&self) -> usize {
        self.last_limit().div_ceil(SEGMENT)
    }
}

/// What one thread does without a break: some rows, one KV head, some segments.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) head: usize,
    /// Range of [`Plan::rows`].
    pub(super) rows: Range<usize>,
    pub(super) segments: Range<usize>,
}

/// How an attention is cut into tasks.
#[derive(Debug)]
pub(super) struct Plan {
    rows: Vec<QueryRows>,
    tasks: Vec<Task>,
    /// Where the partial results of each of `rows` begin, for all heads; empty when every task covers all segments.
    first_partial: Vec<usize>,
    partials: usize,
    group: usize,
}

/// What a plan depends on beside the rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) group: usize,
    pub(super) kv_heads: usize,
    pub(super) threads: usize,
}

impl Plan {
    pub(super) fn new<T: Source>(source: &T, mut sequences: Vec<QueryRows>, shape: Shape) -> Plan {
        sequences.retain(|rows| rows.rows > 0);
        if sequences.len() > 1 {
            sequences.sort_by(|a, b| source.order(a.sequence, b.sequence));
        }
        let rows_per_task = (TASK_QUERIES / shape.group)
            .next_multiple_of(ROW_STEP)
            .max(ROW_STEP);
        let rows: Vec<_> = sequences
            .iter()
            .flat_map(|rows| cut(*rows, rows_per_task))
            .collect();
        let groups = group_rows(source, &rows, shape.group);
        let mut plan = Plan {
            rows,
            tasks: Vec::new(),
            first_partial: Vec::new(),
            partials: 0,
            group: shape.group,
        };
        let wanted = TASKS_PER_THREAD * shape.threads;
        let whole = groups.len() * shape.kv_heads;
        let longest = plan.rows.iter().map(QueryRows::segments).max().unwrap_or(0);
        let split = shape.threads > 1 && whole < wanted && longest > 1;
        let spans = if split { wanted.div_ceil(whole) } else { 1 };
        for group in groups {
            plan.add_tasks(&group, spans, shape.kv_heads);
        }
        if split {
            plan.place_partials(shape.kv_heads);
        }
        let costs = |task: &Task| {
            std::cmp::Reverse(
                plan.rows[task.rows.clone()]
                    .iter()
                    .map(|r| r.rows * r.limit)
                    .sum::<usize>(),
            )
        };
        plan.tasks.sort_by_cached_key(costs);
        plan
    }

    /// The rows, in the order in which tasks refer to them.
    pub(super) fn rows(&self) -> &[QueryRows] {
        &self.rows
    }

    /// Longest first.
    pub(super) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Whether a task has one row of the batch: a step of decoding.
    pub(super) fn is_single_row(&self, task: &Task) -> bool {
        matches!(&self.rows[task.rows.clone()], [QueryRows { rows: 1, .. }])
    }

    /// How many partial results there are; 0 when every task finishes its rows.
    pub(super) fn partials(&self) -> usize {
        self.partials
    }

    /// Index of the partial results of `rows` in one segment and head: one for each query.
    pub(super) fn partial(&self, rows: usize, segment: usize, head: usize) -> usize {
        let block = &self.rows[rows];
        let queries = block.rows * self.group;
        self.first_partial[rows] + (head * block.segments() + segment) * queries
    }

    fn add_tasks(&mut self, group: &Range<usize>, spans: usize, kv_heads: usize) {
        let segments = self.rows[group.clone()]
            .iter()
            .map(QueryRows::segments)
            .max()
            .unwrap_or(0);
        let span = segments.div_ceil(spans).max(1);
        for head in 0..kv_heads {
            for first in (0..segments).step_by(span) {
                let segments = first..segments.min(first + span);
                self.tasks.push(Task {
                    head,
                    rows: group.clone(),
                    segments,
                });
            }
        }
    }

    fn place_partials(&mut self, kv_heads: usize) {
        for rows in &self.rows {
            self.first_partial.push(self.partials);
            self.partials += rows.rows * self.group * rows.segments() * kv_heads;
        }
    }
}

/// Runs of at most `limit` rows.
fn cut(rows: QueryRows, limit: usize) -> impl Iterator<Item = QueryRows> {
    (0..rows.rows).step_by(limit).map(move |first| QueryRows {
        first_row: rows.first_row + first,
        rows: limit.min(rows.rows - first),
        limit: rows.limit_of(first),
        ..rows
    })
}

/// Puts neighbours that share their first chunk into one group, as long as it stays small.
fn group_rows<T: Source>(source: &T, rows: &[QueryRows], group: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut queries = 0;
    for (index, block) in rows.iter().enumerate() {
        let own = block.rows * group;
        let joins = index > 0
            && queries + own <= TASK_QUERIES
            && block.limit > CHUNK
            && source.same_chunk(rows[index - 1].sequence, block.sequence, 0);
        match groups.last_mut() {
            Some(last) if joins => {
                last.end = index + 1;
                queries += own;
            }
            _ => {
                groups.push(index..index + 1);
                queries = own;
            }
        }
    }
    groups
}
