//! What can be asked of a language model or an embedder, and what comes back.
//!
//! Everything above the engine (`retrieval`, `agents`, `evaluation`) sees this crate only, so that it
//! compiles and tests in seconds against the scripted model of the `scripted` module.
//!
//! This crate does not know tensors, devices, files, async runtimes or conversations.

#[cfg(feature = "conformance")]
pub mod conformance;
mod embed;
mod error;
mod generate;
mod prompt;
mod request;
#[cfg(feature = "scripted")]
pub mod scripted;
mod usage;

pub use embed::{EmbedKind, Embedder, EmbedderInfo, TextVectors};
pub use error::EngineError;
pub use generate::{
    FinishReason, Generation, GenerationSink, LanguageModel, ModelInfo, Ticket, TokenLogprob,
};
pub use prompt::{Message, Prompt, Role};
pub use request::{Constraint, GenerationRequest, Sampling};
pub use usage::{EngineStats, Usage};
