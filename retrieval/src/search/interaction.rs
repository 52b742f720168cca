//! Late interaction: how well every token of a question is met by some token of a turn.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::RetrievalError;
use crate::store::Reading;

use super::config::Neighbours;
use super::dot;
use super::fusion::moments;
use super::kernel::Kernel;
use super::snapshot::Snapshot;

/// Turns that tell what is usual; in a smaller reach, all of them.
const SAMPLE_TURNS: usize = 600;
/// Of a candidate's neighbours those are looked at that count at least this much for it; the others count as usual.
const LEAST_WEIGHT: f32 = 0.3;
/// The sample is the same for the same state.
const SEED: u64 = 42;
/// The largest value of a query token: so many squares of it, 2^14, still fit an `i32`.
const LARGEST: f32 = 8191.0;

/// Places of whole sessions drawn at random: whole, so that smoothing over neighbours can be estimated too.
pub(super) fn sample(snapshot: &Snapshot) -> Vec<usize> {
    let mut sessions: Vec<usize> = (0..snapshot.sessions.len()).collect();
    if snapshot.len() > SAMPLE_TURNS {
        sessions.shuffle(&mut StdRng::seed_from_u64(SEED));
    }
    let mut places = Vec::new();
    for session in sessions {
        if places.len() >= SAMPLE_TURNS {
            break;
        }
        let span = &snapshot.sessions[session];
        places.extend(span.start..span.end);
    }
    places.truncate(2 * SAMPLE_TURNS);
    places
}

/// A question's tokens, centred as the stored ones are.
#[derive(Debug)]
pub(super) struct QueryTokens {
    width: usize,
    /// Tokens laid end to end.
    values: Vec<i16>,
    /// By token, what a product is multiplied by to be a cosine.
    scales: Vec<f32>,
}

impl QueryTokens {
    /// `None` when there are no tokens.
    pub(super) fn new(tokens: &[f32], centre: &[f32]) -> Option<Self> {
        let width = centre.len();
        if width == 0 || tokens.len() < width {
            return None;
        }
        let (mut values, mut scales) = (Vec::with_capacity(tokens.len()), Vec::new());
        for token in tokens.chunks_exact(width) {
            let centred: Vec<f32> = token
                .iter()
                .zip(centre)
                .map(|(value, centre)| value - centre)
                .collect();
            let norm = centred.iter().map(|v| v * v).sum::<f32>().sqrt();
            let largest = centred
                .iter()
                .fold(f32::MIN_POSITIVE, |largest, v| largest.max(v.abs()));
            let step = largest / LARGEST;
            values.extend(centred.iter().map(|v| (v / step).round() as i16));
            // The other side is a vector of ones and minus ones.
            scales.push(if norm > 0.0 {
                step / norm / (width as f32).sqrt()
            } else {
                0.0
            });
        }
        Some(Self {
            width,
            values,
            scales,
        })
    }

    /// The mean over the tokens of the best cosine; `None` for a turn without tokens.
    fn match_with(&self, bits: &[u8], greatest: &mut Vec<i32>) -> Option<f32> {
        if bits.len() < self.width.div_ceil(8) {
            return None;
        }
        greatest.resize(self.scales.len(), 0);
        dot::greatest(bits, &self.values, self.width, greatest);
        let sum: f32 = greatest
            .iter()
            .zip(&self.scales)
            .map(|(&product, scale)| product as f32 * scale)
            .sum();
        Some(sum / self.scales.len() as f32)
    }
}

/// What a candidate's tokens say of it, as z-scores over the reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Match {
    pub(super) place: usize,
    pub(super) plain: f32,
    /// Shared with neighbours; 0 without them.
    pub(super) smoothed: f32,
}

/// Matches turns in reach with a question.
pub(super) struct Interaction<'a> {
    pub(super) reading: &'a Reading<'a>,
    pub(super) snapshot: &'a Snapshot,
    /// See [`sample`].
    pub(super) sample: &'a [usize],
    pub(super) neighbours: Option<Neighbours>,
}

/// Raw matches by place, sorted; places that were not looked at are not in it.
type Matches = Vec<(usize, f32)>;

impl Interaction<'_> {
    /// One match for each candidate; `None` when no turn of the sample has token vectors.
    pub(super) fn matches(
        &self,
        tokens: &QueryTokens,
        candidates: &[usize],
    ) -> Result<Option<Vec<Match>>, RetrievalError> {
        let kernel = Kernel::new(self.neighbours, self.snapshot);
        let mut places = self.sample.to_vec();
        for &candidate in candidates {
            kernel.gather(candidate, |place, weight| {
                if weight >= LEAST_WEIGHT {
                    places.push(place);
                }
            });
        }
        places.sort_unstable();
        places.dedup();
        let raw = self.raw(tokens, &places)?;
        let of_sample: Vec<f32> = self
            .sample
            .iter()
            .filter_map(|&place| find(&raw, place))
            .collect();
        if of_sample.is_empty() {
            return Ok(None);
        }
        let (mean, deviation) = moments(&of_sample);
        let z: Matches = raw
            .iter()
            .map(|&(place, value)| (place, (value - mean) / deviation))
            .collect();
        let Some(sharpness) = self.neighbours.map(|neighbours| neighbours.sharpness) else {
            let plain = |&place: &usize| Match {
                place,
                plain: find(&z, place).unwrap_or(0.0),
                smoothed: 0.0,
            };
            return Ok(Some(candidates.iter().map(plain).collect()));
        };
        let sharp: Matches = z
            .iter()
            .map(|&(place, z)| (place, (sharpness * z).exp()))
            .collect();
        let usual = self.sample.iter().filter_map(|&place| find(&sharp, place));
        let usual = usual.sum::<f32>() / of_sample.len() as f32;
        let smoothed = |place: usize| {
            let mut sum = 0.0;
            kernel.gather(place, |other, weight| {
                sum += weight * find(&sharp, other).unwrap_or(usual)
            });
            sum.ln()
        };
        let (mean, deviation) = moments(
            &self
                .sample
                .iter()
                .map(|&place| smoothed(place))
                .collect::<Vec<_>>(),
        );
        let matches = candidates.iter().map(|&place| Match {
            place,
            plain: find(&z, place).unwrap_or(0.0),
            smoothed: (smoothed(place) - mean) / deviation,
        });
        Ok(Some(matches.collect()))
    }

    fn raw(&self, tokens: &QueryTokens, places: &[usize]) -> Result<Matches, RetrievalError> {
        let mut greatest = Vec::new();
        let mut raw = Vec::with_capacity(places.len());
        for &place in places {
            let bits = self.reading.tokens(self.snapshot.number[place])?;
            if let Some(value) = tokens.match_with(bits, &mut greatest) {
                raw.push((place, value));
            }
        }
        Ok(raw)
    }
}

fn find(matches: &Matches, place: usize) -> Option<f32> {
    let index = matches.binary_search_by_key(&place, |(place, _)| *place).ok()?;
    Some(matches[index].1)
}
