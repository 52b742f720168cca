//! The questions of our own format (`questions.json` beside a conversation in mneme's JSONL).

use serde::Deserialize;

use crate::error::EvaluationError;
use crate::question::{Category, Question};

/// The whole file.
#[derive(Deserialize)]
pub(crate) struct QuestionFile {
    conversation: String,
    questions: Vec<RawQuestion>,
}

#[derive(Deserialize)]
struct RawQuestion {
    id: String,
    question: String,
    answer: Option<String>,
    category: String,
    evidence: Vec<String>,
}

/// The questions, in the order of the file.
pub(crate) fn questions(file: QuestionFile) -> Result<Vec<Question>, EvaluationError> {
    let conversation = file.conversation;
    file.questions
        .into_iter()
        .map(|raw| question(raw, &conversation))
        .collect()
}

fn question(raw: RawQuestion, conversation: &str) -> Result<Question, EvaluationError> {
    let Some(category) = Category::from_name(&raw.category) else {
        let expected = "single-hop, multi-hop, temporal, open-domain or unanswerable";
        return Err(EvaluationError::UnknownCategory {
            id: raw.id,
            received: raw.category,
            expected,
        });
    };
    if raw.answer.is_none() != (category == Category::Unanswerable) {
        return Err(EvaluationError::Field {
            id: raw.id,
            field: "answer",
            expected: "null for an unanswerable question and text for any other",
            received: raw.answer.unwrap_or_else(|| "null".to_owned()),
        });
    }
    Ok(Question {
        id: raw.id,
        conversation: conversation.to_owned(),
        text: raw.question,
        gold: raw.answer,
        decoy: None,
        category,
        repaired_evidence: raw.evidence.clone(),
        evidence: raw.evidence,
    })
}
