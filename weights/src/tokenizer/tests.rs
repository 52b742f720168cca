//! Tokenizers over a vocabulary small enough to read; real vocabularies are in `tests/models.rs`.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::gguf::fixture::GgufBuilder;

/// Bytes as the 256 first tokens, "he", "ll", "hell", then `<|end|>`, `<tool>`, a padding row.
fn vocabulary() -> (Vec<String>, Vec<i32>, Vec<String>) {
    let alphabet = (0..=u8::MAX).map(|byte| {
        let written = (0..0x200).filter_map(char::from_u32);
        written
            .filter(|&character| byte_level::byte_of(character) == Some(byte))
            .collect::<String>()
    });
    let mut tokens: Vec<String> = alphabet.collect();
    tokens.extend(["he", "ll", "hell", "<|im_end|>", "<tool>", "[PAD]"].map(str::to_owned));
    let mut kinds = vec![1; 259];
    kinds.extend([3, 4, 5]);
    let merges = ["h e", "l l", "he ll"].map(str::to_owned).to_vec();
    (tokens, kinds, merges)
}

fn file(pre: &str, tokens: &[String], kinds: &[i32], merges: &[String]) -> Result<Tokenizer, WeightsError> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.gguf");
    let bytes = GgufBuilder::new(3)
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.tokens", tokens)
        .i32s("tokenizer.ggml.token_type", kinds)
        .strings("tokenizer.ggml.merges", merges)
        .u32("tokenizer.ggml.eos_token_id", 5)
        .build();
    fs::write(&path, bytes).unwrap();
    Tokenizer::from_gguf(&Gguf::open(&path).unwrap())
}

fn tokenizer() -> Tokenizer {
    let (tokens, kinds, merges) = vocabulary();
    file("qwen2", &tokens, &kinds, &merges).unwrap()
}

#[test]
fn specials_are_parsed_or_spelled_out() {
    let tokenizer = tokenizer();
    let parsed = tokenizer
        .encode("hello<|im_end|><tool>", Specials::Parse)
        .unwrap();
    assert_eq!(parsed, [258, u32::from(b'o'), 259, 260]);
    assert_eq!(tokenizer.decode(&parsed), "hello<tool>");
    let spelled = tokenizer.encode("hello<|im_end|>", Specials::AsText).unwrap();
    assert!(spelled.iter().all(|&id| id < 259), "{spelled:?}");
    assert_eq!(tokenizer.decode(&spelled), "hello<|im_end|>");
    assert_eq!(tokenizer.encode("", Specials::Parse).unwrap(), [0_u32; 0]);
}

#[test]
fn tokens_know_their_bytes() {
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.token_bytes(258), Some(&b"hell"[..]));
    assert_eq!(tokenizer.token_bytes(0xFF), Some(&[0xFF][..]));
    assert_eq!(tokenizer.token_bytes(260), Some(&b"<tool>"[..]));
    assert_eq!(tokenizer.token_bytes(259), None);
    assert_eq!(tokenizer.token_bytes(261), None);
    assert_eq!(tokenizer.token_bytes(262), None);
    let control: Vec<u32> = (0..300).filter(|&id| tokenizer.is_control(id)).take(4).collect();
    assert_eq!(control, [259, 261, 262, 263]);
    assert_eq!(tokenizer.vocab_size(), 262);
    assert_eq!(tokenizer.token_id("<|im_end|>"), Some(259));
    assert_eq!(tokenizer.token_id("he"), Some(256));
    assert_eq!(tokenizer.end_tokens(), [5, 259]);
    assert_eq!(tokenizer.decode(&[0xE4, 0xBD]), "\u{FFFD}");
}

#[test]
fn vocabularies_that_contradict_themselves_are_refused() {
    let (tokens, kinds, merges) = vocabulary();
    let refused = |pre: &str, tokens: &[String], kinds: &[i32], merges: &[String]| {
        file(pre, tokens, kinds, merges).unwrap_err().to_string()
    };
    let foreign = refused("llama-bpe", &tokens, &kinds, &merges);
    assert!(
        foreign.contains("`tokenizer.ggml.pre` is `llama-bpe`, expected `qwen2`"),
        "{foreign}"
    );
    let short = refused("qwen2", &tokens, &kinds[1..], &merges);
    assert!(short.contains("262 tokens, but 261 token types"), "{short}");
    let unknown = refused("qwen2", &tokens, &kinds, &["h q".to_owned(), "hq x".to_owned()]);
    assert!(unknown.contains("hq"), "{unknown}");
    let unsplit = refused("qwen2", &tokens, &kinds, &["hello".to_owned()]);
    assert!(unsplit.contains("merge `hello` is not two tokens"), "{unsplit}");
    let mut twice = tokens.clone();
    twice[257] = "he".to_owned();
    assert!(refused("qwen2", &twice, &kinds, &merges).contains("token `he` appears twice"));
    let mut outside = tokens;
    outside[256] = "中".to_owned();
    assert!(refused("qwen2", &outside, &kinds, &merges).contains("is not in the byte alphabet"));
}

#[test]
fn a_json_file_frames_and_truncates() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tokenizer.json");
    let json = r#"{"version":"1.0","truncation":{"max_length":2,"strategy":"LongestFirst","stride":0,
        "direction":"Right"},"padding":{"strategy":{"Fixed":8},"direction":"Right","pad_to_multiple_of":null,
        "pad_id":0,"pad_type_id":0,"pad_token":"[PAD]"},
        "added_tokens":[
        {"id":0,"content":"[PAD]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
        {"id":2,"content":"[CLS]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
        {"id":3,"content":"[SEP]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
        "normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"BertPreTokenizer"},
        "post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
        "decoder":{"type":"WordPiece","prefix":"\u0023\u0023","cleanup":true},
        "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"\u0023\u0023",
        "max_input_chars_per_word":100,"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"play":4,"\u0023\u0023ing":5,"the":6}}}"#;
    fs::write(&path, json).unwrap();
    let tokenizer = Tokenizer::from_file(&path).unwrap();
    assert_eq!(
        tokenizer.encode("the Playing", Specials::AsText).unwrap(),
        [6, 4, 5]
    );
    assert_eq!(
        tokenizer.encode_with_template("the Playing", 16).unwrap(),
        [2, 6, 4, 5, 3]
    );
    assert_eq!(
        tokenizer.encode_with_template("the Playing", 4).unwrap(),
        [2, 6, 4, 3]
    );
    assert_eq!(tokenizer.encode_with_template("the", 2).unwrap(), [2, 3]);
    let small = tokenizer.encode_with_template("the", 1).unwrap_err().to_string();
    assert!(
        small.contains("expected room for at least 2 tokens, received 1"),
        "{small}"
    );
    assert_eq!(tokenizer.decode(&[2, 6, 4, 5, 3]), "the playing");
    assert_eq!(tokenizer.token_bytes(6), None);
    assert!(tokenizer.is_control(2) && !tokenizer.is_control(6));
    fs::write(&path, "{}").unwrap();
    assert!(
        Tokenizer::from_file(&path)
            .unwrap_err()
            .to_string()
            .contains("tokenizer.json")
    );
}
