//! What comes out of a question.

use engine_contract::Usage;
use retrieval::TurnRecord;
use serde::{Deserialize, Serialize};

use crate::TurnKey;

/// An answer with its proof and its price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The answer; [`Outcome::NOT_FOUND`] where `abstained`.
    pub answer: String,
    /// Whether the memory does not hold an answer, as far as the loop can tell.
    pub abstained: bool,
    /// The turns the answer rests on, in the order in which they were said.
    pub evidence: Vec<TurnRecord>,
    /// Every turn that was accepted on the way, in the order in which it was accepted.
    pub accepted: Vec<TurnRecord>,
    /// The turns that stood in the last prompt, in its order: what the answer was written from.
    #[serde(default)]
    pub shown: Vec<TurnKey>,
    /// Rounds of search, at least 1.
    pub iterations: usize,
    /// Tokens and time of all model calls together.
    pub usage: Usage,
    /// Wall-clock time from the first step to the last, filled in by the driver.
    pub seconds: f64,
}

impl Outcome {
    /// The answer where there is none.
    pub const NOT_FOUND: &'static str = "not in the conversation";
}
