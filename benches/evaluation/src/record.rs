//! What a run keeps of each answer: a line of its `predictions.jsonl`.

use agents::{Answered, Note, Outcome};
use serde::{Deserialize, Serialize};

use crate::predictions::Prediction;

/// An answer with its proof and its price. Only `id` and `prediction` are there when somebody else answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The question.
    pub id: String,
    /// The answer; [`Record::DECLINED`] where the system found none.
    pub prediction: String,
    /// Whether the system says that there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abstained: Option<bool>,
    /// Ids of the turns that the answer cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Ids of the turns that the answer was written from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<String>>,
    /// Turns shown and turns there are, where not all fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<[usize; 2]>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Rounds of search.
    pub iterations: usize,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// Prompt tokens that came from the cache; `None` where the engine does not say.
    pub cached_tokens: Option<usize>,
    /// Prompt tokens that were computed.
    pub computed_tokens: Option<usize>,
    /// New tokens.
    pub generated_tokens: usize,
    /// From the first step to the last, beside other questions.
    pub seconds: f64,
}

impl Record {
    /// What stands for "no answer": the words that LoCoMo's own scorer looks for.
    pub const DECLINED: &'static str = "not mentioned in the conversation";

    /// The record of an answered question.
    #[must_use]
    pub fn new(id: &str, outcome: &Outcome, answered: &Answered) -> Self {
        let notes = answered.trace.steps.iter().flat_map(|step| &step.notes);
        let mut truncated = None;
        for note in notes {
            if let Note::Truncated { shown, of } = note {
                truncated = Some([*shown, *of]);
            }
        }
        let usage = &outcome.usage;
        Self {
            id: id.to_owned(),
            prediction: if outcome.abstained {
                Self::DECLINED.to_owned()
            } else {
                outcome.answer.clone()
            },
            abstained: Some(outcome.abstained),
            evidence: outcome.evidence.iter().map(|turn| turn.id.to_string()).collect(),
            shown: Some(outcome.shown.iter().map(|key| key.turn.to_string()).collect()),
            truncated,
            price: Some(Price {
                iterations: outcome.iterations,
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                computed_tokens: usage.computed_tokens,
                generated_tokens: usage.generated_tokens,
                seconds: outcome.seconds,
            }),
        }
    }

    /// The answer alone.
    #[must_use]
    pub fn prediction(&self) -> Prediction {
        Prediction {
            id: self.id.clone(),
            text: self.prediction.clone(),
        }
    }
}

impl From<Prediction> for Record {
    fn from(prediction: Prediction) -> Self {
        Self {
            id: prediction.id,
            prediction: prediction.text,
            ..Self::default()
        }
    }
}
