//! RIME in use: answer from memories; where they are silent or not borne out, return to the source turns.

use engine_contract::Generation;
use retrieval::{Card, Hit, SearchRequest, TurnRecord};

use super::bank::Memory;
use super::recollect::{self, Recollection};
use super::settings::RimeSettings;
use super::verify;
use crate::excerpts::{estimated_tokens, in_order};
use crate::machine::Note;
use crate::memcot::perceive::neighbourhood;
use crate::memcot::respond;
use crate::memcot::state::State;
use crate::reply::ReplyError;
use crate::{AgentError, Event, Machine, Outcome, Question, Settings, Stage, Step, TurnKey};

/// Where the loop stands.
#[derive(Debug)]
enum Phase {
    Memories,
    Recollect,
    Verify(Recollection),
    Search,
    Window,
    Respond,
    Done(Box<Outcome>),
}

/// RIME's way to answer one question.
#[derive(Debug)]
pub struct Rime {
    state: State,
    settings: RimeSettings,
    memories: Vec<Memory>,
    phase: Phase,
}

impl Rime {
    /// The loop at its look into the memories.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] and [`AgentError::EmptyQuestion`].
    pub fn new(question: Question, settings: RimeSettings, card: Card) -> Result<Self, AgentError> {
        settings.validate()?;
        if question.text.trim().is_empty() {
            return Err(AgentError::EmptyQuestion);
        }
        let shared = Settings {
            max_iterations: 2,
            top_k: settings.fallback_turns,
            window: settings.fallback_window,
            window_tokens: settings.fallback_tokens,
            abstain: settings.abstain,
            retriever: settings.fallback_retriever,
            time_words: settings.time_words,
            ..Settings::default()
        };
        let state = State::new(question, shared, card);
        Ok(Self {
            state,
            settings,
            memories: Vec::new(),
            phase: Phase::Memories,
        })
    }

    fn recalled(&mut self, memories: Vec<Memory>) {
        let mut spent = 0;
        for memory in memories {
            spent += 8 + estimated_tokens(&memory.text) + estimated_tokens(&memory.time);
            if spent > self.settings.memory_tokens && !self.memories.is_empty() {
                break;
            }
            self.memories.push(memory);
        }
        if self.memories.is_empty() {
            return self.fall_back("there is no memory");
        }
        self.phase = Phase::Recollect;
    }

    fn generated(&mut self, generation: &Generation) {
        self.state.usage.add(&generation.usage);
        match &self.phase {
            Phase::Recollect => self.recollected(generation),
            Phase::Verify(found) => {
                let answer = found.answer.clone();
                self.verified(generation, answer);
            }
            Phase::Respond => self.responded(generation),
            Phase::Memories | Phase::Search | Phase::Window | Phase::Done(_) => {}
        }
    }

    /// `Some` when the reply can be used or was lost, `None` when it is asked for once more.
    fn settle<T>(&mut self, stage: Stage, parsed: Result<T, ReplyError>) -> Option<Result<T, String>> {
        let again = self.state.retry.take().is_none();
        match parsed {
            Ok(value) => Some(Ok(value)),
            Err(error) if again => {
                let reason = error.to_string();
                self.state.retry = Some(reason.clone());
                self.state.notes.push(Note::Retry { stage, reason });
                None
            }
            Err(error) => {
                let (reason, instead) = (error.to_string(), "the source turns are read".to_owned());
                self.state.notes.push(Note::Degraded {
                    stage,
                    reason: reason.clone(),
                    instead,
                });
                Some(Err(reason))
            }
        }
    }

    fn recollected(&mut self, generation: &Generation) {
        let parsed = recollect::parse(&self.memories, generation);
        match self.settle(Stage::Recollect, parsed) {
            None => {}
            Some(Err(_)) => self.fall_back("the reply could not be used"),
            Some(Ok(None)) => self.fall_back("the memories do not hold the answer"),
            Some(Ok(Some(found))) => {
                let sources = self.sources(&found);
                self.state.show(sources.clone(), sources);
                if self.settings.verify && !self.state.shown.is_empty() {
                    self.phase = Phase::Verify(found);
                } else {
                    self.accept(found.answer);
                }
            }
        }
    }

