//! The byte-level BPE tokenizer inside a Qwen2 GGUF file.

use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use super::byte_level::{self, TokenBytes};
use super::{Decoding, Special, Tokenizer, end_tokens};
use crate::error::WeightsError;
use crate::gguf::Gguf;

/// The pre-tokenizer of Qwen2 (`tokenizer.json` of Qwen/Qwen2.5-0.5B-Instruct): contractions, words with one
/// leading non-letter, single digits, punctuation runs, line ends, spaces.
const QWEN2_PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// `llama_token_type` of llama.cpp, as stored in `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

pub(super) fn build(gguf: &Gguf) -> Result<Tokenizer, WeightsError> {
    let fail = |what: String| WeightsError::Tokenizer {
        path: gguf.path().to_owned(),
        what,
    };
    expect_value(gguf, "tokenizer.ggml.model", "gpt2")?;
    expect_value(gguf, "tokenizer.ggml.pre", "qwen2")?;
    let tokens = gguf.strings("tokenizer.ggml.tokens")?;
    let kinds = gguf.i32s("tokenizer.ggml.token_type")?;
    if tokens.len() != kinds.len() || u32::try_from(tokens.len()).is_err() {
        return Err(fail(format!(
            "{} tokens, but {} token types",
            tokens.len(),
            kinds.len()
        )));
    }
    let table = Table::read(&tokens, &kinds).map_err(fail)?;
    let model = BPE::builder()
        .vocab_and_merges(
            table.vocabulary,
            merges(&gguf.strings("tokenizer.ggml.merges")?).map_err(fail)?,
        )
        .build()
        .map_err(|error| fail(error.to_string()))?;
    let mut text = tokenizers::Tokenizer::new(model);
    text.with_normalizer(Some(NFC))
        .map_err(|error| fail(error.to_string()))?;
    text.with_pre_tokenizer(Some(pre_tokenizer().map_err(|error| fail(error.to_string()))?));
    let eos = gguf.u32("tokenizer.ggml.eos_token_id").ok();
    let ends = end_tokens(eos, &table.specials);
    Ok(Tokenizer {
        path: gguf.path().to_owned(),
        text,
        matcher: super::matcher(&table.specials).map_err(fail)?,
        specials: table.specials,
        decoding: Decoding::ByteLevel(table.bytes),
        control: table.control,
        end_tokens: ends,
        with_template: None,
    })
}

fn expect_value(gguf: &Gguf, key: &str, expected: &str) -> Result<(), WeightsError> {
    let received = gguf.string(key)?;
    if received == expected {
        return Ok(());
    }
    Err(WeightsError::Tokenizer {
        path: gguf.path().to_owned(),
        what: format!(
            "`{key}` is `{received}`, expected `{expected}` (only Qwen2 vocabularies are supported)"
        ),
    })
}

struct Table {
    vocabulary: Vocab,
    specials: Vec<Special>,
    bytes: TokenBytes,
    control: Vec<bool>,
}

impl Table {
    fn read(tokens: &[&str], kinds: &[i32]) -> Result<Self, String> {
        let mut table = Self {
            vocabulary: Vocab::with_capacity(tokens.len()),
            specials: Vec::new(),
            bytes: TokenBytes::new(),
            control: Vec::with_capacity(tokens.len()),
        };
        for (id, (&token, &kind)) in (0_u32..).zip(tokens.iter().zip(kinds)) {
            let visible = matches!(kind, NORMAL | USER_DEFINED | BYTE);
            table.control.push(!visible);
            match kind {
                NORMAL | BYTE => {
                    let bytes = byte_level::decode(token)
                        .ok_or_else(|| format!("token {id} `{token}` is not in the byte alphabet"))?;
                    table.bytes.push(bytes)?;
                    if table.vocabulary.insert(token.to_owned(), id).is_some() {
                        return Err(format!("token `{token}` appears twice"));
                    }
                }
                // Control and user-defined tokens; "unused" padding rows are never matched in a text.
                3 | USER_DEFINED => {
                    table
                        .bytes
                        .push(if visible { token.bytes() } else { "".bytes() })?;
                    table.specials.push(Special {
                        text: token.to_owned(),
                        id,
                    });
                }
                _ => table.bytes.push([])?,
            }
        }
        Ok(table)
    }
}

fn merges(lines: &[&str]) -> Result<Merges, String> {
    let split = |line: &&str| {
        line.split_once(' ')
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .ok_or_else(|| format!("merge `{line}` is not two tokens with a space between"))
    };
    lines.iter().map(split).collect()
}

fn pre_tokenizer() -> tokenizers::Result<Sequence> {
    let pattern = SplitPattern::Regex(QWEN2_PATTERN.to_owned());
    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
    let bytes = ByteLevel::new(false, false, false);
    Ok(Sequence::new(vec![
        PreTokenizerWrapper::from(split),
        PreTokenizerWrapper::from(bytes),
    ]))
}
