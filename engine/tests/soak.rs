//! Ten thousand requests of every kind on a tiny model: memory stays flat and every request ends once.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod fixture;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use engine::{Engine, EngineConfig, Qwen2Shape};
use engine_contract::{
    Constraint, EngineError, Generation, GenerationRequest, LanguageModel, Prompt, Sampling,
};

use fixture::{KIB, dummy};

const REQUESTS: usize = 10_000;
const WARM_UP: usize = 2_000;

fn engine() -> Engine {
    let shape = Qwen2Shape {
        hidden: 64,
        intermediate: 64,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 16,
        vocabulary: fixture::VOCABULARY,
        context_tokens: 256,
        rope_base: 1e4,
        norm_epsilon: 1e-6,
        qk_norm: false,
    };
    let config = EngineConfig {
        // 64 bytes per token, 96 blocks.
        kv_bytes: 96 * KIB,
        max_sequences: 16,
        threads: Some(1),
        ..EngineConfig::default()
    };
    dummy(shape, config)
}

/// The n-th request: stems that come again, own tails, some constrained, some sampled.
fn request(number: usize) -> GenerationRequest {
    let stem = (0..(number * 13) % 90).map(|i| (i * 7 + number % 5) as u32 % 250);
    let prompt = stem
        .chain([(number % 250) as u32, (number / 250) as u32])
        .collect();
    let mut request = GenerationRequest::new(Prompt::Tokens(prompt), 1 + number % 9);
    request.namespace = (number % 3) as u64;
    if number.is_multiple_of(4) {
        request.sampling = Sampling::seeded(1.0, number as u64);
    }
    if number.is_multiple_of(7) {
        request.constraint = Constraint::Choices(vec!["yes".into(), "not at all".into()]);
        request.max_tokens = 12;
    }
    request
}

/// Bytes of this process in memory.
#[cfg(target_os = "linux")]
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages
        .split(' ')
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .ok()
        .map(|pages| pages * 4096)
}

#[cfg(not(target_os = "linux"))]
fn resident_bytes() -> Option<u64> {
    None
}

#[test]
fn ten_thousand_requests_leave_nothing_behind() {
    let engine = engine();
    let ended = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    let mut cancelled = 0;
    let mut before = None;
    for number in 0..REQUESTS {
        if number == WARM_UP {
            before = resident_bytes();
        }
        let (sender, ended) = (sender.clone(), Arc::clone(&ended));
        let sink = move |result: Result<Generation, EngineError>| {
            ended.fetch_add(1, Ordering::Relaxed);
            sender.send(result.map(|_| ())).unwrap();
        };
        let ticket = engine.submit(request(number), Box::new(sink)).unwrap();
        if number % 11 == 5 {
            drop(ticket);
        } else {
            ticket.detach();
        }
        // At most 32 at once.
        if number >= 32 {
            cancelled += count_cancelled(receiver.recv().unwrap());
        }
    }
    for _ in 0..32 {
        cancelled += count_cancelled(receiver.recv().unwrap());
    }
    assert_eq!(ended.load(Ordering::Relaxed), REQUESTS);
    assert!(
        cancelled > 0 && cancelled <= REQUESTS.div_ceil(11),
        "{cancelled} were cancelled"
    );
    let stats = engine.stats();
    assert_eq!(stats.requests, REQUESTS as u64);
    assert!(stats.evicted_blocks > 1000 && stats.hit_rate() > 0.1, "{stats:?}");
    if let Some((before, after)) = before.zip(resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(
            grown < 4096 * KIB,
            "{grown} bytes more after {} requests",
            REQUESTS - WARM_UP
        );
    }
}

fn count_cancelled(result: Result<(), EngineError>) -> usize {
    match result {
        Ok(()) => 0,
        Err(EngineError::Cancelled) => 1,
        Err(error) => panic!("{error}"),
    }
}
