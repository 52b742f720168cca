//! One request as the scheduler sees it: token ids, how many of them have KV rows, and blocks.

use std::borrow::Cow;

use kernels::BLOCK_TOKENS;

use super::Chunk;
use crate::kv::Table;

/// Number of a request, in the order of arrival.
pub(crate) type SequenceId = u64;

/// A prompt with the tokens generated so far.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    pub(crate) namespace: u64,
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_tokens: usize,
    /// Leading tokens that have KV rows. The last sampled token has none yet.
    pub(crate) computed: usize,
    pub(crate) table: Table,
    /// A guess at what follows `tokens`.
    pub(crate) draft: Vec<u32>,
    /// Later requests admitted before this one while it waited.
    pub(crate) overtaken: usize,
    /// Prompt rows found in the cache when first admitted; `None` until then.
    pub(crate) cached_rows: Option<usize>,
    /// Prompt rows that went through the model, repeats included.
    pub(crate) computed_rows: usize,
    pub(crate) preempted: bool,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, namespace: u64, prompt: Vec<u32>) -> Self {
        Self {
            id,
            namespace,
            prompt_tokens: prompt.len(),
            tokens: prompt,
            computed: 0,
            table: Table::default(),
            draft: Vec::new(),
            overtaken: 0,
            cached_rows: None,
            computed_rows: 0,
            preempted: false,
        }
    }

    /// Tokens without KV rows. At least one while the sequence lives, so that there are logits.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// What a cache may serve: everything but the last token, whose logits are wanted.
    pub(crate) fn reusable(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// Token ids of a chunk's rows, drafts included.
    pub(crate) fn rows_of(&self, chunk: &Chunk) -> Cow<'_, [u32]> {
        let tokens = &self.tokens[chunk.start..chunk.start + chunk.rows];
        match chunk.drafts {
            0 => Cow::Borrowed(tokens),
            drafts => Cow::Owned([tokens, &self.draft[..drafts]].concat()),
        }
    }

    /// Whether the prompt has been computed and tokens are being generated.
    pub(crate) fn is_decoding(&self) -> bool {
        self.tokens.len() > self.prompt_tokens && self.computed >= self.prompt_tokens
    }

    /// Blocks for all tokens so far.
    pub(crate) fn blocks_needed(&self) -> usize {
        self.tokens.len().div_ceil(BLOCK_TOKENS)
    }

    /// Full blocks of `other`'s tokens that are also the beginning of this sequence, in rows.
    pub(crate) fn shared_rows(&self, other: &Self) -> usize {
        if self.namespace != other.namespace {
            return 0;
        }
        let common = self
            .reusable()
            .iter()
            .zip(&other.tokens)
            .take_while(|(a, b)| a == b)
            .count();
        common / BLOCK_TOKENS * BLOCK_TOKENS
    }
}
