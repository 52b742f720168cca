//! The one model call of formation, `F_mem(E, H)`: evidence and old memories in, operations out.

use engine_contract::{Constraint, Generation, GenerationRequest, Message, Prompt, Role};
use minijinja::{Value, context};
use retrieval::TurnRecord;
use serde::Deserialize;
use serde_json::json;

use super::bank::{Memory, Operation};
use crate::excerpts::{Excerpt, excerpt};
use crate::labels::Labels;
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::{TurnKey, schema};

/// Characters of a memory's text, and of a reason.
const TEXT_CHARACTERS: usize = 240;
/// Characters of the time a memory speaks of.
const TIME_CHARACTERS: usize = 60;
/// Turns an operation may rest on.
const SOURCES: usize = 6;

/// What one call shows.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Turns of the session, in order.
    pub(super) turns: Vec<TurnRecord>,
    /// Old memories that may be updated or deleted.
    pub(super) memories: Vec<Memory>,
    /// Facts noted by earlier calls for the same session.
    pub(super) noted: Vec<String>,
    /// Operations at most.
    pub(super) max_operations: usize,
    /// Whether relative time words carry their dates.
    pub(super) time_words: bool,
    /// Why the last reply could not be used, while it is asked for again.
    pub(super) retry: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    operations: Vec<Op>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "UPPERCASE", deny_unknown_fields)]
enum Op {
    Add {
        text: String,
        time: String,
        turns: Vec<String>,
    },
    Update {
        memory: String,
        text: String,
        time: String,
        turns: Vec<String>,
    },
    Delete {
        memory: String,
        reason: String,
        turns: Vec<String>,
    },
    Noop {},
}

pub(super) fn prompt(part: &Part) -> GenerationRequest {
    let labels = turn_labels(part);
    let excerpts: Vec<Excerpt> = part
        .turns
        .iter()
        .zip(&labels)
        .map(|(turn, label)| excerpt(turn, label.clone(), part.time_words).0)
        .collect();
    let memories: Vec<Value> = part
        .memories
        .iter()
        .enumerate()
        .map(|(i, memory)| shown(i, memory))
        .collect();
    let remembered = render("form_memories.md", context! { memories });
    let asked = render(
        "form.md",
        context! {
            excerpts,
            noted => &part.noted,
            old => !part.memories.is_empty(),
            operations => part.max_operations,
        },
    );
    let mut parts = vec![remembered, asked];
    let mut max_tokens = 40 + 90 * part.max_operations;
    if let Some(reason) = &part.retry {
        parts.push(render("retry.md", context! { reason }));
        max_tokens *= 2;
    }
    let messages = vec![
        Message::new(Role::System, render("form_system.md", context! {})),
        Message {
            role: Role::User,
            parts,
        },
    ];
    let mut request = GenerationRequest::new(Prompt::Chat(messages), max_tokens);
    request.constraint = Constraint::JsonSchema(reply_schema(part, &labels));
    request
}

/// A memory as prompts show it.
pub(super) fn shown(index: usize, memory: &Memory) -> Value {
    context! { id => memory_label(index), text => &memory.text, time => &memory.time }
}

pub(super) fn memory_label(index: usize) -> String {
    format!("M{}", index + 1)
}

fn turn_labels(part: &Part) -> Vec<String> {
    let mut labels = Labels::default();
    part.turns.iter().map(|turn| labels.assign(turn)).collect()
}

fn memory_labels(part: &Part) -> Vec<String> {
    (0..part.memories.len()).map(memory_label).collect()
}

fn reply_schema(part: &Part, turns: &[String]) -> serde_json::Value {
    let ids = || schema::ids(turns, 1, SOURCES);
    let op = |name: &str| ("op", schema::word(&[name]));
    let text = || ("text", schema::text(1, TEXT_CHARACTERS));
    let time = || ("time", schema::text(0, TIME_CHARACTERS));
    let mut kinds = vec![
        schema::object([op("ADD"), text(), time(), ("turns", ids())]),
        schema::object([op("NOOP")]),
    ];
    if !part.memories.is_empty() {
        let memory = || ("memory", json!({"type": "string", "enum": memory_labels(part)}));
        kinds.push(schema::object([
            op("UPDATE"),
            memory(),
            text(),
            time(),
            ("turns", ids()),
        ]));
        let reason = ("reason", schema::text(1, TEXT_CHARACTERS));
        kinds.push(schema::object([op("DELETE"), memory(), reason, ("turns", ids())]));
    }
    let list =
        json!({"type": "array", "items": {"anyOf": kinds}, "minItems": 0, "maxItems": part.max_operations});
    schema::object([("operations", list)])
}

pub(super) fn parse(part: &Part, generation: &Generation) -> Result<Vec<Operation>, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    let (turns, memories) = (turn_labels(part), memory_labels(part));
    let sources = |ids: Vec<String>| -> Result<Vec<TurnKey>, ReplyError> {
        let positions = reply::positions(&ids, &turns)?;
        Ok(positions
            .into_iter()
            .map(|i| TurnKey::of(&part.turns[i]))
            .collect())
    };
    let memory = |id: String| -> Result<_, ReplyError> {
        let positions = reply::positions(&[id], &memories)?;
        Ok(part.memories[positions[0]].id)
    };
    let (mut operations, mut changed) = (Vec::new(), Vec::new());
    for op in reply.operations {
        let operation = match op {
            Op::Noop {} => continue,
            Op::Add { text, time, turns } => Operation::Add {
                text: fact(text)?,
                time: when(time)?,
                sources: sources(turns)?,
            },
            Op::Update {
                memory: label,
                text,
                time,
                turns,
            } => {
                changed.push(label.clone());
                let id = memory(label)?;
                Operation::Update {
                    id,
                    text: fact(text)?,
                    time: when(time)?,
                    sources: sources(turns)?,
                }
            }
            Op::Delete {
                memory: label,
                reason,
                turns,
            } => {
                changed.push(label.clone());
                Operation::Delete {
                    id: memory(label)?,
                    reason: fact(reason)?,
                    sources: sources(turns)?,
                }
            }
        };
        operations.push(operation);
    }
    changed.sort();
    match changed.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ReplyError::Twice {
            received: pair[0].clone(),
        }),
        None => Ok(operations),
    }
}

fn fact(text: String) -> Result<String, ReplyError> {
    reply::within("text", &text, TEXT_CHARACTERS)?;
    match text.trim() {
        "" => Err(ReplyError::Empty { field: "text" }),
        text => Ok(text.to_owned()),
    }
}

fn when(time: String) -> Result<String, ReplyError> {
    reply::within("time", &time, TIME_CHARACTERS)?;
    Ok(time.trim().to_owned())
}
