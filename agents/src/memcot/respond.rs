//! Respond: the answer from the evidence, in the order in which it was said.
//!
//! The prompt forks from the stem behind the card: small models answer better from the sorted evidence alone than
//! behind the whole search, and worse when the question stands before the evidence too. Nothing of it was computed
//! before in this order anyway.

use engine_contract::{Constraint, Generation, GenerationRequest};
use minijinja::context;
use serde::Deserialize;

use super::state::State;
use super::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::schema;

/// Characters of an answer.
pub(crate) const ANSWER_CHARACTERS: usize = 200;
/// Turns an answer may cite.
const CITATIONS: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    answer: String,
    evidence: Vec<String>,
    #[serde(default = "yes")]
    found: bool,
}

fn yes() -> bool {
    true
}

/// What the responder said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The answer; `None` where the evidence does not hold one.
    pub(crate) text: Option<String>,
    /// Positions in the turns shown.
    pub(crate) evidence: Vec<usize>,
}

pub(crate) fn prompt(state: &State) -> GenerationRequest {
    let ids = state.label_all(&state.shown);
    let abstain = state.settings.abstain;
    let plain = state.retry.is_some();
    let text = render(
        "respond.md",
        context! {
            excerpts => state.excerpts(&state.shown),
            question => &state.question_text,
            abstain,
            plain,
            example => &ids[0],
        },
    );
    let answer = ("answer", schema::text(1, ANSWER_CHARACTERS));
    let evidence = ("evidence", schema::ids(&ids, 1, CITATIONS));
    // Asked last, "found" is false whatever the evidence: Qwen2.5-Coder-0.5B then judges its own ids.
    let schema = if abstain {
        schema::object([("found", schema::boolean()), answer, evidence])
    } else {
        schema::object([answer, evidence])
    };
    let mut request = stem::short_request(
        state,
        Tail {
            text,
            schema,
            max_tokens: 70 + 12 * CITATIONS,
        },
    );
    if plain {
        // The JSON failed once: a short plain text cannot.
        request.constraint = Constraint::None;
        request.stop = vec!["\n".into()];
    }
    request
}

pub(crate) fn parse(state: &State, generation: &Generation) -> Result<Answer, ReplyError> {
    if state.retry.is_some() {
        return match generation.text.trim() {
            "" => Err(ReplyError::Empty { field: "answer" }),
            text => Ok(Answer {
                text: Some(text.to_owned()),
                evidence: Vec::new(),
            }),
        };
    }
    let reply: Reply = reply::read(generation)?;
    reply::within("answer", &reply.answer, ANSWER_CHARACTERS)?;
    let evidence = reply::positions(&reply.evidence, &state.label_all(&state.shown))?;
    let text = reply.answer.trim().to_owned();
    // Two must agree before a question goes unanswered: small models say "not found" of evidence that answers it.
    if !reply.found && state.settings.abstain && state.enough != Some(true) {
        return Ok(Answer {
            text: None,
            evidence: Vec::new(),
        });
    }
    if text.is_empty() {
        return Err(ReplyError::Empty { field: "answer" });
    }
    Ok(Answer {
        text: Some(text),
        evidence,
    })
}
