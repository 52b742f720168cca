//! The conformance checks on a tiny model with random weights. `tests/real_model.rs` runs them on a real one.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod fixture;

use engine::{EngineConfig, Qwen2Shape};
use engine_contract::conformance::{self, Options};
use kernels::KvDtype;

use fixture::{KIB, dummy};

/// Heads of 32 and 2 layers: 512 bytes of KV per token at 16 bit.
fn shape() -> Qwen2Shape {
    Qwen2Shape {
        hidden: 128,
        intermediate: 192,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        vocabulary: fixture::VOCABULARY,
        context_tokens: 1024,
        rope_base: 1e4,
        norm_epsilon: 1e-6,
        qk_norm: false,
    }
}

#[test]
fn a_roomy_engine_conforms() {
    let engine = dummy(
        shape(),
        EngineConfig {
            kv_bytes: 2048 * KIB,
            ..EngineConfig::default()
        },
    );
    conformance::run(&engine, Options::default()).assert_passed();
}

#[test]
fn an_engine_that_must_preempt_and_evict_all_the_time_conforms() {
    let config = EngineConfig {
        // 30 blocks.
        kv_bytes: 240 * KIB,
        max_batch_tokens: 24,
        max_sequences: 4,
        threads: Some(2),
        ..EngineConfig::default()
    };
    conformance::run(&dummy(shape(), config), Options::default()).assert_passed();
}

#[test]
fn single_precision_keys_and_values_conform() {
    let config = EngineConfig {
        kv_dtype: KvDtype::F32,
        kv_bytes: 4096 * KIB,
        ..EngineConfig::default()
    };
    conformance::run(&dummy(shape(), config), Options::default()).assert_passed();
}

#[test]
fn a_snapshot_gives_the_bits_of_the_first_process() {
    use engine_contract::{GenerationRequest, LanguageModel, Prompt};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prefixes.kv");
    let config = || EngineConfig {
        kv_bytes: 2048 * KIB,
        ..EngineConfig::default()
    };
    let request = GenerationRequest {
        logprobs: Some(1),
        ..GenerationRequest::new(
            Prompt::Text("How often did the two of them meet in June?".repeat(4)),
            20,
        )
    };
    let first = dummy(shape(), config());
    let expected = first.generate(request.clone()).unwrap();
    assert!(first.save_prefixes(&path, u64::MAX).unwrap() >= expected.usage.prompt_tokens);

    let second = dummy(shape(), config());
    assert!(second.load_prefixes(&path) > 0);
    let reply = second.generate(request.clone()).unwrap();
    assert_eq!(reply.usage.cached_tokens, Some(expected.usage.prompt_tokens - 1));
    assert_eq!(
        (reply.tokens, reply.logprobs),
        (expected.tokens, expected.logprobs)
    );

    let other = dummy(
        Qwen2Shape {
            rope_base: 2e4,
            ..shape()
        },
        config(),
    );
    assert_eq!(
        other.load_prefixes(&path),
        0,
        "another model's prefixes are of no use"
    );
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(second.load_prefixes(&path), 0);
}
