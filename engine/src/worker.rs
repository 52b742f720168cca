//! The thread that owns a model: takes requests in, runs forward passes, hands replies out.
//!
//! Knows requests, the scheduler and a runner; does not know prompts, files or which model it runs.

mod snapshot;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_contract::{EngineError, EngineStats, FinishReason};
use kernels::{BLOCK_TOKENS, Cpu};

use crate::kv::Table;
use crate::qwen2::{Batch, BatchSequence};
use crate::request::{Request, Step};
use crate::runner::Runner;
use crate::scheduler::{Chunk, Plan, Scheduler, Sequence, SequenceId};

pub(crate) use snapshot::{SavedBlock, SavedParent};

/// What the engine's handle asks of the worker.
pub(crate) enum Message {
    Submit(Box<Request>),
    Cancel(SequenceId),
    /// Keeps the full blocks cached of a prompt; the reply is their number of rows.
    Lease {
        id: u64,
        namespace: u64,
        tokens: Vec<u32>,
        reply: Sender<usize>,
    },
    EndLease(u64),
    /// Kept blocks, the most recently used ones, at most this many.
    Export {
        blocks: usize,
        reply: Sender<Vec<SavedBlock>>,
    },
    /// Adds blocks from a snapshot; the reply is the number taken.
    Import {
        blocks: Vec<SavedBlock>,
        reply: Sender<usize>,
    },
    Stop,
}

/// What the handle and the worker both see.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Requests submitted but not yet admitted.
    waiting: AtomicUsize,
    stats: Mutex<EngineStats>,
}

