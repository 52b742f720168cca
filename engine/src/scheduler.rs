//! Which rows go into the next forward pass.
//!
//! Plain data in, plain data out: continuous ragged batches, decoding sequences first, prompts in chunks under
//! a token budget, the longest cached prefix first. Does not know threads, clocks, models or texts.

mod admit;
mod sequence;
#[cfg(test)]
mod tests;

use kernels::BLOCK_TOKENS;

use crate::kv::{BlockCopy, KvCache};

pub(crate) use sequence::{Sequence, SequenceId};

/// Bounds of the scheduler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Rows of one forward pass.
    pub(crate) batch_tokens: usize,
    /// Sequences that run at once.
    pub(crate) sequences: usize,
    /// Later requests that may be admitted before a waiting one.
    pub(crate) overtakes: usize,
}

/// Consecutive rows of one sequence in a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) id: SequenceId,
    /// Position of the first row.
    pub(crate) start: usize,
    pub(crate) rows: usize,
    /// Whether the last row is the sequence's last token, whose logits are wanted.
    pub(crate) samples: bool,
}

/// One forward pass.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// To be done first, in this order.
    pub(crate) copies: Vec<BlockCopy>,
    pub(crate) chunks: Vec<Chunk>,
    /// Waiting sequences that run from now on, preempted ones excluded.
    pub(crate) admitted: Vec<SequenceId>,
    /// The oldest waiting sequence when nothing runs and yet it does not fit, because leases hold the blocks.
    pub(crate) stuck: Option<SequenceId>,
}

impl Plan {
    fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }
}

/// All live sequences and the blocks they own.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    kv: KvCache,
    /// In order of arrival.
    waiting: Vec<Sequence>,
    /// In order of arrival.
    running: Vec<Sequence>,
    preemptions: u64,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits, kv: KvCache) -> Self {
        Self {
            limits,
            kv,
            waiting: Vec::new(),
            running: Vec::new(),
            preemptions: 0,
        }
    }

    pub(crate) fn kv(&self) -> &KvCache {
        &self.kv
    }

    pub(crate) fn kv_mut(&mut self) -> &mut KvCache {
        &mut self.kv
    }

    /// Running sequences sent back to the queue since the start.
    pub(crate) fn preemptions(&self) -> u64 {
        self.preemptions
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Adds a sequence to the queue. Its prompt is not empty, and all its rows fit the empty cache.
    pub(crate) fn add(&mut self, sequence: Sequence) {
        insert_by_arrival(&mut self.waiting, sequence);
    }

    /// A running sequence.
    ///
    /// # Panics
    /// When `id` does not run: chunks name running sequences only.
    pub(crate) fn running(&self, id: SequenceId) -> &Sequence {
        &self.running[self.index(id)]
    }

    /// Chooses the rows of the next forward pass and reserves their blocks. While any sequence lives, two plans in a
    /// row are never both without chunks and without a stuck sequence.
    pub(crate) fn plan(&mut self) -> Plan {
        let mut plan = Plan::default();
        let preemptions = self.preemptions;
        for id in self.running_order() {
            let left = self.limits.batch_tokens - plan.rows();
            if left == 0 {
                break;
            }
            if self.running.iter().any(|sequence| sequence.id == id) {
                self.schedule(id, left, &mut plan);
            }
        }
        // Whoever was just sent back would otherwise come right in again and push the next one out.
        if self.preemptions == preemptions {
            self.admit(&mut plan);
            if self.running.is_empty() {
                plan.stuck = self.waiting.first().map(|sequence| sequence.id);
            }
        }
        plan
    }

    /// Notes that the rows of a chunk have been computed.
    pub(crate) fn commit(&mut self, chunk: &Chunk) {
        let index = self.index(chunk.id);
        let sequence = &mut self.running[index];
        let end = chunk.start + chunk.rows;
        sequence.computed = end;
        sequence.computed_rows += end.min(sequence.prompt_tokens).saturating_sub(chunk.start);
        self.kv.share(&mut sequence.table, &sequence.tokens, end);
    }

    /// Appends a generated token to a running sequence.
    pub(crate) fn append(&mut self, id: SequenceId, token: u32) {
        let index = self.index(id);
        self.running[index].tokens.push(token);
    }

    /// Ends a sequence, wherever it is; what has been computed stays for later prompts.
    pub(crate) fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        if let Some(index) = self.waiting.iter().position(|sequence| sequence.id == id) {
            return Some(self.waiting.remove(index));
        }
        let index = self.running.iter().position(|sequence| sequence.id == id)?;
        let mut sequence = self.running.remove(index);
        self.release(&mut sequence);
        Some(sequence)
    }

    /// Decoding sequences, then those whose prompts are still being computed, each in order of arrival.
    fn running_order(&self) -> Vec<SequenceId> {
        let (decoding, prefilling): (Vec<_>, Vec<_>) =
            self.running.iter().partition(|sequence| sequence.is_decoding());
        decoding
            .into_iter()
            .chain(prefilling)
            .map(|sequence| sequence.id)
            .collect()
    }

    /// Plans up to `left` rows of a running sequence, preempting the youngest while blocks are short.
    fn schedule(&mut self, id: SequenceId, left: usize, plan: &mut Plan) {
        loop {
            let index = self.index(id);
            let sequence = &mut self.running[index];
            let rows = sequence.pending().min(left);
            let start = sequence.computed;
            if self.kv.grow(&mut sequence.table, start + rows) {
                plan.chunks.push(Chunk {
                    id,
                    start,
                    rows,
                    samples: start + rows == sequence.tokens.len(),
                });
                return;
            }
            let youngest = self.running.last().expect("the sequence itself runs").id;
            self.preempt(youngest, plan);
            if youngest == id {
                return;
            }
        }
    }

    fn preempt(&mut self, id: SequenceId, plan: &mut Plan) {
        plan.chunks.retain(|chunk| chunk.id != id);
        let index = self.index(id);
        let mut sequence = self.running.remove(index);
        self.release(&mut sequence);
        sequence.computed = 0;
        sequence.preempted = true;
        self.preemptions += 1;
        insert_by_arrival(&mut self.waiting, sequence);
    }

    fn release(&mut self, sequence: &mut Sequence) {
        let table = std::mem::take(&mut sequence.table);
        self.kv.release(table, &sequence.tokens, sequence.computed);
    }

    fn index(&self, id: SequenceId) -> usize {
        self.running
            .iter()
            .position(|sequence| sequence.id == id)
            .expect("the sequence runs")
    }
}

fn insert_by_arrival(list: &mut Vec<Sequence>, sequence: Sequence) {
    let index = list.partition_point(|other| other.id < sequence.id);
    list.insert(index, sequence);
}

/// Blocks kept free for running sequences to grow into when another is admitted.
fn reserve(running: usize) -> usize {
    running
}

/// Whole blocks for `tokens` tokens.
pub(crate) fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS)
}
