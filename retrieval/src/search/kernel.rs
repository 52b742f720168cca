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
        let reach = self.neighbours.map_or(1.0, |neighbours| neighbours.tokens);
        let (start, end) = self.snapshot.session_of(place);
        let here = self.snapshot.middle[place];
        let mut step = |other: usize, at_zero: f32| {
            let distance = (self.snapshot.middle[other] - here).abs();
            let weight = at_zero * (-distance / reach).exp();
            if weight >= FLOOR {
                each(other, weight);
            }
            weight >= FLOOR
        };
        (start..place)
            .rev()
            .take_while(|&other| step(other, earlier))
            .count();
        (place + 1..end).take_while(|&other| step(other, later)).count();
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
