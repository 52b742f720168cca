//! Looking at the vectors that arroy's trees find, and at those of turns that keywords find.
//!
//! A z-score needs the mean and the deviation over all turns. They are estimated on a sample of whole sessions, whole
//! so that smoothing over neighbours can be estimated too.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use roaring::RoaringBitmap;

use crate::RetrievalError;
use crate::search::config::Neighbours;
use crate::search::kernel::Kernel;
use crate::search::rows::{Row, Rows};
use crate::search::snapshot::Snapshot;
use crate::store::Reading;

use super::DenseScores;
use super::exact::cosine;

/// Turns of the sample: the mean's error is a fiftieth of the deviation.
const SAMPLE_TURNS: usize = 2_500;
/// Turns asked of the trees.
const NEAREST: usize = 256;
/// The sample is the same for the same state.
const SEED: u64 = 42;

/// Unit vectors of some sessions, and which turns are in reach.
#[derive(Debug)]
pub(in crate::search) struct Sample {
    places: Vec<usize>,
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
        let (mut places, mut rows) = (Vec::new(), Rows::new(dimension));
        for session in sessions {
            if places.len() >= SAMPLE_TURNS {
                break;
            }
            let span = &snapshot.sessions[session];
            for place in span.start..span.end {
                if let Some(vector) = reading.vector(dimension, snapshot.number[place])? {
                    places.push(place);
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
        Ok(Self { places, rows, reach })
    }

    /// `None` when the trees are not built for the present state.
    pub(super) fn scores(
        &self,
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        neighbours: Option<Neighbours>,
        (query, promising): (&[f32], &[usize]),
    ) -> Result<Option<DenseScores>, RetrievalError> {
        let Some(found) = reading.nearest(query, NEAREST, self.reach.as_ref())? else {
            return Ok(None);
        };
        let kernel = Kernel::new(neighbours, snapshot);
        let mut cosines: BTreeMap<usize, f32> = BTreeMap::new();
        let seeds: Vec<usize> = found
            .iter()
            .filter_map(|(turn, _)| snapshot.place(*turn))
            .chain(promising.iter().copied())
            .collect();
        for &seed in &seeds {
            kernel.spread(seed, |place, _| {
                cosines.insert(place, 0.0);
            });
        }
        for (place, known) in &mut cosines {
            if let Some(vector) = reading.vector(query.len(), snapshot.number[*place])? {
                *known = cosine(query, &vector);
            }
        }
        Ok(Some(self.combine(snapshot, neighbours, query, &cosines)))
    }

    fn combine(
        &self,
        snapshot: &Snapshot,
        neighbours: Option<Neighbours>,
        query: &[f32],
        cosines: &BTreeMap<usize, f32>,
    ) -> DenseScores {
        let usual = self.usual(snapshot, neighbours, query);
        let mut scores = DenseScores {
            plain: vec![0.0; snapshot.len()],
            smoothed: Vec::new(),
            known: vec![false; snapshot.len()],
        };
        for (&place, cosine) in cosines {
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
            for &place in cosines.keys() {
                let mut sum = 0.0;
                kernel.gather(place, |other, weight| sum += weight * sharp(other));
                scores.smoothed[place] = (sum.ln() - usual.smoothed_mean) / usual.smoothed_deviation;
            }
        }
        scores
    }

    fn usual(&self, snapshot: &Snapshot, neighbours: Option<Neighbours>, query: &[f32]) -> Usual {
        let cosines: Vec<f32> = self.rows.cosines(&Row::new(query)).collect();
        let (mean, deviation) = moments(cosines.iter().copied());
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
        let sharp: BTreeMap<usize, f32> = self.places.iter().copied().zip(sharp).collect();
        usual.sharp = moments(sharp.values().copied()).0;
        let kernel = Kernel::new(neighbours, snapshot);
        let smoothed = sharp.keys().map(|&place| {
            let mut sum = 0.0;
            kernel.gather(place, |other, weight| {
                sum += weight * sharp.get(&other).unwrap_or(&usual.sharp)
            });
            sum.ln()
        });
        (usual.smoothed_mean, usual.smoothed_deviation) = moments(smoothed);
        usual
    }
}

/// Mean and standard deviation; the deviation of equal or no values is 1.
fn moments(values: impl Iterator<Item = f32> + Clone) -> (f32, f32) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().map(f64::from).sum::<f64>() / count;
    let variance = values.map(|value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
    (
        mean as f32,
        if variance > 0.0 {
            variance.sqrt() as f32
        } else {
            1.0
        },
    )
}
