//! Fused: zoom-in, judge and rewrite in one reply, for small budgets.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::judge::{DRAFT_CHARACTERS, Verdict};
use super::rewrite::{self, MISSING_CHARACTERS, QUERY_CHARACTERS};
use super::state::State;
use super::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    useful: Vec<String>,
    answer: String,
    enough: bool,
    missing: String,
    queries: Vec<String>,
}

/// What the one reply said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fused {
    /// Positions in the turns shown, most useful first.
    pub(super) useful: Vec<usize>,
    /// Draft and verdict.
    pub(super) verdict: Verdict,
    /// What is missing where it is not enough.
    pub(super) missing: String,
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
        ("useful", schema::ids(&ids, 1, picks)),
        ("answer", schema::text(0, DRAFT_CHARACTERS)),
        ("enough", schema::boolean()),
        ("missing", schema::text(0, MISSING_CHARACTERS)),
        ("queries", schema::texts(0, queries, QUERY_CHARACTERS)),
    ]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 110 + 12 * picks + 30 * queries,
        },
    )
}

pub(super) fn parse(state: &State, generation: &Generation) -> Result<Fused, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("answer", &reply.answer, DRAFT_CHARACTERS)?;
    reply::within("missing", &reply.missing, MISSING_CHARACTERS)?;
    let useful = reply::positions(&reply.useful, &state.label_all(&state.choices))?;
    let queries = if reply.enough {
        Vec::new()
    } else {
        rewrite::checked(reply.queries)?
    };
    let verdict = Verdict {
        enough: reply.enough,
        draft: reply.answer.trim().to_owned(),
    };
    Ok(Fused {
        useful,
        verdict,
        missing: reply.missing,
        queries,
    })
}
