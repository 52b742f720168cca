//! Embedders of the BERT family (Devlin et al. 2019): MiniLM, bge, e5, gte; from safetensors, on our own kernels.
//!
//! Texts of different lengths are packed one after the other without padding. A text's vector is the same bit for bit
//! whatever texts are embedded with it.
//!
//! Knows weights and vectors; does not know indexes, distances or what the texts are.

mod dense;
mod embedder;
mod forward;
mod layers;
mod shape;

pub use dense::Precision;
pub use embedder::BertEmbedder;
