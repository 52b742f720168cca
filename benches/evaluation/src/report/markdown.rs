//! The report for repositories: figures and question ids, no text of the data set.

use std::fmt::Write as _;

use super::grid::Grid;
use super::{Report, tables};

/// The report as Markdown. It holds no text of the data set beyond question ids.
///
/// # Panics
/// When the report has no run.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut out = format!(
        "# {}\n\n    {}\n",
        report.title,
        report.command.replace('\n', "\n    ")
    );
    section(
        &mut out,
        "Quality, in percent with 95 % bootstrap intervals",
        &tables::quality(report.main()),
    );
    for line in report.lines() {
        let _ = write!(out, "\n{line}\n");
    }
    if let Some(grid) = tables::judges(report) {
        section(&mut out, "Judges", &grid);
    }
    if let Some(grid) = tables::variants(report) {
        section(&mut out, "Runs; differences to the first in points", &grid);
    }
    section(&mut out, "Cost", &tables::cost(&report.variants));
    section(&mut out, "Worst questions", &tables::worst(report.main()));
    section(&mut out, "Environment", &tables::environment(report));
    let settings = serde_json::to_string_pretty(&report.settings).unwrap_or_default();
    let _ = write!(out, "\n## Settings\n\n```json\n{settings}\n```\n");
    out
}

fn section(out: &mut String, title: &str, grid: &Grid) {
    let _ = write!(out, "\n## {title}\n\n{}", grid.markdown());
}
