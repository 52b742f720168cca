//! From scores to a ranking.

use std::cmp::Ordering;

/// Constant of reciprocal rank fusion (Cormack et al., SIGIR 2009).
const RANK_CONSTANT: f32 = 60.0;

/// The places of the `limit` best scores, best first; equal scores in the order of places. Places for which `keep` is
/// false are left out.
pub(super) fn top(scores: &[f32], limit: usize, keep: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).filter(|&place| keep(place)).collect();
    let better = |a: &usize, b: &usize| -> Ordering { scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)) };
    if limit < places.len() && limit > 0 {
        places.select_nth_unstable_by(limit - 1, better);
    }
    places.truncate(limit);
    places.sort_unstable_by(better);
    places
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
