//! Somebody's answers: one JSON object a line, `{"id": "conv-26#0", "prediction": "…"}`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::EvaluationError;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// The id of the question, as [`crate::Question::id`] spells it.
    pub id: String,
    /// What the system answered; may be empty.
    pub text: String,
}

/// Reads a prediction file.
///
/// # Errors
/// As [`parse_predictions`], and when the file cannot be read.
pub fn read_predictions(path: &Path) -> Result<Vec<Prediction>, EvaluationError> {
    let text = fs::read_to_string(path).map_err(|source| EvaluationError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse_predictions(&text, &path.display().to_string())
}

/// Reads predictions from the `text` of a JSONL file; `name` stands for the file in errors. Empty lines and other
/// fields than `id` and `prediction` are passed over; LongMemEval's `question_id` and `hypothesis` stand for the two.
///
/// # Errors
/// When a line is no JSON object, lacks one of the two fields, has another type than text in one, or repeats an id.
pub fn parse_predictions(text: &str, name: &str) -> Result<Vec<Prediction>, EvaluationError> {
    let mut seen = HashSet::new();
    let mut predictions = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let wrong = |problem| EvaluationError::PredictionLine {
            name: name.to_owned(),
            line: index + 1,
            problem,
        };
        let object: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let (id, text) = if object.get("hypothesis").is_some() {
            (string(&object, "question_id"), string(&object, "hypothesis"))
        } else {
            (string(&object, "id"), string(&object, "prediction"))
        };
        let (id, text) = (id.map_err(wrong)?, text.map_err(wrong)?);
        if !seen.insert(id.clone()) {
            return Err(EvaluationError::DuplicateId {
                name: name.to_owned(),
                id,
            });
        }
        predictions.push(Prediction { id, text });
    }
    Ok(predictions)
}

fn string(object: &Value, field: &str) -> Result<String, String> {
    match object.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("`{field}` must be text, received {other}")),
        None => Err(format!("`{field}` is missing")),
    }
}
