//! From a reply's text to a typed value. The only parser; it repairs nothing.
//!
//! Replies are decoded under a JSON schema, so most failures here mean that the reply ran out of tokens. What
//! a schema promises is checked all the same: a backend that cannot constrain may serve too.

use engine_contract::{FinishReason, Generation};
use serde::de::DeserializeOwned;

/// Why a reply cannot be used. The message is shown to the model when it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It ended before the JSON did.
    #[error("the reply was cut off after {tokens} tokens, before its end")]
    CutOff {
        /// Tokens generated.
        tokens: usize,
    },
    /// It is not the JSON asked for.
    #[error("the reply is not the JSON asked for: {reason}")]
    NotJson {
        /// What the JSON parser said.
        reason: String,
    },
    /// It names an excerpt that was not shown.
    #[error("the reply names {received:?}, which is not one of the ids shown")]
    UnknownId {
        /// The id.
        received: String,
    },
    /// It changes one thing twice.
    #[error("the reply changes {received} twice")]
    Twice {
        /// The id.
        received: String,
    },
    /// A text is longer than allowed.
    #[error("{field} has {received} characters, at most {limit} are allowed")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Characters received.
        received: usize,
        /// Characters allowed.
        limit: usize,
    },
    /// A field that must say something is empty.
    #[error("{field} is empty")]
    Empty {
        /// Name of the field.
        field: &'static str,
    },
}

/// Reads a reply as JSON.
pub(crate) fn read<T: DeserializeOwned>(generation: &Generation) -> Result<T, ReplyError> {
    serde_json::from_str(&generation.text).map_err(|error| match generation.finish {
        FinishReason::Length => ReplyError::CutOff {
            tokens: generation.usage.generated_tokens,
        },
        FinishReason::End | FinishReason::Stop => ReplyError::NotJson {
            reason: error.to_string(),
        },
    })
}

/// The positions in `shown` of the ids in a reply, in the reply's order, each once.
pub(crate) fn positions(ids: &[String], shown: &[String]) -> Result<Vec<usize>, ReplyError> {
    let mut positions = Vec::with_capacity(ids.len());
    for id in ids {
        let position = shown
            .iter()
            .position(|label| label == id)
            .ok_or_else(|| ReplyError::UnknownId { received: id.clone() })?;
        if !positions.contains(&position) {
            positions.push(position);
        }
    }
    Ok(positions)
}

/// Checks a free text's length in characters.
pub(crate) fn within(field: &'static str, text: &str, limit: usize) -> Result<(), ReplyError> {
    match text.chars().count() {
        received if received > limit => Err(ReplyError::TooLong {
            field,
            received,
            limit,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use engine_contract::Usage;
    use serde_json::{Value, json};

    use super::*;

    fn generation(text: &str, finish: FinishReason) -> Generation {
        let usage = Usage {
            generated_tokens: 7,
            ..Usage::zero()
        };
        Generation {
            text: text.into(),
            tokens: vec![],
            finish,
            usage,
            logprobs: None,
        }
    }

    #[test]
    fn valid_json_with_escapes_is_read_as_it_is() {
        let reply: Value = read(&generation(r#"{"a": "x\n\t\\ \"y\""}"#, FinishReason::End)).unwrap();
        assert_eq!(reply, json!({"a": "x\n\t\\ \"y\""}));
    }

    #[test]
    fn nothing_is_repaired() {
        for text in [
            "```json\n{}\n```",
            "{} trailing",
            "{'a': 1}",
            "{\"a\": 1,}",
            "",
            "<think></think>{}",
        ] {
            let error = read::<Value>(&generation(text, FinishReason::End)).unwrap_err();
            assert!(matches!(error, ReplyError::NotJson { .. }), "{text}: {error}");
        }
        let error = read::<Value>(&generation("{\"a\": \"b", FinishReason::Length)).unwrap_err();
        assert_eq!(error, ReplyError::CutOff { tokens: 7 });
    }

    #[test]
    fn ids_out_of_range_are_refused_and_doubles_counted_once() {
        let shown = ["D1:1".to_owned(), "D1:3".to_owned()];
        let ids =
            |list: &[&str]| positions(&list.iter().map(ToString::to_string).collect::<Vec<_>>(), &shown);
        assert_eq!(ids(&["D1:3", "D1:1", "D1:3"]), Ok(vec![1, 0]));
        assert_eq!(
            ids(&["-1"]),
            Err(ReplyError::UnknownId {
                received: "-1".into()
            })
        );
    }

    #[test]
    fn length_counts_characters() {
        assert_eq!(within("answer", "東京", 2), Ok(()));
        let error = ReplyError::TooLong {
            field: "answer",
            received: 3,
            limit: 2,
        };
        assert_eq!(within("answer", "東京!", 2), Err(error));
    }
}
