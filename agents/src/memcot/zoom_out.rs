//! Zoom-out: what the turns around the useful ones add.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::state::State;
use super::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    add: Vec<String>,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let picks = state.settings.max_picks;
    let ids = state.label_all(&state.choices);
    let text = render(
        "zoom_out.md",
        context! {
            excerpts => state.excerpts(&state.shown),
            picked => state.label_all(&state.picked),
            question => &state.question_text,
            picks,
            example => &ids[0],
        },
    );
    let schema = schema::object([("add", schema::ids(&ids, 0, picks))]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 20 + 12 * picks,
        },
    )
}

/// Positions in the choices of what to add.
pub(super) fn parse(state: &State, generation: &Generation) -> Result<Vec<usize>, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::positions(&reply.add, &state.label_all(&state.choices))
}
