//! From a constraint to the text of a grammar.

use engine_contract::{Constraint, EngineError};
use llguidance::JsonCompileOptions;
use llguidance::api::TopLevelGrammar;
use serde_json::Value;

/// The text that names a constraint in the cache: equal keys, equal grammars.
pub(super) fn key(constraint: &Constraint) -> String {
    match constraint {
        Constraint::None => String::new(),
        Constraint::JsonSchema(schema) => format!("schema {schema}"),
        Constraint::Regex(expression) => format!("regex {expression}"),
        Constraint::Choices(choices) => format!("choices {choices:?}"),
    }
}

/// The grammar of a constraint; `None` where there is nothing to constrain.
pub(super) fn grammar(constraint: &Constraint) -> Result<Option<TopLevelGrammar>, EngineError> {
    match constraint {
        Constraint::None => Ok(None),
        Constraint::JsonSchema(schema) => json(schema).map(Some),
        Constraint::Regex(expression) => Ok(Some(TopLevelGrammar::from_regex(expression))),
        Constraint::Choices(choices) => alternatives(choices).map(Some),
    }
}

pub(super) fn invalid(reason: impl Into<String>) -> EngineError {
    EngineError::InvalidConstraint {
        reason: reason.into(),
    }
}

fn json(schema: &Value) -> Result<TopLevelGrammar, EngineError> {
    let mut schema = match schema.as_bool() {
        Some(false) => return Err(invalid("the schema `false` allows no value")),
        Some(true) => Value::Object(serde_json::Map::new()),
        None => schema.clone(),
    };
    if !schema.is_object() {
        return Err(invalid(format!(
            "a JSON schema is an object or a boolean, received {schema}"
        )));
    }
    // Compact JSON only: a small model that may emit white space can loop on it until its tokens run out.
    JsonCompileOptions {
        whitespace_flexible: false,
        ..JsonCompileOptions::default()
    }
    .apply_to(&mut schema);
    Ok(TopLevelGrammar::from_json_schema(schema))
}

fn alternatives(choices: &[String]) -> Result<TopLevelGrammar, EngineError> {
    if choices.is_empty() {
        return Err(invalid("the list of choices is empty"));
    }
    if let Some(index) = choices.iter().position(String::is_empty) {
        return Err(invalid(format!("choice {index} is an empty text")));
    }
    let escaped: Vec<String> = choices.iter().map(|choice| escape(choice)).collect();
    Ok(TopLevelGrammar::from_regex(&escaped.join("|")))
}

/// The expression that matches exactly this text.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
