//! A request for text, with how to sample and what shape the reply must have.

use serde::{Deserialize, Serialize};

use crate::Prompt;

/// How the next token is chosen from the logits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Divisor of the logits; `0.0` means greedy (the highest logit, the lowest id among equals).
    pub temperature: f32,
    /// Keep the `k` most likely tokens; `0` keeps all.
    pub top_k: usize,
    /// Keep the smallest set of tokens whose probability reaches this share, in `(0, 1]`.
    pub top_p: f32,
    /// Drop tokens less likely than this share of the most likely one, in `[0, 1)`.
    pub min_p: f32,
    /// Divides (positive) or multiplies (negative) the logits of tokens already generated; `1.0` is off.
    pub repetition_penalty: f32,
    /// Seed of this request's random stream; equal requests with equal seeds give equal tokens.
    pub seed: u64,
}

impl Sampling {
    /// Greedy decoding: deterministic, no randomness at all.
    #[must_use]
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }

    /// Plain sampling at a temperature with a seed.
    #[must_use]
    pub fn seeded(temperature: f32, seed: u64) -> Self {
        Self {
            temperature,
            seed,
            ..Self::greedy()
        }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::greedy()
    }
}

/// The language the reply must belong to; enforced by masking logits, never by repair.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Constraint {
    /// Free text.
    #[default]
    None,
    /// A JSON value that satisfies this JSON schema.
    JsonSchema(serde_json::Value),
    /// A text matched as a whole by this regular expression.
    Regex(String),
    /// Exactly one of these texts.
    Choices(Vec<String>),
}

/// One request to a language model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerationRequest {
    /// What to continue.
    pub prompt: Prompt,
    /// How to choose tokens.
    pub sampling: Sampling,
    /// At most this many new tokens.
    pub max_tokens: usize,
    /// Texts that end the reply; they are cut from it.
    pub stop: Vec<String>,
    /// The shape of the reply.
    pub constraint: Constraint,
    /// How many of the most likely alternatives to report per token, natural logarithms; `None` is off.
    pub logprobs: Option<usize>,
    /// Requests share cached prefixes only within one namespace.
    pub namespace: u64,
}

impl GenerationRequest {
    /// A greedy, unconstrained request.
    #[must_use]
    pub fn new(prompt: Prompt, max_tokens: usize) -> Self {
        Self {
            prompt,
            sampling: Sampling::greedy(),
            max_tokens,
            stop: Vec::new(),
            constraint: Constraint::None,
            logprobs: None,
            namespace: 0,
        }
    }
}
