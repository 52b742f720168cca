//! Recollect: the answer from memories alone, or none.

use engine_contract::{Generation, GenerationRequest};
use minijinja::{Value, context};
use serde::Deserialize;

use super::bank::Memory;
use super::remember::{memory_label, shown};
use crate::memcot::respond::ANSWER_CHARACTERS;
use crate::memcot::state::State;
use crate::memcot::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

/// Memories an answer may cite.
const CITATIONS: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    answer: String,
    memories: Vec<String>,
    found: bool,
}

/// An answer from memories, with the positions of those it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recollection {
    pub(super) answer: String,
    pub(super) memories: Vec<usize>,
}

pub(super) fn prompt(state: &State, memories: &[Memory]) -> GenerationRequest {
    let ids = labels(memories);
    let listed: Vec<Value> = memories
        .iter()
        .enumerate()
        .map(|(i, memory)| shown(i, memory))
        .collect();
    let text = render(
        "recollect.md",
        context! { memories => listed, question => &state.question_text },
    );
    let schema = schema::object([
        ("answer", schema::text(0, ANSWER_CHARACTERS)),
        ("memories", schema::ids(&ids, 0, CITATIONS)),
        ("found", schema::boolean()),
    ]);
    stem::short_request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 100,
        },
    )
}

/// `None` where the memories do not hold the answer.
pub(super) fn parse(
    memories: &[Memory],
    generation: &Generation,
) -> Result<Option<Recollection>, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("answer", &reply.answer, ANSWER_CHARACTERS)?;
    let positions = reply::positions(&reply.memories, &labels(memories))?;
    let answer = reply.answer.trim();
    if !reply.found {
        return Ok(None);
    }
    if answer.is_empty() {
        return Err(ReplyError::Empty { field: "answer" });
    }
    Ok(Some(Recollection {
        answer: answer.to_owned(),
        memories: positions,
    }))
}

fn labels(memories: &[Memory]) -> Vec<String> {
    (0..memories.len()).map(memory_label).collect()
}
