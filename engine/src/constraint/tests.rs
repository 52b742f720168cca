//! Against a vocabulary of the 256 bytes and a few longer pieces, so that every expectation can be read off.

use std::sync::Arc;

use engine_contract::{Constraint, EngineError};
use serde_json::{Value, json};
use toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::{GrammarCompiler, Matcher};

/// Byte tokens 0 to 255, these pieces from 256 on, then the end token.
const PIECES: [&str; 7] = ["{\"", "\":", "\",\"", "name", "true", "al", "pha"];
const END: u32 = 256 + PIECES.len() as u32;

struct Bytes(TokTrie);

impl TokenizerEnv for Bytes {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.0.greedy_tokenize(bytes)
    }
}

fn compiler() -> GrammarCompiler {
    // 0xFF never occurs in UTF-8 and marks special tokens in the trie.
    let mut words: Vec<Vec<u8>> = (0..=254u8).map(|byte| vec![byte]).collect();
    words.push(Vec::new());
    words.extend(PIECES.iter().map(|piece| piece.as_bytes().to_vec()));
    words.push(Vec::new());
    let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, END), &words);
    GrammarCompiler::from_vocabulary(move || Ok(Arc::new(Bytes(trie.clone()))))
}

fn matcher(constraint: &Constraint) -> Matcher {
    compiler().matcher(constraint).unwrap().unwrap()
}

fn schema(schema: Value) -> Matcher {
    matcher(&Constraint::JsonSchema(schema))
}

/// Whether the text is accepted as a whole reply, byte by byte, each byte allowed by the mask before it.
fn accepts(matcher: &mut Matcher, text: &str) -> bool {
    feed(matcher, text) && matcher.mask().unwrap().allows(END)
}

fn feed(matcher: &mut Matcher, text: &str) -> bool {
    for byte in text.bytes() {
        // A forced continuation may be written with a longer piece only; commit bytes regardless of it.
        if matcher.is_complete() || matcher.commit(u32::from(byte)).is_err() {
            return false;
        }
    }
    true
}

fn refused(constraint: Constraint) -> String {
    match compiler().matcher(&constraint) {
        Err(EngineError::InvalidConstraint { reason }) => reason,
        other => panic!("{constraint:?} gave {other:?}"),
    }
}

#[test]
fn choices_are_exact_and_may_be_prefixes_of_each_other() {
    let choices = Constraint::Choices(["a.b", "a.bc", "x/y\n\"z\" $1"].map(String::from).to_vec());
    for (text, expected) in [
        ("a.b", true),
        ("a.bc", true),
        ("x/y\n\"z\" $1", true),
        ("a", false),
        ("aXb", false),
    ] {
        assert_eq!(accepts(&mut matcher(&choices), text), expected, "{text}");
    }
    let mut shorter = matcher(&choices);
    assert!(feed(&mut shorter, "a.b"));
    let mask = shorter.mask().unwrap();
    assert_eq!(mask.ids().collect::<Vec<_>>(), [u32::from(b'c'), END]);
    assert!(!shorter.is_complete());
    assert!(feed(&mut shorter, "c"));
    assert!(shorter.is_complete());
    assert_eq!(shorter.mask().unwrap().ids().collect::<Vec<_>>(), [END]);
}

#[test]
fn a_regular_expression_matches_the_whole_reply() {
    for expression in ["D[0-9]+:[0-9]+", "^D[0-9]+:[0-9]+$"] {
        let constraint = Constraint::Regex(expression.into());
        for (text, expected) in [
            ("D1:3", true),
            ("D12:345", true),
            ("D1:", false),
            ("xD1:3", false),
        ] {
            assert_eq!(
                accepts(&mut matcher(&constraint), text),
                expected,
                "{expression} on {text}"
            );
        }
    }
    let mut empty = matcher(&Constraint::Regex("a*".into()));
    assert!(empty.mask().unwrap().allows(END), "the empty reply matches");
}

