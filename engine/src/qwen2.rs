//! Qwen2 and Qwen2.5: a decoder over a packed batch of rows, with keys and values outside the model.
//!
//! Qwen2 Technical Report (arXiv:2407.10671): pre-norm transformer with RMSNorm, rotary positions, grouped queries,
//! biases on q, k and v only, and SwiGLU. Does not know prompts, sampling, caches or requests.

mod batch;
mod dummy;
mod embedding;
mod forward;
mod load;
mod model;
mod plan;
mod shape;
mod source;
#[cfg(test)]
mod tests;
mod tile_cache;

pub use batch::{Batch, BatchSequence};
pub use forward::Scratch;
pub use load::Tiling;
pub use model::Qwen2;
pub use plan::MemoryPlan;
pub use shape::Qwen2Shape;
pub(crate) use source::safetensors_in;