impl Shared {
    pub(crate) fn new(stats: EngineStats) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            stats: Mutex::new(stats),
        }
    }

    /// Takes a place in the queue, if fewer than `capacity` are taken.
    pub(crate) fn enter(&self, capacity: usize) -> bool {
        let enter = |waiting| (waiting < capacity).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    fn note_drafts(&self, drafted: usize, accepted: usize) {
        if drafted > 0 {
            let mut stats = self.stats();
            stats.drafted_tokens += drafted as u64;
            stats.accepted_tokens += accepted as u64;
        }
    }

    fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, EngineStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of the worker thread.
pub(crate) struct Worker<R> {
    runner: R,
    cpu: Arc<Cpu>,
    scheduler: Scheduler,
    requests: HashMap<SequenceId, Request>,
    leases: HashMap<u64, Table>,
    shared: Arc<Shared>,
    logits: Vec<f32>,
}

impl<R: Runner> Worker<R> {
    pub(crate) fn new(runner: R, cpu: Arc<Cpu>, scheduler: Scheduler, shared: Arc<Shared>) -> Self {
        Self {
            runner,
            cpu,
            scheduler,
            requests: HashMap::new(),
            leases: HashMap::new(),
            shared,
            logits: Vec::new(),
        }
    }

    /// Serves until told to stop or until every handle is gone.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        'serve: loop {
            if self.scheduler.is_idle() {
                match messages.recv() {
                    Ok(Message::Stop) | Err(_) => break,
                    Ok(message) => self.handle(message),
                }
            }
            while let Ok(message) = messages.try_recv() {
                if matches!(message, Message::Stop) {
                    break 'serve;
                }
                self.handle(message);
            }
            if !self.scheduler.is_idle() {
                self.tick();
            }
        }
        let ids: Vec<SequenceId> = self.requests.keys().copied().collect();
        for id in ids {
            self.fail(id, EngineError::ShutDown);
        }
        while let Ok(message) = messages.try_recv() {
            if let Message::Submit(request) = message {
                request.refuse(EngineError::ShutDown);
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Submit(request) => self.accept(*request),
            Message::Cancel(id) => self.fail(id, EngineError::Cancelled),
            Message::Lease {
                id,
                namespace,
                tokens,
                reply,
            } => {
                let rows = self.lease(id, namespace, &tokens);
                // A caller that has gone away drops its lease itself.
                let _ = reply.send(rows);
            }
            Message::EndLease(id) => {
                if let Some(lease) = self.leases.remove(&id) {
                    self.scheduler.kv_mut().end_lease(&lease);
                }
            }
            Message::Export { blocks, reply } => {
                let _ = reply.send(self.export(blocks));
            }
            Message::Import { blocks, reply } => {
                let _ = reply.send(self.import(&blocks));
            }
            Message::Stop => {}
        }
    }

    fn accept(&mut self, mut request: Request) {
        let id = request.id;
        let mut sequence = Sequence::new(id, request.namespace, request.prompt.clone());
        match guarded(|| request.begin()) {
            Ok(Step {
                tokens, finish: None, ..
            }) => {
                sequence.tokens.extend(tokens);
                self.scheduler.add(sequence);
                self.requests.insert(id, request);
            }
            Ok(Step {
                finish: Some(reason), ..
            }) => {
                self.shared.leave();
                self.close(request, &sequence, Ok(reason));
            }
            Err(error) => {
                self.shared.leave();
                self.close(request, &sequence, Err(error));
            }
        }
    }

    /// Leases hold at most half of all blocks, so that requests always find room.
    fn lease(&mut self, id: u64, namespace: u64, tokens: &[u32]) -> usize {
        let held: usize = self.leases.values().map(|lease| lease.blocks().len()).sum();
        let kv = self.scheduler.kv_mut();
        let room = (kv.capacity() / 2).saturating_sub(held) * BLOCK_TOKENS;
        let lease = kv.lease(namespace, &tokens[..tokens.len().min(room)]);
        let rows = lease.blocks().len() * BLOCK_TOKENS;
        self.leases.insert(id, lease);
        rows
    }

    /// One forward pass.
    fn tick(&mut self) {
        let plan = self.scheduler.plan();
        if let Some(id) = plan.stuck {
            self.fail(id, self.never_fits(id));
        }
        if plan.chunks.is_empty() {
            return;
        }
        for _ in &plan.admitted {
            self.shared.leave();
        }
        for copy in &plan.copies {
            self.runner.copy_block(*copy);
        }
        for chunk in &plan.chunks {
            if let Some(request) = self.requests.get_mut(&chunk.id) {
                request.start();
            }
        }
        let outcome = self.forward(&plan);
        self.note_pass(plan.chunks.len());
        match outcome {
            Ok(()) => self.deliver(&plan.chunks),
            Err(error) => {
                tracing::error!(%error, sequences = plan.chunks.len(), "a forward pass failed");
                for chunk in &plan.chunks {
                    self.fail(chunk.id, error.clone());
                }
            }
        }
    }

    fn forward(&mut self, plan: &Plan) -> Result<(), EngineError> {
        let of = |chunk: &Chunk| self.scheduler.running(chunk.id);
        let rows: Vec<_> = plan.chunks.iter().map(|chunk| of(chunk).rows_of(chunk)).collect();
        let sequences: Vec<_> = plan
            .chunks
            .iter()
            .zip(&rows)
            .map(|(chunk, rows)| BatchSequence {
                tokens: rows,
                start: chunk.start,
                blocks: of(chunk).table.blocks(),
                outputs: chunk.outputs(),
            })
            .collect();
        let batch = Batch::new(&sequences);
        let (runner, logits) = (&mut self.runner, &mut self.logits);
        // What a panic leaves half-written is overwritten by the next pass or belongs to the failed sequences.
        catch_unwind(AssertUnwindSafe(|| runner.forward(&batch, logits))).map_err(|panic| {
            EngineError::Forward {
                reason: message_of(&*panic),
            }
        })
    }

    /// Samples where a sequence has come to its last token.
    fn deliver(&mut self, chunks: &[Chunk]) {
        let vocabulary = self.runner.vocabulary();
        let mut logits = std::mem::take(&mut self.logits);
        let mut rest = logits.as_mut_slice();
        for chunk in chunks {
            self.scheduler.commit(chunk);
            let (rows, others) = std::mem::take(&mut rest).split_at_mut(chunk.outputs() * vocabulary);
            rest = others;
            if chunk.samples {
                self.sample(chunk, rows);
            }
        }
        self.logits = logits;
    }

    fn sample(&mut self, chunk: &Chunk, logits: &mut [f32]) {
        let id = chunk.id;
        let request = self
            .requests
            .get_mut(&id)
            .expect("a running sequence has its request");
        let draft = &self.scheduler.running(id).draft[..chunk.drafts];
        match guarded(|| request.advance(&self.cpu, logits, draft)) {
            Ok(step) => {
                self.shared.note_drafts(chunk.drafts, step.accepted);
                self.scheduler.extend(id, &step.tokens, step.accepted);
                if let Some(reason) = step.finish {
                    return self.end(id, Ok(reason));
                }
                let draft = request.draft(&self.scheduler.running(id).tokens);
                self.scheduler.draft(id, draft);
            }
            Err(error) => self.fail(id, error),
        }
    }

    fn never_fits(&self, id: SequenceId) -> EngineError {
        let kv = self.scheduler.kv();
        let budget = self.shared.stats().kv_bytes_budget;
        let block_bytes = budget / kv.capacity() as u64;
        let leased: usize = self.leases.values().map(|lease| lease.blocks().len()).sum();
        let tokens = self.requests.get(&id).map_or(0, Request::max_rows);
        EngineError::NeverFits {
            tokens,
            bytes_per_token: block_bytes as usize / BLOCK_TOKENS,
            needed_bytes: tokens.div_ceil(BLOCK_TOKENS) as u64 * block_bytes,
            budget_bytes: budget - leased as u64 * block_bytes,
        }
    }

    fn fail(&mut self, id: SequenceId, error: EngineError) {
        self.end(id, Err(error));
    }

    /// Ends a request; one that has ended already is left alone.
    fn end(&mut self, id: SequenceId, outcome: Result<FinishReason, EngineError>) {
        let Some(sequence) = self.scheduler.remove(id) else {
            return;
        };
        if sequence.cached_rows.is_none() {
            self.shared.leave();
        }
        if let Some(request) = self.requests.remove(&id) {
            self.close(request, &sequence, outcome);
        }
    }

    /// Counts a request, then tells its sink.
    fn close(&self, request: Request, sequence: &Sequence, outcome: Result<FinishReason, EngineError>) {
        let usage = request.usage(sequence);
        let mut stats = self.shared.stats();
        stats.requests += 1;
        stats.prompt_tokens += usage.prompt_tokens as u64;
        stats.cached_tokens += usage.cached_tokens.unwrap_or(0) as u64;
        stats.computed_tokens += usage.computed_tokens.unwrap_or(0) as u64;
        stats.generated_tokens += usage.generated_tokens as u64;
        self.note_memory(&mut stats);
        drop(stats);
        let told = catch_unwind(AssertUnwindSafe(|| request.end(outcome, usage)));
        if let Err(panic) = told {
            tracing::error!(reason = message_of(&*panic), "a reply's receiver panicked");
        }
    }

    fn note_pass(&self, sequences: usize) {
        let mut stats = self.shared.stats();
        if stats.batch_sizes.len() <= sequences {
            stats.batch_sizes.resize(sequences + 1, 0);
        }
        stats.batch_sizes[sequences] += 1;
        self.note_memory(&mut stats);
    }

    fn note_memory(&self, stats: &mut EngineStats) {
        let kv = self.scheduler.kv();
        stats.evicted_blocks = kv.evicted();
        stats.preemptions = self.scheduler.preemptions();
        stats.kv_bytes_used = stats.kv_bytes_budget / kv.capacity() as u64 * kv.occupied() as u64;
    }
}

/// Runs one request's own code; its panic is that request's failure only.
fn guarded<T>(step: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        Err(EngineError::Backend {
            backend: "engine".into(),
            reason: format!("the request's own step panicked: {}", message_of(&*panic)),
        })
    })
}

/// The text of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
        .to_owned()
}
