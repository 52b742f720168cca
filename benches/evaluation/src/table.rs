//! From measured questions to means with intervals, by group and overall.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bootstrap::{Resampling, bootstrap_mean};
use crate::f1::count;
use crate::item::{Item, Metric};

/// A mean over the questions to which a metric applies, with its 95 % bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cell {
    /// Questions.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// 2.5th percentile.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
}

/// The means of one group of questions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Category or type; `all` for every question.
    pub name: String,
    /// Questions, those to which no metric applies included.
    pub n: usize,
    /// Means of the metrics that apply to at least one question.
    pub cells: BTreeMap<Metric, Cell>,
}

/// How well the system tells that there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Abstention {
    /// Questions that cannot be answered from the conversation.
    pub unanswerable: usize,
    /// Answers that say so.
    pub declined: usize,
    /// Both at once.
    pub rightly_declined: usize,
    /// `rightly_declined / declined`; `None` where nothing was declined.
    pub precision: Option<f64>,
    /// `rightly_declined / unanswerable`; `None` where every question can be answered.
    pub recall: Option<f64>,
}

/// All means of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// One row for each group that has a question, in the order of first appearance in `order`, else of the items.
    pub groups: Vec<Row>,
    /// Every question (micro).
    pub overall: Row,
    /// Unweighted mean over the groups that have the metric (macro).
    pub macro_average: BTreeMap<Metric, f64>,
    /// How well missing answers are told.
    pub abstention: Abstention,
}

impl Table {
    /// The means of `items`. Groups named in `order` come first and in that order.
    #[must_use]
    pub fn of(items: &[Item], order: &[&str], resampling: Resampling) -> Self {
        let mut names: Vec<&str> = order
            .iter()
            .copied()
            .filter(|name| items.iter().any(|item| item.group == *name))
            .collect();
        for item in items {
            if !names.contains(&item.group.as_str()) {
                names.push(&item.group);
            }
        }
        let groups: Vec<Row> = names
            .into_iter()
            .map(|name| {
                let group: Vec<&Item> = items.iter().filter(|item| item.group == name).collect();
                row(name, &group, resampling)
            })
            .collect();
        let all: Vec<&Item> = items.iter().collect();
        Self {
            overall: row("all", &all, resampling),
            macro_average: macro_average(&groups),
            abstention: abstention(items),
            groups,
        }
    }

    /// The metrics of which some question has a value, in the order of [`Metric::ALL`].
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        Metric::ALL
            .into_iter()
            .filter(|metric| self.overall.cells.contains_key(metric))
            .collect()
    }
}

fn row(name: &str, items: &[&Item], resampling: Resampling) -> Row {
    let cells = Metric::ALL.into_iter().filter_map(|metric| {
        let values: Vec<f64> = items
            .iter()
            .filter_map(|item| item.values.get(&metric).copied())
            .collect();
        let interval = bootstrap_mean(&values, resampling)?;
        let cell = Cell {
            n: values.len(),
            mean: interval.mean,
            low: interval.low,
            high: interval.high,
        };
        Some((metric, cell))
    });
    Row {
        name: name.to_owned(),
        n: items.len(),
        cells: cells.collect(),
    }
}

fn macro_average(groups: &[Row]) -> BTreeMap<Metric, f64> {
    let mean = |metric: Metric| {
        let cells = groups.iter().filter_map(|row| row.cells.get(&metric));
        let means: Vec<f64> = cells.map(|cell| cell.mean).collect();
        (!means.is_empty()).then(|| (metric, means.iter().sum::<f64>() / count(means.len())))
    };
    Metric::ALL.into_iter().filter_map(mean).collect()
}

fn abstention(items: &[Item]) -> Abstention {
    let number = |test: &dyn Fn(&Item) -> bool| items.iter().filter(|item| test(item)).count();
    let unanswerable = number(&|item| item.unanswerable);
    let declined = number(&|item| item.declined);
    let rightly_declined = number(&|item| item.unanswerable && item.declined);
    let share = |of: usize| (of > 0).then(|| count(rightly_declined) / count(of));
    Abstention {
        unanswerable,
        declined,
        rightly_declined,
        precision: share(declined),
        recall: share(unanswerable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, group: &str, f1: f64, unanswerable: bool, declined: bool) -> Item {
        Item {
            id: id.into(),
            group: group.into(),
            unanswerable,
            declined,
            values: BTreeMap::from([(Metric::F1Locomo, f1)]),
            question: String::new(),
            gold: String::new(),
            prediction: String::new(),
        }
    }

    #[test]
    fn micro_macro_and_abstention() {
        let items = [
            item("a", "x", 1.0, false, false),
            item("b", "x", 0.0, false, true),
            item("c", "x", 0.5, false, false),
            item("d", "y", 0.0, true, true),
        ];
        let table = Table::of(&items, &["y", "z", "x"], Resampling::default());
        assert_eq!(
            table
                .groups
                .iter()
                .map(|row| row.name.as_str())
                .collect::<Vec<_>>(),
            ["y", "x"]
        );
        assert_eq!(table.overall.cells[&Metric::F1Locomo].mean, 0.375);
        assert_eq!(table.macro_average[&Metric::F1Locomo], 0.25);
        assert_eq!(
            (table.abstention.precision, table.abstention.recall),
            (Some(0.5), Some(1.0))
        );
        assert_eq!(table.metrics(), [Metric::F1Locomo]);
    }
}
