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
use crate::bootstrap::Resampling;
use crate::compare::{Comparison, compare};
use crate::error::EvaluationError;
use crate::item::{Item, Metric};
use crate::judge::Agreement;
use crate::record::Record;
use crate::run_folder::{Session, trace_name};
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

/// A run as it was measured, before it becomes part of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What sets it apart.
    pub name: String,
    /// Where its traces are, relative to the report.
    pub folder: String,
    /// The sweep it belongs to and its place there.
    pub axis: Option<(String, f64)>,
    /// Its answers.
    pub records: Vec<Record>,
    /// What its sessions cost.
    pub sessions: Vec<Session>,
    /// Its answers, measured.
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
    /// A report over these runs, the first of which the others are compared with; groups stand in this `order`. Title,
    /// command, environment, settings, agreements, ceiling and notes are left empty.
    ///
    /// # Errors
    /// [`EvaluationError::NothingToScore`] without a run, [`EvaluationError::NothingInCommon`] when a run answered other
    /// questions than the first.
    pub fn of(runs: Vec<Measured>, order: &[&str], resampling: Resampling) -> Result<Self, EvaluationError> {
        let mut axes: Vec<Axis> = Vec::new();
        let mut variants: Vec<Variant> = Vec::new();
        for (index, run) in runs.into_iter().enumerate() {
            if let Some((name, place)) = run.axis {
                match axes.iter_mut().find(|axis| axis.name == name) {
                    Some(axis) => axis.points.push((place, index)),
                    None => axes.push(Axis {
                        name,
                        points: vec![(place, index)],
                    }),
                }
            }
            let versus = variants
                .first()
                .map(|first| compare(&first.items, &run.items, resampling));
            variants.push(Variant {
                table: Table::of(&run.items, order, resampling),
                cost: Cost::of(&run.records, &run.sessions),
                versus: versus.transpose()?,
                name: run.name,
                folder: run.folder,
                items: run.items,
            });
        }
        if variants.is_empty() {
            return Err(EvaluationError::NothingToScore);
        }
        for axis in &mut axes {
            axis.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Ok(Self {
            title: String::new(),
            command: String::new(),
            environment: Vec::new(),
            settings: Value::Null,
            variants,
            axes,
            agreements: Vec::new(),
            ceiling: None,
            notes: Vec::new(),
        })
    }

    /// The runs beside each other as rows of text below a head, for a terminal; `None` for a single run.
    #[must_use]
    pub fn run_rows(&self) -> Option<Vec<Vec<String>>> {
        tables::variants(self).map(grid::Grid::into_rows)
    }

    /// The price of every run, likewise.
    #[must_use]
    pub fn cost_rows(&self) -> Vec<Vec<String>> {
        tables::cost(&self.variants).into_rows()
    }

    /// How far the judges can be trusted, likewise; `None` without a judge.
    #[must_use]
    pub fn judge_rows(&self) -> Option<Vec<Vec<String>>> {
        tables::judges(self).map(grid::Grid::into_rows)
    }

    /// One line each: abstention, labels, notes.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = [tables::abstention(self.main()), tables::ceiling(self)];
        lines
            .into_iter()
            .flatten()
            .chain(self.notes.iter().cloned())
            .collect()
    }

    /// The first run.
    ///
    /// # Panics
    /// When the report has no run.
    fn main(&self) -> &Variant {
        self.variants
            .first()
            .expect("a report is made of at least one run")
    }
}

impl Variant {
    /// Quality as rows of text below a head, for a terminal.
    #[must_use]
    pub fn quality_rows(&self) -> Vec<Vec<String>> {
        tables::quality(self).into_rows()
    }

    /// The questions with the lowest value of the leading metric, worst first, those with less recall before others.
    fn worst(&self) -> Vec<&Item> {
        let leading = Metric::leading(&self.items);
        let key = |item: &Item| {
            let recall = [Metric::RecallRepaired, Metric::RecallTurns];
            let recall = recall.iter().find_map(|metric| item.values.get(metric)).copied();
            (
                item.values.get(&leading).copied().unwrap_or(1.0),
                recall.unwrap_or(1.0),
            )
        };
        let mut items: Vec<&Item> = self
            .items
            .iter()
            .filter(|item| item.values.contains_key(&leading))
            .collect();
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
        self.mean(Metric::RecallRepaired)
            .or_else(|| self.mean(Metric::RecallTurns))
    }

    fn leading(&self) -> Metric {
        Metric::leading(&self.items)
    }
}
