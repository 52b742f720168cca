//! MemCoT: search, look closer, look around, judge, search again (papers/memcot.md, specs/memcot.md).

mod decide;
mod fused;
mod judge;
pub(crate) mod perceive;
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
    Ask(Call),
    Done(Box<Outcome>),
}

/// The model calls of this loop.
#[derive(Debug, Clone, Copy)]
enum Call {
    ZoomIn,
    ZoomOut,
    Judge,
    Rewrite,
    Fused,
    Respond,
}

impl Call {
    fn stage(self) -> Stage {
        match self {
            Self::ZoomIn => Stage::ZoomIn,
            Self::ZoomOut => Stage::ZoomOut,
            Self::Judge => Stage::Judge,
            Self::Rewrite => Stage::Rewrite,
            Self::Fused => Stage::Fused,
            Self::Respond => Stage::Respond,
        }
    }
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

    fn request(&self, call: Call) -> GenerationRequest {
        match call {
            Call::ZoomIn => zoom_in::prompt(&self.state),
            Call::ZoomOut => zoom_out::prompt(&self.state),
            Call::Judge => judge::prompt(&self.state),
            Call::Rewrite => rewrite::prompt(&self.state),
            Call::Fused => fused::prompt(&self.state),
            Call::Respond => respond::prompt(&self.state),
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
            Stages::Separate => Call::ZoomIn,
            Stages::Fused => Call::Fused,
        });
    }

    fn generated(&mut self, call: Call, generation: &Generation) {
        self.state.usage.add(&generation.usage);
        match call {
            Call::ZoomIn => self.zoomed_in(generation),
            Call::ZoomOut => self.zoomed_out(generation),
            Call::Judge => self.judged(generation),
            Call::Rewrite => self.rewritten(generation),
            Call::Fused => self.fused(generation),
            Call::Respond => self.responded(generation),
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
            Phase::Ask(call) => Step::Generate {
                stage: call.stage(),
                request: Box::new(self.request(*call)),
            },
            Phase::Done(outcome) => Step::Finished(outcome.clone()),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), AgentError> {
        match (&self.phase, event) {
            (Phase::Search, Event::Searched(lists)) => self.searched(lists),
            (Phase::Window, Event::Windowed(windows)) => self.windowed(windows),
            (Phase::Ask(call), Event::Generated(generation)) => self.generated(*call, &generation),
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
