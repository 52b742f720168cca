//! A Qwen2 model in a Hugging Face folder of BF16 safetensors, against the single-precision reference.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod reference;

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use engine::{Engine, EngineConfig};
use engine_contract::{GenerationRequest, LanguageModel, Prompt};
use reference::{Constants, Reference};
use weights::ModelStore;

const VOCABULARY: usize = 263;

fn config(tied: bool) -> String {
    format!(
        r#"{{"model_type": "qwen2", "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
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
fn layout(tied: bool) -> Vec<(String, String, Vec<usize>)> {
    let mut list = vec![
        (
            "token_embd.weight".to_owned(),
            "model.embed_tokens.weight".to_owned(),
            vec![VOCABULARY, 128],
        ),
        (
            "output_norm.weight".to_owned(),
            "model.norm.weight".to_owned(),
            vec![128],
        ),
    ];
    if !tied {
        list.push((
            "output.weight".into(),
            "lm_head.weight".into(),
            vec![VOCABULARY, 128],
        ));
    }
    for layer in 0..2 {
        let parts: [(&str, &str, &[usize]); 12] = [
            ("attn_norm.weight", "input_layernorm.weight", &[128]),
            ("attn_q.weight", "self_attn.q_proj.weight", &[128, 128]),
            ("attn_q.bias", "self_attn.q_proj.bias", &[128]),
            ("attn_k.weight", "self_attn.k_proj.weight", &[64, 128]),
            ("attn_k.bias", "self_attn.k_proj.bias", &[64]),
            ("attn_v.weight", "self_attn.v_proj.weight", &[64, 128]),
            ("attn_v.bias", "self_attn.v_proj.bias", &[64]),
            ("attn_output.weight", "self_attn.o_proj.weight", &[128, 128]),
            ("ffn_norm.weight", "post_attention_layernorm.weight", &[128]),
            ("ffn_gate.weight", "mlp.gate_proj.weight", &[192, 128]),
            ("ffn_up.weight", "mlp.up_proj.weight", &[192, 128]),
            ("ffn_down.weight", "mlp.down_proj.weight", &[128, 192]),
        ];
        list.extend(parts.map(|(gguf, folder, shape)| {
            (
                format!("blk.{layer}.{gguf}"),
                format!("model.layers.{layer}.{folder}"),
                shape.to_vec(),
            )
        }));
    }
    list
}

/// Writes the folder and returns the same weights for the reference.
fn write(folder: &Path, tied: bool) -> Reference {
    let mut state = 5;
    let (mut first, mut second, mut reference) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (index, (gguf, name, dims)) in layout(tied).into_iter().enumerate() {
        let around = if name.contains("norm") { 1.0 } else { 0.0 };
        let tensor = random(&mut state, &dims, around);
        reference.insert(gguf, tensor.to_dtype(DType::F32).unwrap());
        // Two files, as large models come.
        if index % 2 == 0 { &mut first } else { &mut second }.insert(name, tensor);
    }
    candle_core::safetensors::save(&first, folder.join("model-00001-of-00002.safetensors")).unwrap();
    candle_core::safetensors::save(&second, folder.join("model-00002-of-00002.safetensors")).unwrap();
    std::fs::write(folder.join("config.json"), config(tied)).unwrap();
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
    for tied in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let reference = write(folder.path(), tied);
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
