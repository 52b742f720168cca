//! Token embeddings, read row by row.

use super::Qwen2Shape;
use super::dummy::Random;
use super::source::WeightFiles;
use crate::LoadError;

pub(super) const TENSOR: &str = "token_embd.weight";

/// Where embedding rows come from. The matrix stays in the mapped file: a batch needs a few rows of it.
#[derive(Debug)]
pub(super) enum Embedding {
    File {
        files: WeightFiles,
        shape: [usize; 2],
    },
    /// Rows drawn from a seed.
    Dummy {
        seed: u64,
    },
}

impl Embedding {
    pub(super) fn open(files: WeightFiles, shape: &Qwen2Shape) -> Result<Self, LoadError> {
        let shape = [shape.vocabulary, shape.hidden];
        // A row of whole blocks, or an error before the first request.
        files.find(TENSOR, &shape)?.format.row_bytes(shape[1])?;
        Ok(Self::File { files, shape })
    }

    /// Bytes of the matrix in the mapped file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::File { files, shape } => {
                let source = files.find(TENSOR, shape).expect("found when opened");
                source.bytes.len() as u64
            }
            Self::Dummy { .. } => 0,
        }
    }

    /// Writes the embeddings of `tokens` to `out` `[tokens.len(), hidden]`.
    ///
    /// # Panics
    /// When a token is not in the vocabulary.
    pub(super) fn gather(&self, tokens: &[u32], hidden: usize, out: &mut [f32]) {
        match self {
            Self::File { files, shape } => {
                let source = files.find(TENSOR, shape).expect("found when opened");
                let row_bytes = source.bytes.len() / shape[0];
                for (token, row) in tokens.iter().zip(out.chunks_exact_mut(hidden)) {
                    let start = *token as usize * row_bytes;
                    let bytes = &source.bytes[start..start + row_bytes];
                    source
                        .format
                        .dequantize(bytes, row)
                        .expect("a row is whole blocks");
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
