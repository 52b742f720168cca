//! The weights of a loaded model.

use std::sync::Arc;

use kernels::{Cpu, KvDtype, KvLayout, Linear, RopeTable};

use super::embedding::Embedding;
use super::shape::Qwen2Shape;
use crate::LoadError;

/// One transformer layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    /// `[q + k + v, hidden]`, with biases in Qwen2.
    pub(super) qkv: Linear,
    /// Of a query head and of a key head, in Qwen3.
    pub(super) qk_norm: Option<[Vec<f32>; 2]>,
    /// `[hidden, q]`
    pub(super) attention_output: Linear,
    pub(super) feed_forward_norm: Vec<f32>,
    /// `[2 * intermediate, hidden]`
    pub(super) gate_up: Linear,
    /// `[hidden, intermediate]`
    pub(super) down: Linear,
}

/// A loaded Qwen2 or Qwen2.5 model. Keys and values live in a pool that the caller owns.
#[derive(Debug)]
pub struct Qwen2 {
    pub(super) shape: Qwen2Shape,
    pub(super) cpu: Arc<Cpu>,
    pub(super) embedding: Embedding,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Vec<f32>,
    /// `[vocabulary, hidden]`; an embedder has none.
    pub(super) output: Option<Linear>,
    pub(super) rope: RopeTable,
}

impl Qwen2 {
    pub(super) fn assemble(
        shape: Qwen2Shape,
        cpu: Arc<Cpu>,
        (embedding, layers, norm, output): (Embedding, Vec<Layer>, Vec<f32>, Option<Linear>),
    ) -> Result<Self, LoadError> {
        let rope = RopeTable::new(shape.head_dim, f64::from(shape.rope_base), shape.context_tokens);
        Ok(Self {
            shape,
            cpu,
            embedding,
            layers,
            norm,
            output,
            rope,
        })
    }

    /// Its dimensions.
    #[must_use]
    pub fn shape(&self) -> &Qwen2Shape {
        &self.shape
    }

    /// The processor it runs on.
    #[must_use]
    pub fn cpu(&self) -> &Arc<Cpu> {
        &self.cpu
    }

    /// The shape of its keys and values.
    #[must_use]
    pub fn kv_layout(&self, dtype: KvDtype) -> KvLayout {
        KvLayout {
            layers: self.shape.layers,
            kv_heads: self.shape.kv_heads,
            head_dim: self.shape.head_dim,
            dtype,
        }
    }

    /// Bytes of the matrices in memory. That of the embeddings is mapped: its pages count as they are touched.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let layers = self.layers.iter().map(|layer| {
            layer.qkv.bytes() + layer.attention_output.bytes() + layer.gate_up.bytes() + layer.down.bytes()
        });
        let output = self.output.as_ref().map_or(0, Linear::bytes);
        (layers.sum::<usize>() + output) as u64 + self.embedding.bytes()
    }
}
