//! What can go wrong between a file on disk and a score.

use std::path::PathBuf;

use thiserror::Error;

/// Why a data set or a prediction file cannot be scored.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A data set is not JSON, or its parts are not where they belong.
    #[error(
        "{name} is not a question file: expected LoCoMo's array of samples or an object with `questions`; {source}"
    )]
    Json {
        /// The file or what stands for it.
        name: String,
        /// Where the parser stopped.
        source: serde_json::Error,
    },
    /// A question carries a category that no metric has a rule for.
    #[error("question {id} has category {received}; expected {expected}")]
    UnknownCategory {
        /// The question.
        id: String,
        /// As the file spells it.
        received: String,
        /// The categories of that format.
        expected: &'static str,
    },
    /// A question or sample lacks what every one of its kind has, or has it in another form.
    #[error("question {id}: {field} must be {expected}, received {received}")]
    Field {
        /// The question.
        id: String,
        /// The name of the field.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// What is there.
        received: String,
    },
    /// Two questions of a data set, or two lines of a prediction file, have one id.
    #[error("{name}: the id {id} occurs twice; remove one of the two")]
    DuplicateId {
        /// The file or what stands for it.
        name: String,
        /// The id.
        id: String,
    },
    /// A line of a prediction file is not what it must be.
    #[error("{name}, line {line}: {problem}; expected {{\"id\": \"conv-26#0\", \"prediction\": \"…\"}}")]
    PredictionLine {
        /// The file or what stands for it.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A prediction answers a question that the data set does not hold.
    #[error(
        "there is a prediction for {id}, which is no question of the data set; is it the right data file?"
    )]
    UnknownId {
        /// The id in the prediction file.
        id: String,
    },
    /// Questions have no prediction although every one must.
    #[error(
        "{missing} of {questions} questions have no prediction, the first is {first}; allow a partial run or complete it"
    )]
    MissingPredictions {
        /// How many have none.
        missing: usize,
        /// How many there are.
        questions: usize,
        /// The id of the first.
        first: String,
    },
    /// There is nothing to score.
    #[error("no prediction to score in the categories asked for")]
    NothingToScore,
    /// Two methods were not scored on the same questions.
    #[error("a paired comparison needs the same questions on both sides: received {left} and {right} values")]
    UnpairedValues {
        /// Values of the first method.
        left: usize,
        /// Values of the second method.
        right: usize,
    },
}
