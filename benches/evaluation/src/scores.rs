//! From predictions and a data set to the figures that a report prints.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::bleu::bleu1;
use crate::bootstrap::{Resampling, bootstrap_mean};
use crate::dataset::Dataset;
use crate::error::EvaluationError;
use crate::f1::{f1_locomo, f1_set};
use crate::predictions::Prediction;
use crate::question::{Category, Question};

/// What to score and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreOptions {
    /// Only questions of these categories; papers report 1 to 4, that is all but unanswerable.
    pub categories: Vec<Category>,
    /// Whether every question of those categories must have a prediction.
    pub complete: bool,
    /// How the intervals are drawn.
    pub resampling: Resampling,
}

impl Default for ScoreOptions {
    fn default() -> Self {
        Self {
            categories: Category::ALL.to_vec(),
            complete: false,
            resampling: Resampling::default(),
        }
    }
}

/// All figures of one prediction file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// Mean over all scored questions (micro).
    pub overall: Summary,
    /// The same for each category that has a scored question, by its name.
    pub by_category: BTreeMap<Category, Summary>,
    /// One entry for each prediction in the chosen categories, in the order of the data set.
    pub questions: Vec<QuestionScore>,
    /// Ids of questions in the chosen categories that have no prediction and so count nowhere.
    pub missing: Vec<String>,
    /// How many predictions lie outside the chosen categories and so count nowhere.
    pub left_out: usize,
}

/// Means over a group of questions, each from 0 to 1, with 95 % bootstrap intervals `[low, high]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Questions in the group.
    pub n: usize,
    /// Mean of [`f1_locomo`] over all `n`.
    pub f1_locomo: f64,
    /// Its interval.
    pub f1_locomo_interval: [f64; 2],
    /// Questions in the group that can be answered; the two metrics below know no others.
    pub n_answerable: usize,
    /// Mean of [`f1_set`] over the answerable ones; `None` when there are none.
    pub f1_set: Option<f64>,
    /// Its interval.
    pub f1_set_interval: Option<[f64; 2]>,
    /// Mean of [`bleu1`] over the answerable ones; `None` when there are none.
    pub bleu1: Option<f64>,
    /// Its interval.
    pub bleu1_interval: Option<[f64; 2]>,
}

/// The scores of one prediction, each from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuestionScore {
    /// The question.
    pub id: String,
    /// Its category.
    pub category: Category,
    /// [`f1_locomo`] with the rule of the category.
    pub f1_locomo: f64,
    /// [`f1_set`]; `None` for an unanswerable question.
    pub f1_set: Option<f64>,
    /// [`bleu1`]; `None` for an unanswerable question.
    pub bleu1: Option<f64>,
}

/// Scores predictions against the gold answers of a data set.
///
/// # Errors
/// When a prediction has an id that the data set does not know or that occurred before, when a question has none
/// although `options.complete`, or when nothing is left to score.
pub fn score(
    predictions: &[Prediction],
    dataset: &Dataset,
    options: &ScoreOptions,
) -> Result<Scores, EvaluationError> {
    let mut answers = HashMap::new();
    for prediction in predictions {
        if answers
            .insert(prediction.id.as_str(), prediction.text.as_str())
            .is_some()
        {
            return Err(EvaluationError::DuplicateId {
                name: "predictions".to_owned(),
                id: prediction.id.clone(),
            });
        }
    }
    let chosen: Vec<&Question> = dataset
        .questions()
        .iter()
        .filter(|question| options.categories.contains(&question.category))
        .collect();
    let known = dataset
        .questions()
        .iter()
        .filter(|question| answers.contains_key(question.id.as_str()))
        .count();
    if known < answers.len() {
        return Err(first_unknown(predictions, dataset));
    }
    let (answered, missing): (Vec<&Question>, Vec<&Question>) = chosen
        .iter()
        .partition(|question| answers.contains_key(question.id.as_str()));
    if let Some(first) = missing.first().filter(|_| options.complete) {
        let (missing, questions, first) = (missing.len(), chosen.len(), first.id.clone());
        return Err(EvaluationError::MissingPredictions {
            missing,
            questions,
            first,
        });
    }
    let questions: Vec<QuestionScore> = answered
        .iter()
        .map(|question| score_question(question, answers[question.id.as_str()]))
        .collect();
    let by_category = Category::ALL
        .into_iter()
        .filter_map(|category| {
            let group = questions.iter().filter(|scored| scored.category == category);
            Some((category, summarise(group, options.resampling)?))
        })
        .collect();
    Ok(Scores {
        overall: summarise(questions.iter(), options.resampling).ok_or(EvaluationError::NothingToScore)?,
        by_category,
        left_out: answers.len() - questions.len(),
        questions,
        missing: missing.iter().map(|question| question.id.clone()).collect(),
    })
}

fn first_unknown(predictions: &[Prediction], dataset: &Dataset) -> EvaluationError {
    let is_known = |id: &str| dataset.questions().iter().any(|question| question.id == id);
    let unknown = predictions.iter().find(|prediction| !is_known(&prediction.id));
    EvaluationError::UnknownId {
        id: unknown
            .map(|prediction| prediction.id.clone())
            .unwrap_or_default(),
    }
}

fn score_question(question: &Question, answer: &str) -> QuestionScore {
    let gold = question.gold.as_deref().unwrap_or_default();
    let answerable = question.category != Category::Unanswerable;
    QuestionScore {
        id: question.id.clone(),
        category: question.category,
        f1_locomo: f1_locomo(answer, gold, question.category),
        f1_set: answerable.then(|| f1_set(answer, gold)),
        bleu1: answerable.then(|| bleu1(answer, gold)),
    }
}

/// `None` for an empty group.
fn summarise<'a>(
    group: impl Iterator<Item = &'a QuestionScore> + Clone,
    resampling: Resampling,
) -> Option<Summary> {
    let over = |values: Vec<f64>| bootstrap_mean(&values, resampling);
    let f1 = over(group.clone().map(|scored| scored.f1_locomo).collect())?;
    let set = over(group.clone().filter_map(|scored| scored.f1_set).collect());
    let bleu = over(group.clone().filter_map(|scored| scored.bleu1).collect());
    Some(Summary {
        n: group.clone().count(),
        f1_locomo: f1.mean,
        f1_locomo_interval: [f1.low, f1.high],
        n_answerable: group.filter(|scored| scored.f1_set.is_some()).count(),
        f1_set: set.map(|set| set.mean),
        f1_set_interval: set.map(|set| [set.low, set.high]),
        bleu1: bleu.map(|bleu| bleu.mean),
        bleu1_interval: bleu.map(|bleu| [bleu.low, bleu.high]),
    })
}
