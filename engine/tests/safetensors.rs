//! Qwen2 and Qwen3 models in Hugging Face folders of BF16 safetensors, against the single-precision reference.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod reference;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use engine::{Engine, EngineConfig, Precision, load_embedder};
use engine_contract::{EmbedKind, GenerationRequest, LanguageModel, Prompt};
use kernels::Cpu;
use reference::{Constants, Reference};
use weights::ModelStore;

const VOCABULARY: usize = 263;

/// What is written.
#[derive(Clone, Copy)]
struct Model {
    /// Qwen3 instead of Qwen2.
    third: bool,
    /// Without an output matrix of its own.
    tied: bool,
    /// What tensor names begin with.
    prefix: &'static str,
}

fn config(model: Model) -> String {
    let Model { third, tied, .. } = model;
    let family = if third { "qwen3" } else { "qwen2" };
    format!(
        r#"{{"model_type": "{family}", "head_dim": 32, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": {VOCABULARY},
            "max_position_embeddings": 512, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": {tied}}}"#
    )
}

/// Uniform values that BF16 holds exactly, from a linear congruential generator.
fn random(state: &mut u64, dims: &[usize], around: f32) -> Tensor {
    let values: Vec<f32> = (0..dims.iter().product())
        .map(|_| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            around + ((*state >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 0.25
        })
        .collect();
    let exact = Tensor::from_vec(values, dims, &Device::Cpu).unwrap();
    exact.to_dtype(DType::BF16).unwrap()
}

/// Name in GGUF, name in the folder, shape.
fn layout(model: Model) -> Vec<(String, String, Vec<usize>)> {
    let mut list = vec![
        (
            "token_embd.weight".to_owned(),
            format!("{}embed_tokens.weight", model.prefix),
            vec![VOCABULARY, 128],
        ),
        (
            "output_norm.weight".to_owned(),
            format!("{}norm.weight", model.prefix),
            vec![128],
        ),
    ];
    if !model.tied {
        list.push((
            "output.weight".into(),
            "lm_head.weight".into(),
            vec![VOCABULARY, 128],
        ));
    }
    for layer in 0..2 {
        let mut parts: Vec<(&str, &str, &[usize])> = vec![
            ("attn_norm.weight", "input_layernorm.weight", &[128]),
            ("attn_q.weight", "self_attn.q_proj.weight", &[128, 128]),
            ("attn_k.weight", "self_attn.k_proj.weight", &[64, 128]),
            ("attn_v.weight", "self_attn.v_proj.weight", &[64, 128]),
            ("attn_output.weight", "self_attn.o_proj.weight", &[128, 128]),
            ("ffn_norm.weight", "post_attention_layernorm.weight", &[128]),
            ("ffn_gate.weight", "mlp.gate_proj.weight", &[192, 128]),
            ("ffn_up.weight", "mlp.up_proj.weight", &[192, 128]),
            ("ffn_down.weight", "mlp.down_proj.weight", &[128, 192]),
        ];
        if model.third {
            parts.push(("attn_q_norm.weight", "self_attn.q_norm.weight", &[32]));
            parts.push(("attn_k_norm.weight", "self_attn.k_norm.weight", &[32]));
        } else {
            parts.push(("attn_q.bias", "self_attn.q_proj.bias", &[128]));
            parts.push(("attn_k.bias", "self_attn.k_proj.bias", &[64]));
            parts.push(("attn_v.bias", "self_attn.v_proj.bias", &[64]));
        }
        list.extend(parts.into_iter().map(|(gguf, folder, shape)| {
            (
                format!("blk.{layer}.{gguf}"),
                format!("{}layers.{layer}.{folder}", model.prefix),
                shape.to_vec(),
            )
        }));
    }
    list
}

/// Writes the folder and returns the same weights for the reference.
fn write(folder: &Path, model: Model) -> Reference {
    let mut state = 5;
    let (mut first, mut second, mut reference) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (index, (gguf, name, dims)) in layout(model).into_iter().enumerate() {
        let around = if name.contains("norm") { 1.0 } else { 0.0 };
        let tensor = random(&mut state, &dims, around);
        reference.insert(gguf, tensor.to_dtype(DType::F32).unwrap());
        // Two files, as large models come.
        if index % 2 == 0 { &mut first } else { &mut second }.insert(name, tensor);
    }
    candle_core::safetensors::save(&first, folder.join("model-00001-of-00002.safetensors")).unwrap();
    candle_core::safetensors::save(&second, folder.join("model-00002-of-00002.safetensors")).unwrap();
    std::fs::write(folder.join("config.json"), config(model)).unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/bytes")
            .join(file);
        std::fs::copy(source, folder.join(file)).unwrap();
    }
    let constants = Constants {
        layers: 2,
        heads: 4,
        kv_heads: 2,
        rope_base: 1e4,
        epsilon: 1e-6,
    };
    Reference {
        tensors: reference,
        constants,
    }
}

