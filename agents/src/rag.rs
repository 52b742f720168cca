//! The baselines of one call: over the best turns of one search, or over every turn there is.

use engine_contract::Generation;
use retrieval::{Card, Hit, SearchRequest, TurnRecord};

use crate::excerpts::{in_order, within_budget};
use crate::machine::Note;
use crate::memcot::respond::{self, Answer};
use crate::memcot::state::State;
use crate::{
    AgentError, Event, FullContextSettings, Machine, Outcome, Question, RagSettings, Settings, Stage, Step,
};

/// Where the baseline stands.
#[derive(Debug)]
enum Phase {
    Search,
    /// Turns are cut to this many estimated tokens, newest first; `None` shows all.
    Read(Option<usize>),
    Respond,
    Done(Box<Outcome>),
}

/// One call for one question.
#[derive(Debug)]
pub struct Rag {
    state: State,
    phase: Phase,
}

impl Rag {
    /// The baseline at its search.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] and [`AgentError::EmptyQuestion`].
    pub fn new(question: Question, settings: &RagSettings, card: Card) -> Result<Self, AgentError> {
        settings.validate()?;
        if question.text.trim().is_empty() {
            return Err(AgentError::EmptyQuestion);
        }
        let settings = Settings {
            max_iterations: 1,
            top_k: settings.top_k,
            candidate_tokens: settings.candidate_tokens,
            abstain: settings.abstain,
            retriever: settings.retriever,
            time_words: settings.time_words,
            ..Settings::default()
        };
        Ok(Self {
            state: State::new(question, settings, card),
            phase: Phase::Search,
        })
    }

    /// The whole conversation in one prompt, before it is read.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] and [`AgentError::EmptyQuestion`].
    pub fn over_everything(
        question: Question,
        settings: &FullContextSettings,
        card: Card,
    ) -> Result<Self, AgentError> {
        settings.validate()?;
        let as_rag = RagSettings {
            abstain: settings.abstain,
            time_words: settings.time_words,
            ..RagSettings::default()
        };
        Ok(Self {
            phase: Phase::Read(settings.truncate.then_some(settings.turn_tokens)),
            ..Self::new(question, &as_rag, card)?
        })
    }

    fn read(&mut self, mut turns: Vec<TurnRecord>, budget: Option<usize>) {
        if let Some(tokens) = budget {
            let of = turns.len();
            turns.reverse();
            turns = within_budget(turns, tokens);
            turns.reverse();
            if turns.len() < of {
                let shown = turns.len();
                self.state.notes.push(Note::Truncated { shown, of });
            }
        }
        self.ask(turns);
    }

    fn searched(&mut self, lists: Vec<Vec<Hit>>) {
        let found = lists.into_iter().flatten().map(|hit| hit.turn).collect();
        let mut turns = within_budget(found, self.state.settings.candidate_tokens);
        in_order(&mut turns);
        self.ask(turns);
    }

    fn ask(&mut self, turns: Vec<TurnRecord>) {
        if turns.is_empty() {
            self.state.notes.push(Note::Skipped {
                stage: Stage::Respond,
                reason: "no turn was found at all".into(),
            });
            self.phase = Phase::Done(Box::new(self.state.outcome(None, Vec::new())));
            return;
        }
        self.state.show(turns.clone(), turns);
        self.phase = Phase::Respond;
    }

    fn responded(&mut self, generation: &Generation) {
        self.state.usage.add(&generation.usage);
        let parsed = respond::parse(&self.state, generation);
        let again = self.state.retry.take().is_none();
        let answer = match parsed {
            Ok(answer) => answer,
            Err(error) if again => {
                let reason = error.to_string();
                self.state.retry = Some(reason.clone());
                self.state.notes.push(Note::Retry {
                    stage: Stage::Respond,
                    reason,
                });
                return;
            }
            Err(error) => {
                self.state.notes.push(Note::Degraded {
                    stage: Stage::Respond,
                    reason: error.to_string(),
                    instead: "there is no answer".into(),
                });
                Answer {
                    text: None,
                    evidence: Vec::new(),
                }
            }
        };
        let cited = answer
            .evidence
            .into_iter()
            .map(|i| self.state.shown[i].clone())
            .collect();
        self.phase = Phase::Done(Box::new(self.state.outcome(answer.text, cited)));
    }
}

impl Machine for Rag {
    fn next_step(&self) -> Step {
        match &self.phase {
            Phase::Search => Step::Search {
                requests: vec![SearchRequest {
                    query: self.state.question.text.trim().to_owned(),
                    limit: self.state.settings.top_k,
                    retriever: self.state.settings.retriever,
                }],
            },
            Phase::Read(_) => Step::Read,
            Phase::Respond => Step::Generate {
                stage: Stage::Respond,
                request: Box::new(respond::prompt(&self.state)),
            },
            Phase::Done(outcome) => Step::Finished(outcome.clone()),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), AgentError> {
        match (&self.phase, event) {
            (Phase::Search, Event::Searched(lists)) => self.searched(lists),
            (&Phase::Read(budget), Event::Read(turns)) => self.read(turns, budget),
            (Phase::Respond, Event::Generated(generation)) => self.responded(&generation),
            (Phase::Search | Phase::Read(_) | Phase::Respond | Phase::Done(_), event) => {
                return Err(AgentError::UnexpectedEvent {
                    expected: self.next_step().name(),
                    received: event.name(),
                });
            }
        }
        Ok(())
    }

    fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.state.notes)
    }

    fn iteration(&self) -> usize {
        1
    }
}
