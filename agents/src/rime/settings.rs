//! What forming and using memories may be told (specs/rime-build.md; the paper's values are the defaults).

use retrieval::Retriever;
use serde::{Deserialize, Serialize};

use crate::AgentError;
use crate::settings::in_range;

/// The six formation questions, in our words; the paper's are not public.
const QUESTIONS: [&str; 6] = [
    "Who are the people mentioned and how are they related to the speakers?",
    "What happened, to whom, when and where?",
    "What do the speakers do: work, hobbies, habits, trips?",
    "What do the speakers plan, promise or hope to do, and when?",
    "How are the speakers, what do they like, dislike, believe or need?",
    "Which names, numbers, titles, places, gifts and other details are mentioned?",
];

/// Settings of memory formation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FormationSettings {
    /// What every session is asked.
    pub questions: Vec<String>,
    /// Turns recalled per question (k_f), 1 to 200.
    pub turns_per_question: usize,
    /// Rounds of neighbour expansion, 0 to 20.
    pub expansion_rounds: usize,
    /// Turns added on each side per round, 1 to 20.
    pub expansion_width: usize,
    /// Old memories recalled per question (k_h), 0 to 100.
    pub memories_per_question: usize,
    /// A call shows at most this many estimated tokens of turns; longer evidence is formed in several calls.
    pub evidence_tokens: usize,
    /// Operations per call at most, 1 to 50.
    pub max_operations: usize,
    /// Whether relative time words carry their dates in prompts.
    pub time_words: bool,
}

impl Default for FormationSettings {
    fn default() -> Self {
        Self {
            questions: QUESTIONS.map(str::to_owned).to_vec(),
            turns_per_question: 10,
            expansion_rounds: 2,
            expansion_width: 1,
            memories_per_question: 5,
            evidence_tokens: 1_500,
            max_operations: 12,
            time_words: true,
        }
    }
}

impl FormationSettings {
    /// Checks every value.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] names the first bad one.
    pub fn validate(&self) -> Result<(), AgentError> {
        in_range("questions", self.questions.len(), 1, 50, "1 to 50 questions")?;
        in_range("turns_per_question", self.turns_per_question, 1, 200, "1 to 200")?;
        in_range("expansion_rounds", self.expansion_rounds, 0, 20, "0 to 20")?;
        in_range(
            "expansion_width",
            self.expansion_width,
            1,
            20,
            "1 to 20; expansion_rounds = 0 turns it off",
        )?;
        in_range(
            "memories_per_question",
            self.memories_per_question,
            0,
            100,
            "0 to 100",
        )?;
        in_range(
            "evidence_tokens",
            self.evidence_tokens,
            50,
            100_000,
            "50 to 100000",
        )?;
        in_range("max_operations", self.max_operations, 1, 50, "1 to 50")
    }
}

/// Settings of answering from memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RimeSettings {
    /// Memories recalled, 1 to 200.
    pub memories: usize,
    /// They are cut to this many estimated tokens, best first.
    pub memory_tokens: usize,
    /// Whether the source turns of an answer's memories are read before it is accepted (beyond the paper).
    pub verify: bool,
    /// Source turns that the fallback finds, 1 to 200.
    pub fallback_turns: usize,
    /// Turns read before and after each of them, 1 to 100.
    pub fallback_window: usize,
    /// What the fallback reads is cut to this many estimated tokens, turns nearest to a found one first.
    pub fallback_tokens: usize,
    /// Which index the fallback asks: keywords in the paper, both beyond it.
    pub fallback_retriever: Retriever,
    /// Whether "not in the conversation" may be the last answer.
    pub abstain: bool,
    /// Whether relative time words carry their dates in prompts.
    pub time_words: bool,
}

impl Default for RimeSettings {
    fn default() -> Self {
        Self {
            memories: 30,
            memory_tokens: 1_000,
            verify: true,
            fallback_turns: 20,
            fallback_window: 15,
            fallback_tokens: 2_000,
            fallback_retriever: Retriever::Hybrid,
            abstain: true,
            time_words: true,
        }
    }
}

impl RimeSettings {
    /// The paper's way: no check of memory answers, keywords for the fallback.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            verify: false,
            fallback_retriever: Retriever::Bm25,
            fallback_tokens: 20_000,
            ..Self::default()
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] names the first bad one.
    pub fn validate(&self) -> Result<(), AgentError> {
        in_range("memories", self.memories, 1, 200, "1 to 200")?;
        in_range("memory_tokens", self.memory_tokens, 1, 100_000, "1 to 100000")?;
        in_range("fallback_turns", self.fallback_turns, 1, 200, "1 to 200")?;
        in_range("fallback_window", self.fallback_window, 1, 100, "1 to 100")?;
        in_range("fallback_tokens", self.fallback_tokens, 1, 100_000, "1 to 100000")
    }
}
