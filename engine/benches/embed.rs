//! Embedding speed of all-MiniLM-L6-v2 in tokens per second.
//!
//! Measured: `BertEmbedder::embed` from text to unit vectors, tokenisation included, in 8 bits and in single precision,
//! with one thread and with one per core.
//! Corpus: 256 turns of dialogue of 6 to 60 words from a seeded generator; and one short query alone (latency).
//! Not measured: loading, reading files.
//! Run with: `cargo bench -p engine --bench embed` (needs `mneme models pull all-minilm-l6-v2`); on a busy machine with
//! `MNEME_BENCH_ON_CORE=1` and the filter `"/1 threads"`.

mod on_core;

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine::{BertEmbedder, Precision};
use engine_contract::{EmbedKind, Embedder};
use kernels::Cpu;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use weights::{ModelStore, Tokenizer};

const WORDS: &[&str] = &[
    "I",
    "you",
    "we",
    "she",
    "went",
    "to",
    "the",
    "museum",
    "yesterday",
    "painting",
    "support",
    "group",
    "and",
    "then",
    "really",
    "loved",
    "it",
    "because",
    "camping",
    "with",
    "kids",
    "was",
    "amazing",
    "last",
    "weekend",
    "June",
    "2023",
    "thinking",
    "about",
    "adoption",
    "agencies",
    "counselling",
    "certificate",
    "pottery",
    "?",
    "!",
    ",",
    "that's",
];

fn turns(count: usize) -> Vec<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    (0..count)
        .map(|_| {
            let length = random.random_range(6..60);
            let words: Vec<&str> = (0..length)
                .map(|_| *WORDS.choose(&mut random).unwrap_or(&"I"))
                .collect();
            words.join(" ")
        })
        .collect()
}

fn embed(criterion: &mut Criterion) {
    let files = ModelStore::from_env()
        .and_then(|store| store.locate("all-minilm-l6-v2"))
        .unwrap_or_else(|error| panic!("{error}"));
    let path = files
        .file("tokenizer.json")
        .unwrap_or_else(|error| panic!("{error}"));
    let tokenizer = Tokenizer::from_file(path).unwrap_or_else(|error| panic!("{error}"));
    let turns = turns(256);
    let texts: Vec<&str> = turns.iter().map(String::as_str).collect();
    let count = |text: &&str| {
        tokenizer
            .encode_with_template(text, 256)
            .map_or(0, |ids| ids.len() as u64)
    };
    let tokens: u64 = texts.iter().map(count).sum();
    let mut group = criterion.benchmark_group("embed");
    group.sample_size(10);
    for threads in [Some(1), None] {
        let cpu = Arc::new(Cpu::new(threads).unwrap_or_else(|error| panic!("{error}")));
        let name = format!("{} threads", cpu.threads());
        for precision in [Precision::Int8, Precision::F32] {
            let embedder = BertEmbedder::load(&files, Arc::clone(&cpu), precision);
            let embedder = embedder.unwrap_or_else(|error| panic!("{error}"));
            let run = |texts: &[&str]| embedder.embed(texts, EmbedKind::Passage);
            group.throughput(Throughput::Elements(tokens));
            group.bench_function(
                BenchmarkId::new(format!("{precision:?} 256 turns"), &name),
                |bencher| {
                    on_core::measure(bencher, || run(&texts));
                },
            );
            group.throughput(Throughput::Elements(1));
            group.bench_function(
                BenchmarkId::new(format!("{precision:?} one query"), &name),
                |bencher| {
                    on_core::measure(bencher, || {
                        run(&["When did Caroline go to the LGBTQ support group?"])
                    });
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, embed);
criterion_main!(benches);
