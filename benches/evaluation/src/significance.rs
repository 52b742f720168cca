//! Paired tests between two methods on the same questions.

use crate::bootstrap::{Resampling, SplitMix64};
use crate::f1::count;

/// Two-sided p-value of the sign-flip permutation test: how often a mean difference at least as large comes about when
/// each question's difference keeps its size and takes a random sign. 1 where nothing differs.
///
/// Counts the observed signs as one more draw, so that it is never 0. Fisher, "The Design of Experiments", 1935.
#[must_use]
pub fn sign_flip(differences: &[f64], resampling: Resampling) -> f64 {
    let observed = differences.iter().sum::<f64>().abs();
    if observed == 0.0 {
        return 1.0;
    }
    let mut random = SplitMix64(resampling.seed);
    let draws = resampling.resamples.max(1);
    let slack = 1e-12 * count(differences.len());
    let as_large = (0..draws)
        .filter(|_| {
            let sum: f64 = differences
                .iter()
                .map(|d| if random.next() >> 63 == 0 { *d } else { -d })
                .sum();
            sum.abs() + slack >= observed
        })
        .count();
    count(as_large + 1) / count(draws + 1)
}

/// McNemar's test on labels that are right or wrong.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct McNemar {
    /// Questions that only the first method has right.
    pub only_first: usize,
    /// Questions that only the second method has right.
    pub only_second: usize,
    /// Two-sided exact binomial p-value; 1 where the two never differ.
    pub p_value: f64,
}

/// Compares labels of the same questions, pair by pair. McNemar, Psychometrika 12, 1947, in its exact form.
#[must_use]
pub fn mcnemar(pairs: impl IntoIterator<Item = (bool, bool)>) -> McNemar {
    let (mut only_first, mut only_second) = (0, 0);
    for (first, second) in pairs {
        match (first, second) {
            (true, false) => only_first += 1,
            (false, true) => only_second += 1,
            (true, true) | (false, false) => {}
        }
    }
    let p_value = (2.0 * binomial_tail(only_first + only_second, only_first.min(only_second))).min(1.0);
    McNemar {
        only_first,
        only_second,
        p_value,
    }
}

/// P(X <= k) for X of `n` fair coins.
fn binomial_tail(n: usize, k: usize) -> f64 {
    let mut log = -count(n) * std::f64::consts::LN_2;
    let mut tail = log.exp();
    for i in 1..=k {
        log += (count(n + 1 - i) / count(i)).ln();
        tail += log.exp();
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_flip_equals_the_exact_test_where_that_is_known() {
        // All of five differences are equal: 2 of 32 sign patterns are as large.
        let p = sign_flip(&[1.0; 5], Resampling::default());
        assert!((p - 2.0 / 32.0).abs() < 0.01, "{p}");
        assert_eq!(sign_flip(&[0.5, -0.5], Resampling::default()), 1.0);
        assert_eq!(sign_flip(&[], Resampling::default()), 1.0);
        let p = sign_flip(&[0.1; 40], Resampling::default());
        assert!(p < 0.001, "{p}");
    }

    #[test]
    fn mcnemar_is_the_exact_binomial() {
        let pairs = |first: usize, second: usize| {
            let only_first = std::iter::repeat_n((true, false), first);
            only_first
                .chain(std::iter::repeat_n((false, true), second))
                .chain([(true, true), (false, false)])
        };
        let test = mcnemar(pairs(1, 9));
        assert_eq!((test.only_first, test.only_second), (1, 9));
        // 2 * (C(10,0) + C(10,1)) / 1024
        assert!((test.p_value - 22.0 / 1024.0).abs() < 1e-12, "{}", test.p_value);
        assert_eq!(mcnemar(pairs(0, 0)).p_value, 1.0);
        assert_eq!(mcnemar(pairs(3, 3)).p_value, 1.0);
        assert!(mcnemar(pairs(400, 600)).p_value < 1e-9);
    }
}
