//! Vectors of passages that were embedded before, by a hash of the passage.
//!
//! The hash leads to a turn; its passage is compared and its vectors are taken. An entry whose turn was changed or
//! deleted leads nowhere and is overwritten in time, so that nothing needs to keep this index in step.

use engine_contract::TextVectors;
use heed::byteorder::BE;
use heed::types::{U32, U64};
use heed::{Database, RwTxn};

use super::{Reading, tokens};
use crate::RetrievalError;

/// What is stored for a turn's passage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PassageVectors {
    pub(super) text: Vec<f32>,
    /// See [`super::tokens`].
    pub(super) tokens: Vec<u8>,
}

impl PassageVectors {
    pub(super) fn new(vectors: TextVectors, centre: &[f32]) -> Self {
        Self {
            tokens: tokens::encode(&vectors.tokens, centre),
            text: vectors.text,
        }
    }
}

/// FNV-1a: the same on every machine and version.
fn hash(passage: &str) -> u64 {
    passage.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(super) fn put(
    database: Database<'static, U64<BE>, U32<BE>>,
    txn: &mut RwTxn<'_>,
    (passage, turn): (&str, u32),
) -> Result<(), RetrievalError> {
    Ok(database.put(txn, &hash(passage), &turn)?)
}

impl Reading<'_> {
    /// The vectors of a passage that a stored turn has.
    pub(super) fn passage_vectors(
        &self,
        passage: &str,
        dimension: usize,
    ) -> Result<Option<PassageVectors>, RetrievalError> {
        let Some(turn) = self.databases.passages.get(self.txn, &hash(passage))? else {
            return Ok(None);
        };
        let stored = self.databases.turns.get(self.txn, &turn)?;
        if stored.is_none_or(|stored| stored.passage() != passage) {
            return Ok(None);
        }
        let Some(text) = self.vector(dimension, turn)? else {
            return Ok(None);
        };
        let tokens = self.tokens(turn)?.to_vec();
        Ok(Some(PassageVectors { text, tokens }))
    }
}
