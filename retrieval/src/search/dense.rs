//! Cosines of a question's vector with the turns' vectors.

use crate::RetrievalError;
use crate::store::Reading;

use super::snapshot::Snapshot;

/// A cosine for every turn in reach, by scanning all vectors.
pub(super) fn scan(
    reading: &Reading<'_>,
    snapshot: &Snapshot,
    query: &[f32],
) -> Result<Vec<f32>, RetrievalError> {
    let mut scores = vec![0.0; snapshot.len()];
    let query_norm = dot(query, query).sqrt();
    reading.each_vector(query.len(), |turn, vector| {
        if let Some(place) = snapshot.place(turn) {
            let norm = dot(&vector, &vector).sqrt() * query_norm;
            scores[place] = if norm > 0.0 {
                dot(query, &vector) / norm
            } else {
                0.0
            };
        }
    })?;
    Ok(scores)
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
