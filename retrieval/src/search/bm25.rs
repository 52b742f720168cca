//! Keyword scores (Okapi BM25 with Lucene's idf).

use crate::RetrievalError;
use crate::store::{Reading, read_postings};

use super::snapshot::Snapshot;

const K1: f32 = 0.9;
const B: f32 = 0.75;

/// A score for every turn in reach; 0 where no stem of the query occurs.
pub(super) fn scores(
    reading: &Reading<'_>,
    snapshot: &Snapshot,
    stems: &[String],
) -> Result<Vec<f32>, RetrievalError> {
    let mut scores = vec![0.0; snapshot.len()];
    let turns = snapshot.len() as f32;
    let mean_length = snapshot.words.iter().map(|&n| n as f32).sum::<f32>() / turns.max(1.0);
    let mut postings = Vec::new();
    for stem in stems {
        postings.clear();
        for (conversation, _) in &snapshot.conversations {
            read_postings(reading, stem, *conversation, &mut postings)?;
        }
        let with = postings.len() as f32;
        let idf = (1.0 + (turns - with + 0.5) / (with + 0.5)).ln();
        for posting in &postings {
            let Some(place) = snapshot.place(posting.turn) else {
                continue;
            };
            let length = snapshot.words[place] as f32 / mean_length.max(1.0);
            let count = posting.count as f32;
            scores[place] += idf * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
        }
    }
    Ok(scores)
}
