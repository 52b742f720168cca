//! Weights from a GGUF file.

use std::sync::Arc;

use kernels::{BlockFormat, Cpu, Linear, TilePolicy, TiledMatrix};
use weights::Gguf;

use super::embedding::Embedding;
use super::model::{Layer, Qwen2};
use super::shape::Qwen2Shape;
use crate::LoadError;

/// A tensor of the file whose shape and format have been checked.
pub(super) struct TensorSource<'a> {
    pub(super) format: BlockFormat,
    bytes: &'a [u8],
    shape: Vec<usize>,
}

impl<'a> TensorSource<'a> {
    pub(super) fn find(gguf: &'a Gguf, name: &str, shape: &[usize]) -> Result<Self, LoadError> {
        let tensor = gguf.tensor(name)?;
        if tensor.shape != shape {
            return Err(LoadError::TensorShape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                received: tensor.shape.to_vec(),
            });
        }
        let format =
            BlockFormat::from_ggml_type(tensor.ggml_type).ok_or_else(|| LoadError::TensorFormat {
                name: name.to_owned(),
                received: tensor.ggml_type,
            })?;
        Ok(Self {
            format,
            bytes: tensor.bytes,
            shape: shape.to_vec(),
        })
    }

    fn values(&self) -> Result<Vec<f32>, LoadError> {
        let mut values = vec![0.0; self.shape.iter().product()];
        self.format.dequantize(self.bytes, &mut values)?;
        Ok(values)
    }
}

/// Reads the tensors of one model.
struct Loader<'a> {
    gguf: &'a Gguf,
    shape: &'a Qwen2Shape,
    cpu: &'a Cpu,
    policy: TilePolicy,
}

impl Loader<'_> {
    fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>, LoadError> {
        TensorSource::find(self.gguf, name, &[n])?.values()
    }

    fn matrix(&self, name: &str, n: usize, k: usize) -> Result<TiledMatrix, LoadError> {
        let source = TensorSource::find(self.gguf, name, &[n, k])?;
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
}

impl Qwen2 {
    /// Reads a GGUF model and lays its weights out for the kernels.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor or field that is missing, misshapen or of an unknown format.
    pub fn load(gguf: Arc<Gguf>, cpu: Arc<Cpu>, policy: TilePolicy) -> Result<Self, LoadError> {
        let shape = Qwen2Shape::from_gguf(&gguf)?;
        let loader = Loader {
            gguf: &gguf,
            shape: &shape,
            cpu: &cpu,
            policy,
        };
        let layers = (0..shape.layers)
            .map(|index| loader.layer(index))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = loader.vector("output_norm.weight", shape.hidden)?;
        // Small models use the embedding matrix as the output matrix.
        let name = if gguf.has_tensor("output.weight") {
            "output.weight"
        } else {
            "token_embd.weight"
        };
        let output = Linear::new(vec![loader.matrix(name, shape.vocabulary, shape.hidden)?], None)?;
        let embedding = Embedding::open(Arc::clone(&gguf), &shape)?;
        Self::assemble(shape, cpu, (embedding, layers, norm, output))
    }
}
