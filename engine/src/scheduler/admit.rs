//! Which waiting sequences begin to run.

use std::cmp::Reverse;

use super::{Chunk, Plan, Scheduler, Sequence, SequenceId, insert_by_arrival, reserve};

/// Waiting sequences looked at per forward pass, so that a long queue costs nothing.
const CANDIDATES: usize = 64;

impl Scheduler {
    /// Fills the rest of the batch with waiting sequences.
    ///
    /// Those overtaken too often come first, in order of arrival; then the longest cached prefix. A sequence whose
    /// next blocks are being computed by a running one waits for them.
    pub(super) fn admit(&mut self, plan: &mut Plan) {
        if self.waiting.is_empty() || !self.has_room(plan) {
            return;
        }
        for id in self.candidates() {
            if !self.has_room(plan) {
                break;
            }
            let index = self
                .waiting
                .iter()
                .position(|sequence| sequence.id == id)
                .expect("candidates wait");
            let sequence = &self.waiting[index];
            if self.is_being_computed(sequence) {
                continue;
            }
            let fits = self.kv.fits(
                sequence.namespace,
                sequence.reusable(),
                sequence.blocks_needed(),
                reserve(self.running.len()),
            );
            if fits {
                self.start(index, plan);
            } else if sequence.overtaken >= self.limits.overtakes {
                // Nobody passes it any more: the blocks that become free are its own.
                break;
            }
        }
    }

    fn has_room(&self, plan: &Plan) -> bool {
        self.running.len() < self.limits.sequences && plan.rows() < self.limits.batch_tokens
    }

    fn candidates(&self) -> Vec<SequenceId> {
        let mut ranked: Vec<_> = self
            .waiting
            .iter()
            .take(CANDIDATES)
            .map(|sequence| {
                let urgent = sequence.overtaken >= self.limits.overtakes;
                let cached = if urgent {
                    usize::MAX
                } else {
                    self.kv.cached_rows(sequence.namespace, sequence.reusable())
                };
                (Reverse(cached), sequence.id)
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether a running sequence is about to compute full blocks that this one shares and the cache lacks.
    fn is_being_computed(&self, sequence: &Sequence) -> bool {
        if !self.kv.keeps() {
            return false;
        }
        let most = self
            .running
            .iter()
            .filter(|leader| leader.pending() > 1)
            .map(|leader| (sequence.shared_rows(leader), leader.computed))
            .filter(|(shared, computed)| shared > computed)
            .map(|(shared, _)| shared)
            .max();
        most.is_some_and(|shared| shared > self.kv.cached_rows(sequence.namespace, sequence.reusable()))
    }

    fn start(&mut self, index: usize, plan: &mut Plan) {
        let mut sequence = self.waiting.remove(index);
        for older in &mut self.waiting[..index] {
            older.overtaken += 1;
        }
        let acquired = self.kv.acquire(sequence.namespace, sequence.reusable());
        plan.copies.extend(acquired.copy);
        sequence.table = acquired.table;
        sequence.computed = acquired.rows;
        if sequence.cached_rows.is_none() {
            sequence.cached_rows = Some(acquired.rows.min(sequence.prompt_tokens));
            plan.admitted.push(sequence.id);
        }
        let rows = sequence.pending().min(self.limits.batch_tokens - plan.rows());
        let grown = self.kv.grow(&mut sequence.table, sequence.computed + rows);
        assert!(grown, "a sequence that fits gets its blocks");
        plan.chunks.push(Chunk {
            id: sequence.id,
            start: sequence.computed,
            rows,
            drafts: 0,
            samples: rows == sequence.pending(),
        });
        insert_by_arrival(&mut self.running, sequence);
    }
}
