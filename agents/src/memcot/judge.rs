//! Judge: is the evidence enough? This file decides when a question stops searching.
//!
//! The reply drafts an answer before the verdict, so that the verdict is about something. What is missing is
//! asked by the rewrite stage, which is reached only where something is: asked here, Qwen2.5-Coder-0.5B fills
//! in a lack whatever the evidence.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::state::State;
use super::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

/// Characters of the draft answer.
pub(super) const DRAFT_CHARACTERS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    answer: String,
    enough: bool,
}

/// The judge's verdict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether the evidence answers the question.
    pub(super) enough: bool,
    /// The answer as far as the evidence tells it; may be empty.
    pub(super) draft: String,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let text = render("judge.md", context! { question => &state.question_text });
    let schema = schema::object([
        ("answer", schema::text(0, DRAFT_CHARACTERS)),
        ("enough", schema::boolean()),
    ]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 60,
        },
    )
}

pub(super) fn parse(generation: &Generation) -> Result<Verdict, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("answer", &reply.answer, DRAFT_CHARACTERS)?;
    Ok(Verdict {
        enough: reply.enough,
        draft: reply.answer.trim().to_owned(),
    })
}
