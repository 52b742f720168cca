//! What happened on the way to an answer: typed, versioned JSON from which the run can be replayed.

#[cfg(test)]
mod tests;

use retrieval::Card;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::{Event, Machine, Note, Step};
use crate::{AgentError, Method, Outcome, Question};

/// Version of the trace's schema; it grows with every change that an older reader would misread.
pub const TRACE_VERSION: u32 = 1;

/// One step with what came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    /// The iteration in which it was asked for, from 1.
    pub iteration: usize,
    /// What was asked for, prompts in full.
    pub step: Step,
    /// What came back, replies and their usage in full.
    pub event: Event,
    /// What the loop decided on it.
    pub notes: Vec<Note>,
    /// From asking to deciding, wall clock.
    pub seconds: f64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It has not: the run was interrupted and can be resumed.
    Open,
    /// With an outcome.
    Finished(Box<Outcome>),
    /// With an error.
    Failed {
        /// Its message.
        reason: String,
    },
}

/// The record of one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`TRACE_VERSION`] of the writer.
    pub version: u32,
    /// Name of the model that replied.
    pub model: String,
    /// The loop and its settings.
    pub method: Method,
    /// What was asked.
    pub question: Question,
    /// What the memory held.
    pub card: Card,
    /// In order.
    pub steps: Vec<TraceStep>,
    /// How it ended.
    pub end: End,
}

impl Trace {
    /// A trace without steps.
    #[must_use]
    pub fn new(model: &str, method: Method, question: Question, card: Card) -> Self {
        let model = model.to_owned();
        Self {
            version: TRACE_VERSION,
            model,
            method,
            question,
            card,
            steps: Vec::new(),
            end: End::Open,
        }
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// [`AgentError::NotATrace`], or [`AgentError::TraceVersion`] for another version.
    pub fn from_json(json: &str) -> Result<Self, AgentError> {
        let not_a_trace = |error: serde_json::Error| AgentError::NotATrace {
            reason: error.to_string(),
        };
        let value: Value = serde_json::from_str(json).map_err(not_a_trace)?;
        let received = value
            .get("version")
            .and_then(Value::as_u64)
            .ok_or_else(|| AgentError::NotATrace {
                reason: "there is no version number".into(),
            })?;
        if received != u64::from(TRACE_VERSION) {
            return Err(AgentError::TraceVersion {
                expected: TRACE_VERSION,
                received,
            });
        }
        serde_json::from_value(value).map_err(not_a_trace)
    }

    /// The trace as indented JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a trace has string keys only, which JSON can hold")
    }

    /// The loop as it stood after the last recorded step. Nothing is searched or generated.
    ///
    /// # Errors
    /// [`AgentError::ReplayDiverged`] where the loop would now ask for something else than was recorded.
    pub fn resume(&self) -> Result<Box<dyn Machine>, AgentError> {
        let mut machine = self.method.start(self.question.clone(), self.card.clone())?;
        for (index, recorded) in self.steps.iter().enumerate() {
            let now = machine.next_step();
            if now != recorded.step {
                return Err(AgentError::ReplayDiverged {
                    step: index,
                    expected: described(&recorded.step),
                    received: described(&now),
                });
            }
            machine.on_event(recorded.event.clone())?;
            machine.take_notes();
        }
        Ok(machine)
    }
}

/// The outcome that the recorded events lead to. The seconds of the recorded outcome are taken over.
///
/// # Errors
/// [`AgentError::ReplayDiverged`] where the loop takes another way than the recorded one, or where the trace
/// ends before the loop does.
pub fn replay(trace: &Trace) -> Result<Outcome, AgentError> {
    let diverged = |expected: String, received: String| AgentError::ReplayDiverged {
        step: trace.steps.len(),
        expected,
        received,
    };
    let mut outcome = match trace.resume()?.next_step() {
        Step::Finished(outcome) => *outcome,
        step @ (Step::Search { .. }
        | Step::Window { .. }
        | Step::Read
        | Step::Memories { .. }
        | Step::Generate { .. }) => {
            return Err(diverged("the end".into(), described(&step)));
        }
    };
    if let End::Finished(recorded) = &trace.end {
        outcome.seconds = recorded.seconds;
        if outcome != **recorded {
            return Err(diverged(recorded.answer.clone(), outcome.answer));
        }
    }
    Ok(outcome)
}

fn described(step: &Step) -> String {
    match step {
        Step::Search { requests } => {
            format!(
                "a search for {:?}",
                requests.iter().map(|r| r.query.as_str()).collect::<Vec<_>>()
            )
        }
        Step::Window { turns, each_side } => format!("windows of {each_side} around {} turns", turns.len()),
        Step::Read => "every turn".into(),
        Step::Memories { text, limit } => format!("{limit} memories near {text:?}"),
        Step::Generate { stage, .. } => format!("a generation for {stage:?}"),
        Step::Finished(outcome) => format!("the end with {:?}", outcome.answer),
    }
}
