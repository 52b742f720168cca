//! Judge: is the evidence enough? This file decides when a question stops searching, and when it goes unanswered.
//!
//! The responder drafts an answer, and the judge says whether the evidence states it: yes or no, with the model's
//! own probability of yes as the confidence. Asked for a verdict in words instead, Qwen2.5-Coder-1.5B found every
//! evidence enough, right or wrong; the probability tells them apart (area under the curve 0.77 for the 1.5B and
//! 0.67 for the 0.5B model on 24 development questions).

use engine_contract::{Constraint, Generation, GenerationRequest, TokenLogprob};
use minijinja::context;

use super::state::State;
use super::stem::{self, Tail};
use crate::prompts::render;
use crate::reply::ReplyError;

/// The request; the evidence stands in `state.shown`, in the part that the responder has read already.
pub(crate) fn prompt(state: &State, answer: &str) -> GenerationRequest {
    let text = render(
        "judge.md",
        context! { question => &state.question_text, asked => state.asked(), answer },
    );
    let constraint = Constraint::Choices(vec!["yes".into(), "no".into()]);
    let parts = vec![stem::shown(state), text];
    let mut request = stem::short_request(
        state,
        Tail {
            parts,
            constraint,
            max_tokens: 4,
        },
    );
    request.logprobs = Some(2);
    request
}

/// The confidence that the evidence states the answer, in percent: the probability of "yes" against "no".
///
/// A backend without log-probabilities gives 0 or 100.
pub(crate) fn parse(generation: &Generation) -> Result<u8, ReplyError> {
    let yes = match generation.text.trim() {
        "yes" => true,
        "no" => false,
        text => {
            return Err(ReplyError::NotJson {
                reason: format!("expected yes or no, received {text:?}"),
            });
        }
    };
    let first = generation.logprobs.as_ref().and_then(|tokens| tokens.first());
    let said = first.map_or(1.0, share);
    let confidence = if yes { said } else { 1.0 - said };
    Ok((confidence * 100.0).round() as u8)
}

/// The probability of the chosen word among the two: its likeliest rival stands for the other one.
fn share(token: &TokenLogprob) -> f32 {
    let rival = token.top.iter().find(|(id, _)| *id != token.token);
    rival.map_or(1.0, |(_, logprob)| 1.0 / (1.0 + (logprob - token.logprob).exp()))
}

#[cfg(test)]
mod tests {
    use engine_contract::{FinishReason, Usage};

    use super::*;

    fn confidence(text: &str, logprob: f32, top: &[(u32, f32)]) -> Result<u8, ReplyError> {
        let token = TokenLogprob {
            token: 7,
            logprob,
            top: top.to_vec(),
        };
        let generation = Generation {
            text: text.into(),
            tokens: vec![7],
            finish: FinishReason::End,
            usage: Usage::zero(),
            logprobs: Some(vec![token]),
        };
        parse(&generation)
    }

    #[test]
    fn confidence_is_the_share_of_yes_among_the_two_words() {
        let (most, least) = (0.6f32.ln(), 0.2f32.ln());
        assert_eq!(confidence("yes", most, &[(7, most), (9, least)]), Ok(75));
        assert_eq!(confidence("no", most, &[(7, most), (9, least)]), Ok(25));
        // Masked: the chosen word is not the likeliest token.
        assert_eq!(confidence("yes", least, &[(9, most), (7, least)]), Ok(25));
        assert_eq!(confidence("no", least, &[(9, most), (8, least)]), Ok(75));
    }

    #[test]
    fn without_probabilities_the_word_alone_counts() {
        assert_eq!(confidence("yes", -0.5, &[]), Ok(100));
        assert_eq!(confidence("no", -0.5, &[]), Ok(0));
        assert!(matches!(
            confidence("maybe", -0.5, &[]),
            Err(ReplyError::NotJson { .. })
        ));
    }
}
