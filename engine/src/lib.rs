//! One loaded model that serves many requests at once, and embedders on the same kernels.
//!
//! [`Engine`] packs the rows of all running requests into one forward pass after another, keeps keys and values in
//! blocks below a prefix tree, and gives the same tokens whatever shares the batch or the cache.
//!
//! ```no_run
//! use engine::{Engine, EngineConfig};
//! use engine_contract::{GenerationRequest, LanguageModel, Message, Prompt, Role};
//!
//! let files = weights::ModelStore::from_env()?.locate("qwen2.5-coder-0.5b")?;
//! let engine = Engine::load(&files, EngineConfig::default())?;
//! let prompt = Prompt::Chat(vec![Message::new(Role::User, "What is the capital of France?")]);
//! let reply = engine.generate(GenerationRequest::new(prompt, 16))?;
//! assert!(reply.text.contains("Paris"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows nothing of conversations, retrieval, agents or HTTP.

mod bert;
mod config;
mod constraint;
mod embedding;
mod engine;
mod error;
mod kv;
mod lookup;
mod model_text;
mod prompt;
mod qwen2;
mod request;
mod runner;
mod sampling;
mod scheduler;
mod snapshot;
#[cfg(test)]
mod testing;
mod text;
mod worker;

pub use bert::{BertEmbedder, Precision};
pub use config::EngineConfig;
pub use constraint::{GrammarCompiler, Matcher, TokenMask};
pub use embedding::{Qwen2Embedder, load_embedder};
pub use engine::{Engine, PrefixLease};
pub use error::LoadError;
pub use model_text::ModelText;
pub use qwen2::{Batch, BatchSequence, MemoryPlan, Qwen2, Qwen2Shape, Scratch, Tiling};
pub use sampling::{Sampled, Sampler, token_logprob};
pub use text::TextStream;
