//! Looking at the vectors that arroy's trees find, and at those of turns that keywords find.
//!
//! A z-score needs the mean and the deviation over all turns. They are estimated on a sample of whole sessions, whole
//! so that smoothing over neighbours can be estimated too.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use roaring::RoaringBitmap;

use crate::RetrievalError;
use crate::search::config::Neighbours;
use crate::search::fusion::moments;
use crate::search::kernel::Kernel;
use crate::search::rows::{Row, Rows};
use crate::search::snapshot::Snapshot;
use crate::store::Reading;

use super::DenseScores;
use super::exact::cosine;

/// Turns of the sample: the mean's error is a fiftieth of the deviation.
const SAMPLE_TURNS: usize = 2_500;
/// Turns asked of the trees beside those that keywords find, and without such.
const NEAREST: usize = 256;
const NEAREST_ALONE: usize = 1024;
/// Of a found turn's neighbours those are looked at that count at least this much for it; the others count as usual.
const LEAST_WEIGHT: f32 = 0.3;
/// The sample is the same for the same state.
const SEED: u64 = 42;

/// Unit vectors of some sessions, and which turns are in reach.
#[derive(Debug)]
pub(in crate::search) struct Sample {
    /// Row by place.
    rows_of: HashMap<usize, usize>,
    rows: Rows,
    /// `None` when the whole store is in reach.
    reach: Option<RoaringBitmap>,
}

/// What is usual for a query.
struct Usual {
    mean: f32,
    deviation: f32,
    /// Mean of `exp(sharpness * z)`: what a neighbour counts that was not looked at.
    sharp: f32,
    smoothed_mean: f32,
    smoothed_deviation: f32,
}

impl Sample {
    pub(super) fn read(
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        dimension: usize,
    ) -> Result<Self, RetrievalError> {
        let mut sessions: Vec<usize> = (0..snapshot.sessions.len()).collect();
        sessions.shuffle(&mut StdRng::seed_from_u64(SEED));
        let (mut rows_of, mut rows) = (HashMap::new(), Rows::new(dimension));
        for session in sessions {
            if rows_of.len() >= SAMPLE_TURNS {
                break;
            }
            let span = &snapshot.sessions[session];
            for place in span.start..span.end {
                if let Some(vector) = reading.vector(dimension, snapshot.number[place])? {
                    rows_of.insert(place, rows_of.len());
                    rows.push(&Row::new(&vector));
                }
            }
        }
        let whole = reading.databases.turns.len(reading.txn)? == snapshot.len() as u64;
        let reach = if whole {
            None
        } else {
            Some(snapshot.number.iter().copied().collect())
        };
        Ok(Self { rows_of, rows, reach })
    }

    /// `None` when the trees are not built for the present state.
    pub(super) fn scores(
        &self,
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        neighbours: Option<Neighbours>,
        (query, promising): (&[f32], &[usize]),
    ) -> Result<Option<DenseScores>, RetrievalError> {
        let count = if promising.is_empty() {
            NEAREST_ALONE
        } else {
            NEAREST
        };
        let Some(found) = reading.nearest(query, count, self.reach.as_ref())? else {
            return Ok(None);
        };
        let found = found.iter().filter_map(|(turn, _)| snapshot.place(*turn));
        let kernel = Kernel::new(neighbours, snapshot);
        let mut places = Vec::new();
        for seed in found.chain(promising.iter().copied()) {
            kernel.gather(seed, |place, weight| {
                if weight >= LEAST_WEIGHT {
                    places.push(place);
                }
            });
        }
        places.sort_unstable();
        places.dedup();
        let mut cosines = Vec::with_capacity(places.len());
        for place in places {
            let vector = reading.vector(query.len(), snapshot.number[place])?;
            cosines.push((place, vector.map_or(0.0, |vector| cosine(query, &vector))));
        }
        Ok(Some(self.combine(snapshot, neighbours, query, &cosines)))
    }

    fn combine(
        &self,
        snapshot: &Snapshot,
        neighbours: Option<Neighbours>,
        query: &[f32],
        cosines: &[(usize, f32)],
    ) -> DenseScores {
        let usual = self.usual(snapshot, neighbours, query);
        let mut scores = DenseScores {
            plain: vec![0.0; snapshot.len()],
            smoothed: Vec::new(),
            known: vec![false; snapshot.len()],
        };
        for &(place, cosine) in cosines {
            scores.plain[place] = (cosine - usual.mean) / usual.deviation;
            scores.known[place] = true;
        }
        if let Some(sharpness) = neighbours.map(|neighbours| neighbours.sharpness) {
            scores.smoothed = vec![0.0; snapshot.len()];
            let sharp = |place: usize| {
                if scores.known[place] {
                    (sharpness * scores.plain[place]).exp()
                } else {
                    usual.sharp
                }
            };
            let kernel = Kernel::new(neighbours, snapshot);
            for &(place, _) in cosines {
                let mut sum = 0.0;
                kernel.gather(place, |other, weight| sum += weight * sharp(other));
                scores.smoothed[place] = (sum.ln() - usual.smoothed_mean) / usual.smoothed_deviation;
            }
        }
        scores
    }

    fn usual(&self, snapshot: &Snapshot, neighbours: Option<Neighbours>, query: &[f32]) -> Usual {
        let cosines: Vec<f32> = self.rows.cosines(&Row::new(query)).collect();
        let (mean, deviation) = moments(&cosines);
        let mut usual = Usual {
            mean,
            deviation,
            sharp: 1.0,
            smoothed_mean: 0.0,
            smoothed_deviation: 1.0,
        };
        let Some(sharpness) = neighbours.map(|neighbours| neighbours.sharpness) else {
            return usual;
        };
        let sharp = cosines
            .iter()
            .map(|cosine| (sharpness * (cosine - mean) / deviation).exp());
        let sharp: Vec<f32> = sharp.collect();
        usual.sharp = moments(&sharp).0;
        let kernel = Kernel::new(neighbours, snapshot);
        let smoothed = self.rows_of.keys().map(|&place| {
            let mut sum = 0.0;
            kernel.gather(place, |other, weight| {
                sum += weight * self.rows_of.get(&other).map_or(usual.sharp, |&row| sharp[row]);
            });
            sum.ln()
        });
        (usual.smoothed_mean, usual.smoothed_deviation) = moments(&smoothed.collect::<Vec<f32>>());
        usual
    }
}
