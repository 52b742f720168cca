//! Everything a question has found out so far: both short-term memories and the work in hand.

use std::collections::HashSet;

use engine_contract::Usage;
use retrieval::{Card, TurnRecord};

use crate::excerpts::{self, Excerpt};
use crate::labels::Labels;
use crate::machine::{Note, QueryAction};
use crate::{Outcome, Question, Settings, TurnKey};

/// A turn that was accepted as evidence, with the iteration that accepted it.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) turn: TurnRecord,
    pub(crate) iteration: usize,
}

/// What one iteration searched for and what it left open.
#[derive(Debug, Clone)]
pub(crate) struct Episode {
    pub(crate) queries: Vec<String>,
    pub(crate) action: QueryAction,
    pub(crate) missing: String,
}

/// The state that every stage's prompt is made from.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) question: Question,
    /// The question as prompts show it, its time words resolved.
    pub(crate) question_text: String,
    pub(crate) settings: Settings,
    pub(crate) card: Card,
    pub(crate) labels: Labels,
    /// The current iteration, from 1.
    pub(crate) iteration: usize,
    /// Semantic memory: append-only, in the order of acceptance.
    pub(crate) semantic: Vec<Evidence>,
    /// Iterations whose evidence is settled, so that prompts show it.
    pub(crate) settled: usize,
    /// Episodic memory: one entry per judged iteration, in order.
    pub(crate) episodic: Vec<Episode>,
    /// Queries of the current iteration.
    pub(crate) queries: Vec<String>,
    pub(crate) action: QueryAction,
    /// Every turn shown by a search so far, best first within each iteration.
    pub(crate) ranked: Vec<TurnRecord>,
    /// The turns in front of the model now, and which of them it may name.
    pub(crate) shown: Vec<TurnRecord>,
    pub(crate) choices: Vec<TurnRecord>,
    /// Picked in this iteration, not yet settled.
    pub(crate) picked: Vec<TurnRecord>,
    /// What the rewrite of this iteration said is missing.
    pub(crate) missing: String,
    /// Whether the last verdict of the judge was that the evidence is enough; `None` before the first.
    pub(crate) enough: Option<bool>,
    /// Queries of the last rewrite that were refused as repetitions.
    pub(crate) refused: Vec<String>,
    /// Why the last reply could not be used, while the stage is asked again.
    pub(crate) retry: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) notes: Vec<Note>,
    annotated: HashSet<TurnKey>,
}

impl State {
    pub(crate) fn new(question: Question, settings: Settings, card: Card) -> Self {
        let (question_text, notes) = excerpts::annotated(
            question.text.trim().to_owned(),
            question.asked,
            settings.time_words,
        );
        let mut state = Self {
            queries: vec![question.text.trim().to_owned()],
            question,
            question_text,
            settings,
            card,
            labels: Labels::default(),
            iteration: 1,
            semantic: Vec::new(),
            settled: 0,
            episodic: Vec::new(),
            action: QueryAction::Initial,
            ranked: Vec::new(),
            shown: Vec::new(),
            choices: Vec::new(),
            picked: Vec::new(),
            enough: None,
            missing: String::new(),
            refused: Vec::new(),
            retry: None,
            usage: Usage::zero(),
            notes: Vec::new(),
            annotated: HashSet::new(),
        };
        if !notes.is_empty() {
            state.notes.push(Note::TimeWords {
                place: "question".into(),
                notes,
            });
        }
        state
    }

    /// The label of a turn that was shown before.
    pub(crate) fn label(&self, turn: &TurnRecord) -> String {
        self.labels.get(turn)
    }

    /// The labels of turns that were shown before.
    pub(crate) fn label_all(&self, turns: &[TurnRecord]) -> Vec<String> {
        turns.iter().map(|turn| self.label(turn)).collect()
    }

    /// Turns as prompts show them.
    pub(crate) fn excerpts(&self, turns: &[TurnRecord]) -> Vec<Excerpt> {
        let time_words = self.settings.time_words;
        turns
            .iter()
            .map(|turn| excerpts::excerpt(turn, self.label(turn), time_words).0)
            .collect()
    }

    /// Puts turns in front of the model, of which `choices` may be named; labels and notes them.
    pub(crate) fn show(&mut self, turns: Vec<TurnRecord>, choices: Vec<TurnRecord>) {
        let ids = turns.iter().map(|turn| self.labels.assign(turn)).collect();
        self.notes.push(Note::Shown { ids });
        for turn in turns
            .iter()
            .filter(|turn| self.annotated.insert(TurnKey::of(turn)))
        {
            let (excerpt, notes) = excerpts::excerpt(turn, self.labels.get(turn), self.settings.time_words);
            if !notes.is_empty() {
                self.notes.push(Note::TimeWords {
                    place: excerpt.id,
                    notes,
                });
            }
        }
        self.shown = turns;
        self.choices = choices;
    }

    /// Whether a turn is evidence or picked already.
    pub(crate) fn holds(&self, turn: &TurnRecord) -> bool {
        let mut all = self
            .semantic
            .iter()
            .map(|evidence| &evidence.turn)
            .chain(&self.picked);
        all.any(|held| same(held, turn))
    }

    /// Whether a search has shown this turn before.
    pub(crate) fn seen(&self, turn: &TurnRecord) -> bool {
        self.ranked.iter().any(|seen| same(seen, turn))
    }

    /// Moves what was picked into the semantic memory; says how many turns that were.
    pub(crate) fn settle(&mut self) -> usize {
        let ids = self.label_all(&self.picked);
        let iteration = self.iteration;
        let added = ids.len();
        self.semantic
            .extend(self.picked.drain(..).map(|turn| Evidence { turn, iteration }));
        self.settled = iteration;
        self.notes.push(Note::Accepted { ids });
        added
    }

    /// Enters the current iteration into the episodic memory.
    pub(crate) fn remember(&mut self) {
        self.episodic.push(Episode {
            queries: self.queries.clone(),
            action: self.action,
            missing: std::mem::take(&mut self.missing),
        });
    }

    /// Whether an equal query was searched before, or is in `others`.
    pub(crate) fn repeats(&self, query: &str, others: &[String]) -> bool {
        let wanted = crate::query::normalise(query);
        let earlier = self.episodic.iter().flat_map(|episode| &episode.queries);
        wanted.is_empty()
            || earlier
                .chain(&self.queries)
                .chain(others)
                .any(|q| crate::query::normalise(q) == wanted)
    }

    /// The end: an answer with the turns it cites, or with all the turns shown where it cites none.
    pub(crate) fn outcome(&self, answer: Option<String>, mut cited: Vec<TurnRecord>) -> Outcome {
        if cited.is_empty() && answer.is_some() {
            cited = self.shown.clone();
        }
        excerpts::in_order(&mut cited);
        Outcome {
            abstained: answer.is_none(),
            answer: answer.unwrap_or_else(|| Outcome::NOT_FOUND.into()),
            evidence: cited,
            accepted: self.evidence(),
            shown: self.shown.iter().map(TurnKey::of).collect(),
            iterations: self.iteration,
            usage: self.usage,
            seconds: 0.0,
        }
    }

    /// Evidence in the order of acceptance.
    pub(crate) fn evidence(&self) -> Vec<TurnRecord> {
        self.semantic
            .iter()
            .map(|evidence| evidence.turn.clone())
            .collect()
    }
}

/// Whether two records are one turn.
pub(crate) fn same(a: &TurnRecord, b: &TurnRecord) -> bool {
    a.id == b.id && a.conversation == b.conversation
}
