//! Where a model's tensors come from: a GGUF file, or the safetensors files of a Hugging Face folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernels::BlockFormat;
use weights::{Dtype, Gguf, SafeTensors, WeightsError};

use crate::LoadError;

/// Opened weight files. Tensors are asked for by their GGUF names.
#[derive(Debug, Clone)]
pub(super) enum WeightFiles {
    Gguf(Arc<Gguf>),
    SafeTensors(Arc<Vec<SafeTensors>>),
}

/// Parts of GGUF tensor names, and what Hugging Face's `modeling_qwen2.py` calls them.
const HUGGING_FACE_NAMES: [(&str, &str); 14] = [
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];

/// `blk.3.attn_q.weight` to `model.layers.3.self_attn.q_proj.weight`.
fn hugging_face_name(name: &str) -> String {
    let part = |part: &str| {
        HUGGING_FACE_NAMES
            .iter()
            .find(|(gguf, _)| *gguf == part)
            .map_or(part.to_owned(), |(_, hf)| (*hf).to_owned())
    };
    match name.split('.').collect::<Vec<_>>()[..] {
        ["blk", layer, name, kind] => format!("model.layers.{layer}.{}.{kind}", part(name)),
        [name, kind] => format!("{}.{kind}", part(name)),
        _ => name.to_owned(),
    }
}

impl WeightFiles {
    /// Every `.safetensors` file of a folder.
    pub(super) fn open_folder(folder: &Path) -> Result<Self, LoadError> {
        let paths = safetensors_in(folder)?;
        let files = paths
            .iter()
            .map(SafeTensors::open)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::SafeTensors(Arc::new(files)))
    }

    /// The same files in maps of their own. A map's pages count as this process's memory once touched.
    pub(super) fn reopen(&self) -> Result<Self, LoadError> {
        Ok(match self {
            Self::Gguf(gguf) => Self::Gguf(Arc::new(Gguf::open(gguf.path())?)),
            Self::SafeTensors(files) => {
                let again = files
                    .iter()
                    .map(|file| SafeTensors::open(file.path()))
                    .collect::<Result<_, _>>()?;
                Self::SafeTensors(Arc::new(again))
            }
        })
    }

    /// The files, in order.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Gguf(gguf) => vec![gguf.path().to_owned()],
            Self::SafeTensors(files) => files.iter().map(|file| file.path().to_owned()).collect(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Gguf(gguf) => gguf.has_tensor(name),
            Self::SafeTensors(files) => {
                let name = hugging_face_name(name);
                find_in(files, &name).is_ok()
            }
        }
    }

    /// A tensor of the shape given.
    pub(super) fn find(&self, name: &str, shape: &[usize]) -> Result<TensorSource<'_>, LoadError> {
        let (name, found, format, bytes) = match self {
            Self::Gguf(gguf) => {
                let tensor = gguf.tensor(name)?;
                let format =
                    BlockFormat::from_ggml_type(tensor.ggml_type).ok_or_else(|| LoadError::TensorFormat {
                        name: name.to_owned(),
                        received: weights::ggml_type_name(tensor.ggml_type),
                    })?;
                (name.to_owned(), tensor.shape, format, tensor.bytes)
            }
            Self::SafeTensors(files) => {
                let name = hugging_face_name(name);
                let tensor = find_in(files, &name)?;
                let format = format_of(tensor.dtype).ok_or_else(|| LoadError::TensorFormat {
                    name: name.clone(),
                    received: format!("{:?}", tensor.dtype),
                })?;
                (name, tensor.shape, format, tensor.bytes)
            }
        };
        if found != shape {
            return Err(LoadError::TensorShape {
                name,
                expected: shape.to_vec(),
                received: found.to_vec(),
            });
        }
        Ok(TensorSource { format, bytes })
    }
}

fn find_in<'a>(files: &'a [SafeTensors], name: &str) -> Result<weights::SafeTensor<'a>, WeightsError> {
    let mut error = None;
    // Embedders come without the head, and their tensors without the prefix that it brings.
    for name in [Some(name), name.strip_prefix("model.")].into_iter().flatten() {
        for file in files {
            match file.tensor(name) {
                Ok(tensor) => return Ok(tensor),
                Err(missing) => error = error.or(Some(missing)),
            }
        }
    }
    Err(error.expect("a folder without safetensors files is refused when opened"))
}

fn format_of(dtype: Dtype) -> Option<BlockFormat> {
    [
        (Dtype::F32, BlockFormat::F32),
        (Dtype::F16, BlockFormat::F16),
        (Dtype::BF16, BlockFormat::Bf16),
    ]
    .into_iter()
    .find_map(|(known, format)| (known == dtype).then_some(format))
}

/// The `.safetensors` files of a folder, in order of their names; at least one.
pub(crate) fn safetensors_in(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let io = |source| LoadError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "safetensors")
        {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(WeightsError::MissingFile {
            folder: folder.to_owned(),
            wanted: "*.safetensors".into(),
        }
        .into());
    }
    paths.sort();
    Ok(paths)
}

/// A tensor whose shape and format have been checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorSource<'a> {
    pub(super) format: BlockFormat,
    pub(super) bytes: &'a [u8],
}

impl TensorSource<'_> {
    /// All values.
    pub(super) fn values(&self, count: usize) -> Result<Vec<f32>, LoadError> {
        let mut values = vec![0.0; count];
        self.format.dequantize(self.bytes, &mut values)?;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hugging_face() {
        assert_eq!(
            hugging_face_name("blk.17.attn_q.bias"),
            "model.layers.17.self_attn.q_proj.bias"
        );
        assert_eq!(hugging_face_name("output.weight"), "lm_head.weight");
        assert_eq!(
            hugging_face_name("token_embd.weight"),
            "model.embed_tokens.weight"
        );
    }
}
