//! Tokenizers from Hugging Face's `tokenizer.json`: WordPiece of BERT embedders, byte-level BPE of Qwen2.

use std::path::Path;

use serde_json::Value;
use tokenizers::TruncationParams;

use super::byte_level::{self, TokenBytes};
use super::{Decoding, Special, Tokenizer, end_tokens};
use crate::error::WeightsError;

pub(super) fn build(path: &Path) -> Result<Tokenizer, WeightsError> {
    let fail = |what: String| WeightsError::Tokenizer {
        path: path.to_owned(),
        what,
    };
    let json = std::fs::read(path).map_err(WeightsError::io("read", path))?;
    let mut document: Value =
        serde_json::from_slice(&json).map_err(|error| fail(format!("not JSON: {error}")))?;
    let mut with_template =
        tokenizers::Tokenizer::from_bytes(&json).map_err(|error| fail(error.to_string()))?;
    // Padding belongs to whoever builds the batch, and the length limit to the embedder's profile.
    with_template.with_padding(None);
    with_template
        .with_truncation(None::<TruncationParams>)
        .map_err(|error| fail(error.to_string()))?;
    let added = added_tokens(&document).map_err(fail)?;
    let vocab_size = with_template.get_vocab_size(true);
    let byte_level = is_byte_level(&document);
    let text = without_added_tokens(&mut document).map_err(fail)?;
    let specials: Vec<Special> = added.iter().map(|added| added.token.clone()).collect();
    let mut control = vec![false; vocab_size];
    for added in added.iter().filter(|added| added.special) {
        if let Some(flag) = control.get_mut(added.token.id as usize) {
            *flag = true;
        }
    }
    let decoding = if byte_level {
        Decoding::ByteLevel(byte_table(&with_template, &added).map_err(fail)?)
    } else {
        Decoding::Pieces
    };
    Ok(Tokenizer {
        path: path.to_owned(),
        text,
        matcher: super::matcher(&specials).map_err(fail)?,
        end_tokens: end_tokens(None, &specials),
        specials,
        decoding,
        control,
        with_template: Some(with_template),
    })
}

struct Added {
    token: Special,
    /// Hugging Face's `special`: dropped when decoding.
    special: bool,
}

fn added_tokens(document: &Value) -> Result<Vec<Added>, String> {
    let list = document
        .get("added_tokens")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let read = |entry: &Value| {
        let id = entry
            .get("id")
            .and_then(Value::as_u64)
            .and_then(|id| u32::try_from(id).ok());
        let text = entry.get("content").and_then(Value::as_str);
        let special = entry.get("special").and_then(Value::as_bool).unwrap_or(false);
        match (id, text) {
            (Some(id), Some(text)) => Ok(Added {
                token: Special {
                    text: text.to_owned(),
                    id,
                },
                special,
            }),
            _ => Err(format!("added token without id or content: {entry}")),
        }
    };
    list.iter().map(read).collect()
}

fn is_byte_level(document: &Value) -> bool {
    document.pointer("/decoder/type").and_then(Value::as_str) == Some("ByteLevel")
}

/// The same tokenizer, for text in which nothing is special.
fn without_added_tokens(document: &mut Value) -> Result<tokenizers::Tokenizer, String> {
    for key in ["added_tokens", "post_processor", "truncation", "padding"] {
        if let Some(value) = document.get_mut(key) {
            *value = if key == "added_tokens" {
                Value::Array(Vec::new())
            } else {
                Value::Null
            };
        }
    }
    serde_json::to_vec(document)
        .map_err(|error| error.to_string())
        .and_then(|json| tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string()))
}

fn byte_table(tokenizer: &tokenizers::Tokenizer, added: &[Added]) -> Result<TokenBytes, String> {
    let mut table = TokenBytes::new();
    for id in 0..u32::try_from(tokenizer.get_vocab_size(true)).map_err(|error| error.to_string())? {
        match added.iter().find(|added| added.token.id == id) {
            Some(added) if added.special => table.push([])?,
            Some(added) => table.push(added.token.text.bytes())?,
            None => {
                let token = tokenizer
                    .id_to_token(id)
                    .ok_or_else(|| format!("no token has the id {id}"))?;
                let bytes = byte_level::decode(&token)
                    .ok_or_else(|| format!("token {id} `{token}` is not in the byte alphabet"))?;
                table.push(bytes)?;
            }
        }
    }
    Ok(table)
}
