//! How sure a mean is: bootstrap intervals over questions, for one method and between two.
//!
//! Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 16.

use crate::error::EvaluationError;
use crate::f1::count;

/// How to draw the resamples; the same seed gives the same intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// How many resamples; at least 1.
    pub resamples: usize,
    /// Where the random numbers start.
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Self {
        Self {
            resamples: 10_000,
            seed: 7,
        }
    }
}

/// A mean with its 95 % percentile bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean of the values themselves.
    pub mean: f64,
    /// 2.5th percentile of the resampled means.
    pub low: f64,
    /// 97.5th percentile of the resampled means.
    pub high: f64,
}

/// By how much the first of two methods is better on the same questions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedDifference {
    /// Mean of first minus second, with the interval over resampled questions.
    pub difference: Interval,
    /// Two-sided: twice the smaller share of resampled differences on either side of 0, each counted with one more
    /// resample at 0, at most 1.
    pub p_value: f64,
}

/// The mean of `values` and its interval; `None` without values.
#[must_use]
pub fn bootstrap_mean(values: &[f64], resampling: Resampling) -> Option<Interval> {
    let means = resampled_means(values, resampling);
    interval(values, &means)
}

/// Compares two methods on the same questions, question by question.
///
/// # Errors
/// When the two sides differ in length, or are empty.
pub fn paired_bootstrap(
    first: &[f64],
    second: &[f64],
    resampling: Resampling,
) -> Result<PairedDifference, EvaluationError> {
    let unpaired = || EvaluationError::UnpairedValues {
        left: first.len(),
        right: second.len(),
    };
    if first.len() != second.len() {
        return Err(unpaired());
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let means = resampled_means(&differences, resampling);
    let difference = interval(&differences, &means).ok_or_else(unpaired)?;
    let below = means.iter().filter(|mean| **mean <= 0.0).count();
    let above = means.iter().filter(|mean| **mean >= 0.0).count();
    let tail = count(below.min(above) + 1) / count(means.len() + 1);
    Ok(PairedDifference {
        difference,
        p_value: (2.0 * tail).min(1.0),
    })
}

/// Means of samples drawn with replacement, ascending.
fn resampled_means(values: &[f64], resampling: Resampling) -> Vec<f64> {
    if values.is_empty() {
        return Vec::new();
    }
    let mut random = SplitMix64(resampling.seed);
    let mut means: Vec<f64> = (0..resampling.resamples.max(1))
        .map(|_| {
            (0..values.len())
                .map(|_| values[random.below(values.len())])
                .sum::<f64>()
                / count(values.len())
        })
        .collect();
    means.sort_by(f64::total_cmp);
    means
}

fn interval(values: &[f64], means: &[f64]) -> Option<Interval> {
    let mean = values.iter().sum::<f64>() / count(values.len());
    Some(Interval {
        mean,
        low: quantile(means, 0.025)?,
        high: quantile(means, 0.975)?,
    })
}

/// The quantile of ascending values, linear between neighbours.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share * count(last);
    let below = position.floor();
    let index = below as usize;
    let (low, high) = (sorted[index], sorted[(index + 1).min(last)]);
    Some(low + (high - low) * (position - below))
}

/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; uneven by less than n / 2^64.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}
