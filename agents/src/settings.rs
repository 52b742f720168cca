//! What a run may be told, with the values that suit small models.

use retrieval::Retriever;
use serde::{Deserialize, Serialize};

use crate::AgentError;

/// How many model calls an iteration has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stages {
    /// Zoom-in, zoom-out, judge and rewrite are a call each, as in the paper.
    #[default]
    Separate,
    /// One call selects, judges and rewrites; there is no zoom-out.
    Fused,
}

/// Settings of the MemCoT loop. The names of the paper stand in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Rounds of search at most (J), 1 to 32. The paper has 8; its models stop after 2.0 on average, and a small
    /// judge that has not found enough after three rounds rarely does later, while each round costs seconds.
    pub max_iterations: usize,
    /// Turns a search brings per query (K), 1 to 200.
    pub top_k: usize,
    /// Candidates shown to zoom-in are cut to this many estimated tokens, best first.
    pub candidate_tokens: usize,
    /// Turns that zoom-in or zoom-out may pick in one reply, 1 to 50.
    pub max_picks: usize,
    /// The best ranked turns of a search that are taken whatever zoom-in picks, 0 to 50: a small model's picks add
    /// to the ranking and cannot replace it. On 12 development questions the four picks of Qwen2.5-Coder-0.5B held
    /// 61 % of the evidence it was shown, the four best ranked turns 90 %. 0 is the paper's way.
    pub keep_ranked: usize,
    /// Turns before and after each useful turn (W), 1 to 100.
    pub window: usize,
    /// The windows shown to zoom-out are cut to this many estimated tokens, nearest turns first.
    pub window_tokens: usize,
    /// Queries of one rewrite at most, 1 to 10.
    pub max_queries: usize,
    /// How many model calls an iteration has.
    pub stages: Stages,
    /// Whether the neighbourhood of useful turns is read (the paper's ablation).
    pub zoom_out: bool,
    /// Whether later iterations see what earlier ones searched for and missed (the paper's ablation).
    pub episodic: bool,
    /// Earlier searches may take this many estimated tokens of a prompt; then the older ones shrink to their
    /// queries.
    pub episodic_tokens: usize,
    /// Whether "not in the conversation" may be the answer.
    pub abstain: bool,
    /// The responder also sees the best found turns that were not picked, up to this many estimated tokens in
    /// all; 0 shows it the picked ones only.
    pub fill_tokens: usize,
    /// Which index answers a query.
    pub retriever: Retriever,
    /// Whether relative time words carry their dates in prompts.
    pub time_words: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_iterations: 3,
            top_k: 10,
            candidate_tokens: 700,
            max_picks: 4,
            keep_ranked: 2,
            window: 4,
            window_tokens: 700,
            max_queries: 3,
            stages: Stages::Separate,
            zoom_out: true,
            episodic: true,
            episodic_tokens: 300,
            abstain: true,
            fill_tokens: 0,
            retriever: Retriever::Hybrid,
            time_words: true,
        }
    }
}

impl Settings {
    /// Checks every value.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] names the first bad one.
    pub fn validate(&self) -> Result<(), AgentError> {
        in_range("max_iterations", self.max_iterations, 1, 32, "1 to 32")?;
        in_range("top_k", self.top_k, 1, 200, "1 to 200")?;
        in_range(
            "candidate_tokens",
            self.candidate_tokens,
            1,
            100_000,
            "1 to 100000",
        )?;
        in_range("max_picks", self.max_picks, 1, 50, "1 to 50")?;
        in_range("keep_ranked", self.keep_ranked, 0, 50, "0 to 50")?;
        in_range(
            "window",
            self.window,
            1,
            100,
            "1 to 100; zoom_out = false turns windows off",
        )?;
        in_range("window_tokens", self.window_tokens, 1, 100_000, "1 to 100000")?;
        in_range("max_queries", self.max_queries, 1, 10, "1 to 10")?;
        in_range("episodic_tokens", self.episodic_tokens, 0, 100_000, "0 to 100000")?;
        in_range("fill_tokens", self.fill_tokens, 0, 100_000, "0 to 100000")
    }
}

/// Settings of plain retrieval: one search, one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RagSettings {
    /// Turns the search brings, 1 to 200.
    pub top_k: usize,
    /// They are cut to this many estimated tokens, best first.
    pub candidate_tokens: usize,
    /// Whether "not in the conversation" may be the answer.
    pub abstain: bool,
    /// Which index answers.
    pub retriever: Retriever,
    /// Whether relative time words carry their dates in prompts.
    pub time_words: bool,
}

impl Default for RagSettings {
    fn default() -> Self {
        Self {
            top_k: 10,
            candidate_tokens: 1_000,
            abstain: true,
            retriever: Retriever::Hybrid,
            time_words: true,
        }
    }
}

impl RagSettings {
    /// Checks every value.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] names the first bad one.
    pub fn validate(&self) -> Result<(), AgentError> {
        in_range("top_k", self.top_k, 1, 200, "1 to 200")?;
        in_range(
            "candidate_tokens",
            self.candidate_tokens,
            1,
            100_000,
            "1 to 100000",
        )
    }
}

/// Settings of the whole conversation in one prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FullContextSettings {
    /// Show only the newest turns where all do not fit; otherwise the engine refuses the prompt with both numbers.
    pub truncate: bool,
    /// How many tokens, estimated at four bytes each, the turns may have when they are truncated; 1 or more.
    pub turn_tokens: usize,
    /// Whether "not in the conversation" may be the answer.
    pub abstain: bool,
    /// Whether relative time words carry their dates in prompts.
    pub time_words: bool,
}

impl Default for FullContextSettings {
    fn default() -> Self {
        Self {
            truncate: false,
            turn_tokens: 31_000,
            abstain: true,
            time_words: true,
        }
    }
}

impl FullContextSettings {
    /// Checks every value.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] names the first bad one.
    pub fn validate(&self) -> Result<(), AgentError> {
        in_range("turn_tokens", self.turn_tokens, 1, 10_000_000, "1 to 10000000")
    }
}

pub(crate) fn in_range(
    field: &'static str,
    value: usize,
    least: usize,
    most: usize,
    expected: &'static str,
) -> Result<(), AgentError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(AgentError::InvalidSetting {
        field,
        received: value.to_string(),
        expected,
    })
}
