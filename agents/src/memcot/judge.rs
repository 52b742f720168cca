//! Judge: is the evidence enough? This file decides when a question stops searching.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::state::State;
use super::stem::{self, Tail};
use super::zoom_in::MISSING_CHARACTERS;
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    support: Vec<String>,
    missing: String,
    enough: bool,
}

/// The judge's verdict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether the evidence answers the question.
    pub(super) enough: bool,
    /// What is missing where it does not.
    pub(super) missing: String,
    /// Labels of the turns that support an answer.
    pub(super) support: Vec<String>,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let ids = state.label_all(&state.evidence());
    let text = render(
        "judge.md",
        context! { question => &state.question_text, example => &ids[0] },
    );
    let schema = schema::object([
        ("support", schema::ids(&ids, 0, state.settings.max_picks)),
        ("missing", schema::text(0, MISSING_CHARACTERS)),
        ("enough", schema::boolean()),
    ]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 70 + 12 * state.settings.max_picks,
        },
    )
}

pub(super) fn parse(state: &State, generation: &Generation) -> Result<Verdict, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("missing", &reply.missing, MISSING_CHARACTERS)?;
    let ids = state.label_all(&state.evidence());
    let support = reply::positions(&reply.support, &ids)?
        .into_iter()
        .map(|i| ids[i].clone())
        .collect();
    Ok(Verdict {
        enough: reply.enough,
        missing: reply.missing,
        support,
    })
}
