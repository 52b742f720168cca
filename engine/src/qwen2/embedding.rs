//! Token embeddings, read row by row.

use std::sync::Arc;

use kernels::BlockFormat;
use weights::Gguf;

use super::Qwen2Shape;
use super::dummy::Random;
use super::load::TensorSource;
use crate::LoadError;

const TENSOR: &str = "token_embd.weight";

/// Where embedding rows come from. The matrix stays in the mapped file: a batch needs a few rows of it.
#[derive(Debug)]
pub(super) enum Embedding {
    File {
        gguf: Arc<Gguf>,
        format: BlockFormat,
        row_bytes: usize,
    },
    /// Rows drawn from a seed.
    Dummy { seed: u64 },
}

impl Embedding {
    pub(super) fn open(gguf: Arc<Gguf>, shape: &Qwen2Shape) -> Result<Self, LoadError> {
        let source = TensorSource::find(&gguf, TENSOR, &[shape.vocabulary, shape.hidden])?;
        let format = source.format;
        let row_bytes = format.row_bytes(shape.hidden)?;
        Ok(Self::File {
            gguf,
            format,
            row_bytes,
        })
    }

    /// Writes the embeddings of `tokens` to `out` `[tokens.len(), hidden]`.
    ///
    /// # Panics
    /// When a token is not in the vocabulary.
    pub(super) fn gather(&self, tokens: &[u32], hidden: usize, out: &mut [f32]) {
        match self {
            Self::File {
                gguf,
                format,
                row_bytes,
            } => {
                let bytes = gguf.tensor(TENSOR).expect("checked by open").bytes;
                for (token, row) in tokens.iter().zip(out.chunks_exact_mut(hidden)) {
                    let start = *token as usize * row_bytes;
                    format
                        .dequantize(&bytes[start..start + row_bytes], row)
                        .expect("whole rows are whole blocks");
                }
            }
            Self::Dummy { seed } => {
                for (token, row) in tokens.iter().zip(out.chunks_exact_mut(hidden)) {
                    let row_seed = seed ^ u64::from(*token).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    Random::new(row_seed).fill(row, 0.02);
                }
            }
        }
    }
}
