use std::cmp::Ordering;

use crate::Cpu;
use crate::simd::{Kernel, LANES, Simd, math};

/// Logits handled by one task; fixed, so that results do not depend on the number of threads.
const PIECE: usize = 16 * 1024;

/// Logits of which the search for the largest looks at the maximum first; divides [`PIECE`].
const GROUP: usize = 64;

impl Cpu {
    /// The index of the largest logit, the lowest among equals; not-a-number counts as smallest.
    ///
    /// # Panics
    /// When there are no logits.
    #[must_use]
    pub fn argmax(&self, logits: &[f32]) -> u32 {
        assert!(!logits.is_empty(), "argmax of no logits");
        let maxima = self.map_pieces(logits, &|piece| self.dispatch(Max { values: piece }));
        let max = maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let piece = maxima.iter().position(|&value| value == max).unwrap_or(0);
        let first = piece * PIECE;
        let within = logits[first..]
            .iter()
            .position(|&value| value == max)
            .unwrap_or(0);
        index(first + within)
    }

    /// The `k` largest logits with their indices, largest first, the lower index first among equals; all of them when
    /// there are fewer than `k`. Not-a-number counts as smallest.
    #[must_use]
    pub fn top_k(&self, logits: &[f32], k: usize) -> Vec<(u32, f32)> {
        let mut found = if k == 0 {
            Vec::new()
        } else {
            self.candidates(logits, k)
        };
        if k < found.len() {
            found.select_nth_unstable_by(k, |a, b| b.cmp(a));
            found.truncate(k);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
            .into_iter()
            .map(|candidate| (candidate.index, candidate.value))
            .collect()
    }

    /// Logits among which the `k` largest are. The maxima of `k` groups are `k` logits, so that nothing smaller than
    /// the `k`-th largest maximum is needed, and only groups with a maximum as large hold anything of use.
    fn candidates(&self, logits: &[f32], k: usize) -> Vec<Candidate> {
        let all = |first: usize, logits: &[f32]| {
            let candidate = |(at, &value)| Candidate {
                index: index(first + at),
                value,
            };
            logits.iter().enumerate().map(candidate).collect::<Vec<_>>()
        };
        if k > logits.len() / GROUP / 2 {
            return all(0, logits);
        }
        let of_piece = |piece: usize| {
            let values = &logits[piece * PIECE..logits.len().min((piece + 1) * PIECE)];
            self.dispatch(GroupMaxima { values })
        };
        let maxima = self.map_tasks(logits.len().div_ceil(PIECE), &of_piece).concat();
        let mut order = maxima.clone();
        let threshold = *order.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1;
        if threshold == f32::NEG_INFINITY {
            return all(0, logits);
        }
        let groups = maxima.iter().enumerate().filter(|(_, max)| **max >= threshold);
        let mut found = Vec::new();
        for (group, _) in groups {
            let first = group * GROUP;
            let group = all(first, &logits[first..logits.len().min(first + GROUP)]);
            found.extend(group.into_iter().filter(|candidate| candidate.value >= threshold));
        }
        found
    }

    /// `ln(sum(e^logit))`, the natural logarithm of the softmax's denominator, to about 1e-6 relative to the largest
    /// magnitude; minus infinity when every logit is.
    #[must_use]
    pub fn log_sum_exp(&self, logits: &[f32]) -> f32 {
        let maxima = self.map_pieces(logits, &|piece| self.dispatch(Max { values: piece }));
        let max = maxima.into_iter().fold(f32::NEG_INFINITY, f32::max);
        if max == f32::NEG_INFINITY {
            return max;
        }
        let sums = self.map_pieces(logits, &|piece| self.dispatch(SumExp { values: piece, max }));
        let sum: f64 = sums.into_iter().map(f64::from).sum();
        (f64::from(max) + sum.ln()) as f32
    }

    /// Sets to minus infinity every logit whose bit in `allowed` is 0: bit `i % 32` of word `i / 32` is for logit `i`.
    /// Logits beyond the last word are not allowed.
    pub fn mask_logits(&self, logits: &mut [f32], allowed: &[u32]) {
        let words = allowed.iter().copied().chain(std::iter::repeat(0));
        for (logits, word) in logits.chunks_mut(32).zip(words) {
            match word {
                u32::MAX => {}
                0 => logits.fill(f32::NEG_INFINITY),
                _ => {
                    for (bit, logit) in logits.iter_mut().enumerate() {
                        if word >> bit & 1 == 0 {
                            *logit = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
    }

    fn map_pieces(&self, logits: &[f32], of_piece: &(dyn Fn(&[f32]) -> f32 + Sync)) -> Vec<f32> {
        self.map_tasks(logits.len().div_ceil(PIECE), &|piece| {
            of_piece(&logits[piece * PIECE..logits.len().min((piece + 1) * PIECE)])
        })
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a vocabulary has fewer than 2^32 entries")
}

/// A logit in the order of preference: larger values, then lower indices, are greater.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    index: u32,
    value: f32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let known = |value: f32| if value.is_nan() { f32::NEG_INFINITY } else { value };
        let by_value = known(self.value)
            .partial_cmp(&known(other.value))
            .unwrap_or(Ordering::Equal);
        by_value.then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The largest value; minus infinity of none.
struct Max<'a> {
    values: &'a [f32],
}

impl Kernel for Max<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let lowest = simd.splat(f32::NEG_INFINITY);
        let mut max = [lowest; 4];
        let mut groups = self.values.chunks_exact(4 * LANES);
        for group in &mut groups {
            for (max, lanes) in max.iter_mut().zip(group.as_chunks().0) {
                // In this order `max` stays where the logit is not a number.
                *max = simd.max(simd.load(lanes), *max);
            }
        }
        for (max, rest) in max.iter_mut().zip(groups.remainder().chunks(LANES)) {
            *max = simd.max(simd.load_partial(rest, f32::NEG_INFINITY), *max);
        }
        simd.reduce_max(simd.max(simd.max(max[0], max[1]), simd.max(max[2], max[3])))
    }
}

/// The sum of `e^(value - max)`.
struct SumExp<'a> {
    values: &'a [f32],
    max: f32,
}

impl Kernel for SumExp<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.zero(); 4];
        for group in self.values.chunks(4 * LANES) {
            for (sum, values) in sums.iter_mut().zip(group.chunks(LANES)) {
                let values = simd.load_partial(values, f32::NEG_INFINITY);
                *sum = simd.add(*sum, math::exp(simd, simd.sub(values, simd.splat(self.max))));
            }
        }
        simd.reduce_sum(simd.add(simd.add(sums[0], sums[2]), simd.add(sums[1], sums[3])))
    }
}

/// The largest value of each group.
struct GroupMaxima<'a> {
    values: &'a [f32],
}

impl Kernel for GroupMaxima<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<f32> {
        let mut maxima = Vec::with_capacity(self.values.len().div_ceil(GROUP));
        for group in self.values.chunks(GROUP) {
            let mut max = simd.splat(f32::NEG_INFINITY);
            for lanes in group.chunks(LANES) {
                // In this order `max` stays where the logit is not a number.
                max = simd.max(simd.load_partial(lanes, f32::NEG_INFINITY), max);
            }
            maxima.push(simd.reduce_max(max));
        }
        maxima
    }
}

#[cfg(test)]
mod tests;
