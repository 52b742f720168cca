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
    /// Decoding rows, drafts included, beyond which no drafts are added: a pass of few rows is bound by reading the
    /// weights, so that more rows cost little.
    pub(crate) draft_rows: usize,
}

/// Consecutive rows of one sequence in a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) id: SequenceId,
    /// Position of the first row.
    pub(crate) start: usize,
    pub(crate) rows: usize,
    /// Rows of the sequence's draft that follow.
    pub(crate) drafts: usize,
    /// Whether the last of `rows` is the sequence's last token. Its logits are wanted, and those of the drafts.
    pub(crate) samples: bool,
}

impl Chunk {
    /// Rows with logits: the last one and the drafts.
    pub(crate) fn outputs(&self) -> usize {
        if self.samples { 1 + self.drafts } else { 0 }
    }
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
        self.chunks.iter().map(|chunk| chunk.rows + chunk.drafts).sum()
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
        let drafts = self.drafts_each();
        for id in self.running_order() {
            let left = self.limits.batch_tokens - plan.rows();
            if left == 0 {
                break;
            }
            if self.running.iter().any(|sequence| sequence.id == id) {
                self.schedule(id, (left, drafts), &mut plan);
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

    /// Appends generated tokens to a running sequence. The first `accepted` of them are those of its draft, whose
    /// rows the last pass has computed already.
    pub(crate) fn extend(&mut self, id: SequenceId, tokens: &[u32], accepted: usize) {
        let index = self.index(id);
        let sequence = &mut self.running[index];
        debug_assert!(sequence.draft.starts_with(&tokens[..accepted]));
        sequence.tokens.extend_from_slice(tokens);
        sequence.computed += accepted;
        sequence.draft.clear();
        self.kv
            .share(&mut sequence.table, &sequence.tokens, sequence.computed);
    }

    /// Proposes how a running sequence goes on after its last token.
    pub(crate) fn draft(&mut self, id: SequenceId, draft: Vec<u32>) {
        let index = self.index(id);
        self.running[index].draft = draft;
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

    /// Draft rows that each decoding sequence may have in the next pass.
    fn drafts_each(&self) -> usize {
        let decoding = self
            .running
            .iter()
            .filter(|sequence| sequence.is_decoding())
            .count();
        self.limits
            .draft_rows
            .checked_div(decoding)
            .map_or(0, |rows| rows.saturating_sub(1))
    }

    /// Plans up to `left` rows of a running sequence and up to `drafts` of its draft, preempting the youngest while
    /// blocks are short.
    fn schedule(&mut self, id: SequenceId, (left, drafts): (usize, usize), plan: &mut Plan) {
        let sequence = self.running(id);
        let (start, rows) = (sequence.computed, sequence.pending().min(left));
        let samples = rows == sequence.pending();
        let mut drafts = if samples {
            sequence.draft.len().min(drafts).min(left - rows)
        } else {
            0
        };
        loop {
            let index = self.index(id);
            if self
                .kv
                .grow(&mut self.running[index].table, start + rows + drafts)
            {
                plan.chunks.push(Chunk {
                    id,
                    start,
                    rows,
                    drafts,
                    samples,
                });
                return;
            }
            if drafts > 0 {
                drafts = 0;
                continue;
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
        sequence.draft.clear();
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
