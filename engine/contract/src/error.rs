//! Everything that can go wrong between a request and its reply.

/// Why a request was refused or failed. Every message says what, expected, received and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The prompt and the tokens asked for do not fit the model's context.
    #[error(
        "the prompt has {actual_tokens} tokens, but at most {limit_tokens} fit beside the {max_tokens} new tokens \
         asked for; shorten the prompt or lower max_tokens"
    )]
    PromptTooLong {
        /// Prompt tokens that would fit.
        limit_tokens: usize,
        /// Prompt tokens received.
        actual_tokens: usize,
        /// New tokens asked for.
        max_tokens: usize,
    },
    /// The request needs more KV memory than the whole budget.
    #[error(
        "the request needs {needed_bytes} bytes of KV cache ({tokens} tokens of {bytes_per_token} bytes), but the \
         whole budget is {budget_bytes} bytes; raise the KV budget or shorten the request"
    )]
    NeverFits {
        /// Prompt and new tokens together.
        tokens: usize,
        /// KV bytes per token of this model.
        bytes_per_token: usize,
        /// Tokens times bytes, rounded up to whole blocks.
        needed_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// Too many requests wait already.
    #[error("the queue is full ({capacity} requests wait); retry later or raise the queue's capacity")]
    QueueFull {
        /// Requests that may wait at once.
        capacity: usize,
    },
    /// A field of the request has a value that makes no sense.
    #[error("invalid request: {field} is {received}, expected {expected}")]
    InvalidRequest {
        /// Name of the field.
        field: &'static str,
        /// What was sent.
        received: String,
        /// What is allowed.
        expected: String,
    },
    /// The reply constraint could not be compiled or contradicts itself.
    #[error("invalid constraint: {reason}; simplify the schema or the expression")]
    InvalidConstraint {
        /// The compiler's message.
        reason: String,
    },
    /// The chat template or the tokenizer refused the prompt.
    #[error("the prompt could not be rendered: {reason}")]
    Prompt {
        /// What the template or the tokenizer said.
        reason: String,
    },
    /// A text to embed is not acceptable.
    #[error("text {index} cannot be embedded: {reason}")]
    Embedding {
        /// Position in the list of texts.
        index: usize,
        /// Why.
        reason: String,
    },
    /// A forward pass failed; other requests live on.
    #[error("the forward pass failed: {reason}; the engine goes on, send the request again")]
    Forward {
        /// The panic's message or the device's error.
        reason: String,
    },
    /// The request was cancelled before its end.
    #[error("the request was cancelled")]
    Cancelled,
    /// The engine has stopped.
    #[error("the engine has shut down; load the model again")]
    ShutDown,
    /// The backend broke its own contract or a remote one failed.
    #[error("{backend}: {reason}")]
    Backend {
        /// Which backend.
        backend: String,
        /// What happened and what to do.
        reason: String,
    },
}
