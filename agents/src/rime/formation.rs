//! Formation: one session's turns become operations on the memories (papers/rime, section on formation).
//!
//! Six questions find the turns worth reading, their neighbours join them, the nearest old memories are laid
//! beside them, and one model call says what changes. Evidence beyond the token budget is cut in time order
//! into several calls; all operations are applied together at the end.

use std::collections::BTreeSet;

use engine_contract::{Generation, GenerationRequest, Usage};
use retrieval::{Hit, TurnRecord};
use serde::{Deserialize, Serialize};

use super::bank::{Memory, Operation};
use super::remember::{self, Part};
use super::settings::FormationSettings;
use crate::AgentError;
use crate::excerpts::within_budget;

/// What formation needs next. Exhaustive on purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormStep {
    /// The nearest turns of the session to each text.
    SimilarTurns {
        /// The formation questions.
        texts: Vec<String>,
        /// Turns per question at most.
        limit: usize,
    },
    /// The nearest memories to each text.
    SimilarMemories {
        /// Each question with the turns it recalled.
        texts: Vec<String>,
        /// Memories per text at most.
        limit: usize,
    },
    /// Ask the model.
    Generate(Box<GenerationRequest>),
    /// Apply these to the bank, in one transaction.
    Apply(Vec<Operation>),
    /// The end; asking again gives the same.
    Finished(Formed),
}

/// What a driver gives back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormEvent {
    /// One list per text, best first.
    SimilarTurns(Vec<Vec<Hit>>),
    /// One list per text, best first.
    SimilarMemories(Vec<Vec<Memory>>),
    /// The model's reply.
    Generated(Generation),
    /// The bank took the operations.
    Applied,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formed {
    /// What was applied.
    pub operations: Vec<Operation>,
    /// Turns that the model read, and turns of the session.
    pub read: (usize, usize),
    /// Model calls, retries included.
    pub calls: usize,
    /// Why parts of the evidence were lost: their replies could not be used twice.
    pub lost: Vec<String>,
    /// Tokens and time of all calls together.
    pub usage: Usage,
}

#[derive(Debug)]
enum Phase {
    Turns,
    Memories,
    Generate,
    Apply,
    Done,
}

/// The formation of one session, as a state machine without input or output.
#[derive(Debug)]
pub struct Formation {
    turns: Vec<TurnRecord>,
    settings: FormationSettings,
    phase: Phase,
    /// Per question, the turns it recalled, best first.
    recalled: Vec<Vec<TurnRecord>>,
    /// What is still to be read; the first is in front of the model.
    parts: Vec<Part>,
    formed: Formed,
}

impl Formation {
    /// The formation of a session with these turns, in order.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`].
    pub fn new(turns: Vec<TurnRecord>, settings: FormationSettings) -> Result<Self, AgentError> {
        settings.validate()?;
        let read = (0, turns.len());
        let formed = Formed {
            operations: vec![],
            read,
            calls: 0,
            lost: vec![],
            usage: Usage::zero(),
        };
        let phase = if turns.is_empty() {
            Phase::Apply
        } else {
            Phase::Turns
        };
        Ok(Self {
            turns,
            settings,
            phase,
            recalled: vec![],
            parts: vec![],
            formed,
        })
    }

    /// What is needed now; changes nothing.
    #[must_use]
    pub fn next_step(&self) -> FormStep {
        match &self.phase {
            Phase::Turns => FormStep::SimilarTurns {
                texts: self.settings.questions.clone(),
                limit: self.settings.turns_per_question,
            },
            Phase::Memories => FormStep::SimilarMemories {
                texts: self.histories(),
                limit: self.settings.memories_per_question,
            },
            Phase::Generate => FormStep::Generate(Box::new(remember::prompt(&self.parts[0]))),
            Phase::Apply => FormStep::Apply(self.formed.operations.clone()),
            Phase::Done => FormStep::Finished(self.formed.clone()),
        }
    }

    /// Takes in what the current step asked for.
    ///
    /// # Errors
    /// [`AgentError::UnexpectedEvent`] when the event belongs to another kind of step; nothing is changed.
    pub fn on_event(&mut self, event: FormEvent) -> Result<(), AgentError> {
        match (&self.phase, event) {
            (Phase::Turns, FormEvent::SimilarTurns(lists)) => self.recalled_turns(lists),
            (Phase::Memories, FormEvent::SimilarMemories(lists)) => self.recalled_memories(lists),
            (Phase::Generate, FormEvent::Generated(generation)) => self.generated(&generation),
            (Phase::Apply, FormEvent::Applied) => self.phase = Phase::Done,
            (Phase::Turns | Phase::Memories | Phase::Generate | Phase::Apply | Phase::Done, event) => {
                return Err(AgentError::UnexpectedEvent {
                    expected: self.expected(),
                    received: name(&event),
                });
            }
        }
        Ok(())
    }

