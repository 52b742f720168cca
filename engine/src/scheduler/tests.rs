//! The scheduler against a memory that remembers what every KV row was computed from.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use kernels::BLOCK_TOKENS;
use proptest::prelude::*;

use super::*;

const NEW_TOKENS: usize = 5;

/// KV memory whose rows are fingerprints of everything they depend on.
#[derive(Default)]
struct Memory {
    rows: HashMap<(u32, usize), u64>,
}

fn fingerprint(namespace: u64, prefix: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (namespace, prefix).hash(&mut hasher);
    hasher.finish()
}

impl Memory {
    fn copy(&mut self, plan: &Plan) {
        for copy in &plan.copies {
            for row in 0..copy.rows {
                let value = self.rows[&(copy.from, row)];
                self.rows.insert((copy.to, row), value);
            }
        }
    }

    /// Does what a forward pass does, and checks that every row it reads was computed from this prefix.
    fn forward(&mut self, scheduler: &Scheduler, plan: &Plan) {
        self.copy(plan);
        let mut written = HashMap::new();
        for chunk in &plan.chunks {
            let sequence = scheduler.running(chunk.id);
            let blocks = sequence.table.blocks();
            let tokens = [&sequence.tokens[..chunk.start], &sequence.rows_of(chunk)].concat();
            for position in 0..tokens.len() {
                let place = (blocks[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
                let expected = fingerprint(sequence.namespace, &tokens[..=position]);
                if position < chunk.start {
                    assert_eq!(
                        self.rows.get(&place),
                        Some(&expected),
                        "row {position} of {}",
                        chunk.id
                    );
                } else {
                    assert_eq!(
                        written.insert(place, chunk.id),
                        None,
                        "two sequences write block {}",
                        place.0
                    );
                    self.rows.insert(place, expected);
                }
            }
        }
        for (block, _) in written.keys() {
            let owners = plan.chunks.iter().filter(|chunk| {
                let table = scheduler.running(chunk.id).table.blocks();
                table.contains(block)
            });
            assert_eq!(
                owners.count(),
                1,
                "block {block} is written while another sequence reads it"
            );
        }
    }
}

/// The next `count` tokens of the fake model.
fn reply(tokens: &[u32], count: usize) -> Vec<u32> {
    let mut all = tokens.to_vec();
    for _ in 0..count {
        all.push((fingerprint(0, &all) % 3) as u32);
    }
    all.split_off(tokens.len())
}

/// Runs forward passes and gives each sampling sequence a token that depends on its prefix only.
struct Simulation {
    scheduler: Scheduler,
    memory: Memory,
    next: SequenceId,
    finished: Vec<Sequence>,
    passes: usize,
    drafting: bool,
    accepted: usize,
}

impl Simulation {
    fn new(limits: Limits, blocks: u32) -> Self {
        Self {
            scheduler: Scheduler::new(limits, KvCache::new(blocks, true)),
            memory: Memory::default(),
            next: 0,
            finished: Vec::new(),
            passes: 0,
            drafting: false,
            accepted: 0,
        }
    }

    fn add(&mut self, namespace: u64, prompt: &[u32]) -> SequenceId {
        let id = self.next;
        self.next += 1;
        self.scheduler.add(Sequence::new(id, namespace, prompt.to_vec()));
        id
    }

    fn tick(&mut self) -> Plan {
        let plan = self.scheduler.plan();
        assert_eq!(plan.stuck, None, "without leases every sequence fits");
        assert!(!plan.chunks.is_empty(), "live sequences make progress");
        assert!(plan.rows() <= self.scheduler.limits.batch_tokens);
        assert!(self.scheduler.running.len() <= self.scheduler.limits.sequences);
        self.memory.forward(&self.scheduler, &plan);
        self.passes += 1;
        for chunk in &plan.chunks {
            self.scheduler.commit(chunk);
            if chunk.samples {
                self.sample(chunk);
            }
        }
        plan
    }

    /// Appends what the fake model says, as far as the draft agrees with it and one token further.
    fn sample(&mut self, chunk: &Chunk) {
        let sequence = self.scheduler.running(chunk.id);
        let (draft, prompt) = (sequence.draft[..chunk.drafts].to_vec(), sequence.prompt_tokens);
        let reply = reply(&sequence.tokens, NEW_TOKENS + prompt - sequence.tokens.len());
        let accepted = draft
            .iter()
            .zip(&reply)
            .take_while(|(a, b)| a == b)
            .count()
            .min(reply.len() - 1);
        self.accepted += accepted;
        self.scheduler.extend(chunk.id, &reply[..=accepted], accepted);
        if accepted + 1 == reply.len() {
            self.finished.extend(self.scheduler.remove(chunk.id));
        } else if self.drafting {
            // One or two right guesses and a wrong one.
            let mut draft = reply[accepted + 1..].to_vec();
            draft.truncate(1 + draft.len() % 2);
            draft.push(77);
            self.scheduler.draft(chunk.id, draft);
        }
    }

    fn run(&mut self) {
        while !self.scheduler.is_idle() {
            self.tick();
            assert!(self.passes < 100_000, "the simulation does not end");
        }
    }
}

const WIDE: Limits = Limits {
    batch_tokens: 64,
    sequences: 8,
    overtakes: 4,
    draft_rows: 4,
};

fn numbers(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

#[test]
fn decoding_sequences_come_before_prompts() {
    let mut simulation = Simulation::new(WIDE, 64);
    let first = simulation.add(0, &numbers(0..10));
    simulation.tick();
    let second = simulation.add(0, &numbers(100..400));
    let plan = simulation.tick();
    let rows: Vec<_> = plan
        .chunks
        .iter()
        .map(|chunk| (chunk.id, chunk.rows, chunk.samples))
        .collect();
    assert_eq!(rows, [(first, 1, true), (second, 63, false)]);
}

#[test]
fn siblings_that_arrive_together_compute_their_stem_once() {
    let mut simulation = Simulation::new(WIDE, 256);
    let stem = numbers(0..160);
    for sibling in 0..8 {
        let mut prompt = stem.clone();
        prompt.extend([1000 + sibling, 1, 2]);
        simulation.add(0, &prompt);
    }
    simulation.run();
    let prompts: usize = simulation
        .finished
        .iter()
        .map(|sequence| sequence.computed_rows)
        .sum();
    assert_eq!(prompts, 160 + 8 * 3);
    assert_eq!(
        simulation
            .finished
            .iter()
            .filter(|sequence| sequence.cached_rows == Some(160))
            .count(),
        7
    );
}

#[test]
fn namespaces_share_nothing() {
    let mut simulation = Simulation::new(WIDE, 256);
    simulation.add(1, &numbers(0..40));
    simulation.add(2, &numbers(0..40));
    simulation.run();
    assert!(
        simulation
            .finished
            .iter()
            .all(|sequence| sequence.cached_rows == Some(0))
    );
}

#[test]
fn the_longest_cached_prefix_goes_first_but_starves_nobody() {
    let limits = Limits { sequences: 1, ..WIDE };
    let mut simulation = Simulation::new(limits, 256);
    simulation.add(0, &numbers(0..48));
    simulation.run();
    let unlucky = simulation.add(0, &numbers(500..520));
    let lucky: Vec<_> = (0..6).map(|_| simulation.add(0, &numbers(0..48))).collect();
    simulation.run();
    let order: Vec<_> = simulation
        .finished
        .iter()
        .skip(1)
        .map(|sequence| sequence.id)
        .collect();
    assert_eq!(order, [&lucky[..4], &[unlucky], &lucky[4..]].concat());
}

#[test]
fn the_youngest_is_preempted_and_resumes_from_the_cache() {
    let mut simulation = Simulation::new(WIDE, 4);
    simulation.add(0, &numbers(0..30));
    simulation.add(0, &numbers(100..115));
    simulation.run();
    assert!(simulation.scheduler.preemptions() > 0);
    assert_eq!(simulation.finished.len(), 2);
    assert_eq!(simulation.finished[0].id, 0, "the older one was not disturbed");
}

#[test]
fn drafts_save_passes_and_change_no_token() {
    let replies = [false, true].map(|drafting| {
        let mut simulation = Simulation::new(WIDE, 64);
        simulation.drafting = drafting;
        simulation.add(0, &numbers(0..30));
        simulation.run();
        (
            simulation.finished.remove(0).tokens,
            simulation.passes,
            simulation.accepted,
        )
    });
    let [(plain, passes, 0), (drafted, fewer, accepted)] = replies else {
        panic!("no drafts were asked for")
    };
    assert_eq!(plain, drafted);
    assert_eq!(fewer, passes - accepted);
    assert!(accepted > 0);
}

#[test]
fn many_decoding_sequences_leave_no_room_for_drafts() {
    let mut simulation = Simulation::new(WIDE, 64);
    simulation.drafting = true;
    for start in [0, 100, 200] {
        simulation.add(0, &numbers(start..start + 10));
    }
    simulation.run();
    assert_eq!(simulation.accepted, 0);
}

#[test]
fn a_failed_pass_leaves_nothing_behind() {
    let mut simulation = Simulation::new(WIDE, 16);
    let id = simulation.add(0, &numbers(0..40));
    let plan = simulation.scheduler.plan();
    assert_eq!(plan.chunks[0].id, id);
    simulation.scheduler.remove(id).unwrap();
    assert_eq!(simulation.scheduler.kv().occupied(), 0);
    assert!(simulation.scheduler.is_idle());
}

/// One thing that happens to the scheduler.
#[derive(Debug, Clone)]
enum Event {
    Add {
        namespace: u64,
        stem: u32,
        stem_len: usize,
        tail: Vec<u32>,
    },
    Tick,
    /// Ends the n-th live sequence, running or not.
    Cancel(usize),
    /// A forward pass that fails: its sequences go, nothing is committed.
    Fail,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (0..2u64, 0..3u32, 0..50usize, prop::collection::vec(0..3u32, 1..30))
            .prop_map(|(namespace, stem, stem_len, tail)| Event::Add { namespace, stem, stem_len, tail }),
        8 => Just(Event::Tick),
        1 => any::<prop::sample::Index>().prop_map(|index| Event::Cancel(index.index(8))),
        1 => Just(Event::Fail),
    ];
    prop::collection::vec(event, 1..60)
}

fn apply(simulation: &mut Simulation, event: &Event) {
    match event {
        Event::Add {
            namespace,
            stem,
            stem_len,
            tail,
        } => {
            let mut prompt: Vec<u32> = (0..*stem_len as u32).map(|i| i * 7 + stem).collect();
            prompt.extend(tail);
            simulation.add(*namespace, &prompt);
        }
        Event::Tick if simulation.scheduler.is_idle() => {}
        Event::Tick => {
            simulation.tick();
        }
        Event::Cancel(index) => {
            let scheduler = &mut simulation.scheduler;
            let id = scheduler
                .running
                .iter()
                .chain(&scheduler.waiting)
                .nth(*index)
                .map(|sequence| sequence.id);
            id.map(|id| scheduler.remove(id));
        }
        Event::Fail => {
            let plan = simulation.scheduler.plan();
            simulation.memory.copy(&plan);
            // The rows were half written: nothing of them may ever be read.
            for chunk in &plan.chunks {
                let sequence = simulation.scheduler.running(chunk.id);
                for position in chunk.start..chunk.start + chunk.rows + chunk.drafts {
                    let block = sequence.table.blocks()[position / BLOCK_TOKENS];
                    simulation.memory.rows.insert((block, position % BLOCK_TOKENS), 0);
                }
            }
            for chunk in &plan.chunks {
                simulation.scheduler.remove(chunk.id);
            }
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_reads_only_rows_computed_from_its_own_prefix(
        events in events(),
        batch_tokens in 4..40usize,
        blocks in 7..20u32,
        drafting in any::<bool>(),
    ) {
        // 50 + 30 prompt tokens and 5 new ones fit 6 blocks.
        let limits = Limits { batch_tokens, sequences: 4, overtakes: 3, draft_rows: 6 };
        let mut simulation = Simulation::new(limits, blocks);
        simulation.drafting = drafting;
        for event in &events {
            apply(&mut simulation, event);
        }
        simulation.run();
        for sequence in &simulation.finished {
            let cached = sequence.cached_rows.unwrap();
            prop_assert!(cached < sequence.prompt_tokens);
            if !sequence.preempted {
                prop_assert_eq!(cached + sequence.computed_rows, sequence.prompt_tokens);
            }
        }
        let kept = simulation.scheduler.kv().entries().len();
        prop_assert_eq!(simulation.scheduler.kv().occupied(), kept, "idle: only the tree owns blocks");
    }
}
