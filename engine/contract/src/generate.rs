//! The language model's side: submit, stream, cancel.

use std::sync::mpsc;

use serde::{Deserialize, Serialize};

use crate::{EngineError, EngineStats, GenerationRequest, Prompt, Usage};

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn, or the constraint was complete.
    End,
    /// A stop text was met.
    Stop,
    /// `max_tokens` were generated.
    Length,
}

/// One generated token with its probability and the likeliest alternatives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token.
    pub token: u32,
    /// Natural logarithm of its probability, before temperature and penalties.
    pub logprob: f32,
    /// The likeliest tokens with their logarithms, best first.
    pub top: Vec<(u32, f32)>,
}

/// A finished reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The text, without stop texts and special tokens.
    pub text: String,
    /// The ids behind it, the end token excluded.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it cost.
    pub usage: Usage,
    /// One entry per token, where asked for.
    pub logprobs: Option<Vec<TokenLogprob>>,
}

/// What identifies a language model and bounds its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Name in the manifest, or the file's name.
    pub name: String,
    /// Prompt and reply together have at most this many tokens.
    pub context_tokens: usize,
    /// Entries of the vocabulary.
    pub vocabulary: usize,
}

/// Receives one request's reply, on the backend's thread: it must not block.
pub trait GenerationSink: Send {
    /// New text, in order; the pieces concatenate to [`Generation::text`].
    fn on_text(&mut self, _delta: &str) {}

    /// The end: exactly once, and last.
    fn on_done(self: Box<Self>, result: Result<Generation, EngineError>);
}

impl<F: FnOnce(Result<Generation, EngineError>) + Send> GenerationSink for F {
    fn on_done(self: Box<Self>, result: Result<Generation, EngineError>) {
        self(result);
    }
}

/// A submitted request. Dropping it cancels the request and frees its memory at the next tick.
#[must_use = "dropping the ticket cancels the request"]
pub struct Ticket(Option<Box<dyn FnOnce() + Send>>);

impl Ticket {
    /// A ticket that runs `cancel` when dropped.
    pub fn new(cancel: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(cancel)))
    }

    /// Lets the request run to its end without a ticket.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            cancel();
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("live", &self.0.is_some()).finish()
    }
}

/// A loaded language model that serves many requests at once.
pub trait LanguageModel: Send + Sync {
    /// What identifies the model.
    fn info(&self) -> &ModelInfo;

    /// Tokens that the prompt has for this model, template included.
    ///
    /// # Errors
    /// [`EngineError::Prompt`] when the prompt cannot be rendered.
    fn count_tokens(&self, prompt: &Prompt) -> Result<usize, EngineError>;

    /// Queues a request and returns at once. The sink hears of every later failure.
    ///
    /// # Errors
    /// What can be known before the request runs: [`EngineError::PromptTooLong`], [`EngineError::NeverFits`],
    /// [`EngineError::QueueFull`], [`EngineError::InvalidRequest`], [`EngineError::InvalidConstraint`],
    /// [`EngineError::Prompt`], [`EngineError::ShutDown`]. The sink is then dropped without a call.
    fn submit(
        &self,
        request: GenerationRequest,
        sink: Box<dyn GenerationSink>,
    ) -> Result<Ticket, EngineError>;

    /// Totals since loading.
    fn stats(&self) -> EngineStats;

    /// Submits one request and waits for its end.
    ///
    /// # Errors
    /// Whatever [`LanguageModel::submit`] or the request's run gives.
    fn generate(&self, request: GenerationRequest) -> Result<Generation, EngineError> {
        let (sender, receiver) = mpsc::channel();
        let ticket = self.submit(
            request,
            Box::new(move |result: Result<Generation, EngineError>| {
                // The receiver lives until this arrives, unless the caller's thread is gone.
                let _ = sender.send(result);
            }),
        )?;
        let result = receiver.recv().unwrap_or(Err(EngineError::ShutDown));
        ticket.detach();
        result
    }
}
