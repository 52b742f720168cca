//! The questions of a LoCoMo file (`locomo10.json`), with every oddity it is known for.
//!
//! Answers may be numbers; category 5 has `adversarial_answer`, seldom `answer` too; questions have no id, so that
//! the sample and the index stand for one; evidence may be missing or misspelt. Maharana et al., ACL 2024.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::EvaluationError;
use crate::evidence::repair_evidence;
use crate::question::{Category, Question};

/// One element of the file's array.
#[derive(Deserialize)]
pub(crate) struct Sample {
    sample_id: String,
    conversation: Map<String, Value>,
    qa: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawQuestion {
    question: String,
    answer: Option<Value>,
    adversarial_answer: Option<Value>,
    #[serde(default)]
    evidence: Vec<String>,
    category: Value,
}

/// The questions of one sample, in the order of the file.
pub(crate) fn questions(sample: Sample) -> Result<Vec<Question>, EvaluationError> {
    let turns = turn_ids(&sample.conversation);
    let conversation = sample.sample_id;
    sample
        .qa
        .into_iter()
        .enumerate()
        .map(|(index, raw)| question(raw, format!("{conversation}#{index}"), &conversation, &turns))
        .collect()
}

fn question(
    raw: RawQuestion,
    id: String,
    conversation: &str,
    turns: &HashSet<String>,
) -> Result<Question, EvaluationError> {
    let Some(category) = raw.category.as_u64().and_then(Category::from_number) else {
        let received = raw.category.to_string();
        return Err(EvaluationError::UnknownCategory {
            id,
            received,
            expected: "a number from 1 to 5",
        });
    };
    let answer = text(raw.answer, &id, "answer")?;
    let adversarial = text(raw.adversarial_answer, &id, "adversarial_answer")?;
    let (gold, decoy) = if category == Category::Unanswerable {
        (answer, adversarial)
    } else {
        (answer.or(adversarial), None)
    };
    if gold.is_none() && category != Category::Unanswerable {
        return Err(field(id, "answer", "null"));
    }
    let repaired_evidence = repair_evidence(&raw.evidence, turns);
    Ok(Question {
        id,
        conversation: conversation.to_owned(),
        text: raw.question,
        gold,
        decoy,
        category,
        evidence: raw.evidence,
        repaired_evidence,
    })
}

/// An answer as Python's `str` writes it.
fn text(value: Option<Value>, id: &str, name: &'static str) -> Result<Option<String>, EvaluationError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other @ (Value::Bool(_) | Value::Array(_) | Value::Object(_))) => {
            Err(field(id.to_owned(), name, &other.to_string()))
        }
    }
}

fn field(id: String, field: &'static str, received: &str) -> EvaluationError {
    EvaluationError::Field {
        id,
        field,
        expected: "text or a number",
        received: received.to_owned(),
    }
}

/// The `dia_id` of every turn of every `session_<number>`.
fn turn_ids(conversation: &Map<String, Value>) -> HashSet<String> {
    conversation
        .iter()
        .filter(|(key, _)| {
            key.strip_prefix("session_")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .filter_map(|(_, session)| session.as_array())
        .flatten()
        .filter_map(|turn| turn.get("dia_id")?.as_str().map(str::to_owned))
        .collect()
}
