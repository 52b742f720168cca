//! Model files: find them, fetch them, verify them, read them.
//!
//! [`ModelStore`] turns a name of the [`Manifest`] into files on this machine; [`Gguf`] and [`SafeTensors`] map
//! those files; [`Tokenizer`] and [`ChatTemplate`] turn messages into token ids.
//!
//! ```no_run
//! use weights::{ChatTemplate, Gguf, ModelStore, Tokenizer};
//!
//! let files = ModelStore::from_env()?.locate("qwen2.5-coder-0.5b")?;
//! let gguf = Gguf::open(files.gguf()?)?;
//! let tokenizer = Tokenizer::from_gguf(&gguf)?;
//! let prompt = ChatTemplate::from_gguf(&gguf)?.encode(&tokenizer, &[("user", "Hello")], true)?;
//! # Ok::<(), weights::WeightsError>(())
//! ```
//!
//! This crate knows nothing of batches, sampling, compute or the questions a model is asked.

mod chat;
mod digest;
mod error;
mod gguf;
mod inspect;
mod manifest;
mod mapped;
mod pull;
mod safetensors;
mod store;
mod tokenizer;
mod verify;

pub use chat::ChatTemplate;
pub use error::{SourceFailure, WeightsError};
pub use gguf::{Gguf, Tensor, ggml_type_name};
pub use inspect::{Format, Summary, TypeShare, inspect};
pub use manifest::{
    EmbedderProfile, Family, FileEntry, Manifest, ModelEntry, Piece, Pooling, Purpose, Source,
};
pub use mapped::MappedFile;
pub use pull::{PullProgress, PullStage, PullUpdate};
pub use safetensors::{Dtype, SafeTensor, SafeTensors};
pub use store::{ModelFiles, ModelState, ModelStatus, ModelStore};
pub use tokenizer::{Specials, Tokenizer};
pub use verify::{Pin, VerifiedFile};
