//! What a request cost, and what the engine did in all.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Tokens and time of one request, or of several added up.
///
/// `prompt = cached + computed` holds for a request that ran to its end without preemption; recomputation after a
/// preemption counts as `computed` again. A backend that cannot know a figure reports `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Prompt tokens whose keys and values came from the cache.
    pub cached_tokens: Option<usize>,
    /// Prompt tokens that went through the model.
    pub computed_tokens: Option<usize>,
    /// New tokens, the end token included.
    pub generated_tokens: usize,
    /// From submission to the first forward pass.
    pub queue: Duration,
    /// From the first forward pass to the first new token.
    pub prefill: Duration,
    /// From the first new token to the last.
    pub decode: Duration,
}

impl Usage {
    /// Adds another request's figures; an unknown figure makes the sum unknown.
    pub fn add(&mut self, other: &Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens = self.cached_tokens.zip(other.cached_tokens).map(|(a, b)| a + b);
        self.computed_tokens = self
            .computed_tokens
            .zip(other.computed_tokens)
            .map(|(a, b)| a + b);
        self.generated_tokens += other.generated_tokens;
        self.queue += other.queue;
        self.prefill += other.prefill;
        self.decode += other.decode;
    }

    /// The neutral element of [`Usage::add`]: every figure known and zero.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            cached_tokens: Some(0),
            computed_tokens: Some(0),
            ..Self::default()
        }
    }
}

/// Totals of a backend since it was loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStats {
    /// Requests that ended, in whatever way.
    pub requests: u64,
    /// Prompt tokens seen.
    pub prompt_tokens: u64,
    /// Prompt tokens served from the cache.
    pub cached_tokens: u64,
    /// Prompt tokens computed, recomputation included.
    pub computed_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Tokens guessed ahead.
    pub drafted_tokens: u64,
    /// Guesses that stood; each saved a forward pass.
    pub accepted_tokens: u64,
    /// KV blocks evicted to make room.
    pub evicted_blocks: u64,
    /// Running requests preempted to make room.
    pub preemptions: u64,
    /// Bytes of KV blocks in use, cached ones included.
    pub kv_bytes_used: u64,
    /// Bytes of the KV budget.
    pub kv_bytes_budget: u64,
    /// Bytes of the weights in memory.
    pub weight_bytes: u64,
    /// `batch_sizes[b]` is the number of forward passes with `b` sequences (index 0 is unused).
    pub batch_sizes: Vec<u64>,
}

impl EngineStats {
    /// Share of prompt tokens that came from the cache, in `[0, 1]`; 0 before the first prompt.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        if self.prompt_tokens == 0 {
            0.0
        } else {
            self.cached_tokens as f64 / self.prompt_tokens as f64
        }
    }
}