/// Log-probabilities of the token after the prompt.
fn expected(reference: &Reference, prompt: &[u32]) -> Vec<f64> {
    let logits = reference
        .logits(prompt)
        .unwrap()
        .to_vec2::<f32>()
        .unwrap()
        .pop()
        .unwrap();
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    logits.iter().map(|&logit| f64::from(logit) - sum.ln()).collect()
}

#[test]
fn a_folder_of_safetensors_gives_what_the_reference_gives() {
    for (third, tied) in [(false, true), (false, false), (true, false)] {
        let folder = tempfile::tempdir().unwrap();
        let prefix = "model.";
        let reference = write(folder.path(), Model { third, tied, prefix });
        let files = ModelStore::from_env()
            .unwrap()
            .locate(folder.path().to_str().unwrap())
            .unwrap();
        let config = EngineConfig {
            kv_bytes: 1 << 20,
            ..EngineConfig::default()
        };
        let engine = Engine::load(&files, config).unwrap();
        assert_eq!(engine.info().vocabulary, VOCABULARY);
        let prompt: Vec<u32> = (0..60).map(|i| i * 7 % 250).collect();
        let request = GenerationRequest {
            logprobs: Some(VOCABULARY),
            ..GenerationRequest::new(Prompt::Tokens(prompt.clone()), 1)
        };
        let reply = engine.generate(request).unwrap();
        let exact = expected(&reference, &prompt);
        let spread = exact
            .iter()
            .fold(0.0, |most: f64, value| most.max((value - exact[0]).abs()));
        let top = &reply.logprobs.unwrap()[0].top;
        assert_eq!(top.len(), VOCABULARY);
        for (token, logprob) in top {
            let error = (f64::from(*logprob) - exact[*token as usize]).abs();
            assert!(
                error < 0.05 * spread,
                "token {token}: off by {error} of a spread of {spread}"
            );
        }
    }
}

/// Cosine of two vectors.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn an_embedder_gives_the_last_tokens_state_whatever_shares_the_pass() {
    let long = "a long text that goes on ".repeat(30);
    let texts = ["the quick brown fox", "", &long, "Hi."];
    // Without the prefix, as an embedder's folder has it.
    for (third, prefix) in [(true, ""), (false, "model.")] {
        let folder = tempfile::tempdir().unwrap();
        let tied = true;
        let reference = write(folder.path(), Model { third, tied, prefix });
        let files = ModelStore::from_env()
            .unwrap()
            .locate(folder.path().to_str().unwrap())
            .unwrap();
        let cpu = Arc::new(Cpu::new(Some(2)).unwrap());
        let embedder = load_embedder(&files, cpu, Precision::default()).unwrap();
        assert_eq!(
            (embedder.info().dimension, embedder.info().max_tokens),
            (128, 512)
        );
        let tokenizer = weights::Tokenizer::from_file(folder.path().join("tokenizer.json")).unwrap();
        let vectors = embedder.embed(&texts, EmbedKind::Passage).unwrap();
        for (text, vector) in texts.iter().zip(&vectors) {
            let alone = embedder.embed(&[text], EmbedKind::Passage).unwrap();
            assert!(alone[0] == *vector, "{text}");
            let mut tokens = tokenizer.encode_with_template(text, 512).unwrap();
            if tokens.is_empty() {
                tokens.push(tokenizer.end_tokens()[0]);
            }
            let states = reference.hidden(&tokens).unwrap().to_vec2::<f32>().unwrap();
            let cosine = cosine(vector, states.last().unwrap());
            assert!(cosine > 0.999, "{text}: cosine {cosine}");
        }
    }
}

#[test]
fn an_embedder_that_sees_what_follows_or_pools_otherwise_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        third: true,
        tied: true,
        prefix: "",
    };
    write(folder.path(), model);
    let load = || {
        let files = ModelStore::from_env()
            .unwrap()
            .locate(folder.path().to_str().unwrap())
            .unwrap();
        load_embedder(&files, Arc::new(Cpu::new(Some(1)).unwrap()), Precision::default())
            .err()
            .unwrap()
            .to_string()
    };
    let pooling = folder.path().join("1_Pooling");
    std::fs::create_dir(&pooling).unwrap();
    std::fs::write(
        pooling.join("config.json"),
        r#"{"pooling_mode_mean_tokens": true}"#,
    )
    .unwrap();
    assert!(load().contains("is Mean, expected the last token"), "{}", load());
    let bidirectional = config(model).replacen('{', r#"{"is_causal": false, "#, 1);
    std::fs::write(folder.path().join("config.json"), bidirectional).unwrap();
    assert!(load().contains("is_causal"), "{}", load());
}
