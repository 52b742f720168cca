//! How much of LongMemEval's evidence a memory finds, by the official metrics, without any language model.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::f1::count;
use crate::history::{HistoryKind, HistoryQuestion};
use crate::longmemeval::{RetrievalScores, is_scored, retrieval_scores, session_scores_of_turns};

/// Ranks at which recall is measured.
const RANKS: [usize; 5] = [1, 3, 5, 10, 30];

/// Means over scored questions; keys are `turn@5`, `session@10` and so on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HistoryRecallTable {
    /// Questions in the means.
    pub n: usize,
    /// Any relevant item is among the first k.
    pub recall_any: BTreeMap<String, f64>,
    /// Every relevant item is.
    pub recall_all: BTreeMap<String, f64>,
    /// Normalised discounted gain.
    pub ndcg_any: BTreeMap<String, f64>,
}

/// A whole run. As officially, the corpus is the user's turns, and sessions are ranked by their best turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HistoryRecall {
    /// Over all scored questions.
    #[serde(flatten)]
    pub all: HistoryRecallTable,
    /// By type.
    pub by_type: BTreeMap<String, HistoryRecallTable>,
    /// Questions in no mean: abstention, or no marked turn of the user.
    pub unscored: usize,
}

impl HistoryRecall {
    /// Enters one question with the names of the turns that were found, best first. Turns of the assistant are passed over.
    pub fn add(&mut self, question: &HistoryQuestion, found: &[&str]) {
        let corpus: Vec<String> = question
            .user_turns
            .iter()
            .map(|turn| turn.corpus_id.clone())
            .collect();
        if !is_scored(&question.id, &corpus) {
            self.unscored += 1;
            return;
        }
        let places: HashMap<&str, usize> = question
            .user_turns
            .iter()
            .zip(0..)
            .map(|(turn, place)| (turn.name.as_str(), place))
            .collect();
        let ranking: Vec<usize> = found
            .iter()
            .filter_map(|name| places.get(name).copied())
            .collect();
        let by_type = self.by_type.entry(question.kind.name().to_owned()).or_default();
        for table in [&mut self.all, by_type] {
            table.n += 1;
            for k in RANKS {
                table.enter(&format!("turn@{k}"), retrieval_scores(&ranking, &corpus, k));
                table.enter(
                    &format!("session@{k}"),
                    session_scores_of_turns(&ranking, &corpus, k),
                );
            }
        }
    }

    /// The means of what was entered.
    #[must_use]
    pub fn means(mut self) -> Self {
        self.all.divide();
        self.by_type.values_mut().for_each(HistoryRecallTable::divide);
        self
    }

    /// The types that have a scored question, in the order of reports.
    pub fn types(&self) -> impl Iterator<Item = (&'static str, &HistoryRecallTable)> {
        HistoryKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind.name(), self.by_type.get(kind.name())?)))
    }
}

impl HistoryRecallTable {
    /// Sums, until [`HistoryRecall::means`] divides them.
    fn enter(&mut self, key: &str, scores: RetrievalScores) {
        *self.recall_any.entry(key.to_owned()).or_default() += scores.recall_any;
        *self.recall_all.entry(key.to_owned()).or_default() += scores.recall_all;
        *self.ndcg_any.entry(key.to_owned()).or_default() += scores.ndcg_any;
    }

    fn divide(&mut self) {
        let n = count(self.n.max(1));
        for column in [&mut self.recall_any, &mut self.recall_all, &mut self.ndcg_any] {
            column.values_mut().for_each(|sum| *sum /= n);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::history::UserTurn;

    fn question(id: &str, turns: &[(&str, &str)]) -> HistoryQuestion {
        let turn = |(name, corpus_id): &(&str, &str)| UserTurn {
            name: (*name).to_owned(),
            corpus_id: (*corpus_id).to_owned(),
        };
        HistoryQuestion {
            id: id.into(),
            text: "?".into(),
            date: date(2023, 5, 30).at(9, 0, 0, 0),
            kind: HistoryKind::MultiSession,
            abstention: id.contains("_abs"),
            gold: "x".into(),
            evidence_sessions: vec![],
            evidence_turns: vec![],
            user_turns: turns.iter().map(turn).collect(),
        }
    }

    #[test]
    fn the_users_turns_are_scored_and_the_assistants_passed_over() {
        let turns = [
            ("s1_1", "noans_1"),
            ("s2_1", "answer_b_1"),
            ("s3_1", "c_1"),
            ("s4_1", "answer_d_1"),
        ];
        let mut recall = HistoryRecall::default();
        recall.add(
            &question("q", &turns),
            &["s3_2", "s3_1", "s2_2", "s2_1", "s1_1", "s4_1"],
        );
        recall.add(&question("q_abs", &turns), &["s2_1"]);
        recall.add(&question("none", &turns[..1]), &["s1_1"]);
        let recall = recall.means();
        assert_eq!((recall.all.n, recall.unscored), (1, 2));
        let any = |key: &str| recall.all.recall_any[key];
        assert_eq!((any("turn@1"), any("turn@3")), (0.0, 1.0));
        assert_eq!(
            (recall.all.recall_all["turn@3"], recall.all.recall_all["turn@5"]),
            (0.0, 1.0)
        );
        assert_eq!(
            recall
                .types()
                .map(|(name, table)| (name, table.n))
                .collect::<Vec<_>>(),
            [("multi-session", 1)]
        );
    }
}