#[test]
fn json_has_no_free_white_space() {
    let person = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "ok": { "type": "boolean" } },
        "required": ["name", "ok"],
        "additionalProperties": false,
        "x-guidance": { "whitespace_flexible": true }
    });
    assert!(accepts(
        &mut schema(person.clone()),
        r#"{"name":"a b","ok":true}"#
    ));
    for text in ["{ ", "{\"name\": ", "{\"name\":\"a\", ", "\n"] {
        assert!(!feed(&mut schema(person.clone()), text), "{text}");
    }
    assert!(accepts(&mut schema(json!(true)), r#"{"any":[1,null]}"#));
}

#[test]
fn lengths_and_bounds_hold() {
    let text = json!({ "type": "string", "minLength": 2, "maxLength": 4 });
    for (reply, expected) in [
        ("\"ab\"", true),
        ("\"漢字😀é\"", true),
        ("\"a\"", false),
        ("\"abcde\"", false),
    ] {
        assert_eq!(accepts(&mut schema(text.clone()), reply), expected, "{reply}");
    }
    let list = json!({ "type": "array", "items": { "enum": [1, 2] }, "minItems": 1, "maxItems": 2 });
    for (reply, expected) in [
        ("[1]", true),
        ("[1,2]", true),
        ("[]", false),
        ("[1,2,1]", false),
        ("[3]", false),
    ] {
        assert_eq!(accepts(&mut schema(list.clone()), reply), expected, "{reply}");
    }
}

#[test]
fn forced_tokens_are_the_tokenizers_own() {
    let mut matcher = schema(json!({
        "type": "object",
        "properties": { "name": { "enum": ["alpha"] } },
        "required": ["name"],
        "additionalProperties": false
    }));
    let mut reply: Vec<u32> = Vec::new();
    for token in matcher.forced() {
        matcher.commit(token).unwrap();
        reply.push(token);
    }
    assert!(matcher.is_complete());
    assert!(matcher.forced().is_empty());
    // {" name ": " al pha " }
    let quote = u32::from(b'"');
    assert_eq!(reply, [256, 259, 257, quote, 261, 262, quote, u32::from(b'}')]);
}

#[test]
fn a_token_that_may_merge_with_the_next_one_is_not_forced() {
    let mut matcher = matcher(&Constraint::Regex("xna(me|p)".into()));
    assert_eq!(matcher.forced(), [u32::from(b'x')]);
    matcher.commit(u32::from(b'x')).unwrap();
    let mask = matcher.mask().unwrap();
    assert!(mask.allows(259), "`name` as one piece");
}

#[test]
fn what_cannot_be_satisfied_or_compiled_is_refused_before_the_request_runs() {
    for impossible in [
        json!(false),
        json!({ "type": "integer", "minimum": 5, "maximum": 4 }),
        json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] }),
        json!({ "enum": [] }),
        json!({ "type": "string", "minLength": 3, "maxLength": 2 }),
        json!({ "type": "object", "properties": { "a": false }, "required": ["a"] }),
        json!({ "type": "integer", "minimum": 6, "maximum": 9, "multipleOf": 5 }),
        json!({
            "type": "object",
            "properties": { "a": { "type": "integer", "minimum": 6, "maximum": 9, "multipleOf": 5 } },
            "required": ["a"]
        }),
        json!({ "not": { "type": "string" } }),
        json!({ "type": "array", "uniqueItems": true }),
        json!({ "oneOf": [{ "minimum": 1 }, { "minimum": 2 }] }),
        json!([1]),
    ] {
        let reason = refused(Constraint::JsonSchema(impossible.clone()));
        assert!(
            !reason.is_empty() && !reason.contains('\n'),
            "{impossible}: {reason}"
        );
    }
    refused(Constraint::Regex("(".into()));
    refused(Constraint::Regex("a(?=b)".into()));
    assert_eq!(
        refused(Constraint::Choices(Vec::new())),
        "the list of choices is empty"
    );
    assert_eq!(
        refused(Constraint::Choices(vec!["a".into(), String::new()])),
        "choice 1 is an empty text"
    );
}

#[test]
fn a_token_outside_the_mask_is_an_error() {
    let mut matcher = matcher(&Constraint::Choices(vec!["ab".into()]));
    let error = matcher.commit(u32::from(b'z')).unwrap_err();
    assert!(matches!(error, EngineError::InvalidConstraint { .. }), "{error}");
}

#[test]
fn matchers_of_one_grammar_are_independent_and_the_cache_forgets_the_oldest() {
    let compiler = compiler();
    let constraint = Constraint::Choices(vec!["ab".into(), "ac".into()]);
    let mut first = compiler.matcher(&constraint).unwrap().unwrap();
    first.commit(u32::from(b'a')).unwrap();
    let mut second = compiler.matcher(&constraint).unwrap().unwrap();
    assert!(second.mask().unwrap().allows(u32::from(b'a')));
    assert!(!first.mask().unwrap().allows(u32::from(b'a')));
    for index in 0..100 {
        compiler
            .matcher(&Constraint::Choices(vec![format!("choice {index}")]))
            .unwrap();
    }
    assert!(format!("{compiler:?}").contains("compiled: 64"));
    assert!(first.mask().unwrap().allows(u32::from(b'b')));
}

#[test]
fn no_constraint_has_no_matcher() {
    assert!(compiler().matcher(&Constraint::None).unwrap().is_none());
}
