//! Looking at every vector.

use crate::RetrievalError;
use crate::search::rows::{Row, Rows};
use crate::search::snapshot::Snapshot;
use crate::store::Reading;

/// The vectors of the turns in reach, row by place; a turn without a vector has a row of zeros.
#[derive(Debug)]
pub(in crate::search) struct Matrix(Rows);

impl Matrix {
    pub(super) fn read(
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        dimension: usize,
    ) -> Result<Self, RetrievalError> {
        let mut rows = Rows::new(dimension);
        let absent = vec![0.0; dimension];
        for &turn in &snapshot.number {
            let vector = reading.vector(dimension, turn)?;
            rows.push(&Row::new(vector.as_ref().unwrap_or(&absent)));
        }
        Ok(Self(rows))
    }

    /// A cosine for every place.
    pub(super) fn cosines(&self, query: &Row) -> Vec<f32> {
        self.0.cosines(query).collect()
    }
}

/// A cosine for every turn in reach, straight from the store.
pub(super) fn scan(
    reading: &Reading<'_>,
    snapshot: &Snapshot,
    query: &[f32],
) -> Result<Vec<f32>, RetrievalError> {
    let mut cosines = vec![0.0; snapshot.len()];
    reading.each_vector(query.len(), |turn, vector| {
        if let Some(place) = snapshot.place(turn) {
            cosines[place] = cosine(query, &vector);
        }
    })?;
    Ok(cosines)
}

/// 0 where a vector has no length.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let norms = (product(a, a) * product(b, b)).sqrt();
    if norms > 0.0 { product(a, b) / norms } else { 0.0 }
}
