//! The vectors of a turn's tokens, one bit per value, for late interaction.
//!
//! A token has ceil(dimension / 8) bytes; bit i of them, lowest first, is set where value i is above that of the centre.
//! The centre is the mean over the tokens of a few fixed sentences: what all tokens share tells none from another. A
//! turn without token vectors has no entry.

use engine_contract::{EmbedKind, Embedder};
use heed::byteorder::BE;
use heed::types::{Bytes, U64};
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

/// Values whose signs are the bits: what [`encode`] makes them of again, with a centre of zeros.
pub(super) fn decode(bits: &[u8], dimension: usize) -> Vec<f32> {
    let tokens = bits.chunks_exact(dimension.div_ceil(8).max(1));
    let values = |token: &[u8]| -> Vec<f32> {
        (0..dimension)
            .map(|i| {
                if token[i / 8] >> (i % 8) & 1 == 1 {
                    1.0
                } else {
                    -1.0
                }
            })
            .collect()
    };
    tokens.flat_map(values).collect()
}

/// Whether the centre is made of this text, among others.
pub(super) fn is_centre(text: &str) -> bool {
    CENTRE_OF.contains(&text)
}

type Tokens = Database<'static, U64<BE>, Bytes>;

/// Key of a turn's tokens in one of arroy's two indexes.
fn key((index, turn): (u16, u32)) -> u64 {
    u64::from(index) << 32 | u64::from(turn)
}

pub(super) fn put(
    database: Tokens,
    txn: &mut RwTxn<'_>,
    of: (u16, u32),
    tokens: &[u8],
) -> Result<(), RetrievalError> {
    if tokens.is_empty() {
        return remove(database, txn, of);
    }
    Ok(database.put(txn, &key(of), tokens)?)
}

pub(super) fn remove(database: Tokens, txn: &mut RwTxn<'_>, of: (u16, u32)) -> Result<(), RetrievalError> {
    database.delete(txn, &key(of))?;
    Ok(())
}

/// Removes the tokens of all turns in an index.
pub(super) fn clear(database: Tokens, txn: &mut RwTxn<'_>, index: u16) -> Result<(), RetrievalError> {
    database.delete_range(txn, &(key((index, 0))..=key((index, u32::MAX))))?;
    Ok(())
}

/// The mean vector of tokens; empty when the embedder has no vectors for tokens.
pub(super) fn centre(embedder: &dyn Embedder) -> Result<Vec<f32>, RetrievalError> {
    let dimension = embedder.info().dimension;
    let vectors = embedder.embed_tokens(&CENTRE_OF, EmbedKind::Passage)?;
    let tokens = || {
        vectors
            .iter()
            .flat_map(|text| text.tokens.chunks_exact(dimension))
    };
    let count = tokens().count();
    let mut centre = vec![0.0f32; if count == 0 { 0 } else { dimension }];
    for token in tokens() {
        centre
            .iter_mut()
            .zip(token)
            .for_each(|(sum, value)| *sum += value);
    }
    centre.iter_mut().for_each(|sum| *sum /= count as f32);
    Ok(centre)
}

impl Memory {
    /// See [`centre`]; computed once.
    pub(crate) fn token_centre(&self, embedder: &dyn Embedder) -> Result<&[f32], RetrievalError> {
        let kept = &self.inner.token_centre;
        if let Some(centre) = kept.get() {
            return Ok(centre);
        }
        let centre = centre(embedder)?;
        Ok(kept.get_or_init(|| centre))
    }
}

impl Reading<'_> {
    /// The bits of a turn's tokens; empty when there are none.
    pub(crate) fn tokens(&self, turn: u32) -> Result<&[u8], RetrievalError> {
        Ok(self
            .databases
            .tokens
            .get(self.txn, &key((self.vectors, turn)))?
            .unwrap_or_default())
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
        let bits = encode(&token, &centre);
        assert_eq!(encode(&decode(&bits, 9), &[0.0; 9]), bits);
    }
}
