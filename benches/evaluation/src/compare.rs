//! Two runs on the same questions: by how much the second is better, and where.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::bootstrap::{Resampling, paired_bootstrap};
use crate::error::EvaluationError;
use crate::item::{Item, Metric};
use crate::significance::{McNemar, mcnemar, sign_flip};

/// From this value on an answer counts as right where "right" must be said.
const RIGHT: f64 = 0.5;

/// One metric of one group, second run minus first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Category or type; `all` for every question.
    pub group: String,
    /// What is compared.
    pub metric: Metric,
    /// Questions that have the metric on both sides.
    pub n: usize,
    /// Mean of the first run.
    pub first: f64,
    /// Mean of the second run.
    pub second: f64,
    /// Second minus first.
    pub difference: f64,
    /// Its 95 % interval by paired bootstrap.
    pub interval: [f64; 2],
    /// Two-sided, by paired bootstrap.
    pub p_bootstrap: f64,
    /// Two-sided, by sign-flip permutation.
    pub p_permutation: f64,
    /// For labels that are right or wrong.
    pub mcnemar: Option<McNemar>,
}

/// A question that one run has right and the other wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flip {
    /// The question.
    pub id: String,
    /// Its category or type.
    pub group: String,
    /// Value of the leading metric in the first run.
    pub first: f64,
    /// Value in the second run.
    pub second: f64,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Questions that both runs answered.
    pub n: usize,
    /// Questions that only the first answered; they count nowhere.
    pub only_first: usize,
    /// Questions that only the second answered; they count nowhere.
    pub only_second: usize,
    /// Groups first, then `all`, metrics in the order of reports.
    pub differences: Vec<Difference>,
    /// By which metric questions flipped.
    pub leading: Metric,
    /// Questions that flipped, gained ones first.
    pub flips: Vec<Flip>,
}

impl Comparison {
    /// The difference of a metric over all questions.
    #[must_use]
    pub fn overall(&self, metric: Metric) -> Option<&Difference> {
        self.differences
            .iter()
            .find(|d| d.group == "all" && d.metric == metric)
    }
}

/// Compares two runs question by question.
///
/// # Errors
/// [`EvaluationError::NothingInCommon`] when no question was answered by both.
pub fn compare(
    first: &[Item],
    second: &[Item],
    resampling: Resampling,
) -> Result<Comparison, EvaluationError> {
    let by_id: HashMap<&str, &Item> = second.iter().map(|item| (item.id.as_str(), item)).collect();
    let pairs: Vec<(&Item, &Item)> = first
        .iter()
        .filter_map(|item| Some((item, *by_id.get(item.id.as_str())?)))
        .collect();
    if pairs.is_empty() {
        return Err(EvaluationError::NothingInCommon);
    }
    let mut groups: Vec<&str> = Vec::new();
    for (item, _) in &pairs {
        if !groups.contains(&item.group.as_str()) {
            groups.push(&item.group);
        }
    }
    let mut differences = Vec::new();
    for group in groups.into_iter().map(Some).chain([None]) {
        let some: Vec<_> = pairs
            .iter()
            .filter(|(item, _)| group.is_none_or(|g| item.group == g))
            .collect();
        for metric in Metric::ALL {
            let values: Vec<(f64, f64)> = some
                .iter()
                .filter_map(|(a, b)| Some((*a.values.get(&metric)?, *b.values.get(&metric)?)))
                .collect();
            if !values.is_empty() {
                differences.push(difference(group.unwrap_or("all"), metric, &values, resampling)?);
            }
        }
    }
    let leading = Metric::leading(first);
    Ok(Comparison {
        n: pairs.len(),
        only_first: first.len() - pairs.len(),
        only_second: second.len() - pairs.len(),
        differences,
        flips: flips(&pairs, leading),
        leading,
    })
}

fn difference(
    group: &str,
    metric: Metric,
    values: &[(f64, f64)],
    resampling: Resampling,
) -> Result<Difference, EvaluationError> {
    let (first, second): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
    let paired = paired_bootstrap(&second, &first, resampling)?;
    let differences: Vec<f64> = values.iter().map(|(a, b)| b - a).collect();
    let mean = |side: &[f64]| side.iter().sum::<f64>() / crate::f1::count(side.len());
    let right = |value: f64| value >= RIGHT;
    Ok(Difference {
        group: group.to_owned(),
        metric,
        n: values.len(),
        first: mean(&first),
        second: mean(&second),
        difference: paired.difference.mean,
        interval: [paired.difference.low, paired.difference.high],
        p_bootstrap: paired.p_value,
        p_permutation: sign_flip(&differences, resampling),
        mcnemar: metric
            .is_label()
            .then(|| mcnemar(values.iter().map(|(a, b)| (right(*a), right(*b))))),
    })
}

fn flips(pairs: &[(&Item, &Item)], leading: Metric) -> Vec<Flip> {
    let mut by_direction: BTreeMap<bool, Vec<Flip>> = BTreeMap::new();
    for (a, b) in pairs {
        let (Some(&first), Some(&second)) = (a.values.get(&leading), b.values.get(&leading)) else {
            continue;
        };
        if (first >= RIGHT) != (second >= RIGHT) {
            by_direction.entry(second < first).or_default().push(Flip {
                id: a.id.clone(),
                group: a.group.clone(),
                first,
                second,
            });
        }
    }
    by_direction.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, group: &str, f1: f64, exact: f64) -> Item {
        Item {
            id: id.into(),
            group: group.into(),
            unanswerable: false,
            declined: false,
            values: BTreeMap::from([(Metric::F1Locomo, f1), (Metric::Exact, exact)]),
            question: String::new(),
            gold: String::new(),
            prediction: String::new(),
        }
    }

    #[test]
    fn differences_by_group_and_flips() {
        let first = [
            item("a", "x", 0.0, 0.0),
            item("b", "x", 1.0, 1.0),
            item("c", "y", 0.2, 0.0),
            item("e", "y", 1.0, 1.0),
        ];
        let second = [
            item("c", "y", 0.9, 1.0),
            item("b", "x", 0.4, 0.0),
            item("a", "x", 0.0, 0.0),
            item("d", "y", 1.0, 1.0),
        ];
        let comparison = compare(&first, &second, Resampling::default()).unwrap();
        assert_eq!(
            (comparison.n, comparison.only_first, comparison.only_second),
            (3, 1, 1)
        );
        let overall = comparison.overall(Metric::F1Locomo).unwrap();
        assert!(
            (overall.difference - 0.1 / 3.0).abs() < 1e-12 && overall.n == 3,
            "{overall:?}"
        );
        assert!(overall.mcnemar.is_none());
        let exact = comparison.overall(Metric::Exact).unwrap().mcnemar.unwrap();
        assert_eq!((exact.only_first, exact.only_second), (1, 1));
        let flipped: Vec<&str> = comparison.flips.iter().map(|flip| flip.id.as_str()).collect();
        assert_eq!(flipped, ["c", "b"]);
        assert_eq!(comparison.differences[0].group, "x");
        assert!(matches!(
            compare(&first[..1], &second[..1], Resampling::default()),
            Err(EvaluationError::NothingInCommon)
        ));
    }
}
