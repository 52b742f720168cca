//! LongMemEval's evidence, found without any language model: by the official script's metrics, and by our own recall of
//! all marked turns, the assistant's among them.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use retrieval::{Conversation, Hit, Recall, RetrievalError, Retriever};
use serde::Serialize;

use crate::history::{HistoryQuestion, turn_name};
use crate::longmemeval::{
    Granularity, RetrievalScores, UserTurns, corpus_ids, is_scored, retrieval_scores, session_scores_of_turns,
};
use crate::retrieval_run::{Measured, RecallTable, measure, search, tables};

/// Ranks of the official script.
const RANKS: [usize; 6] = [1, 3, 5, 10, 30, 50];
/// More than any history of the data set has turns.
const EVERYTHING: usize = 100_000;

/// The corpus that the official script ranks: the user's turns, under the file's own ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corpus {
    ids: Vec<String>,
    /// By the turn names of [`crate::disguise`], the place in `ids`.
    places: HashMap<String, usize>,
}

impl Corpus {
    /// `history` has the file's own ids.
    #[must_use]
    pub fn new(history: &Conversation, question: &HistoryQuestion) -> Self {
        let mut corpus = Self {
            ids: Vec::new(),
            places: HashMap::new(),
        };
        for (session, number) in history.sessions.iter().zip(1..) {
            // A session that occurs again in a history is told apart by a suffix that the file does not have.
            let id = session.id.as_str();
            let id = id.rsplit_once('#').map_or(id, |(id, _)| id);
            let names = (1..=session.turns.len()).map(|position| turn_name(number, position));
            let names: Vec<String> = names.collect();
            let marks = session.turns.iter().zip(&names).map(|(turn, name)| {
                let is_user = turn.speaker == "user";
                is_user.then(|| question.evidence_turns.contains(name))
            });
            let marks: Vec<Option<bool>> = marks.collect();
            let users = names.into_iter().zip(&marks).filter(|(_, mark)| mark.is_some());
            let first = corpus.ids.len();
            corpus.places.extend(users.map(|(name, _)| name).zip(first..));
            corpus
                .ids
                .extend(corpus_ids(id, UserTurns { marks: &marks }, Granularity::Turn));
        }
        corpus
    }

    fn ranking(&self, hits: &[Hit]) -> Vec<usize> {
        let places = hits.iter().map(|hit| self.places.get(hit.turn.id.as_str()));
        places.flatten().copied().collect()
    }
}

/// Means of the official metrics; keys are ranks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OfficialTable {
    /// Questions that the script scores: no abstention, some user turn marked.
    pub n: usize,
    /// Share of questions with any relevant item in the first k.
    pub recall_any: BTreeMap<String, f64>,
    /// Share of questions with every relevant item in the first k.
    pub recall_all: BTreeMap<String, f64>,
    /// Normalised gain of the first k.
    pub ndcg_any: BTreeMap<String, f64>,
}

impl OfficialTable {
    fn add(&mut self, k: usize, scores: RetrievalScores) {
        let columns = [
            (&mut self.recall_any, scores.recall_any),
            (&mut self.recall_all, scores.recall_all),
            (&mut self.ndcg_any, scores.ndcg_any),
        ];
        for (column, value) in columns {
            *column.entry(k.to_string()).or_default() += value;
        }
    }

    fn mean(&mut self) {
        let n = self.n.max(1) as f64;
        let columns = [&mut self.recall_any, &mut self.recall_all, &mut self.ndcg_any];
        columns
            .into_iter()
            .flat_map(BTreeMap::values_mut)
            .for_each(|sum| *sum /= n);
    }
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryRetrievalReport {
    /// Recall of all marked turns, over the questions that have some and are answerable.
    #[serde(flatten)]
    pub all: RecallTable,
    /// The same by type of question.
    pub by_category: BTreeMap<&'static str, RecallTable>,
    /// The official metrics over user turns.
    pub official_turns: OfficialTable,
    /// The official metrics over sessions, each ranked by its best user turn.
    pub official_sessions: OfficialTable,
    /// Questions left out of the recall.
    pub left_out: usize,
    /// Wall-clock time of all searches.
    pub seconds: f64,
}

/// Gathers questions one by one, so that only one history need be open.
#[derive(Default)]
#[expect(
    missing_debug_implementations,
    reason = "sums under way mean nothing to a reader"
)]
pub struct HistoryRetrieval {
    measured: Vec<Measured>,
    turns: OfficialTable,
    sessions: OfficialTable,
    left_out: usize,
    seconds: f64,
}

