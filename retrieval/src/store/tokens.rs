//! The vectors of a turn's tokens, one bit per value, for late interaction.
//!
//! A token has ceil(dimension / 8) bytes; bit i of them, lowest first, is set where value i is above that of the centre.
//! The centre is the mean over the tokens of a few fixed sentences: what all tokens share tells none from another. A
//! turn without token vectors has no entry.

use engine_contract::{EmbedKind, Embedder};
use heed::byteorder::BE;
use heed::types::{Bytes, U32};
use heed::{Database, RwTxn};

use super::{Memory, Reading};
use crate::RetrievalError;

/// Everyday talk between people, and with an assistant.
const CENTRE_OF: [&str; 10] = [
    "Ann: Hey Ben! How have you been? It's been a while since we talked.",
    "Ben: Thanks, I'm good. Work keeps me busy, but last weekend we went to the lake with the kids.",
    "That sounds great! Did you take any pictures?",
    "Can you recommend a good book about history?",
    "user: I need to plan a trip for my family next month. What should I know before booking?",
    "assistant: Here are some ideas that may help. First, decide how much you want to spend.",
    "When did she start her new job?",
    "What does he like to do in his free time?",
    "Yes, I bought a new car yesterday and I love it.",
    "No, I have not heard from them since the party in June.",
];

/// One bit per value of vectors laid end to end, each as long as the centre.
pub(super) fn encode(tokens: &[f32], centre: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tokens.len().div_ceil(8));
    for token in tokens.chunks_exact(centre.len().max(1)) {
        for (values, centre) in token.chunks(8).zip(centre.chunks(8)) {
            let above = values
                .iter()
                .zip(centre)
                .map(|(value, centre)| u8::from(value > centre));
            bytes.push(above.zip(0..8).fold(0, |byte, (bit, place)| byte | bit << place));
        }
    }
    bytes
}

pub(super) fn put(
    database: Database<'static, U32<BE>, Bytes>,
    txn: &mut RwTxn<'_>,
    (turn, tokens): (u32, &[u8]),
) -> Result<(), RetrievalError> {
    if tokens.is_empty() {
        database.delete(txn, &turn)?;
    } else {
        database.put(txn, &turn, tokens)?;
    }
    Ok(())
}

impl Memory {
    /// The mean vector of tokens; empty when the embedder has no vectors for tokens.
    pub(crate) fn token_centre(&self, embedder: &dyn Embedder) -> Result<&[f32], RetrievalError> {
        let kept = &self.inner.token_centre;
        if let Some(centre) = kept.get() {
            return Ok(centre);
        }
        let dimension = embedder.info().dimension;
        let vectors = embedder.embed_tokens(&CENTRE_OF, EmbedKind::Passage)?;
        let tokens: Vec<&[f32]> = vectors
            .iter()
            .flat_map(|text| text.tokens.chunks_exact(dimension))
            .collect();
        let mut centre = vec![0.0f32; if tokens.is_empty() { 0 } else { dimension }];
        for token in &tokens {
            centre
                .iter_mut()
                .zip(*token)
                .for_each(|(sum, value)| *sum += value);
        }
        centre.iter_mut().for_each(|sum| *sum /= tokens.len() as f32);
        Ok(kept.get_or_init(|| centre))
    }
}

impl Reading<'_> {
    /// The bits of a turn's tokens; empty when there are none.
    pub(crate) fn tokens(&self, turn: u32) -> Result<&[u8], RetrievalError> {
        Ok(self.databases.tokens.get(self.txn, &turn)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_set_above_the_centre() {
        let centre = [0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0];
        let token = [0.1, 0.4, -0.1, 0.0, 0.2, -0.2, -0.3, 0.9, -0.9];
        assert_eq!(
            encode(&[token, token].concat(), &centre),
            [0b1001_0001, 1, 0b1001_0001, 1]
        );
        assert!(encode(&[], &[]).is_empty());
    }
}
