//! Rewrite: what to search for next, by decomposing, pruning or rephrasing the question.

use engine_contract::{Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::state::State;
use super::stem::{self, Tail};
use crate::machine::QueryAction;
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

/// Characters of the text that says what is missing.
pub(super) const MISSING_CHARACTERS: usize = 100;
/// Characters of one query.
pub(super) const QUERY_CHARACTERS: usize = 80;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    missing: String,
    action: Action,
    queries: Vec<String>,
}

/// What the model may do to the question.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Decompose,
    Prune,
    Rephrase,
}

/// What the model said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// What the evidence does not tell.
    pub(super) missing: String,
    /// What was done to the question.
    pub(super) action: QueryAction,
    /// What to search for, blanks around each cut.
    pub(super) queries: Vec<String>,
}

pub(super) fn prompt(state: &State) -> GenerationRequest {
    let queries = state.settings.max_queries;
    let text = render(
        "rewrite.md",
        context! {
            question => &state.question_text,
            searched => &state.queries,
            refused => &state.refused,
            queries,
        },
    );
    let schema = schema::object([
        ("missing", schema::text(1, MISSING_CHARACTERS)),
        ("action", schema::word(&["decompose", "prune", "rephrase"])),
        ("queries", schema::texts(1, queries, QUERY_CHARACTERS)),
    ]);
    stem::request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 50 + 30 * queries,
        },
    )
}

pub(super) fn parse(generation: &Generation) -> Result<Rewrite, ReplyError> {
    let reply: Reply = reply::read(generation)?;
    reply::within("missing", &reply.missing, MISSING_CHARACTERS)?;
    let queries = checked(reply.queries)?;
    let action = match reply.action {
        Action::Decompose => QueryAction::Decompose,
        Action::Prune => QueryAction::Prune,
        Action::Rephrase => QueryAction::Rephrase,
    };
    Ok(Rewrite {
        missing: reply.missing.trim().to_owned(),
        action,
        queries,
    })
}

/// Queries that say something and are not too long.
pub(super) fn checked(queries: Vec<String>) -> Result<Vec<String>, ReplyError> {
    let queries: Vec<String> = queries.iter().map(|query| query.trim().to_owned()).collect();
    for query in &queries {
        reply::within("a query", query, QUERY_CHARACTERS)?;
    }
    if queries.iter().all(String::is_empty) {
        return Err(ReplyError::Empty { field: "queries" });
    }
    Ok(queries)
}
