//! Constrained decoding with the real vocabulary of Qwen2.5 (151,936 tokens); no model runs.

#![expect(clippy::unwrap_used, reason = "a set-up that fails is a test that fails")]

use std::sync::{Arc, LazyLock};

use engine::{GrammarCompiler, Matcher};
use engine_contract::Constraint;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use weights::{Gguf, ModelStore, Specials, Tokenizer};

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let files = ModelStore::from_env()
        .unwrap()
        .pull("qwen2.5-coder-0.5b", &mut ())
        .unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Tokenizer::from_gguf(&Gguf::open(files.gguf().unwrap()).unwrap()).unwrap())
});
static COMPILER: LazyLock<GrammarCompiler> = LazyLock::new(|| GrammarCompiler::new(Arc::clone(&TOKENIZER)));

fn matcher(constraint: &Constraint) -> Matcher {
    COMPILER.matcher(constraint).unwrap().unwrap()
}

fn text(tokens: &[u32]) -> Vec<u8> {
    tokens
        .iter()
        .flat_map(|&token| TOKENIZER.token_bytes(token).unwrap())
        .copied()
        .collect()
}

fn ends(matcher: &mut Matcher) -> bool {
    let mask = matcher.mask().unwrap();
    let allowed = TOKENIZER
        .end_tokens()
        .iter()
        .filter(|&&end| mask.allows(end))
        .count();
    assert!(
        allowed == 0 || allowed == TOKENIZER.end_tokens().len(),
        "all end tokens or none"
    );
    allowed > 0
}

#[test]
fn forced_text_is_tokenised_as_the_model_would() {
    let reply = "{\"evidence\":[\"D1:3\"],\"answer\":\"漢字 😀\"}";
    let mut matcher = matcher(&Constraint::JsonSchema(json!({
        "type": "object",
        "properties": { "evidence": { "const": ["D1:3"] }, "answer": { "const": "漢字 😀" } },
        "required": ["evidence", "answer"],
        "additionalProperties": false
    })));
    let forced = matcher.forced();
    assert_eq!(forced, TOKENIZER.encode(reply, Specials::AsText).unwrap());
    for token in forced {
        matcher.commit(token).unwrap();
    }
    assert!(matcher.is_complete());
    assert!(ends(&mut matcher));
}

#[test]
fn every_way_to_write_a_choice_is_allowed_and_nothing_else() {
    let choices = ["D1:3", "D1:31", "D2:7"].map(String::from);
    let mut first = matcher(&Constraint::Choices(choices.to_vec()));
    assert_eq!(text(&first.forced()), b"D");
    let mut mask = first.mask().unwrap().clone();
    assert_eq!(mask.ids().map(|id| text(&[id])).collect::<Vec<_>>(), [b"D"]);
    for byte in ["D", "1", ":", "3"] {
        let [token] = TOKENIZER.encode(byte, Specials::AsText).unwrap()[..] else {
            panic!("one token")
        };
        assert!(mask.allows(token));
        first.commit(token).unwrap();
        mask = first.mask().unwrap().clone();
    }
    let mut next: Vec<Vec<u8>> = mask
        .ids()
        .filter(|id| !TOKENIZER.end_tokens().contains(id))
        .map(|id| text(&[id]))
        .collect();
    next.sort();
    assert_eq!(next, [b"1"]);
    assert!(ends(&mut first) && !first.is_complete());
}

#[test]
fn strings_may_hold_any_character_even_in_pieces() {
    let mut matcher = matcher(&Constraint::JsonSchema(
        json!({ "type": "string", "maxLength": 3 }),
    ));
    let reply = "\"é🫠文\"";
    for token in TOKENIZER.encode(reply, Specials::AsText).unwrap() {
        assert!(matcher.mask().unwrap().allows(token), "{:?}", text(&[token]));
        matcher.commit(token).unwrap();
    }
    assert!(matcher.is_complete());
}

#[test]
fn forced_text_keeps_its_bytes_where_the_tokenizer_would_normalise_them() {
    // An e with a combining accent: Qwen's tokenizer composes it to one character.
    let choice = "cafe\u{301} at five";
    let mut matcher = matcher(&Constraint::Choices(vec![choice.into()]));
    let forced = matcher.forced();
    assert_eq!(text(&forced), choice.as_bytes());
    forced
        .into_iter()
        .for_each(|token| matcher.commit(token).unwrap());
    assert!(matcher.is_complete());
}

#[test]
fn control_tokens_are_never_text() {
    let mut matcher = matcher(&Constraint::Regex("(?s:.*)".into()));
    let mask = matcher.mask().unwrap();
    let start = TOKENIZER.token_id("<|im_start|>").unwrap();
    assert!(!mask.allows(start));
    let allowed = mask
        .ids()
        .filter(|&id| TOKENIZER.is_control(id))
        .collect::<Vec<_>>();
    assert_eq!(allowed, TOKENIZER.end_tokens());
}

