//! MemCoT: search, look closer, look around, judge, search again (papers/memcot.md, specs/memcot.md).

mod decide;
mod fused;
mod judge;
mod perceive;
pub(crate) mod respond;
mod rewrite;
pub(crate) mod state;
pub(crate) mod stem;
#[cfg(test)]
mod tests;
mod zoom_in;
mod zoom_out;

use engine_contract::{Generation, GenerationRequest};
use retrieval::{Card, Hit, SearchRequest};

use self::state::State;
use crate::machine::Note;
use crate::{AgentError, Event, Machine, Outcome, Question, Settings, Stage, Stages, Step, TurnKey};

/// Where the loop stands.
#[derive(Debug)]
enum Phase {
    Search,
    Window,
    Ask(Stage),
    Done(Box<Outcome>),
}

/// The MemCoT loop of one question.
#[derive(Debug)]
pub struct Memcot {
    state: State,
    phase: Phase,
}

impl Memcot {
    /// A loop at its first search.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] and [`AgentError::EmptyQuestion`].
    pub fn new(question: Question, settings: Settings, card: Card) -> Result<Self, AgentError> {
        settings.validate()?;
        if question.text.trim().is_empty() {
            return Err(AgentError::EmptyQuestion);
        }
        Ok(Self {
            state: State::new(question, settings, card),
            phase: Phase::Search,
        })
    }

    fn request(&self, stage: Stage) -> GenerationRequest {
        match stage {
            Stage::ZoomIn => zoom_in::prompt(&self.state),
            Stage::ZoomOut => zoom_out::prompt(&self.state),
            Stage::Judge => judge::prompt(&self.state),
            Stage::Rewrite => rewrite::prompt(&self.state),
            Stage::Fused => fused::prompt(&self.state),
            Stage::Respond => respond::prompt(&self.state),
        }
    }

    fn searches(&self) -> Vec<SearchRequest> {
        let settings = &self.state.settings;
        // Turns already shown are left out afterwards: ask for as many more.
        let limit = settings.top_k + self.state.ranked.len();
        let request = |query: &String| SearchRequest {
            query: query.clone(),
            limit,
            retriever: settings.retriever,
        };
        self.state.queries.iter().map(request).collect()
    }

    fn searched(&mut self, lists: Vec<Vec<Hit>>) {
        let found = perceive::candidates(&self.state, lists);
        if found.is_empty() {
            self.skip(Stage::ZoomIn, "the search found nothing new");
            return self.perceived();
        }
        self.state.ranked.extend(found.iter().cloned());
        self.state.show(found.clone(), found);
        self.phase = Phase::Ask(match self.state.settings.stages {
            Stages::Separate => Stage::ZoomIn,
            Stages::Fused => Stage::Fused,
        });
    }

    fn generated(&mut self, stage: Stage, generation: &Generation) {
        self.state.usage.add(&generation.usage);
        match stage {
            Stage::ZoomIn => self.zoomed_in(generation),
            Stage::ZoomOut => self.zoomed_out(generation),
            Stage::Judge => self.judged(generation),
            Stage::Rewrite => self.rewritten(generation),
            Stage::Fused => self.fused(generation),
            Stage::Respond => self.responded(generation),
        }
    }
}

impl Machine for Memcot {
    fn next_step(&self) -> Step {
        match &self.phase {
            Phase::Search => Step::Search {
                requests: self.searches(),
            },
            Phase::Window => Step::Window {
                turns: self.state.picked.iter().map(TurnKey::of).collect(),
                each_side: self.state.settings.window,
            },
            Phase::Ask(stage) => Step::Generate {
                stage: *stage,
                request: Box::new(self.request(*stage)),
            },
            Phase::Done(outcome) => Step::Finished(outcome.clone()),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), AgentError> {
        match (&self.phase, event) {
            (Phase::Search, Event::Searched(lists)) => self.searched(lists),
            (Phase::Window, Event::Windowed(windows)) => self.windowed(windows),
            (Phase::Ask(stage), Event::Generated(generation)) => self.generated(*stage, &generation),
            (Phase::Search | Phase::Window | Phase::Ask(_) | Phase::Done(_), event) => {
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
        self.state.iteration
    }
}
