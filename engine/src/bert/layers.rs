//! The weights of a BERT encoder, as the kernels want them.

use kernels::Affine;
use weights::{Dtype, SafeTensor, SafeTensors};

use super::dense::{Dense, DenseWeights, Precision, Rounding};
use super::shape::BertShape;
use crate::LoadError;

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
    /// `hidden` to `2 * hidden`: queries and keys.
    pub(super) qk: Dense,
    pub(super) value: Dense,
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
        let attention = |part: &str| name(&format!("attention.self.{part}"));
        let dense = |names: &[String], n, k, rounding| self.dense(names, [n, k], rounding);
        let (query, key, value) = (attention("query"), attention("key"), attention("value"));
        Ok(BertLayer {
            qk: dense(&[query, key], hidden, hidden, Rounding::Coarse)?,
            value: dense(&[value], hidden, hidden, Rounding::Exact)?,
            attention_out: dense(
                &[name("attention.output.dense")],
                hidden,
                hidden,
                Rounding::Coarse,
            )?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"), hidden)?,
            up: dense(&[name("intermediate.dense")], wide, hidden, Rounding::Fine)?,
            down: dense(&[name("output.dense")], hidden, wide, Rounding::Coarse)?,
            norm: self.norm(&name("output.LayerNorm"), hidden)?,
        })
    }

    /// Layers of `n` outputs and `k` inputs each, side by side.
    fn dense(&self, names: &[String], [n, k]: [usize; 2], rounding: Rounding) -> Result<Dense, LoadError> {
        let mut weights = DenseWeights {
            n,
            k,
            parts: Vec::new(),
            bias: Vec::new(),
        };
        for name in names {
            weights
                .parts
                .push(self.tensor(&format!("{name}.weight"), &[n, k])?);
            weights.bias.extend(self.tensor(&format!("{name}.bias"), &[n])?);
        }
        Ok(weights.build(self.precision, rounding)?)
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
