//! JSON schemas of replies, built per request from what the request shows.

use serde_json::{Map, Value, json};

/// An object with exactly these fields, in this order, all required.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, v)| ((*name).to_owned(), v.clone()))
        .collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// A list of `least` to `most` of the ids shown.
pub(crate) fn ids(shown: &[String], least: usize, most: usize) -> Value {
    let items = json!({"type": "string", "enum": shown});
    json!({"type": "array", "items": items, "minItems": least, "maxItems": most.min(shown.len())})
}

/// A text of `least` to `most` characters.
pub(crate) fn text(least: usize, most: usize) -> Value {
    json!({"type": "string", "minLength": least, "maxLength": most})
}

/// A list of `least` to `most` texts.
pub(crate) fn texts(least: usize, most: usize, characters: usize) -> Value {
    json!({"type": "array", "items": text(1, characters), "minItems": least, "maxItems": most})
}

/// `true` or `false`.
pub(crate) fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// One of these words.
pub(crate) fn word(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}
