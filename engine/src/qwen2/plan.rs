//! How much memory a model will take, from the heads of its files.

use std::sync::Arc;

use kernels::{KvLayout, TilePolicy, TiledMatrix};
use weights::{Gguf, ModelFiles};

use super::embedding;
use super::shape::Qwen2Shape;
use super::source::WeightFiles;
use crate::{EngineConfig, LoadError};

/// What the engine may take beside weights and keys and values: activations, logits, tokenizer, grammars, program.
/// A test holds a loaded engine against it.
const REST: u64 = 300_000_000;

/// Memory that an engine will take, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Matrices laid out for the kernels, and biases.
    pub weights: u64,
    /// The embedding matrix, mapped from the model's file.
    pub embeddings: u64,
    /// Keys and values at most: the budget that was set.
    pub kv_budget: u64,
    /// Keys and values of one token, all layers.
    pub kv_per_token: u64,
    /// Everything else at most.
    pub rest: u64,
}

impl MemoryPlan {
    /// The plan for a model's files under these settings; reads the files' heads only.
    ///
    /// # Errors
    /// As [`Engine::load`](crate::Engine::load) for files that are no Qwen2 model.
    pub fn of(files: &ModelFiles, config: &EngineConfig) -> Result<Self, LoadError> {
        let (weights, shape, policy) = if files.is_gguf() {
            let gguf = Arc::new(Gguf::open(files.gguf()?)?);
            let shape = Qwen2Shape::from_gguf(&gguf)?;
            (WeightFiles::Gguf(gguf), shape, config.weights)
        } else {
            let shape = Qwen2Shape::from_folder(&files.folder)?;
            (WeightFiles::open_folder(&files.folder)?, shape, TilePolicy::Int8)
        };
        let biases = if shape.qk_norm {
            0
        } else {
            shape.layers * shape.qkv()
        };
        let mut tiled = (biases * size_of::<f32>()) as u64;
        for (name, n, k) in matrices(&shape, weights.has(OUTPUT)) {
            let kind = policy.kind(weights.find(&name, &[n, k])?.format);
            tiled += TiledMatrix::bytes_as(kind, n, k) as u64;
        }
        let embeddings = weights.find(embedding::TENSOR, &[shape.vocabulary, shape.hidden])?;
        let kv = KvLayout {
            layers: shape.layers,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            dtype: config.kv_dtype,
        };
        Ok(Self {
            weights: tiled,
            embeddings: embeddings.bytes.len() as u64,
            kv_budget: config.kv_bytes,
            kv_per_token: kv.bytes_per_token() as u64,
            rest: REST,
        })
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights + self.embeddings + self.kv_budget + self.rest
    }

    /// Tokens that the budget of keys and values holds.
    #[must_use]
    pub fn kv_tokens(&self) -> u64 {
        self.kv_budget / self.kv_per_token.max(1)
    }
}

/// The output matrix, where it is not the embedding matrix.
const OUTPUT: &str = "output.weight";

/// Names and shapes of the matrices that are laid out.
fn matrices(shape: &Qwen2Shape, own_output: bool) -> impl Iterator<Item = (String, usize, usize)> {
    let (hidden, intermediate) = (shape.hidden, shape.intermediate);
    let (q, kv) = (shape.attention(), shape.kv_heads * shape.head_dim);
    let of_layer = move |layer| {
        [
            ("attn_q", q, hidden),
            ("attn_k", kv, hidden),
            ("attn_v", kv, hidden),
            ("attn_output", hidden, q),
            ("ffn_gate", intermediate, hidden),
            ("ffn_up", intermediate, hidden),
            ("ffn_down", hidden, intermediate),
        ]
        .map(|(part, n, k)| (format!("blk.{layer}.{part}.weight"), n, k))
    };
    let output = if own_output { OUTPUT } else { embedding::TENSOR };
    (0..shape.layers)
        .flat_map(of_layer)
        .chain([(output.to_owned(), shape.vocabulary, hidden)])
}