/// A random schema that always can be satisfied, with bounded strings and arrays.
fn schema(random: &mut Xoshiro256PlusPlus, depth: usize) -> Value {
    let kinds = if depth == 0 { 6 } else { 9 };
    match random.random_range(0..kinds) {
        0 => json!({ "type": "boolean" }),
        1 => json!({ "enum": ["yes", "no", "D1:3", 7, null, "漢字", "a\"b\\c\n"] }),
        2 => {
            let low = random.random_range(-200..200);
            json!({ "type": "integer", "minimum": low, "maximum": low + random.random_range(0..500) })
        }
        3 => {
            let least = random.random_range(0..3usize);
            json!({ "type": "string", "minLength": least, "maxLength": least + random.random_range(0..9) })
        }
        4 => json!({ "type": "string", "pattern": "^D[1-9][0-9]?:[1-9]$" }),
        5 => json!({ "type": ["null", "boolean"] }),
        6 => {
            let least = random.random_range(0..2);
            json!({
                "type": "array",
                "items": schema(random, depth - 1),
                "minItems": least,
                "maxItems": least + random.random_range(0..3)
            })
        }
        7 => json!({ "anyOf": [schema(random, depth - 1), schema(random, depth - 1)] }),
        _ => {
            let names = ["answer", "evidence", "why", "b c", "é"];
            let names = names.sample(random, 3).copied().collect::<Vec<_>>();
            let properties: Map<String, Value> = names
                .iter()
                .map(|name| ((*name).to_owned(), schema(random, depth - 1)))
                .collect();
            let required: Vec<&str> = names.into_iter().filter(|_| random.random_bool(0.7)).collect();
            json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false
            })
        }
    }
}

/// The keywords of [`schema`], checked the plain way.
fn satisfies(value: &Value, schema: &Value) -> bool {
    if let Some(options) = schema["anyOf"].as_array() {
        return options.iter().any(|option| satisfies(value, option));
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value);
    }
    let length = |text: &str| text.chars().count() as u64;
    let between = |count: u64, least: &str, most: &str| {
        schema[least].as_u64().is_none_or(|least| count >= least)
            && schema[most].as_u64().is_none_or(|most| count <= most)
    };
    match value {
        Value::Null => schema["type"].as_array().is_some(),
        Value::Bool(_) => schema["type"] == "boolean" || schema["type"].is_array(),
        Value::Number(number) => {
            // `-0` is the integer 0, though serde_json reads a float.
            let number = number.as_f64().filter(|number| number.fract() == 0.0);
            schema["type"] == "integer"
                && number.is_some_and(|number| number >= schema["minimum"].as_f64().unwrap())
                && number.is_some_and(|number| number <= schema["maximum"].as_f64().unwrap())
        }
        Value::String(text) if schema["pattern"].is_string() => turn_id(text),
        Value::String(text) => schema["type"] == "string" && between(length(text), "minLength", "maxLength"),
        Value::Array(items) => {
            schema["type"] == "array"
                && between(items.len() as u64, "minItems", "maxItems")
                && items.iter().all(|item| satisfies(item, &schema["items"]))
        }
        Value::Object(members) => {
            schema["type"] == "object"
                && schema["required"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|name| members.contains_key(name.as_str().unwrap()))
                && members.iter().all(|(name, member)| {
                    schema["properties"]
                        .get(name)
                        .is_some_and(|schema| satisfies(member, schema))
                })
        }
    }
}

/// `^D[1-9][0-9]?:[1-9]$`
fn turn_id(text: &str) -> bool {
    let digit = |text: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && !text.starts_with('0')
    };
    let parts = text.strip_prefix('D').and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(session, turn)| digit(session, 1..=2) && digit(turn, 1..=1))
}

/// Whether the bytes are one JSON value without white space between its tokens that satisfies the schema.
fn complete(bytes: &[u8], schema: &Value) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let (mut inside, mut escaped) = (false, false);
    for &byte in bytes {
        assert!(
            inside || !byte.is_ascii_whitespace(),
            "white space in {:?}",
            String::from_utf8_lossy(bytes)
        );
        inside ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    satisfies(&value, schema)
}

#[test]
fn random_replies_satisfy_random_schemas_and_may_end_exactly_when_they_do() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    for round in 0..500 {
        let schema = schema(&mut random, 3);
        let mut matcher = matcher(&Constraint::JsonSchema(schema.clone()));
        let mut reply: Vec<u32> = Vec::new();
        loop {
            for token in matcher.forced() {
                matcher.commit(token).unwrap();
                reply.push(token);
            }
            let bytes = text(&reply);
            let shown = String::from_utf8_lossy(&bytes);
            assert_eq!(
                ends(&mut matcher),
                complete(&bytes, &schema),
                "round {round}: {shown} of {schema}"
            );
            let mask = matcher.mask().unwrap();
            let ids: Vec<u32> = mask.ids().collect();
            assert_eq!(ids.len(), mask.count());
            let token = ids[(random.next_u64() % ids.len() as u64) as usize];
            if TOKENIZER.end_tokens().contains(&token) {
                break;
            }
            matcher.commit(token).unwrap();
            reply.push(token);
            assert!(reply.len() < 2000, "round {round}: no end of {shown} of {schema}");
        }
    }
}
