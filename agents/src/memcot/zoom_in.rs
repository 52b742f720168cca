//! Zoom-in: which of the turns found help to answer the question.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::state::State;
use super::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

/// Characters of the text that says what is missing.
pub(super) const MISSING_CHARACTERS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    useful: Vec<String>,
    missing: String,
}

/// What zoom-in said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ZoomIn {
    /// Positions in the turns shown, most useful first.
    pub(super) useful: Vec<usize>,
    /// What the turns shown do not tell.
    pub(super) missing: String,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let picks = state.settings.max_picks;
    let ids = state.label_all(&state.choices);
    let text = render(
        "zoom_in.md",
        context! { excerpts => state.excerpts(&state.shown), question => &state.question_text, picks, example => &ids[0] },
    );
    let schema = schema::object([
        ("useful", schema::ids(&ids, 0, picks)),
        ("missing", schema::text(0, MISSING_CHARACTERS)),
    ]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 60 + 12 * picks,
        },
    )
}

pub(super) fn parse(state: &State, generation: &Generation) -> Result<ZoomIn, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("missing", &reply.missing, MISSING_CHARACTERS)?;
    let useful = reply::positions(&reply.useful, &state.label_all(&state.choices))?;
    Ok(ZoomIn {
        useful,
        missing: reply.missing,
    })
}
