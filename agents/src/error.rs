//! Everything that can go wrong between a question and its outcome.

use engine_contract::EngineError;
use retrieval::RetrievalError;

/// Why a question ended without an outcome. Every message says what, expected, received and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A setting has a value that makes no sense.
    #[error("setting {field} is {received}, expected {expected}")]
    InvalidSetting {
        /// Name of the setting.
        field: &'static str,
        /// What was given.
        received: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// There is nothing to answer.
    #[error("the question is empty; ask in at least one word")]
    EmptyQuestion,
    /// The caller answered another step than the one that was asked.
    #[error("the loop waits for {expected}, received {received}; answer the step that next_step returned")]
    UnexpectedEvent {
        /// The event that belongs to the current step.
        expected: &'static str,
        /// What was given.
        received: &'static str,
    },
    /// The loop asks for memories, but the driver was given no bank.
    #[error(
        "this method answers from memories, but none are at hand; form them and give the driver their bank"
    )]
    NoMemories,
    /// The memory could not be searched.
    #[error(transparent)]
    Recall(#[from] RetrievalError),
    /// The model failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The run was cancelled before this question ended.
    #[error("cancelled before the question was answered")]
    Cancelled,
    /// The file is not a trace.
    #[error("this is not a mneme trace: {reason}; traces are written with --trace")]
    NotATrace {
        /// What the JSON parser said.
        reason: String,
    },
    /// The trace was written by another version.
    #[error("the trace has schema version {received}, this mneme reads version {expected}; record it again")]
    TraceVersion {
        /// The version this code writes.
        expected: u32,
        /// The version in the file.
        received: u64,
    },
    /// A replayed loop took another way than the recorded one.
    #[error(
        "replay differs at step {step}: recorded {expected}, now {received}; prompts or code changed since the \
         trace was written, record it again"
    )]
    ReplayDiverged {
        /// Index of the step, from 0.
        step: usize,
        /// What was recorded.
        expected: String,
        /// What the loop does now.
        received: String,
    },
}
