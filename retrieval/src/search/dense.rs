//! Cosines of a question's vector with the turns' vectors: of all turns in a small reach, of the promising ones in a
//! large one.

mod approximate;
mod exact;

use crate::RetrievalError;
use crate::store::Reading;

use super::config::Neighbours;
use super::fusion;
use super::kernel::Kernel;
use super::rows::Row;
use super::snapshot::Snapshot;
use approximate::Sample;
use exact::Matrix;

/// The vectors in reach.
#[derive(Debug)]
pub(super) enum Vectors {
    /// There is no embedder.
    Absent,
    /// Few enough to look at all.
    All(Matrix),
    /// So many that arroy's trees choose which to look at; the sample tells what is usual.
    Trees(Sample),
}

/// Scores per place, as z-scores over the reach. A place that was not looked at has 0, the mean.
#[derive(Debug, Default)]
pub(super) struct DenseScores {
    pub(super) plain: Vec<f32>,
    /// Of cosines that a turn shares with its neighbours; empty without a kernel.
    pub(super) smoothed: Vec<f32>,
    /// Whether the place was looked at.
    pub(super) known: Vec<bool>,
}

impl Vectors {
    pub(super) fn read(
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        (dimension, scan_turns): (usize, usize),
    ) -> Result<Self, RetrievalError> {
        Ok(if snapshot.len() <= scan_turns {
            Self::All(Matrix::read(reading, snapshot, dimension)?)
        } else {
            Self::Trees(Sample::read(reading, snapshot, dimension)?)
        })
    }

    /// Scores all places, or those that the trees find and those of `promising`, each with its neighbourhood.
    pub(super) fn scores(
        &self,
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        neighbours: Option<Neighbours>,
        (query, promising): (&[f32], &[usize]),
    ) -> Result<DenseScores, RetrievalError> {
        match self {
            Self::Absent => Ok(DenseScores::default()),
            Self::All(matrix) => Ok(all(matrix.cosines(&Row::new(query)), neighbours, snapshot)),
            Self::Trees(sample) => match sample.scores(reading, snapshot, neighbours, (query, promising))? {
                Some(scores) => Ok(scores),
                None => {
                    tracing::warn!(
                        "the vector index is not built for the latest turns: scanning all vectors"
                    );
                    Ok(all(exact::scan(reading, snapshot, query)?, neighbours, snapshot))
                }
            },
        }
    }
}

fn all(cosines: Vec<f32>, neighbours: Option<Neighbours>, snapshot: &Snapshot) -> DenseScores {
    let mut plain = cosines;
    fusion::z_scores(&mut plain);
    let smoothed = neighbours.map_or_else(Vec::new, |neighbours| {
        let sharp: Vec<f32> = plain.iter().map(|z| (neighbours.sharpness * z).exp()).collect();
        let mut smoothed = Kernel::new(Some(neighbours), snapshot).apply(&sharp);
        smoothed.iter_mut().for_each(|v| *v = v.ln());
        fusion::z_scores(&mut smoothed);
        smoothed
    });
    DenseScores {
        known: vec![true; plain.len()],
        plain,
        smoothed,
    }
}
