//! The gold answers of a file, whichever data set it is.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use retrieval::{Format, recognise};

use crate::asked::Asked;
use crate::audit::Audit;
use crate::dataset::Dataset;
use crate::error::EvaluationError;
use crate::f1::f1_locomo;
use crate::history::{HistoryKind, HistoryQuestion, read_histories};
use crate::import::import_predictions;
use crate::item::{Item, Metric, measure, measure_history};
use crate::predictions::read_predictions;
use crate::question::{Category, Question};
use crate::record::Record;

/// Questions with their gold answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gold {
    /// LoCoMo's, or our own.
    Questions(Dataset),
    /// LongMemEval's.
    Histories(Vec<HistoryQuestion>),
}

impl Gold {
    /// Reads LoCoMo, LongMemEval or our `questions.json`, told by their shape.
    ///
    /// # Errors
    /// When the file cannot be read, has another shape, or holds a question that cannot be scored.
    pub fn open(path: &Path) -> Result<Self, EvaluationError> {
        if matches!(recognise(path), Ok(Format::LongMemEval)) {
            read_histories(path).map(Self::Histories)
        } else {
            // What is no set of questions is refused there.
            Dataset::open(path).map(Self::Questions)
        }
    }

    /// Reads answers to these questions from a file of any known shape.
    ///
    /// # Errors
    /// As [`import_predictions`].
    pub fn read_records(&self, path: &Path) -> Result<Vec<Record>, EvaluationError> {
        let predictions = match self {
            Self::Questions(dataset) => import_predictions(path, dataset),
            Self::Histories(_) => read_predictions(path),
        };
        Ok(predictions?.into_iter().map(Record::from).collect())
    }

    /// The questions as a system under test sees them, in the order of the file.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        match self {
            Self::Questions(dataset) => dataset.questions().iter().map(Asked::from).collect(),
            Self::Histories(questions) => questions.iter().map(Asked::from).collect(),
        }
    }

    /// The names of categories or types, in the order of reports.
    #[must_use]
    pub fn order(&self) -> Vec<&'static str> {
        match self {
            Self::Questions(_) => Category::ALL.iter().map(|category| category.name()).collect(),
            Self::Histories(_) => HistoryKind::ALL.iter().map(|kind| kind.name()).collect(),
        }
    }

    /// Measures answers, in the order of the data set.
    ///
    /// # Errors
    /// [`EvaluationError::UnknownId`], [`EvaluationError::DuplicateId`], [`EvaluationError::NothingToScore`].
    pub fn measure(&self, records: &[Record], audit: Option<&Audit>) -> Result<Vec<Item>, EvaluationError> {
        let mut by_id: HashMap<&str, &Record> = HashMap::new();
        for record in records {
            if by_id.insert(&record.id, record).is_some() {
                return Err(EvaluationError::DuplicateId {
                    name: "the answers".into(),
                    id: record.id.clone(),
                });
            }
        }
        let items: Vec<Item> = match self {
            Self::Questions(dataset) => {
                let corrected = audit.map(|audit| audit.apply(dataset));
                let corrected = corrected.as_ref().unwrap_or(dataset).questions();
                let pairs = dataset.questions().iter().zip(corrected);
                let answered = pairs.filter_map(|(question, corrected)| {
                    let record = by_id.get(question.id.as_str())?;
                    Some(measured(record, question, audit.map(|_| corrected)))
                });
                answered.collect()
            }
            Self::Histories(questions) => questions
                .iter()
                .filter_map(|question| Some(measure_history(by_id.get(question.id.as_str())?, question)))
                .collect(),
        };
        let known: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
        if let Some(stranger) = records.iter().find(|record| !known.contains(record.id.as_str())) {
            return Err(EvaluationError::UnknownId {
                id: stranger.id.clone(),
            });
        }
        if items.is_empty() {
            return Err(EvaluationError::NothingToScore);
        }
        Ok(items)
    }
}

fn measured(record: &Record, question: &Question, corrected: Option<&Question>) -> Item {
    let mut item = measure(record, question);
    if let Some(corrected) = corrected {
        let gold = corrected.gold.as_deref().unwrap_or_default();
        let f1 = f1_locomo(&record.prediction, gold, corrected.category);
        item.values.insert(Metric::F1LocomoAudited, f1);
    }
    item
}
