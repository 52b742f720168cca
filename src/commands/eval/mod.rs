//! `mneme eval`: measure on a data set.

mod answers;
mod locomo;
mod log;
mod recall;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use evaluation::{Category, Dataset, ScoreOptions, Scores, read_predictions, score};
use serde::Serialize;

use crate::cli::{EvalArgs, EvalCommand};
use crate::output;

pub(crate) fn run(args: EvalArgs, quiet: bool) -> Result<()> {
    match args.command {
        EvalCommand::Locomo(args) => locomo::run(&args, quiet),
        EvalCommand::Score {
            predictions,
            data,
            categories,
            json,
        } => {
            let dataset = Dataset::open(&data)?;
            let options = ScoreOptions {
                categories: parse_categories(&categories)?,
                ..ScoreOptions::default()
            };
            let scores = score(&read_predictions(&predictions)?, &dataset, &options)?;
            if let Some(path) = &json {
                write_json(path, &scores)?;
            }
            print_scores(&scores);
            Ok(())
        }
    }
}

fn parse_categories(numbers: &[u64]) -> Result<Vec<Category>> {
    let parse = |number: &u64| {
        Category::from_number(*number)
            .with_context(|| format!("--categories has {number}, expected numbers from 1 to 5"))
    };
    numbers.iter().map(parse).collect()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    fs::write(path, serde_json::to_string_pretty(value)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Means in percent with their 95 % intervals, by category and overall.
fn print_scores(scores: &Scores) {
    let percent = |value: f64| format!("{:.1}", 100.0 * value);
    let interval = |[low, high]: [f64; 2]| format!("{}–{}", percent(low), percent(high));
    let head = ["category", "n", "f1_locomo", "95 %", "f1_set", "bleu1"]
        .map(str::to_owned)
        .to_vec();
    let row = |name: &str, summary: &evaluation::Summary| {
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), percent);
        vec![
            name.to_owned(),
            summary.n.to_string(),
            percent(summary.f1_locomo),
            interval(summary.f1_locomo_interval),
            optional(summary.f1_set),
            optional(summary.bleu1),
        ]
    };
    let mut rows = vec![head];
    rows.extend(
        scores
            .by_category
            .iter()
            .map(|(category, summary)| row(category.name(), summary)),
    );
    rows.push(row("all", &scores.overall));
    output::table(&rows);
}
