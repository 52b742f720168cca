//! How much a turn counts for its neighbours in the session.

use super::config::Neighbours;
use super::snapshot::Snapshot;

/// Smaller weights count as none, which bounds the neighbourhood.
const FLOOR: f32 = 0.02;

/// Weights between neighbouring turns; without [`Neighbours`] a turn counts for itself alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel<'a> {
    neighbours: Option<Neighbours>,
    snapshot: &'a Snapshot,
}

impl<'a> Kernel<'a> {
    pub(super) fn new(neighbours: Option<Neighbours>, snapshot: &'a Snapshot) -> Self {
        Self { neighbours, snapshot }
    }

    /// Calls `each` with every turn for which the turn at `place` counts, itself included, and how much it does.
    pub(super) fn spread(&self, place: usize, each: impl FnMut(usize, f32)) {
        if let Some(neighbours) = self.neighbours {
            // For the turns after it, this turn is an earlier one.
            self.walk(place, (neighbours.after, neighbours.before), each);
        } else {
            self.walk(place, (0.0, 0.0), each);
        }
    }

    /// Calls `each` with every turn that counts for the turn at `place`, itself included, and how much it does.
    pub(super) fn gather(&self, place: usize, each: impl FnMut(usize, f32)) {
        if let Some(neighbours) = self.neighbours {
            self.walk(place, (neighbours.before, neighbours.after), each);
        } else {
            self.walk(place, (0.0, 0.0), each);
        }
    }

    /// `(earlier, later)` are the weights at distance 0 of the turns on either side.
    fn walk(&self, place: usize, (earlier, later): (f32, f32), mut each: impl FnMut(usize, f32)) {
        each(place, 1.0);
        let (start, end) = self.snapshot.session_of(place);
        let decay = &self.snapshot.decay;
        let mut weight = earlier;
        for other in (start..place).rev() {
            weight *= decay[other];
            if weight < FLOOR {
                break;
            }
            each(other, weight);
        }
        let mut weight = later;
        for other in place + 1..end {
            weight *= decay[other - 1];
            if weight < FLOOR {
                break;
            }
            each(other, weight);
        }
    }

    /// `out[i]` = sum over j of how much j counts for i, times `values[j]`.
    pub(super) fn apply(&self, values: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        for (place, &value) in values.iter().enumerate() {
            self.spread(place, |other, weight| out[other] += weight * value);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the definition, with an exponential for every pair.
        #[test]
        fn walking_equals_the_formula(lengths in prop::collection::vec(prop::collection::vec(1..120u32, 1..12), 1..4)) {
            let neighbours = Neighbours::default();
            let snapshot = Snapshot::of_lengths(&lengths, Some(neighbours));
            let kernel = Kernel::new(Some(neighbours), &snapshot);
            for place in 0..snapshot.len() {
                let mut found = vec![0.0; snapshot.len()];
                kernel.gather(place, |other, weight| found[other] = weight);
                for (other, found) in found.into_iter().enumerate() {
                    let distance = (snapshot.middle[other] - snapshot.middle[place]).abs();
                    let at_zero = if other < place { neighbours.before } else { neighbours.after };
                    let weight = at_zero * (-distance / neighbours.tokens).exp();
                    let expected = match other {
                        _ if other == place => 1.0,
                        _ if snapshot.session[other] != snapshot.session[place] => 0.0,
                        _ => weight,
                    };
                    let cut = expected < FLOOR * 1.001 && found == 0.0;
                    prop_assert!(cut || (found - expected).abs() < 1e-4, "{found} is not {expected}");
                }
            }
        }
    }
}
