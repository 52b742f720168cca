//! The weights of a BERT encoder, as the kernels want them.

use kernels::{Affine, Cpu, F32Matrix, Linear, OutMode, QuantizedRows, TiledMatrix};
use weights::{Dtype, SafeTensor, SafeTensors};

use super::shape::BertShape;
use crate::LoadError;

/// How the matrices of an embedder are kept and multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Weights and activations rounded to 8 bits in blocks of 32: a quarter of the memory, several times the speed,
    /// vectors with a cosine above 0.999 to the exact ones.
    #[default]
    Int8,
    /// Single precision throughout.
    F32,
}

/// All weights of an encoder.
#[derive(Debug)]
pub(super) struct BertWeights {
    /// `[vocabulary, hidden]`.
    pub(super) words: Vec<f32>,
    /// `[positions, hidden]`, the embedding of token type 0 added: single texts have no other type.
    pub(super) positions: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<BertLayer>,
}

/// One encoder layer.
#[derive(Debug)]
pub(super) struct BertLayer {
    /// `hidden` to `3 * hidden`: queries, keys, values.
    pub(super) qkv: Dense,
    pub(super) attention_out: Dense,
    pub(super) attention_norm: Norm,
    pub(super) up: Dense,
    pub(super) down: Dense,
    pub(super) norm: Norm,
}

/// Weight and bias of a layer normalisation.
#[derive(Debug)]
pub(super) struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Norm {
    pub(super) fn affine(&self) -> Affine<'_> {
        Affine {
            weight: &self.weight,
            bias: &self.bias,
        }
    }
}

/// A linear layer with bias.
#[derive(Debug)]
pub(super) enum Dense {
    Int8(Linear),
    F32 { matrix: F32Matrix, bias: Vec<f32> },
}

impl Dense {
    /// Multiplies the rows of `x`; `quantized` is scratch.
    pub(super) fn apply(&self, cpu: &Cpu, x: &[f32], quantized: &mut QuantizedRows, out: Target<'_>) {
        let Target { values, mode } = out;
        match self {
            Self::Int8(linear) => {
                cpu.quantize_rows(x, linear.k(), quantized);
                cpu.linear(linear, quantized, values, mode);
            }
            Self::F32 { matrix, bias } => {
                cpu.linear_f32(matrix, x, values, mode);
                for row in values.chunks_exact_mut(bias.len()) {
                    row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
                }
            }
        }
    }
}

/// Where a product goes.
pub(super) struct Target<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) mode: OutMode,
}

impl BertWeights {
    /// Reads every tensor the shape asks for.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor that is missing, or of another shape or type.
    pub(super) fn load(
        file: &SafeTensors,
        shape: &BertShape,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        // Checkpoints of a whole BERT put the encoder under this name; sentence encoders do not.
        let prefixed = file.tensors().any(|tensor| tensor.name.starts_with("bert."));
        let reader = Reader {
            file,
            prefix: if prefixed { "bert." } else { "" },
            precision,
        };
        let hidden = shape.hidden;
        let types = reader.tensor(
            "embeddings.token_type_embeddings.weight",
            &[shape.token_types, hidden],
        )?;
        let mut positions = reader.tensor(
            "embeddings.position_embeddings.weight",
            &[shape.positions, hidden],
        )?;
        for row in positions.chunks_exact_mut(hidden) {
            row.iter_mut()
                .zip(&types)
                .for_each(|(value, first)| *value += first);
        }
        Ok(Self {
            words: reader.tensor("embeddings.word_embeddings.weight", &[shape.vocabulary, hidden])?,
            positions,
            norm: reader.norm("embeddings.LayerNorm", hidden)?,
            layers: (0..shape.layers)
                .map(|index| reader.layer(index, shape))
                .collect::<Result<_, _>>()?,
        })
    }
}

struct Reader<'a> {
    file: &'a SafeTensors,
    prefix: &'static str,
    precision: Precision,
}

impl Reader<'_> {
    fn layer(&self, index: usize, shape: &BertShape) -> Result<BertLayer, LoadError> {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (hidden, wide) = (shape.hidden, shape.intermediate);
        let qkv = ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
        Ok(BertLayer {
            qkv: self.dense(&qkv, hidden, hidden)?,
            attention_out: self.dense(&[name("attention.output.dense")], hidden, hidden)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"), hidden)?,
            up: self.dense(&[name("intermediate.dense")], wide, hidden)?,
            down: self.dense(&[name("output.dense")], hidden, wide)?,
            norm: self.norm(&name("output.LayerNorm"), hidden)?,
        })
    }

    /// Layers of `n` outputs and `k` inputs each, side by side.
    fn dense(&self, names: &[String], n: usize, k: usize) -> Result<Dense, LoadError> {
        let mut bias = Vec::with_capacity(names.len() * n);
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            bias.extend(self.tensor(&format!("{name}.bias"), &[n])?);
            parts.push(self.tensor(&format!("{name}.weight"), &[n, k])?);
        }
        Ok(match self.precision {
            Precision::Int8 => {
                let tiles = parts.iter().map(|values| TiledMatrix::from_f32(n, k, values));
                Dense::Int8(Linear::new(tiles.collect::<Result<_, _>>()?, Some(bias))?)
            }
            Precision::F32 => Dense::F32 {
                matrix: F32Matrix::new(names.len() * n, k, &parts.concat())?,
                bias,
            },
        })
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm, LoadError> {
        Ok(Norm {
            weight: self.tensor(&format!("{name}.weight"), &[width])?,
            bias: self.tensor(&format!("{name}.bias"), &[width])?,
        })
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let tensor = self.file.tensor(&format!("{}{name}", self.prefix))?;
        if tensor.shape != shape {
            return Err(LoadError::TensorShape {
                name: tensor.name.to_owned(),
                expected: shape.to_vec(),
                received: tensor.shape.to_vec(),
            });
        }
        let values = to_f32(tensor)?;
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(wrong(
                tensor.name,
                "infinite or not a number somewhere",
                "finite values",
            ))
        }
    }
}

fn to_f32(tensor: SafeTensor<'_>) -> Result<Vec<f32>, LoadError> {
    let halves =
        |convert: fn([u8; 2]) -> f32| tensor.bytes.as_chunks().0.iter().map(|&b| convert(b)).collect();
    if tensor.dtype == Dtype::F32 {
        Ok(tensor
            .bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect())
    } else if tensor.dtype == Dtype::F16 {
        Ok(halves(|bytes| half::f16::from_le_bytes(bytes).to_f32()))
    } else if tensor.dtype == Dtype::BF16 {
        Ok(halves(|bytes| half::bf16::from_le_bytes(bytes).to_f32()))
    } else {
        Err(wrong(
            tensor.name,
            &format!("{:?}", tensor.dtype),
            "values of type F32, F16 or BF16",
        ))
    }
}

fn wrong(tensor: &str, received: &str, expected: &str) -> LoadError {
    LoadError::ModelConfig {
        what: format!("tensor {tensor:?}"),
        received: received.into(),
        expected: expected.into(),
    }
}
