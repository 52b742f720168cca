//! Known errors in a data set's labels, laid over it from a file of the user's.
//!
//! The shape is that of dial481/locomo-audit's `errors.json` (CC BY-NC, not part of this crate).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::error::EvaluationError;
use crate::f1::count;
use crate::question::{Category, Question};

/// The one kind of error that leaves the answer as it is.
const CITATION_ONLY: &str = "WRONG_CITATION";

/// Label errors by question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    errors: BTreeMap<String, LabelError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelError {
    kind: String,
    answer: Option<String>,
    evidence: Option<Vec<String>>,
}

/// What a perfect system can reach on the labels as they are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// Questions asked.
    pub n: usize,
    /// Questions whose gold answer is wrong.
    pub wrong_answers: usize,
    /// Questions of which only the cited turns are wrong.
    pub wrong_citations: usize,
    /// Share of questions with a right gold answer: a right answer scores no more than this on average.
    pub ceiling: f64,
}

#[derive(Deserialize)]
struct Entry {
    question_id: String,
    error_type: String,
    correct_answer: Option<String>,
    correct_evidence: Option<Vec<String>>,
}

impl Audit {
    /// Reads a file and finds its questions in the data set.
    ///
    /// # Errors
    /// When the file cannot be read, has another shape, or names a question that the data set does not hold.
    pub fn open(path: &Path, dataset: &Dataset) -> Result<Self, EvaluationError> {
        let text = fs::read_to_string(path).map_err(|source| EvaluationError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, &path.display().to_string(), dataset)
    }

    /// Reads the same from memory; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Audit::open`].
    pub fn parse(text: &str, name: &str, dataset: &Dataset) -> Result<Self, EvaluationError> {
        let wrong = |problem: String| EvaluationError::Audit {
            name: name.to_owned(),
            problem,
        };
        let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut conversations: Vec<&str> = Vec::new();
        for question in dataset.questions() {
            if conversations.last() != Some(&question.conversation.as_str()) {
                conversations.push(&question.conversation);
            }
        }
        let mut errors = BTreeMap::new();
        for entry in entries {
            let id = ours(&entry.question_id, &conversations);
            if !dataset.questions().iter().any(|question| question.id == id) {
                return Err(wrong(format!(
                    "the data set has no question {}",
                    entry.question_id
                )));
            }
            let error = LabelError {
                kind: entry.error_type,
                answer: entry.correct_answer.filter(|answer| !answer.trim().is_empty()),
                evidence: entry.correct_evidence.filter(|evidence| !evidence.is_empty()),
            };
            if errors.insert(id, error).is_some() {
                return Err(wrong(format!("{} occurs twice", entry.question_id)));
            }
        }
        Ok(Self { errors })
    }

    /// The data set with corrected answers and evidence.
    #[must_use]
    pub fn apply(&self, dataset: &Dataset) -> Dataset {
        dataset.map(|question| {
            let Some(error) = self.errors.get(&question.id) else {
                return question.clone();
            };
            let mut corrected = question.clone();
            if error.kind != CITATION_ONLY && question.category != Category::Unanswerable {
                corrected.gold = error.answer.clone().or(corrected.gold);
            }
            if let Some(evidence) = &error.evidence {
                corrected.evidence.clone_from(evidence);
                corrected.repaired_evidence.clone_from(evidence);
            }
            corrected
        })
    }

    /// What is reachable on these questions with the labels as they are.
    #[must_use]
    pub fn ceiling<'q>(&self, questions: impl IntoIterator<Item = &'q Question>) -> Ceiling {
        let (mut n, mut wrong_answers, mut wrong_citations) = (0, 0, 0);
        for question in questions {
            n += 1;
            match self.errors.get(&question.id) {
                Some(error) if error.kind == CITATION_ONLY => wrong_citations += 1,
                Some(_) => wrong_answers += 1,
                None => {}
            }
        }
        Ceiling {
            n,
            wrong_answers,
            wrong_citations,
            ceiling: count(n - wrong_answers) / count(n.max(1)),
        }
    }
}

/// `locomo_0_qa1` is the second question of the first conversation; other ids stand for themselves.
fn ours(id: &str, conversations: &[&str]) -> String {
    let parts = id.strip_prefix("locomo_").and_then(|rest| rest.split_once("_qa"));
    let place = parts.and_then(|(sample, index)| {
        Some((
            conversations.get(sample.parse::<usize>().ok()?)?,
            index.parse::<usize>().ok()?,
        ))
    });
    match place {
        Some((conversation, index)) => format!("{conversation}#{index}"),
        None => id.to_owned(),
    }
}
