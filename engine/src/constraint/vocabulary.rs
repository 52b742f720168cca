//! Our tokenizer as `llguidance` wants to see it.

use std::sync::Arc;

use engine_contract::EngineError;
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use weights::{Specials, Tokenizer};

struct Vocabulary {
    tokenizer: Arc<Tokenizer>,
    trie: TokTrie,
}

/// The vocabulary's byte trie with the tokenizer behind it. Control tokens are left out, so that no grammar can
/// produce them; end tokens are allowed by `llguidance` itself where the grammar accepts.
///
/// # Errors
/// [`EngineError::Backend`] when the tokenizer names no end token: nothing could end a reply.
pub(super) fn token_env(tokenizer: Arc<Tokenizer>) -> Result<TokEnv, EngineError> {
    let size = tokenizer.vocab_size() as u32;
    let ends: Vec<u32> = tokenizer
        .end_tokens()
        .iter()
        .copied()
        .filter(|&id| id < size)
        .collect();
    let Some(&end) = ends.first() else {
        return Err(EngineError::Backend {
            backend: "constrained decoding".into(),
            reason: "the tokenizer has no end token; use a model whose file names one".into(),
        });
    };
    let words: Vec<Vec<u8>> = (0..size)
        .map(|id| match tokenizer.token_bytes(id) {
            // llguidance reads a leading 0xFF as the mark of a special token.
            Some(bytes)
                if !tokenizer.is_control(id) && bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER) =>
            {
                bytes.to_vec()
            }
            _ => Vec::new(),
        })
        .collect();
    let trie = TokTrie::from(&TokRxInfo::new(size, end), &words).with_eos_tokens(&ends);
    Ok(Arc::new(Vocabulary { tokenizer, trie }))
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// The model's own tokens where they spell these very bytes, else the longest tokens that do: a tokenizer may
    /// normalise its input, and forced bytes must not change.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let tokens = self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.tokenizer.encode(text, Specials::AsText).unwrap_or_default()
        });
        if self.trie.decode_raw(&tokens) == bytes {
            tokens
        } else {
            self.trie.greedy_tokenize(bytes)
        }
    }
}
