//! One report over one or several runs on the same questions: a Markdown table for repositories, a page for browsers.
//!
//! The Markdown holds no text of the data set beyond question ids; the page does and stays on the machine.

mod cost;
mod grid;
mod html;
mod markdown;
mod plot;
mod tables;

use serde::Serialize;
use serde_json::Value;

use crate::audit::Ceiling;
use crate::compare::Comparison;
use crate::item::{Item, Metric};
use crate::judge::Agreement;
use crate::run_folder::trace_name;
use crate::table::Table;

pub use cost::Cost;
pub use html::html;
pub use markdown::markdown;

/// Questions listed as the worst.
const WORST: usize = 10;

/// One run of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variant {
    /// What sets it apart, such as `W=4`; the first names the whole.
    pub name: String,
    /// Where its traces are, relative to the report; empty for the report's own folder.
    pub folder: String,
    /// How good.
    pub table: Table,
    /// At what price.
    pub cost: Cost,
    /// Compared with the first run; `None` for the first.
    pub versus: Option<Comparison>,
    /// Question by question.
    pub items: Vec<Item>,
}

/// Runs that differ in one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// The setting, such as `W`.
    pub name: String,
    /// Its values, ascending, each with the index of its run.
    pub points: Vec<(f64, usize)>,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was run on what.
    pub title: String,
    /// The command line that made it.
    pub command: String,
    /// Machine, model file, code version, dates: names and values.
    pub environment: Vec<(String, String)>,
    /// Everything that the first run's answers depend on.
    pub settings: Value,
    /// The runs; the first is the one that the others are compared with.
    pub variants: Vec<Variant>,
    /// Sweeps.
    pub axes: Vec<Axis>,
    /// How far the judges can be trusted.
    pub agreements: Vec<Agreement>,
    /// What the raw labels allow, where an audit was given.
    pub ceiling: Option<Ceiling>,
    /// What a reader must know beside the figures.
    pub notes: Vec<String>,
}

impl Report {
    /// The first run.
    ///
    /// # Panics
    /// When the report has no run.
    fn main(&self) -> &Variant {
        self.variants.first().expect("a report is made of at least one run")
    }
}

impl Variant {
    /// The questions with the lowest value of the leading metric, worst first, those with less recall before others.
    fn worst(&self) -> Vec<&Item> {
        let leading = Metric::leading(&self.items);
        let key = |item: &Item| {
            let recall = [Metric::RecallRepaired, Metric::RecallTurns];
            let recall = recall.iter().find_map(|metric| item.values.get(metric)).copied();
            (item.values.get(&leading).copied().unwrap_or(1.0), recall.unwrap_or(1.0))
        };
        let mut items: Vec<&Item> = self.items.iter().filter(|item| item.values.contains_key(&leading)).collect();
        items.sort_by(|a, b| {
            let ((a1, a2), (b1, b2)) = (key(a), key(b));
            a1.total_cmp(&b1).then(a2.total_cmp(&b2))
        });
        items.truncate(WORST);
        items
    }

    /// Where a question's trace lies, relative to the report.
    fn trace(&self, id: &str) -> String {
        match self.folder.as_str() {
            "" => trace_name(id),
            folder => format!("{folder}/{}", trace_name(id)),
        }
    }

    /// The mean of a metric over all questions.
    fn mean(&self, metric: Metric) -> Option<f64> {
        self.table.overall.cells.get(&metric).map(|cell| cell.mean)
    }

    /// The recall that this run has, of one kind or the other.
    fn recall(&self) -> Option<f64> {
        self.mean(Metric::RecallRepaired).or_else(|| self.mean(Metric::RecallTurns))
    }

    fn leading(&self) -> Metric {
        Metric::leading(&self.items)
    }
}
