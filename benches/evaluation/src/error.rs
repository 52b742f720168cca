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
    /// A file is not a LongMemEval array.
    #[error(
        "{name} is not a LongMemEval file: expected an array of questions with their histories; {source}"
    )]
    Histories {
        /// The file or what stands for it.
        name: String,
        /// Where the parser stopped.
        source: serde_json::Error,
    },
    /// Two runs have no question in common.
    #[error("the two runs have no question in common; compare runs on the same data set and sample")]
    NothingInCommon,
    /// Somebody's prediction file does not fit the data set.
    #[error("{name}: {problem}")]
    Import {
        /// The file or what stands for it.
        name: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A file of label errors cannot be laid over the data set.
    #[error(
        "{name}: {problem}; expected [{{\"question_id\": \"locomo_0_qa1\", \"error_type\": …, \"correct_answer\": …}}]"
    )]
    Audit {
        /// The file or what stands for it.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder that should begin a run holds one.
    #[error("{} holds a run already; go on with it by --resume, or choose another --out", path.display())]
    RunExists {
        /// The folder.
        path: PathBuf,
    },
    /// A run would go on with another setting than it began with.
    #[error(
        "{} began with {setting} = {before}, now it is {now}; give the same settings, or choose another --out",
        path.display()
    )]
    ChangedSetting {
        /// The run's description.
        path: PathBuf,
        /// Which setting.
        setting: String,
        /// Its value then.
        before: String,
        /// Its value now.
        now: String,
    },
    /// A folder holds no run.
    #[error("{} is no run: {problem}; give a folder that was written by --out", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// What is missing or wrong.
        problem: String,
    },
    /// A judge gave no label.
    #[error("the judge {judge} with {rules} rules failed: {reason}")]
    Judge {
        /// Name of the judging model.
        judge: String,
        /// Its rules.
        rules: &'static str,
        /// What happened.
        reason: String,
    },
}
