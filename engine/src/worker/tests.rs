//! The worker on a model whose KV rows are fingerprints: a row read from the wrong place changes the reply.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use engine_contract::{Constraint, Generation, GenerationRequest, GenerationSink, Prompt};
use kernels::KernelError;

use super::*;
use crate::constraint::GrammarCompiler;
use crate::kv::{BlockCopy, KvCache};
use crate::lookup::PromptLookup;
use crate::request::Prepared;
use crate::sampling::Sampler;
use crate::scheduler::Limits;
use crate::testing::{self, VOCABULARY};
use crate::text::TextStream;

/// A token whose forward pass panics.
const POISON: u32 = 255;

/// A row depends on the row before it and on its token.
#[derive(Default)]
struct FakeRunner {
    rows: HashMap<(u32, usize), u64>,
}

fn chain(before: u64, token: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (before, token).hash(&mut hasher);
    hasher.finish()
}

/// A lower-case letter, so that replies are text.
fn next_token(row: u64) -> u32 {
    u32::from(b'a') + (row % 26) as u32
}

impl Runner for FakeRunner {
    fn vocabulary(&self) -> usize {
        VOCABULARY
    }

    fn copy_block(&mut self, copy: BlockCopy) {
        for row in 0..copy.rows {
            let value = self.rows[&(copy.from, row)];
            self.rows.insert((copy.to, row), value);
        }
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut Vec<f32>) {
        logits.clear();
        let mut outputs = batch.outputs.iter().peekable();
        for sequence in &batch.sequences {
            for row in sequence.first_row..sequence.first_row + sequence.rows {
                let token = batch.tokens[row];
                let position = batch.positions[row] as usize;
                let before = position.checked_sub(1).map_or(0, |before| {
                    self.rows[&(sequence.blocks[before / BLOCK_TOKENS], before % BLOCK_TOKENS)]
                });
                let value = chain(before, token);
                let slot = batch.slots[row];
                self.rows.insert((slot.block, usize::from(slot.offset)), value);
                assert!(token != POISON, "the device caught fire");
                if outputs.next_if_eq(&&row).is_some() {
                    let first = logits.len();
                    logits.resize(first + VOCABULARY, 0.0);
                    logits[first + next_token(value) as usize] = 9.0;
                }
            }
        }
    }

    fn export_block(&self, block: u32) -> Vec<u8> {
        let row = |row| self.rows.get(&(block, row)).copied().unwrap_or(0).to_le_bytes();
        (0..BLOCK_TOKENS).flat_map(row).collect()
    }

    fn import_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), KernelError> {
        for (row, value) in bytes.as_chunks().0.iter().enumerate() {
            self.rows.insert((block, row), u64::from_le_bytes(*value));
        }
        Ok(())
    }
}

/// A worker thread with what its handle would hold.
struct Bench {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    tokenizer: Arc<weights::Tokenizer>,
    grammars: GrammarCompiler,
    next: std::cell::Cell<u64>,
}

impl Bench {
    fn new(limits: Limits, blocks: u32) -> Self {
        let cpu = Arc::new(Cpu::new(Some(1)).unwrap());
        let budget = u64::from(blocks) * 128;
        let shared = Arc::new(Shared::new(EngineStats {
            kv_bytes_budget: budget,
            ..EngineStats::default()
        }));
        let scheduler = Scheduler::new(limits, KvCache::new(blocks, true));
        let worker = Worker::new(FakeRunner::default(), cpu, scheduler, Arc::clone(&shared));
        let (sender, receiver) = channel();
        let tokenizer = Arc::new(testing::text().tokenizer);
        Self {
            sender,
            thread: Some(std::thread::spawn(move || worker.run(&receiver))),
            shared,
            grammars: GrammarCompiler::new(Arc::clone(&tokenizer)),
            tokenizer,
            next: std::cell::Cell::new(0),
        }
    }

    fn request(&self, request: &GenerationRequest, sink: Box<dyn GenerationSink>) -> Request {
        let Prompt::Tokens(prompt) = &request.prompt else {
            panic!("these tests send token ids")
        };
        self.next.set(self.next.get() + 1);
        let prepared = Prepared {
            id: self.next.get(),
            prompt: prompt.clone(),
            sampler: Sampler::new(&request.sampling)
                .unwrap()
                .with_logprobs(request.logprobs),
            matcher: self.grammars.matcher(&request.constraint).unwrap(),
            text: TextStream::new(&request.stop).unwrap(),
            lookup: PromptLookup::new(3),
            tokenizer: Arc::clone(&self.tokenizer),
        };
        assert!(self.shared.enter(1000));
        Request::new(prepared, request, sink)
    }

    fn send(&self, request: &GenerationRequest) -> Receiver<Result<Generation, EngineError>> {
        let (sender, receiver) = channel();
        let sink = Box::new(move |result| sender.send(result).unwrap());
        self.sender
            .send(Message::Submit(Box::new(self.request(request, sink))))
            .unwrap();
        receiver
    }