impl HistoryRetrieval {
    /// Searches one question in its history, whose ids are disguised.
    ///
    /// # Errors
    /// Whatever a search gives.
    pub fn add(
        &mut self,
        (question, corpus): (&HistoryQuestion, &Corpus),
        retriever: Retriever,
        recall: &dyn Recall,
    ) -> Result<(), RetrievalError> {
        let started = Instant::now();
        let hits = search(&question.text, EVERYTHING, retriever, recall)?;
        self.seconds += started.elapsed().as_secs_f64();
        if question.abstention || question.evidence_turns.is_empty() {
            self.left_out += 1;
        } else {
            let evidence = (&*question.evidence_turns, &*question.evidence_turns);
            self.measured
                .push(measure(question.kind.name(), evidence, &hits, recall)?);
        }
        if is_scored(&question.id, &corpus.ids) {
            let ranking = corpus.ranking(&hits);
            self.turns.n += 1;
            self.sessions.n += 1;
            for k in RANKS {
                self.turns.add(k, retrieval_scores(&ranking, &corpus.ids, k));
                self.sessions
                    .add(k, session_scores_of_turns(&ranking, &corpus.ids, k));
            }
        }
        Ok(())
    }

    /// The means.
    #[must_use]
    pub fn report(mut self) -> HistoryRetrievalReport {
        self.turns.mean();
        self.sessions.mean();
        let (all, by_category) = tables(&self.measured);
        HistoryRetrievalReport {
            all,
            by_category,
            official_turns: self.turns,
            official_sessions: self.sessions,
            left_out: self.left_out,
            seconds: self.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use retrieval::{Card, ConversationId, Session, SessionId, Turn, TurnId, TurnRecord};

    use super::*;
    use crate::HistoryKind;

    /// Finds the turns of a disguised history in a fixed order.
    struct Fixed(Vec<&'static str>);

    impl Recall for Fixed {
        fn card(&self) -> Result<Card, RetrievalError> {
            Ok(Card::default())
        }

        fn search(&self, _: &retrieval::SearchRequest) -> Result<Vec<Hit>, RetrievalError> {
            let record = |id: &&str| TurnRecord {
                conversation: ConversationId::new("q"),
                session: SessionId::new("s"),
                id: TurnId::new(*id),
                time: None,
                position: 0,
                speaker: "user".into(),
                text: String::new(),
                caption: None,
            };
            Ok(self
                .0
                .iter()
                .map(|id| Hit {
                    turn: record(id),
                    score: 0.0,
                })
                .collect())
        }

        fn turns(&self) -> Result<Vec<TurnRecord>, RetrievalError> {
            Ok(Vec::new())
        }

        fn window(
            &self,
            _: &ConversationId,
            _: &TurnId,
            _: usize,
        ) -> Result<Vec<TurnRecord>, RetrievalError> {
            Ok(Vec::new())
        }
    }

    fn history() -> Conversation {
        let session = |id: &str, turns: usize| Session {
            id: SessionId::new(id),
            time: None,
            turns: (1..=turns)
                .map(|n| Turn {
                    id: TurnId::new(format!("{id}_{n}")),
                    speaker: if n % 2 == 1 { "user" } else { "assistant" }.into(),
                    text: String::new(),
                    caption: None,
                    time: None,
                })
                .collect(),
        };
        Conversation {
            id: ConversationId::new("q"),
            title: None,
            sessions: vec![
                session("filler", 2),
                session("answer_1", 4),
                session("filler#2", 1),
            ],
        }
    }

    #[test]
    fn user_turns_are_ranked_by_the_official_metrics_and_all_turns_by_our_own() {
        let question = HistoryQuestion {
            id: "q".into(),
            text: "?".into(),
            date: date(2023, 5, 30).at(0, 0, 0, 0),
            kind: HistoryKind::MultiSession,
            abstention: false,
            gold: "x".into(),
            evidence_sessions: vec!["s2".into()],
            evidence_turns: vec!["s2_1".into(), "s2_2".into(), "s2_3".into()],
        };
        let corpus = Corpus::new(&history(), &question);
        assert_eq!(corpus.ids, ["filler_1", "answer_1_1", "answer_1_3", "filler_1"]);
        let mut run = HistoryRetrieval::default();
        let found = Fixed(vec!["s2_2", "s1_1", "s2_1", "s3_1", "s2_3"]);
        run.add((&question, &corpus), Retriever::Hybrid, &found).unwrap();
        let report = run.report();
        // The assistant's turn is in no official ranking: filler, answer_1_1, filler, answer_1_3.
        let official = &report.official_turns;
        assert_eq!(
            (official.n, official.recall_any["1"], official.recall_any["3"]),
            (1, 0.0, 1.0)
        );
        assert_eq!((official.recall_all["3"], official.recall_all["5"]), (0.0, 1.0));
        assert_eq!(report.official_sessions.recall_all["3"], 1.0);
        assert_eq!(report.all.recall["5"], 1.0);
        assert_eq!(report.by_category["multi-session"].n, 1);
    }
}
