//! Looking at every vector.

use crate::RetrievalError;
use crate::search::snapshot::Snapshot;
use crate::store::Reading;

use super::{dot, normalise};

/// Unit vectors of the turns in reach, row by place; a turn without a vector has a row of zeros.
#[derive(Debug)]
pub(in crate::search) struct Matrix {
    rows: Vec<f32>,
    dimension: usize,
}

impl Matrix {
    pub(super) fn read(
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        dimension: usize,
    ) -> Result<Self, RetrievalError> {
        let mut rows = vec![0.0; snapshot.len() * dimension];
        for (row, &turn) in rows.chunks_exact_mut(dimension.max(1)).zip(&snapshot.number) {
            if let Some(vector) = reading.vector(dimension, turn)? {
                row.copy_from_slice(&vector);
                normalise(row);
            }
        }
        Ok(Self { rows, dimension })
    }

    /// A cosine for every row.
    pub(super) fn cosines(&self, query: &[f32]) -> Vec<f32> {
        let mut query = query.to_vec();
        normalise(&mut query);
        self.rows
            .chunks_exact(self.dimension.max(1))
            .map(|row| dot(&query, row))
            .collect()
    }
}

/// A cosine for every turn in reach, straight from the store.
pub(super) fn scan(
    reading: &Reading<'_>,
    snapshot: &Snapshot,
    query: &[f32],
) -> Result<Vec<f32>, RetrievalError> {
    let mut query = query.to_vec();
    normalise(&mut query);
    let mut cosines = vec![0.0; snapshot.len()];
    reading.each_vector(query.len(), |turn, mut vector| {
        if let Some(place) = snapshot.place(turn) {
            normalise(&mut vector);
            cosines[place] = dot(&query, &vector);
        }
    })?;
    Ok(cosines)
}
