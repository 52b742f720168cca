//! Question answering over a memory: the MemCoT loop, its baselines, their prompts and traces.
//!
//! Every loop is a [`Machine`]: it says what it needs next and is given it, so that it can be tested without a
//! model, replayed from its [`Trace`], and run by a [`Driver`] beside many others:
//!
//! ```no_run
//! # fn demo(model: &dyn engine_contract::LanguageModel, recall: &dyn retrieval::Recall) {
//! use agents::{Driver, Job, Method, Question, Settings};
//!
//! let question = Question::new("When did Caroline go to the support group?");
//! let job = Job { question, method: Method::Memcot(Settings::default()), recall };
//! for answered in Driver::new(model).run(vec![job], &mut |_| {}) {
//!     let outcome = answered.result.unwrap();
//!     assert!(outcome.abstained || !outcome.evidence.is_empty());
//! }
//! # }
//! ```
//!
//! Where to look: `memcot/judge.rs` decides whether the evidence is enough, `prompts/*.md` hold the wording,
//! `reply.rs` is the only parser of replies, `time_words/` resolves "yesterday".
//!
//! This crate does not know tokenizers, devices, files, HTTP, storage keys, benchmarks or gold answers.

#[cfg(test)]
mod any_reply;
mod driver;
mod error;
mod excerpts;
#[cfg(test)]
mod fixture;
mod graph;
mod labels;
mod machine;
mod memcot;
mod method;
mod outcome;
mod prompts;
mod query;
mod rag;
mod reply;
mod rime;
mod schema;
mod settings;
mod time_words;
mod trace;

pub use driver::{Answered, Driver, Job, Progress};
pub use error::AgentError;
pub use graph::{Extracted, Extraction, GraphEvent, GraphSettings, GraphStep, extract_graph};
pub use machine::{Event, Machine, Note, QueryAction, Question, Stage, Step, TurnKey};
pub use memcot::Memcot;
pub use method::Method;
pub use outcome::Outcome;
pub use rag::Rag;
pub use reply::ReplyError;
pub use rime::{
    FormEvent, FormProgress, FormStep, Formation, FormationSettings, Formed, Memory, MemoryBank, MemoryId,
    Operation, Rime, RimeSettings, SessionKey, form,
};
pub use settings::{FullContextSettings, RagSettings, Settings, Stages};
pub use time_words::{TimeNote, annotate, long_date};
pub use trace::{End, TRACE_VERSION, Trace, TraceStep, replay};
