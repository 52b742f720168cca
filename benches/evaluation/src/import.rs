//! Somebody else's prediction files, told by their shape.
//!
//! Files name questions by their text and place, ours by id; an answer whose question is not found is an error, never
//! left out. Known: our own JSONL; LongMemEval's JSONL (`question_id`, `hypothesis`); the evaluation script of
//! Haodong-Lei-Ray/MemCoT (`run_eval_in_benchmark.py`); mem0ai/mem0's `evaluation/` results; LoCoMo's own output
//! (`evaluate_qa.py`).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::dataset::Dataset;
use crate::error::EvaluationError;
use crate::predictions::{Prediction, parse_predictions};
use crate::question::Question;

/// Reads a prediction file of any known shape.
///
/// # Errors
/// When the file cannot be read, has none of the shapes, or answers a question that the data set does not hold.
pub fn import_predictions(path: &Path, dataset: &Dataset) -> Result<Vec<Prediction>, EvaluationError> {
    let text = fs::read_to_string(path).map_err(|source| EvaluationError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse_any_predictions(&text, &path.display().to_string(), dataset)
}

/// Reads the same from memory; `name` stands for the file in errors.
///
/// # Errors
/// As [`import_predictions`].
pub fn parse_any_predictions(
    text: &str,
    name: &str,
    dataset: &Dataset,
) -> Result<Vec<Prediction>, EvaluationError> {
    let Ok(whole) = serde_json::from_str::<Value>(text) else {
        return parse_predictions(text, name);
    };
    let importer = Importer::new(name, dataset);
    match &whole {
        Value::Object(object) if object.contains_key("details") => importer.memcot(object),
        Value::Object(object) if !object.is_empty() && object.values().all(Value::is_array) => {
            importer.mem0(object)
        }
        Value::Array(samples) => importer.locomo(samples),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            parse_predictions(text, name)
        }
    }
}

struct Importer<'a> {
    name: &'a str,
    /// Conversations in the order of the data set, each with its questions in order.
    conversations: Vec<(&'a str, Vec<&'a Question>)>,
}

impl<'a> Importer<'a> {
    fn new(name: &'a str, dataset: &'a Dataset) -> Self {
        let mut conversations: Vec<(&str, Vec<&Question>)> = Vec::new();
        for question in dataset.questions() {
            match conversations
                .last_mut()
                .filter(|(id, _)| *id == question.conversation)
            {
                Some((_, questions)) => questions.push(question),
                None => conversations.push((&question.conversation, vec![question])),
            }
        }
        Self { name, conversations }
    }

    fn problem(&self, problem: String) -> EvaluationError {
        EvaluationError::Import {
            name: self.name.to_owned(),
            problem,
        }
    }

    fn text(&self, value: &Value, field: &str) -> Result<String, EvaluationError> {
        match value.get(field) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.problem(format!("`{field}` must be text, received {other}"))),
            None => Err(self.problem(format!("an answer has no `{field}`"))),
        }
    }

    fn conversation(&self, id: &str) -> Result<&[&'a Question], EvaluationError> {
        self.conversations
            .iter()
            .find(|(conversation, _)| *conversation == id)
            .map(|(_, questions)| questions.as_slice())
            .ok_or_else(|| self.problem(format!("the data set has no conversation {id}")))
    }

    /// `{"sample_id": "conv-26", "details": [{"question", "prediction", "category", …}]}`.
    fn memcot(&self, object: &Map<String, Value>) -> Result<Vec<Prediction>, EvaluationError> {
        let sample = object.get("sample_id").and_then(Value::as_str);
        let sample = sample.ok_or_else(|| self.problem("`sample_id` is missing".into()))?;
        let details = object.get("details").and_then(Value::as_array);
        let details = details.ok_or_else(|| self.problem("`details` must be a list".into()))?;
        if sample == "longmemeval" {
            return details
                .iter()
                .map(|answer| {
                    Ok(Prediction {
                        id: self.text(answer, "question_id")?,
                        text: self.text(answer, "prediction")?,
                    })
                })
                .collect();
        }
        self.by_question(self.conversation(sample)?, details, "prediction")
    }

    /// `{"0": [{"question", "response", "category", …}], "1": …}`, keys are places in the data set.
    fn mem0(&self, object: &Map<String, Value>) -> Result<Vec<Prediction>, EvaluationError> {
        let mut all = Vec::new();
        for (place, answers) in object {
            let conversation = place
                .parse::<usize>()
                .ok()
                .and_then(|place| self.conversations.get(place));
            let (_, questions) = conversation
                .ok_or_else(|| self.problem(format!("the data set has no conversation number {place}")))?;
            let answers = answers.as_array().map(Vec::as_slice).unwrap_or_default();
            all.extend(self.by_question(questions, answers, "response")?);
        }
        Ok(all)
    }

    /// `[{"sample_id", "qa": [{…, "<model>_prediction": "…"}]}]`, questions in the order of the data set.
    fn locomo(&self, samples: &[Value]) -> Result<Vec<Prediction>, EvaluationError> {
        let mut all = Vec::new();
        for sample in samples {
            let questions = self.conversation(&self.text(sample, "sample_id")?)?;
            let answers = sample.get("qa").and_then(Value::as_array);
            let answers = answers.ok_or_else(|| self.problem("a sample has no list `qa`".into()))?;
            if answers.len() != questions.len() {
                let (received, expected) = (answers.len(), questions.len());
                return Err(self.problem(format!(
                    "a sample has {received} questions, expected the data set's {expected}"
                )));
            }
            for (answer, question) in answers.iter().zip(questions) {
                let field = self.prediction_field(answer)?;
                if let Some(field) = field {
                    all.push(Prediction {
                        id: question.id.clone(),
                        text: self.text(answer, field)?,
                    });
                }
            }
        }
        Ok(all)
    }

    /// The one field that ends in `_prediction`; none where the question was skipped.
    fn prediction_field<'v>(&self, answer: &'v Value) -> Result<Option<&'v str>, EvaluationError> {
        let object = answer
            .as_object()
            .ok_or_else(|| self.problem("`qa` must hold objects".into()))?;
        let mut fields = object.keys().filter(|key| key.ends_with("_prediction"));
        match (fields.next(), fields.next()) {
            (Some(a), Some(b)) => Err(self.problem(format!("answers of two models, {a} and {b}; keep one"))),
            (one, _) => Ok(one.map(String::as_str)),
        }
    }

    /// Answers that name their question by its text. Where several questions share a text, those of the answer's
    /// category are meant, in order.
    fn by_question(
        &self,
        questions: &[&'a Question],
        answers: &[Value],
        field: &str,
    ) -> Result<Vec<Prediction>, EvaluationError> {
        let mut by_text: HashMap<&str, Vec<&Question>> = HashMap::new();
        for question in questions {
            by_text.entry(question.text.trim()).or_default().push(question);
        }
        let mut taken = HashSet::new();
        answers
            .iter()
            .map(|answer| {
                let text = self.text(answer, "question")?;
                let category = answer.get("category").and_then(Value::as_u64);
                let same = by_text.get(text.trim()).map(Vec::as_slice).unwrap_or_default();
                let fits = |question: &&&Question| {
                    !taken.contains(question.id.as_str())
                        && category.is_none_or(|number| number == u64::from(question.category.number()))
                };
                let question = same.iter().find(fits).ok_or_else(|| {
                    self.problem(format!("no question {text:?} is left to answer in the data set"))
                })?;
                taken.insert(question.id.as_str());
                Ok(Prediction {
                    id: question.id.clone(),
                    text: self.text(answer, field)?,
                })
            })
            .collect()
    }
}
