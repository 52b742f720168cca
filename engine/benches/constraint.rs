//! Cost of constrained decoding and sampling over the vocabulary of Qwen2.5 (151,936 tokens).
//!
//! Measured: compiling a schema anew and from the cache; the mask at typical places of a reply; forced tokens;
//! greedy and random sampling with and without a mask.
//! Corpus: the schema of a judge's reply (two strings, an enumeration of ids, a boolean).
//! Not measured: the model.
//! Run with: `cargo bench -p engine --bench constraint` (needs `mneme models pull qwen2.5-coder-0.5b`).

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use engine::{GrammarCompiler, Matcher, Sampler, TokenMask};
use engine_contract::{Constraint, Sampling};
use kernels::Cpu;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use weights::{Gguf, ModelStore, Specials, Tokenizer};

fn tokenizer() -> Arc<Tokenizer> {
    let load = || {
        let files = ModelStore::from_env()?.locate("qwen2.5-coder-0.5b")?;
        Tokenizer::from_gguf(&Gguf::open(files.gguf()?)?)
    };
    Arc::new(load().unwrap_or_else(|error| panic!("{error}")))
}

fn schema(longest: usize) -> Constraint {
    Constraint::JsonSchema(json!({
        "type": "object",
        "properties": {
            "reason": { "type": "string", "maxLength": longest },
            "evidence": { "type": "array", "items": { "enum": ["D1:3", "D1:5", "D2:11", "D14:2"] }, "maxItems": 4 },
            "enough": { "type": "boolean" },
            "answer": { "type": "string", "maxLength": 200 }
        },
        "required": ["reason", "evidence", "enough", "answer"],
        "additionalProperties": false
    }))
}

fn start(compiler: &GrammarCompiler, constraint: &Constraint) -> Matcher {
    match compiler.matcher(constraint) {
        Ok(Some(matcher)) => matcher,
        other => panic!("no matcher: {other:?}"),
    }
}

fn at(compiler: &GrammarCompiler, tokenizer: &Tokenizer, prefix: &str) -> Matcher {
    let mut matcher = start(compiler, &schema(300));
    for token in tokenizer.encode(prefix, Specials::AsText).unwrap_or_default() {
        matcher.commit(token).unwrap_or_else(|error| panic!("{error}"));
    }
    matcher
}

fn grammars(criterion: &mut Criterion) {
    let tokenizer = tokenizer();
    let compiler = GrammarCompiler::new(Arc::clone(&tokenizer));
    let mut group = criterion.benchmark_group("constraint");
    group.sample_size(20);
    let mut length = 300;
    group.bench_function("compile a new schema", |bencher| {
        bencher.iter(|| {
            length += 1;
            start(&compiler, &schema(length))
        });
    });
    group.bench_function("matcher of a known schema", |bencher| {
        bencher.iter(|| start(&compiler, &schema(300)));
    });
    group.bench_function("forced tokens at the start", |bencher| {
        let fresh = || start(&compiler, &schema(300));
        bencher.iter_batched(fresh, |mut matcher| matcher.forced(), BatchSize::SmallInput);
    });
    for (place, prefix) in [
        ("inside a string", "{\"reason\":\"She went to the"),
        ("inside an enumeration", "{\"reason\":\"\",\"evidence\":[\"D1"),
        ("between members", "{\"reason\":\"a\",\"evidence\":["),
    ] {
        let mut matcher = at(&compiler, &tokenizer, prefix);
        group.bench_function(format!("commit, forced and mask {place}"), |bencher| {
            let word = tokenizer.encode(" and", Specials::AsText).unwrap_or_default();
            let fresh = || {
                let mut matcher = at(&compiler, &tokenizer, prefix);
                if place == "inside a string" {
                    word.iter()
                        .for_each(|&token| matcher.commit(token).unwrap_or_default());
                }
                matcher
            };
            bencher.iter_batched(
                fresh,
                |mut matcher| (matcher.forced(), matcher.mask().map(TokenMask::count)),
                BatchSize::SmallInput,
            );
        });
        black_box(matcher.mask().map(TokenMask::count).unwrap_or_default());
    }
    group.finish();
}

fn sampling(criterion: &mut Criterion) {
    let cpu = Cpu::new(Some(1)).unwrap_or_else(|error| panic!("{error}"));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    // A sum of uniform values is near enough to the bell shape of real logits.
    let logits: Vec<f32> = (0..151_936)
        .map(|_| (0..6).map(|_| random.random_range(-4.0f32..4.0)).sum())
        .collect();
    let few = TokenMask::from_ids(logits.len(), &[5, 70, 900, 151_000]);
    let most: Vec<u32> = (0..logits.len() as u32).filter(|id| id % 11 != 0).collect();
    let most = TokenMask::from_ids(logits.len(), &most);
    let top = Sampling {
        top_p: 0.95,
        ..Sampling::seeded(0.7, 1)
    };
    let narrow = Sampling {
        top_k: 40,
        min_p: 0.05,
        ..top.clone()
    };
    let mut group = criterion.benchmark_group("sample");
    for (name, sampling, mask) in [
        ("greedy", Sampling::greedy(), None),
        ("greedy, mask of 4", Sampling::greedy(), Some(&few)),
        ("greedy, mask of 138,123", Sampling::greedy(), Some(&most)),
        ("temperature", Sampling::seeded(0.7, 1), None),
        ("temperature, top-p", top, None),
        ("temperature, top-k, top-p, min-p", narrow, None),
    ] {
        let mut sampler = Sampler::new(&sampling).unwrap_or_else(|error| panic!("{error}"));
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || logits.clone(),
                |logits| sampler.sample(&cpu, logits, mask, &[]),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, grammars, sampling);
criterion_main!(benches);
