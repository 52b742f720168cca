//! The keyword index: which turns of a conversation hold a stem, and how often.
//!
//! The key of a block is the stem, a zero byte, the conversation number and the first turn number of the block, so
//! that the blocks of one stem in one conversation lie side by side and those of another conversation are out of
//! reach. A block holds at most [`BLOCK`] postings as pairs of LEB128 numbers: the distance from the turn before
//! (from the key's turn number for the first, thus 0) and the count.

use heed::types::{Bytes, DecodeIgnore};
use heed::{Database, RoTxn, RwTxn};

use super::Reading;
use crate::RetrievalError;

type Postings = Database<'static, Bytes, Bytes>;

/// Appending rewrites the last block, reading pays one look-up per block.
const BLOCK: usize = 256;

/// A turn that holds a stem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) turn: u32,
    pub(crate) count: u32,
}

fn prefix(stem: &str, conversation: u32) -> Vec<u8> {
    let mut key = stem.as_bytes().to_vec();
    key.push(0);
    key.extend(conversation.to_be_bytes());
    key
}

fn block_key(prefix: &[u8], first_turn: u32) -> Vec<u8> {
    [prefix, &first_turn.to_be_bytes()].concat()
}

/// The first turn number of a block, when the key has the prefix.
fn first_turn(key: &[u8], prefix: &[u8]) -> Option<u32> {
    let rest = key.strip_prefix(prefix)?;
    Some(u32::from_be_bytes(rest.try_into().ok()?))
}

fn put_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn encode(postings: &[Posting]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(postings.len() * 2);
    let mut before = postings.first().map_or(0, |posting| posting.turn);
    for posting in postings {
        put_number(&mut bytes, posting.turn - before);
        put_number(&mut bytes, posting.count);
        before = posting.turn;
    }
    bytes
}

fn decode(first_turn: u32, mut bytes: &[u8], postings: &mut Vec<Posting>) -> Result<(), RetrievalError> {
    let mut turn = first_turn;
    while !bytes.is_empty() {
        let (Some(distance), Some(count)) = (take_number(&mut bytes), take_number(&mut bytes)) else {
            return Err(RetrievalError::Damaged {
                reason: format!("the postings block of turn {first_turn} ends inside a number"),
            });
        };
        turn = turn.saturating_add(distance);
        postings.push(Posting { turn, count });
    }
    Ok(())
}

/// Appends to `postings` the turns that hold the stem, of one conversation by turn number, or of all.
pub(crate) fn read(
    reading: &Reading<'_>,
    stem: &str,
    conversation: Option<u32>,
    postings: &mut Vec<Posting>,
) -> Result<(), RetrievalError> {
    let prefix = match conversation {
        Some(conversation) => prefix(stem, conversation),
        None => [stem.as_bytes(), &[0]].concat(),
    };
    for block in reading.databases.postings.prefix_iter(reading.txn, &prefix)? {
        let (key, bytes) = block?;
        if let Some(first_turn) = key.last_chunk() {
            decode(u32::from_be_bytes(*first_turn), bytes, postings)?;
        }
    }
    Ok(())
}

/// The block that holds or would hold `turn`, and where the next block begins.
fn block_of(
    database: Postings,
    txn: &RoTxn<'_>,
    prefix: &[u8],
    turn: u32,
) -> Result<(Option<u32>, Option<u32>), RetrievalError> {
    let keys = database.remap_data_type::<DecodeIgnore>();
    let key = block_key(prefix, turn);
    let before = keys
        .get_lower_than_or_equal_to(txn, &key)?
        .and_then(|(key, ())| first_turn(key, prefix));
    let after = keys
        .get_greater_than(txn, &key)?
        .and_then(|(key, ())| first_turn(key, prefix));
    Ok((before, after))
}

/// Adds postings, sorted by turn number; a posting of a turn that is there already replaces it.
pub(super) fn insert(
    database: Postings,
    txn: &mut RwTxn<'_>,
    (stem, conversation): (&str, u32),
    mut new: &[Posting],
) -> Result<(), RetrievalError> {
    let prefix = prefix(stem, conversation);
    while let Some(first_new) = new.first() {
        let (before, after) = block_of(database, txn, &prefix, first_new.turn)?;
        let here = after.map_or(new.len(), |after| {
            new.partition_point(|posting| posting.turn < after)
        });
        let mut block = Vec::with_capacity(BLOCK + here);
        if let Some(first) = before {
            let bytes = database.get(txn, &block_key(&prefix, first))?.unwrap_or_default();
            decode(first, bytes, &mut block)?;
        }
        block.retain(|posting| {
            new[..here]
                .binary_search_by_key(&posting.turn, |p| p.turn)
                .is_err()
        });
        block.extend_from_slice(&new[..here]);
        block.sort_unstable_by_key(|posting| posting.turn);
        for part in block.chunks(BLOCK) {
            database.put(txn, &block_key(&prefix, part[0].turn), &encode(part))?;
        }
        new = &new[here..];
    }
    Ok(())
}

/// Removes a turn's posting; nothing happens when there is none.
pub(super) fn remove(
    database: Postings,
    txn: &mut RwTxn<'_>,
    (stem, conversation): (&str, u32),
    turn: u32,
) -> Result<(), RetrievalError> {
    let prefix = prefix(stem, conversation);
    let (Some(first), _) = block_of(database, txn, &prefix, turn)? else {
        return Ok(());
    };
    let key = block_key(&prefix, first);
    let mut block = Vec::with_capacity(BLOCK);
    decode(first, database.get(txn, &key)?.unwrap_or_default(), &mut block)?;
    block.retain(|posting| posting.turn != turn);
    database.delete(txn, &key)?;
    if let Some(posting) = block.first() {
        database.put(txn, &block_key(&prefix, posting.turn), &encode(&block))?;
    }
    Ok(())
}

/// Stem, conversation and postings of a block.
pub(super) fn decode_block(key: &[u8], bytes: &[u8]) -> Result<(String, u32, Vec<Posting>), RetrievalError> {
    let parts = key.split_last_chunk::<4>().and_then(|(rest, first_turn)| {
        let (stem, conversation) = rest.split_last_chunk::<4>()?;
        let stem = std::str::from_utf8(stem.strip_suffix(&[0])?).ok()?;
        Some((
            stem,
            u32::from_be_bytes(*conversation),
            u32::from_be_bytes(*first_turn),
        ))
    });
    let Some((stem, conversation, first_turn)) = parts else {
        return Err(RetrievalError::Damaged {
            reason: format!(
                "a postings key has {} bytes that are no stem and two numbers",
                key.len()
            ),
        });
    };
    let mut postings = Vec::new();
    decode(first_turn, bytes, &mut postings)?;
    Ok((stem.to_owned(), conversation, postings))
}

/// How often a turn holds a stem, as the index says; `None` where it has no posting.
pub(super) fn count_of(
    reading: &Reading<'_>,
    (stem, conversation): (&str, u32),
    turn: u32,
) -> Result<Option<u32>, RetrievalError> {
    let (database, txn) = (reading.databases.postings, reading.txn);
    let prefix = prefix(stem, conversation);
    let (Some(first), _) = block_of(database, txn, &prefix, turn)? else {
        return Ok(None);
    };
    let mut block = Vec::with_capacity(BLOCK);
    let bytes = database.get(txn, &block_key(&prefix, first))?;
    // What cannot be decoded is found when all blocks are read.
    if decode(first, bytes.unwrap_or_default(), &mut block).is_err() {
        return Ok(None);
    }
    let found = block.iter().find(|posting| posting.turn == turn);
    Ok(found.map(|posting| posting.count))
}