    /// The turns behind the memories an answer cites, or behind all of them where it cites none.
    fn sources(&self, found: &Recollection) -> Vec<TurnRecord> {
        let mut cited: Vec<&Memory> = found.memories.iter().map(|&i| &self.memories[i]).collect();
        if cited.is_empty() {
            cited = self.memories.iter().collect();
        }
        let mut turns: Vec<TurnRecord> = cited
            .into_iter()
            .flat_map(|memory| memory.sources.clone())
            .collect();
        in_order(&mut turns);
        turns.dedup();
        turns
    }

    fn accept(&mut self, answer: String) {
        let cited = self.state.shown.clone();
        self.phase = Phase::Done(Box::new(self.state.outcome(Some(answer), cited)));
    }

    fn verified(&mut self, generation: &Generation, answer: String) {
        match self.settle(Stage::Verify, verify::parse(generation)) {
            None => {}
            Some(Ok(true)) => self.accept(answer),
            Some(Ok(false)) => self.fall_back("the source turns do not bear the answer out"),
            Some(Err(_)) => self.fall_back("the reply could not be used"),
        }
    }

    fn fall_back(&mut self, reason: &str) {
        self.state.notes.push(Note::Fallback {
            reason: reason.into(),
        });
        self.state.iteration = 2;
        self.phase = Phase::Search;
    }

    fn searched(&mut self, lists: Vec<Vec<Hit>>) {
        let mut found: Vec<TurnRecord> = lists.into_iter().flatten().map(|hit| hit.turn).collect();
        found.truncate(self.settings.fallback_turns);
        if found.is_empty() {
            let (stage, reason) = (Stage::Respond, "no turn was found at all".into());
            self.state.notes.push(Note::Skipped { stage, reason });
            self.phase = Phase::Done(Box::new(self.state.outcome(None, Vec::new())));
            return;
        }
        self.state.picked = found;
        self.phase = Phase::Window;
    }

    fn windowed(&mut self, windows: Vec<Vec<TurnRecord>>) {
        let mut around = neighbourhood(&self.state, windows);
        if around.is_empty() {
            around.clone_from(&self.state.picked);
        }
        self.state.show(around.clone(), around);
        self.phase = Phase::Respond;
    }

    fn responded(&mut self, generation: &Generation) {
        let parsed = respond::parse(&self.state, generation);
        let Some(answer) = self.settle(Stage::Respond, parsed) else {
            return;
        };
        let (text, cited) = match answer {
            Ok(respond::Answer { text, evidence }) => (text, evidence),
            Err(_) => (None, Vec::new()),
        };
        let cited = cited.into_iter().map(|i| self.state.shown[i].clone()).collect();
        self.phase = Phase::Done(Box::new(self.state.outcome(text, cited)));
    }
}

impl Machine for Rime {
    fn next_step(&self) -> Step {
        let question = || self.state.question.text.trim().to_owned();
        let (stage, request) = match &self.phase {
            Phase::Memories => {
                return Step::Memories {
                    text: question(),
                    limit: self.settings.memories,
                };
            }
            Phase::Recollect => (Stage::Recollect, recollect::prompt(&self.state, &self.memories)),
            Phase::Verify(found) => (Stage::Verify, verify::prompt(&self.state, &found.answer)),
            Phase::Search => {
                let retriever = self.settings.fallback_retriever;
                let request = SearchRequest {
                    query: question(),
                    limit: self.settings.fallback_turns,
                    retriever,
                };
                return Step::Search {
                    requests: vec![request],
                };
            }
            Phase::Window => {
                let turns = self.state.picked.iter().map(TurnKey::of).collect();
                return Step::Window {
                    turns,
                    each_side: self.settings.fallback_window,
                };
            }
            Phase::Respond => (Stage::Respond, respond::prompt(&self.state)),
            Phase::Done(outcome) => return Step::Finished(outcome.clone()),
        };
        Step::Generate {
            stage,
            request: Box::new(request),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), AgentError> {
        match (&self.phase, event) {
            (Phase::Memories, Event::Memories(memories)) => self.recalled(memories),
            (Phase::Search, Event::Searched(lists)) => self.searched(lists),
            (Phase::Window, Event::Windowed(windows)) => self.windowed(windows),
            (Phase::Recollect | Phase::Verify(_) | Phase::Respond, Event::Generated(generation)) => {
                self.generated(&generation);
            }
            (_, event) => {
                let (expected, received) = (self.next_step().name(), event.name());
                return Err(AgentError::UnexpectedEvent { expected, received });
            }
        }
        Ok(())
    }

    fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.state.notes)
    }

    fn iteration(&self) -> usize {
        self.state.iteration
    }
}
