//! One answered question with everything that is measured of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bleu::bleu1;
use crate::evidence::evidence_recall;
use crate::f1::{f1_locomo, f1_set, f1_tokens};
use crate::history::HistoryQuestion;
use crate::question::{Category, Question};
use crate::record::Record;
use crate::short::{contains_gold, declines, exact_match};

/// What is measured of an answer, each from 0 to 1. A metric that does not apply to a question has no value there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// [`f1_locomo`].
    F1Locomo,
    /// The same against corrected gold answers.
    F1LocomoAudited,
    /// [`f1_tokens`], the plain token F1, on LongMemEval's short answers.
    F1Tokens,
    /// [`f1_set`].
    F1Set,
    /// [`bleu1`].
    Bleu1,
    /// [`exact_match`].
    Exact,
    /// [`contains_gold`].
    Contains,
    /// Share of the evidence, as the file spells it, among the turns that the answer was written from.
    RecallStrict,
    /// The same with mended evidence ids.
    RecallRepaired,
    /// Share of LongMemEval's marked turns among them.
    RecallTurns,
    /// Share of LongMemEval's answer sessions among their sessions.
    RecallSessions,
    /// Right by the lenient judge.
    JudgeLenient,
    /// Right by the strict judge.
    JudgeStrict,
    /// Right by LongMemEval's rules.
    JudgeLongmemeval,
}

impl Metric {
    /// All of them, in the order of report columns.
    pub const ALL: [Self; 14] = [
        Self::F1Locomo,
        Self::F1LocomoAudited,
        Self::F1Tokens,
        Self::F1Set,
        Self::Bleu1,
        Self::Exact,
        Self::Contains,
        Self::RecallStrict,
        Self::RecallRepaired,
        Self::RecallTurns,
        Self::RecallSessions,
        Self::JudgeLenient,
        Self::JudgeStrict,
        Self::JudgeLongmemeval,
    ];

    /// The name in files, such as `f1_locomo`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F1Locomo => "f1_locomo",
            Self::F1LocomoAudited => "f1_locomo_audited",
            Self::F1Tokens => "f1_tokens",
            Self::F1Set => "f1_set",
            Self::Bleu1 => "bleu1",
            Self::Exact => "exact",
            Self::Contains => "contains",
            Self::RecallStrict => "recall_strict",
            Self::RecallRepaired => "recall_repaired",
            Self::RecallTurns => "recall_turns",
            Self::RecallSessions => "recall_sessions",
            Self::JudgeLenient => "judge_lenient",
            Self::JudgeStrict => "judge_strict",
            Self::JudgeLongmemeval => "judge_longmemeval",
        }
    }

    /// Whether its values are labels, right or wrong, so that McNemar's test applies.
    #[must_use]
    pub fn is_label(self) -> bool {
        matches!(
            self,
            Self::Exact | Self::Contains | Self::JudgeLenient | Self::JudgeStrict | Self::JudgeLongmemeval
        )
    }

    /// The metric by which questions of these items are ranked and called right or wrong.
    #[must_use]
    pub fn leading(items: &[Item]) -> Self {
        let has = |metric: &Self| items.iter().any(|item| item.values.contains_key(metric));
        [Self::F1Locomo, Self::JudgeLongmemeval, Self::F1Tokens]
            .into_iter()
            .find(has)
            .unwrap_or(Self::F1Locomo)
    }
}

/// An answered question and its measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The question.
    pub id: String,
    /// Its category or type.
    pub group: String,
    /// Whether the conversation does not hold the answer.
    pub unanswerable: bool,
    /// Whether the answer says so.
    pub declined: bool,
    /// Measures that apply.
    pub values: BTreeMap<Metric, f64>,
    /// The question's text, for reports that stay on the machine.
    #[serde(skip)]
    pub question: String,
    /// The gold answer, likewise.
    #[serde(skip)]
    pub gold: String,
    /// The answer, likewise.
    #[serde(skip)]
    pub prediction: String,
}

/// Measures an answer to a LoCoMo question, or to one of our own.
#[must_use]
pub fn measure(record: &Record, question: &Question) -> Item {
    let gold = question.gold.clone().unwrap_or_default();
    let answer = &record.prediction;
    let unanswerable = question.category == Category::Unanswerable;
    let mut values = BTreeMap::from([(Metric::F1Locomo, f1_locomo(answer, &gold, question.category))]);
    if !unanswerable {
        values.insert(Metric::F1Set, f1_set(answer, &gold));
        values.insert(Metric::Bleu1, bleu1(answer, &gold));
        insert(&mut values, Metric::Exact, exact_match(answer, &gold));
        insert(&mut values, Metric::Contains, contains_gold(answer, &gold));
    }
    if let Some(shown) = &record.shown {
        insert(
            &mut values,
            Metric::RecallStrict,
            evidence_recall(&question.evidence, shown),
        );
        let repaired = evidence_recall(&question.repaired_evidence, shown);
        insert(&mut values, Metric::RecallRepaired, repaired);
    }
    Item {
        id: question.id.clone(),
        group: question.category.name().to_owned(),
        unanswerable,
        declined: record.declines(),
        values,
        question: question.text.clone(),
        gold,
        prediction: answer.clone(),
    }
}

/// Measures an answer to a LongMemEval question. Gold answers of preference and abstention questions are no answers,
/// so that only a judge can tell there.
#[must_use]
pub fn measure_history(record: &Record, question: &HistoryQuestion) -> Item {
    let answer = &record.prediction;
    let mut values = BTreeMap::new();
    let is_answer = question.kind != crate::HistoryKind::SingleSessionPreference && !question.abstention;
    if is_answer {
        values.insert(Metric::F1Tokens, f1_tokens(answer, &question.gold));
        insert(&mut values, Metric::Exact, exact_match(answer, &question.gold));
        insert(
            &mut values,
            Metric::Contains,
            contains_gold(answer, &question.gold),
        );
    }
    if let Some(shown) = record.shown.as_ref().filter(|_| !question.abstention) {
        let sessions: Vec<&str> = shown.iter().map(|turn| session_of(turn)).collect();
        insert(
            &mut values,
            Metric::RecallTurns,
            evidence_recall(&question.evidence_turns, shown),
        );
        let found = evidence_recall(&question.evidence_sessions, &sessions);
        insert(&mut values, Metric::RecallSessions, found);
    }
    Item {
        id: question.id.clone(),
        group: question.kind.name().to_owned(),
        unanswerable: question.abstention,
        declined: record.declines(),
        values,
        question: question.text.clone(),
        gold: question.gold.clone(),
        prediction: answer.clone(),
    }
}

/// The session of a turn as [`crate::disguise`] names them.
fn session_of(turn: &str) -> &str {
    turn.rsplit_once('_').map_or(turn, |(session, _)| session)
}

impl Record {
    /// Whether the answer says that there is none: by its own mark, or by its words where it has none.
    #[must_use]
    pub fn declines(&self) -> bool {
        self.abstained.unwrap_or_else(|| declines(&self.prediction))
    }
}

fn insert(values: &mut BTreeMap<Metric, f64>, metric: Metric, value: Option<f64>) {
    if let Some(value) = value {
        values.insert(metric, value);
    }
}