    fn run(&self, request: &GenerationRequest) -> Result<Generation, EngineError> {
        self.send(request).recv().unwrap()
    }

    fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.sender.send(Message::Stop).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

const LIMITS: Limits = Limits {
    batch_tokens: 48,
    sequences: 8,
    overtakes: 4,
    draft_rows: 4,
};

fn prompt(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

fn request(prompt: &[u32], max_tokens: usize) -> GenerationRequest {
    GenerationRequest::new(Prompt::Tokens(prompt.to_vec()), max_tokens)
}

/// What the fake model says, computed without blocks.
fn expected(prompt: &[u32], tokens: usize) -> Vec<u32> {
    let mut row = prompt.iter().fold(0, |row, &token| chain(row, token));
    (0..tokens)
        .map(|_| {
            let token = next_token(row);
            row = chain(row, token);
            token
        })
        .collect()
}

#[test]
fn a_reply_is_the_models_own_and_usage_adds_up() {
    let bench = Bench::new(LIMITS, 64);
    let prompt = prompt(0..100);
    let first = bench.run(&request(&prompt, 20)).unwrap();
    assert_eq!(first.tokens, expected(&prompt, 20));
    assert_eq!(first.finish, FinishReason::Length);
    assert_eq!(first.text.len(), 20);
    let usage = first.usage;
    assert_eq!(
        (usage.prompt_tokens, usage.cached_tokens, usage.computed_tokens),
        (100, Some(0), Some(100))
    );
    assert_eq!(usage.generated_tokens, 20);
    // The whole dialogue so far, and one more token: all rows but those of the last two tokens are there.
    let mut longer = prompt.clone();
    longer.extend(&first.tokens);
    longer.push(7);
    let second = bench.run(&request(&longer, 5)).unwrap();
    assert_eq!(second.tokens, expected(&longer, 5));
    assert_eq!(
        (second.usage.cached_tokens, second.usage.computed_tokens),
        (Some(119), Some(2))
    );
    assert_eq!(bench.waiting(), 0);
}

#[test]
fn many_at_once_with_too_little_memory_are_all_right() {
    let bench = Bench::new(LIMITS, 12);
    let prompts: Vec<Vec<u32>> = (0..30)
        .map(|index| {
            let mut tokens = prompt(0..(index * 7) % 60);
            tokens.extend([index % 5, 200, index]);
            tokens
        })
        .collect();
    let replies: Vec<_> = prompts
        .iter()
        .map(|prompt| bench.send(&request(prompt, 40)))
        .collect();
    for (prompt, reply) in prompts.iter().zip(replies) {
        assert_eq!(reply.recv().unwrap().unwrap().tokens, expected(prompt, 40));
    }
    let stats = bench.shared.stats().clone();
    assert_eq!(stats.requests, 30);
    assert!(stats.preemptions > 0 && stats.evicted_blocks > 0, "{stats:?}");
    assert!(stats.kv_bytes_used <= stats.kv_bytes_budget);
}

#[test]
fn a_panic_fails_its_batch_and_the_worker_lives_on() {
    let bench = Bench::new(LIMITS, 64);
    let good = prompt(0..40);
    let mut bad = good.clone();
    bad.push(POISON);
    let error = bench.run(&request(&bad, 5)).unwrap_err();
    assert_eq!(
        error,
        EngineError::Forward {
            reason: "the device caught fire".into()
        }
    );
    let reply = bench.run(&request(&good, 5)).unwrap();
    assert_eq!(reply.tokens, expected(&good, 5));
    assert_eq!(
        reply.usage.cached_tokens,
        Some(0),
        "nothing of the failed pass is kept"
    );
}

#[test]
fn cancelled_requests_free_their_blocks() {
    let bench = Bench::new(LIMITS, 1 << 16);
    let reply = bench.send(&request(&prompt(0..40), 100_000_000));
    while bench.shared.stats().kv_bytes_used == 0 {
        std::thread::yield_now();
    }
    bench.sender.send(Message::Cancel(1)).unwrap();
    assert_eq!(reply.recv().unwrap().unwrap_err(), EngineError::Cancelled);
    assert!(bench.run(&request(&prompt(100..140), 600)).is_ok());
}

#[test]
fn stopping_fails_what_still_runs() {
    let bench = Bench::new(
        Limits {
            sequences: 1,
            ..LIMITS
        },
        1 << 16,
    );
    let replies: Vec<_> = (0..4)
        .map(|_| bench.send(&request(&prompt(0..40), 1_000_000)))
        .collect();
    drop(bench);
    for reply in replies {
        assert_eq!(reply.recv().unwrap().unwrap_err(), EngineError::ShutDown);
    }
}

#[test]
fn constraints_force_tokens_without_sampling_them() {
    let bench = Bench::new(LIMITS, 64);
    let choices = ["yes, with pleasure", "no, thank you"].map(str::to_owned);
    let mut constrained = request(&prompt(0..40), 50);
    constrained.constraint = Constraint::Choices(choices.to_vec());
    let reply = bench.run(&constrained).unwrap();
    assert!(choices.contains(&reply.text), "{:?}", reply.text);
    assert_eq!(reply.finish, FinishReason::End);
    let passes: u64 = bench.shared.stats().batch_sizes.iter().sum();
    assert!(
        (passes as usize) < reply.tokens.len(),
        "{passes} passes for {} tokens",
        reply.tokens.len()
    );
    // With logprobs every token has logits of its own, and the text is the same.
    constrained.logprobs = Some(1);
    let explained = bench.run(&constrained).unwrap();
    assert_eq!(explained.text, reply.text);
    assert_eq!(explained.logprobs.unwrap().len(), explained.tokens.len());
}

#[test]
fn stop_texts_end_a_reply_and_are_cut() {
    let bench = Bench::new(LIMITS, 64);
    let whole = bench.run(&request(&prompt(0..9), 30)).unwrap().text;
    let mut stopping = request(&prompt(0..9), 30);
    stopping.stop = vec![whole[10..12].to_owned()];
    let reply = bench.run(&stopping).unwrap();
    assert_eq!(reply.finish, FinishReason::Stop);
    assert_eq!(Some(reply.text.as_str()), whole.split(&whole[10..12]).next());
}

#[test]
fn drafts_save_passes_and_change_no_token() {
    let bench = Bench::new(LIMITS, 256);
    // 26 letters: pairs come again soon, and what followed them then is right once in 26 times.
    let reply = bench.run(&request(&prompt(0..20), 3000)).unwrap();
    assert_eq!(reply.tokens, expected(&prompt(0..20), 3000));
    let stats = bench.shared.stats().clone();
    assert!(
        stats.accepted_tokens > 0 && stats.accepted_tokens < stats.drafted_tokens,
        "{stats:?}"
    );
    let passes: u64 = stats.batch_sizes.iter().sum();
    assert_eq!(passes, 3000 - stats.accepted_tokens);
}

struct PanickingSink;

impl GenerationSink for PanickingSink {
    fn on_text(&mut self, _delta: &str) {
        panic!("the receiver fell over");
    }

    fn on_done(self: Box<Self>, _result: Result<Generation, EngineError>) {
        panic!("and again");
    }
}

#[test]
fn a_panicking_receiver_harms_only_itself() {
    let bench = Bench::new(LIMITS, 64);
    let request_of = request(&prompt(0..20), 30);
    let good = bench.send(&request_of);
    let bad = bench.request(&request_of, Box::new(PanickingSink));
    bench.sender.send(Message::Submit(Box::new(bad))).unwrap();
    assert_eq!(good.recv().unwrap().unwrap().tokens, expected(&prompt(0..20), 30));
    assert!(bench.run(&request_of).is_ok());
}

#[test]
fn leases_pin_and_what_they_leave_no_room_for_is_refused() {
    let bench = Bench::new(LIMITS, 8);
    bench.run(&request(&prompt(0..64), 1)).unwrap();
    let (reply, rows) = channel();
    bench
        .sender
        .send(Message::Lease {
            id: 9,
            namespace: 0,
            tokens: prompt(0..64),
            reply,
        })
        .unwrap();
    assert_eq!(rows.recv().unwrap(), 64);
    bench.run(&request(&prompt(100..150), 1)).unwrap();
    let error = bench.run(&request(&prompt(100..200), 10)).unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::NeverFits {
                tokens: 110,
                budget_bytes: 512,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        bench
            .run(&request(&prompt(0..65), 1))
            .unwrap()
            .usage
            .cached_tokens,
        Some(64)
    );
    bench.sender.send(Message::EndLease(9)).unwrap();
    bench.run(&request(&prompt(100..200), 10)).unwrap();
}

#[test]
fn a_snapshot_warms_another_worker() {
    let (first, second) = (Bench::new(LIMITS, 64), Bench::new(LIMITS, 64));
    let prompt = prompt(0..100);
    first.run(&request(&prompt, 1)).unwrap();
    let (reply, saved) = channel();
    first.sender.send(Message::Export { blocks: 100, reply }).unwrap();
    let saved = saved.recv().unwrap();
    assert_eq!(saved.iter().map(|block| block.tokens.len()).sum::<usize>(), 100);
    let (reply, taken) = channel();
    second
        .sender
        .send(Message::Import { blocks: saved, reply })
        .unwrap();
    assert_eq!(taken.recv().unwrap(), 7);
    let reply = second.run(&request(&prompt, 20)).unwrap();
    assert_eq!(reply.tokens, expected(&prompt, 20));
    assert_eq!(reply.usage.cached_tokens, Some(99));
}
