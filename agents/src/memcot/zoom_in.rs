//! Zoom-in: which of the turns found help to answer the question.
//!
//! At least one is picked and nothing else is asked. Offered an empty list, Qwen2.5-Coder-0.5B takes it every time;
//! asked what is missing, it writes the answer there. What is missing is the judge's to say, who sees all evidence.

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
    useful: Vec<String>,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let picks = state.settings.max_picks;
    let ids = state.label_all(&state.choices);
    let text = render(
        "zoom_in.md",
        context! { excerpts => state.excerpts(&state.shown), question => &state.question_text, picks, example => &ids[0] },
    );
    let schema = schema::object([("useful", schema::ids(&ids, 1, picks))]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 20 + 12 * picks,
        },
    )
}

/// Positions in the turns shown, most useful first.
pub(super) fn parse(state: &State, generation: &Generation) -> Result<Vec<usize>, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    match reply::positions(&reply.useful, &state.label_all(&state.choices))? {
        useful if useful.is_empty() => Err(ReplyError::Empty { field: "useful" }),
        useful => Ok(useful),
    }
}
