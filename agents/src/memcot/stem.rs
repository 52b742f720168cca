//! The part of a prompt that all stages and iterations of a question share.
//!
//! It only ever grows at its end, in whole message parts, so that the KV cache of one call serves the next:
//! system rules, the conversation's card, the question, then per iteration the evidence it found and, once it
//! is judged, what it searched for and left open. The one exception is the token budget of the episodic
//! memory: when it is reached, older entries shrink and the cache begins anew from there, which is noted.

use engine_contract::{Constraint, GenerationRequest, Message, Prompt, Role};
use minijinja::context;
use retrieval::Card;
use serde_json::Value;

use super::state::{Episode, State};
use crate::excerpts::estimated_tokens;
use crate::prompts::render;
use crate::time_words::long_date;

/// What a stage adds to the stem, and the shape and length of its reply.
pub(crate) struct Tail {
    /// The stage's own text.
    pub(crate) text: String,
    /// JSON schema of the reply.
    pub(crate) schema: Value,
    /// Tokens of the longest sensible reply.
    pub(crate) max_tokens: usize,
}

/// A stage's request behind the whole stem.
pub(crate) fn request(state: &State, tail: Tail) -> GenerationRequest {
    let mut parts = opening(state);
    parts.extend(iterations(state));
    finish(state, parts, tail)
}

/// A stage's request behind rules and card only, and the date of the question where it is known.
pub(crate) fn short_request(state: &State, tail: Tail) -> GenerationRequest {
    let parts = opening(state);
    let kept = if state.question.asked.is_some() {
        parts.len()
    } else {
        1
    };
    finish(state, parts.into_iter().take(kept).collect(), tail)
}

fn finish(state: &State, mut parts: Vec<String>, tail: Tail) -> GenerationRequest {
    parts.push(tail.text);
    let mut max_tokens = tail.max_tokens;
    if let Some(reason) = &state.retry {
        parts.push(render("retry.md", context! { reason }));
        max_tokens *= 2;
    }
    let messages = vec![
        Message::new(Role::System, render("system.md", context! {})),
        Message {
            role: Role::User,
            parts,
        },
    ];
    let mut request = GenerationRequest::new(Prompt::Chat(messages), max_tokens);
    request.constraint = Constraint::JsonSchema(tail.schema);
    request
}

fn opening(state: &State) -> Vec<String> {
    let asked = state.question.asked.map(|time| long_date(time.date()));
    vec![
        card(&state.card),
        render(
            "question.md",
            context! { question => &state.question_text, asked },
        ),
    ]
}

/// Who speaks, and nothing else: a small model answers "when" with any date range that stands here.
fn card(card: &Card) -> String {
    render("card.md", context! { speakers => &card.speakers })
}

fn iterations(state: &State) -> Vec<String> {
    let short = shortened(state);
    let mut parts = Vec::new();
    for iteration in 1..=state.settled {
        let found = state
            .semantic
            .iter()
            .filter(|evidence| evidence.iteration == iteration);
        let turns: Vec<_> = found.map(|evidence| evidence.turn.clone()).collect();
        parts.push(render(
            "evidence.md",
            context! { iteration, excerpts => state.excerpts(&turns) },
        ));
        let episode = state
            .episodic
            .get(iteration - 1)
            .filter(|_| state.settings.episodic);
        parts.extend(episode.map(|episode| episode_text(episode, iteration, iteration > short)));
    }
    parts
}

fn episode_text(episode: &Episode, iteration: usize, full: bool) -> String {
    let missing = if full { episode.missing.as_str() } else { "" };
    render(
        "episode.md",
        context! { iteration, action => episode.action.as_str(), queries => &episode.queries, missing },
    )
}

/// How many iterations, from the first, are shown with their queries only so that the episodic memory keeps its
/// budget.
pub(crate) fn shortened(state: &State) -> usize {
    let episodes = &state.episodic;
    let size = |short: usize| -> usize {
        let texts = episodes
            .iter()
            .enumerate()
            .map(|(i, episode)| episode_text(episode, i + 1, i >= short));
        texts.map(|text| estimated_tokens(&text)).sum()
    };
    // The newest stays whole.
    let most = episodes.len().saturating_sub(1);
    (0..most)
        .find(|&short| size(short) <= state.settings.episodic_tokens)
        .unwrap_or(most)
}