    fn expected(&self) -> &'static str {
        match self.phase {
            Phase::Turns => "similar turns",
            Phase::Memories => "similar memories",
            Phase::Generate => "a generation",
            Phase::Apply => "that the operations were applied",
            Phase::Done => "nothing, it has finished",
        }
    }

    fn recalled_turns(&mut self, lists: Vec<Vec<Hit>>) {
        self.recalled = lists
            .into_iter()
            .map(|list| list.into_iter().map(|hit| hit.turn).collect())
            .collect();
        self.phase = if self.settings.memories_per_question > 0 {
            Phase::Memories
        } else {
            Phase::Generate
        };
        if matches!(self.phase, Phase::Generate) {
            self.recalled_memories(Vec::new());
        }
    }

    /// `z^(r)`: each question followed by its turns in decreasing similarity.
    fn histories(&self) -> Vec<String> {
        let history = |(question, turns): (&String, &Vec<TurnRecord>)| {
            let said = turns
                .iter()
                .map(|turn| format!("\n{}: {}", turn.speaker, turn.text));
            std::iter::once(question.clone()).chain(said).collect()
        };
        self.settings
            .questions
            .iter()
            .zip(&self.recalled)
            .map(history)
            .collect()
    }

    /// The recalled turns and their neighbours, round by round, in the order of the session.
    fn evidence(&self) -> Vec<TurnRecord> {
        let recalled = self.recalled.iter().flatten();
        let mut kept: BTreeSet<usize> = recalled
            .filter_map(|turn| self.turns.iter().position(|t| t.id == turn.id))
            .collect();
        for _ in 0..self.settings.expansion_rounds {
            let width = self.settings.expansion_width;
            let around = |&i: &usize| i.saturating_sub(width)..(i + width + 1).min(self.turns.len());
            kept = kept.iter().flat_map(around).collect();
        }
        kept.into_iter().map(|i| self.turns[i].clone()).collect()
    }

    fn recalled_memories(&mut self, lists: Vec<Vec<Memory>>) {
        let mut memories: Vec<Memory> = Vec::new();
        for memory in lists.into_iter().flatten() {
            if !memories.iter().any(|known| known.id == memory.id) {
                memories.push(memory);
            }
        }
        let mut rest = self.evidence();
        self.formed.read.0 = rest.len();
        while !rest.is_empty() {
            let turns = within_budget(rest.clone(), self.settings.evidence_tokens);
            rest.drain(..turns.len());
            self.parts.push(Part {
                turns,
                memories: memories.clone(),
                noted: Vec::new(),
                max_operations: self.settings.max_operations,
                time_words: self.settings.time_words,
                retry: None,
            });
        }
        self.phase = if self.parts.is_empty() {
            Phase::Apply
        } else {
            Phase::Generate
        };
    }

    fn generated(&mut self, generation: &Generation) {
        self.formed.calls += 1;
        self.formed.usage.add(&generation.usage);
        let part = &mut self.parts[0];
        match remember::parse(part, generation) {
            Ok(operations) => {
                self.parts.remove(0);
                for later in &mut self.parts {
                    later.taken(&operations);
                }
                self.formed.operations.extend(operations);
            }
            Err(error) if part.retry.is_none() => part.retry = Some(error.to_string()),
            Err(error) => {
                self.parts.remove(0);
                self.formed.lost.push(error.to_string());
            }
        }
        if self.parts.is_empty() {
            self.phase = Phase::Apply;
        }
    }
}

impl Part {
    /// Shows what an earlier call has noted, and no longer offers the memories it has changed.
    fn taken(&mut self, operations: &[Operation]) {
        for operation in operations {
            match operation {
                Operation::Add { text, .. } => self.noted.push(text.clone()),
                Operation::Update { id, text, .. } => {
                    self.noted.push(text.clone());
                    self.memories.retain(|memory| memory.id != *id);
                }
                Operation::Delete { id, .. } => self.memories.retain(|memory| memory.id != *id),
            }
        }
    }
}

fn name(event: &FormEvent) -> &'static str {
    match event {
        FormEvent::SimilarTurns(_) => "similar turns",
        FormEvent::SimilarMemories(_) => "similar memories",
        FormEvent::Generated(_) => "a generation",
        FormEvent::Applied => "that the operations were applied",
    }
}
