//! From scores to a ranking.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Constant of reciprocal rank fusion (Cormack et al., SIGIR 2009).
const RANK_CONSTANT: f32 = 60.0;

/// The places of the `limit` best scores, best first; equal scores in the order of places. Places for which `keep` is
/// false are left out.
pub(super) fn top(scores: &[f32], limit: usize, keep: impl Fn(usize) -> bool) -> Vec<usize> {
    if limit < scores.len() / 8 {
        return few(scores, limit, keep);
    }
    let mut places: Vec<usize> = (0..scores.len()).filter(|&place| keep(place)).collect();
    let better = |a: &usize, b: &usize| -> Ordering { scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)) };
    if limit < places.len() && limit > 0 {
        places.select_nth_unstable_by(limit - 1, better);
    }
    places.truncate(limit);
    places.sort_unstable_by(better);
    places
}

/// A place with its score; the greater is the better one.
#[derive(PartialEq)]
struct Ranked(f32, usize);

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// [`top`] where few of many are wanted: one pass with the best so far in a heap.
fn few(scores: &[f32], limit: usize, keep: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut best: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(limit + 1);
    let mut least = f32::NEG_INFINITY;
    for (place, &score) in scores.iter().enumerate() {
        // An equal score later on is the worse one. NaN is left to the heap's total order.
        if (best.len() == limit && score <= least) || !keep(place) {
            continue;
        }
        best.push(Reverse(Ranked(score, place)));
        if best.len() > limit {
            best.pop();
        }
        if best.len() == limit {
            least = best.peek().map_or(f32::INFINITY, |worst| worst.0.0);
        }
    }
    let mut best: Vec<Ranked> = best.into_iter().map(|Reverse(ranked)| ranked).collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.into_iter().map(|Ranked(_, place)| place).collect()
}

/// Reciprocal rank fusion of rankings over `len` places.
pub(super) fn reciprocal_rank(len: usize, rankings: &[Vec<usize>]) -> Vec<f32> {
    let mut scores = vec![0.0; len];
    for ranking in rankings {
        for (rank, &place) in ranking.iter().enumerate() {
            scores[place] += 1.0 / (RANK_CONSTANT + rank as f32 + 1.0);
        }
    }
    scores
}

/// Subtracts the mean and divides by the standard deviation; equal values all become 0.
pub(super) fn z_scores(values: &mut [f32]) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
    let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count;
    // Below this, the differences are rounding errors.
    let scale = if variance.sqrt() > 1e-7 {
        1.0 / variance.sqrt()
    } else {
        0.0
    };
    values
        .iter_mut()
        .for_each(|v| *v = ((f64::from(*v) - mean) * scale) as f32);
}

/// Mean and standard deviation; the deviation of equal or no values is 1.
pub(super) fn moments(values: &[f32]) -> (f32, f32) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|&value| (f64::from(value) - mean).powi(2))
        .sum::<f64>()
        / count;
    (
        mean as f32,
        if variance > 0.0 {
            variance.sqrt() as f32
        } else {
            1.0
        },
    )
}

/// Adds `weight * values` to `sum`.
pub(super) fn add(sum: &mut [f32], values: &[f32], weight: f32) {
    sum.iter_mut()
        .zip(values)
        .for_each(|(sum, value)| *sum += weight * value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn top_equals_the_head_of_the_sorted_whole(scores in prop::collection::vec(0..20i32, 0..60), limit in 0..70usize) {
            let scores: Vec<f32> = scores.into_iter().map(|score| score as f32).collect();
            let keep = |place: usize| place % 3 != 1;
            let mut sorted: Vec<usize> = (0..scores.len()).filter(|&place| keep(place)).collect();
            sorted.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            sorted.truncate(limit);
            prop_assert_eq!(top(&scores, limit, keep), sorted.clone());
            prop_assert_eq!(few(&scores, limit, keep), sorted);
        }
    }

    #[test]
    fn fusion_and_z_scores_by_hand() {
        let fused = reciprocal_rank(3, &[vec![1, 0], vec![1, 2]]);
        assert_eq!(fused, [1.0 / 62.0, 2.0 / 61.0, 1.0 / 62.0]);
        let mut values = [1.0, 3.0];
        z_scores(&mut values);
        assert_eq!(values, [-1.0, 1.0]);
        let mut equal = [0.3; 4];
        z_scores(&mut equal);
        assert_eq!(equal, [0.0; 4]);
        z_scores(&mut []);
    }
}
