//! Text to token ids and back.

mod byte_level;
mod from_gguf;
mod from_json;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use aho_corasick::{AhoCorasick, MatchKind};
use byte_level::TokenBytes;

use crate::error::WeightsError;
use crate::gguf::Gguf;

/// Names of the tokens that end a reply in Qwen2.5's generation configuration.
const END_TOKEN_NAMES: [&str; 2] = ["<|im_end|>", "<|endoftext|>"];

/// What to do with `<|im_start|>` and its like when they appear in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They become their one id: for rendered chat templates.
    Parse,
    /// They are spelled out like any text: for text that users or documents supply.
    AsText,
}

/// A model's tokenizer. Ids equal those of the model's own Hugging Face tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    /// The model without added tokens: every text is only text to it.
    text: tokenizers::Tokenizer,
    specials: Vec<Special>,
    /// Finds `specials`, by index, leftmost and longest first.
    matcher: AhoCorasick,
    decoding: Decoding,
    control: Vec<bool>,
    end_tokens: Vec<u32>,
    /// With added tokens and post-processor, where the file has them.
    with_template: Option<tokenizers::Tokenizer>,
}

#[derive(Debug, Clone)]
struct Special {
    text: String,
    id: u32,
}

#[derive(Debug)]
enum Decoding {
    ByteLevel(TokenBytes),
    /// WordPiece: spaces and `##` are the decoder's business.
    Pieces,
}

impl Tokenizer {
    /// The tokenizer stored in a GGUF file (byte-level BPE with Qwen2's pre-tokenizer).
    ///
    /// # Errors
    /// The file has no such tokenizer, or it contradicts itself.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, WeightsError> {
        from_gguf::build(gguf)
    }

    /// A Hugging Face `tokenizer.json`. Its own padding and truncation are ignored.
    ///
    /// # Errors
    /// The file cannot be read or is not a tokenizer.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        from_json::build(path.as_ref())
    }

    /// Token ids of `text`, nothing added before or after.
    ///
    /// # Errors
    /// [`WeightsError::Tokenizer`] when the model has no token for a piece of the text.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, WeightsError> {
        match specials {
            Specials::AsText => {
                let mut ids = Vec::new();
                self.encode_text(text, &mut ids)?;
                Ok(ids)
            }
            Specials::Parse => self.encode_around_specials(text, str::to_owned),
        }
    }

    /// Like [`Self::encode`] with [`Specials::Parse`]; the text between special tokens passes through
    /// `restore` first and is never searched for special tokens again.
    pub(crate) fn encode_around_specials(
        &self,
        text: &str,
        restore: impl Fn(&str) -> String,
    ) -> Result<Vec<u32>, WeightsError> {
        let mut ids = Vec::new();
        let mut done = 0;
        for found in self.matcher.find_iter(text) {
            self.encode_text(&restore(&text[done..found.start()]), &mut ids)?;
            ids.push(self.specials[found.pattern()].id);
            done = found.end();
        }
        self.encode_text(&restore(&text[done..]), &mut ids)?;
        Ok(ids)
    }

    /// Token ids of `text` between the model's own frame (`[CLS]` … `[SEP]` for BERT), at most `max_tokens` in
    /// all: text beyond is cut, the frame stays.
    ///
    /// # Errors
    /// The tokenizer has no frame (it came from a GGUF file), `max_tokens` is too small for the frame, or the
    /// text cannot be encoded.
    pub fn encode_with_template(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, WeightsError> {
        let framed = self
            .with_template
            .as_ref()
            .ok_or_else(|| self.fail("it has no frame of special tokens"))?;
        let encoding = framed
            .encode_fast(text, true)
            .map_err(|error| self.fail(error.to_string()))?;
        if encoding.len() <= max_tokens {
            return Ok(encoding.get_ids().to_vec());
        }
        let plain = framed
            .encode_fast(text, false)
            .map_err(|error| self.fail(error.to_string()))?;
        let frame = encoding.len() - plain.len();
        let Some(room) = max_tokens.checked_sub(frame) else {
            return Err(self.fail(format!(
                "expected room for at least {frame} tokens, received {max_tokens}"
            )));
        };
        let mut cut = plain;
        cut.truncate(room, 0, tokenizers::TruncationDirection::Right);
        let framed = framed
            .post_process(cut, None, true)
            .map_err(|error| self.fail(error.to_string()))?;
        Ok(framed.get_ids().to_vec())
    }

    /// Text of `ids`; control tokens are left out, bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        match &self.decoding {
            Decoding::ByteLevel(_) => {
                let bytes: Vec<u8> = ids
                    .iter()
                    .filter_map(|&id| self.token_bytes(id))
                    .flatten()
                    .copied()
                    .collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Decoding::Pieces => {
                let shown: Vec<u32> = ids.iter().copied().filter(|&id| !self.is_control(id)).collect();
                self.with_template
                    .as_ref()
                    .unwrap_or(&self.text)
                    .decode(&shown, false)
                    .unwrap_or_default()
            }
        }
    }

    /// Raw bytes the token stands for (possibly part of a UTF-8 character). `None` for control tokens, ids
    /// outside the vocabulary, and vocabularies that are not byte-level (WordPiece).
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        match &self.decoding {
            Decoding::ByteLevel(table) if !self.is_control(id) => table.get(id),
            Decoding::ByteLevel(_) | Decoding::Pieces => None,
        }
    }

    /// Whether the token is never part of a text: control tokens, padding rows, ids outside the vocabulary.
    pub fn is_control(&self, id: u32) -> bool {
        usize::try_from(id)
            .ok()
            .and_then(|id| self.control.get(id))
            .copied()
            .unwrap_or(true)
    }

    /// Id of a token by its name in the vocabulary (`<|im_end|>`, `[CLS]`, `Ġthe`).
    pub fn token_id(&self, token: &str) -> Option<u32> {
        let special = self
            .specials
            .iter()
            .find(|special| special.text == token)
            .map(|special| special.id);
        special.or_else(|| self.text.token_to_id(token))
    }

    /// Number of ids, padding rows included: the height of the embedding matrix.
    pub fn vocab_size(&self) -> usize {
        self.control.len()
    }

    /// Tokens after which a reply is over, ascending: the file's end token, `<|im_end|>`, `<|endoftext|>`.
    pub fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    /// Names of the tokens that [`Specials::Parse`] recognises.
    pub(crate) fn special_names(&self) -> impl Iterator<Item = &str> {
        self.specials.iter().map(|special| special.text.as_str())
    }

    fn encode_text(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), WeightsError> {
        if !text.is_empty() {
            let encoding = self
                .text
                .encode_fast(text, false)
                .map_err(|error| self.fail(error.to_string()))?;
            ids.extend(encoding.get_ids());
        }
        Ok(())
    }

    fn fail(&self, what: impl Into<String>) -> WeightsError {
        WeightsError::Tokenizer {
            path: self.path.clone(),
            what: what.into(),
        }
    }
}

fn matcher(specials: &[Special]) -> Result<AhoCorasick, String> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(specials.iter().map(|special| special.text.as_bytes()))
        .map_err(|error| error.to_string())
}

fn end_tokens(eos: Option<u32>, specials: &[Special]) -> Vec<u32> {
    let named = specials
        .iter()
        .filter(|special| END_TOKEN_NAMES.contains(&special.text.as_str()));
    let mut ids: Vec<u32> = named.map(|special| special.id).chain(eos).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
