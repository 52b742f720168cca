//! Fused: zoom-in, judge and rewrite in one reply, for small budgets.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::rewrite::{self, QUERY_CHARACTERS};
use super::state::State;
use super::stem::{self, Tail};
use super::zoom_in::MISSING_CHARACTERS;
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    useful: Vec<String>,
    missing: String,
    enough: bool,
    queries: Vec<String>,
}

/// What the one reply said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fused {
    /// Positions in the turns shown, most useful first.
    pub(super) useful: Vec<usize>,
    /// What is missing.
    pub(super) missing: String,
    /// Whether the evidence answers the question.
    pub(super) enough: bool,
    /// What to search for next where it does not.
    pub(super) queries: Vec<String>,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let (picks, queries) = (state.settings.max_picks, state.settings.max_queries);
    let ids = state.label_all(&state.choices);
    let text = render(
        "fused.md",
        context! {
            excerpts => state.excerpts(&state.shown),
            question => &state.question_text,
            picks,
            queries,
            example => &ids[0],
        },
    );
    let schema = schema::object([
        ("useful", schema::ids(&ids, 0, picks)),
        ("missing", schema::text(0, MISSING_CHARACTERS)),
        ("enough", schema::boolean()),
        ("queries", schema::texts(0, queries, QUERY_CHARACTERS)),
    ]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 80 + 12 * picks + 30 * queries,
        },
    )
}

pub(super) fn parse(state: &State, generation: &Generation) -> Result<Fused, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("missing", &reply.missing, MISSING_CHARACTERS)?;
    let useful = reply::positions(&reply.useful, &state.label_all(&state.choices))?;
    let queries = if reply.enough {
        Vec::new()
    } else {
        rewrite::checked(reply.queries)?
    };
    Ok(Fused {
        useful,
        missing: reply.missing,
        enough: reply.enough,
        queries,
    })
}
