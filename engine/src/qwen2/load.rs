//! Weights from files.

use std::path::Path;
use std::sync::Arc;

use kernels::{Cpu, Linear, TilePolicy, TiledMatrix};
use weights::Gguf;

use super::embedding::Embedding;
use super::model::{Layer, Qwen2};
use super::shape::Qwen2Shape;
use super::source::WeightFiles;
use crate::LoadError;

/// Layers read through one map of the files. One map for all would hold the whole model beside the laid-out weights.
const LAYERS_PER_MAP: usize = 4;

/// Reads the tensors of one model.
struct Loader<'a> {
    files: WeightFiles,
    shape: &'a Qwen2Shape,
    cpu: &'a Cpu,
    policy: TilePolicy,
}

impl Loader<'_> {
    fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>, LoadError> {
        self.files.find(name, &[n])?.values(n)
    }

    fn matrix(&self, name: &str, n: usize, k: usize) -> Result<TiledMatrix, LoadError> {
        let source = self.files.find(name, &[n, k])?;
        Ok(self.cpu.tile(source.format, (n, k), source.bytes, self.policy)?)
    }

    fn layer(&self, index: usize) -> Result<Layer, LoadError> {
        let Qwen2Shape {
            hidden, intermediate, ..
        } = *self.shape;
        let (q, kv) = (self.shape.attention(), self.shape.kv_heads * self.shape.head_dim);
        let name = |part: &str| format!("blk.{index}.{part}");
        let mut bias = Vec::with_capacity(self.shape.qkv());
        let mut qkv = Vec::with_capacity(3);
        for (part, n) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
            qkv.push(self.matrix(&name(&format!("{part}.weight")), n, hidden)?);
            bias.extend(self.vector(&name(&format!("{part}.bias")), n)?);
        }
        let gate_up = vec![
            self.matrix(&name("ffn_gate.weight"), intermediate, hidden)?,
            self.matrix(&name("ffn_up.weight"), intermediate, hidden)?,
        ];
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm.weight"), hidden)?,
            qkv: Linear::new(qkv, Some(bias))?,
            attention_output: Linear::new(vec![self.matrix(&name("attn_output.weight"), hidden, q)?], None)?,
            feed_forward_norm: self.vector(&name("ffn_norm.weight"), hidden)?,
            gate_up: Linear::new(gate_up, None)?,
            down: Linear::new(
                vec![self.matrix(&name("ffn_down.weight"), hidden, intermediate)?],
                None,
            )?,
        })
    }

    /// Small models use the embedding matrix as the output matrix.
    fn output(&self) -> Result<Linear, LoadError> {
        let name = if self.files.has("output.weight") {
            "output.weight"
        } else {
            "token_embd.weight"
        };
        Ok(Linear::new(
            vec![self.matrix(name, self.shape.vocabulary, self.shape.hidden)?],
            None,
        )?)
    }
}

impl Qwen2 {
    /// Reads a GGUF model and lays its weights out for the kernels. The file stays mapped for the embeddings.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor or field that is missing, misshapen or of an unknown format.
    pub fn load(gguf: Arc<Gguf>, cpu: Arc<Cpu>, policy: TilePolicy) -> Result<Self, LoadError> {
        let shape = Qwen2Shape::from_gguf(&gguf)?;
        Self::read(WeightFiles::Gguf(gguf), shape, cpu, policy)
    }

    /// Reads the `config.json` and the `.safetensors` files (F32, F16 or BF16) of a Hugging Face folder. The matrices
    /// are rounded to 8 bits in blocks of 32.
    ///
    /// # Errors
    /// As [`Qwen2::load`].
    pub fn load_folder(folder: &Path, cpu: Arc<Cpu>) -> Result<Self, LoadError> {
        let path = folder.join("config.json");
        let config = std::fs::read_to_string(&path).map_err(|source| LoadError::Io { path, source })?;
        let shape = Qwen2Shape::from_config_json(&folder.display().to_string(), &config)?;
        Self::read(WeightFiles::open_folder(folder)?, shape, cpu, TilePolicy::Int8)
    }

    fn read(
        files: WeightFiles,
        shape: Qwen2Shape,
        cpu: Arc<Cpu>,
        policy: TilePolicy,
    ) -> Result<Self, LoadError> {
        let reopened = || {
            let files = files.reopen()?;
            Ok::<_, LoadError>(Loader {
                files,
                shape: &shape,
                cpu: &cpu,
                policy,
            })
        };
        let mut layers = Vec::with_capacity(shape.layers);
        while layers.len() < shape.layers {
            let loader = reopened()?;
            for index in layers.len()..shape.layers.min(layers.len() + LAYERS_PER_MAP) {
                layers.push(loader.layer(index)?);
            }
        }
        let loader = reopened()?;
        let norm = loader.vector("output_norm.weight", shape.hidden)?;
        let output = loader.output()?;
        drop(loader);
        let embedding = Embedding::open(files, &shape)?;
        Self::assemble(shape, cpu, (embedding, layers, norm, output))
    }
}
