//! Verify: do the turns behind an answer's memories bear it out? Beyond the paper, where a confidently wrong
//! memory is never caught.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use crate::memcot::state::State;
use crate::memcot::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    confirmed: bool,
}

/// The source turns stand in `state.shown`.
pub(super) fn prompt(state: &State, answer: &str) -> GenerationRequest {
    let text = render(
        "verify.md",
        context! { excerpts => state.excerpts(&state.shown), question => &state.question_text, answer },
    );
    let schema = schema::object([("confirmed", schema::boolean())]);
    stem::short_request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 16,
        },
    )
}

pub(super) fn parse(generation: &Generation) -> Result<bool, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    Ok(reply.confirmed)
}
