//! The tables of a report.

use super::grid::Grid;
use super::{Report, Variant};
use crate::compare::Difference;
use crate::item::Metric;
use crate::table::{Cell, Row};

pub(super) fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value)
}

fn interval(cell: &Cell) -> String {
    format!(
        "{} [{}, {}]",
        percent(cell.mean),
        percent(cell.low),
        percent(cell.high)
    )
}

fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".into()
    } else {
        format!("{p:.3}")
    }
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// Means in percent by group; the leading metric with its interval, and every metric of the overall row.
pub(super) fn quality(variant: &Variant) -> Grid {
    let metrics = variant.table.metrics();
    let leading = variant.leading();
    let mut grid = Grid::new(&["", "n"]);
    grid.head
        .extend(metrics.iter().map(|metric| metric.name().to_owned()));
    let cells = |row: &Row, whole: bool| {
        let mut cells = vec![row.name.clone(), row.n.to_string()];
        cells.extend(metrics.iter().map(|metric| match row.cells.get(metric) {
            None => "-".into(),
            Some(cell) if whole || *metric == leading => interval(cell),
            Some(cell) => percent(cell.mean),
        }));
        cells
    };
    grid.rows
        .extend(variant.table.groups.iter().map(|row| cells(row, false)));
    grid.rows.push(cells(&variant.table.overall, true));
    if variant.table.groups.len() > 1 {
        let mut row = vec!["mean of groups".to_owned(), String::new()];
        let mean = |metric: &Metric| {
            variant
                .table
                .macro_average
                .get(metric)
                .map_or("-".into(), |m| percent(*m))
        };
        row.extend(metrics.iter().map(mean));
        grid.rows.push(row);
    }
    grid
}

/// One line on how well missing answers are told; `None` where there is nothing to say.
pub(super) fn abstention(variant: &Variant) -> Option<String> {
    let told = &variant.table.abstention;
    if told.unanswerable == 0 && told.declined == 0 {
        return None;
    }
    let share =
        |value: Option<f64>| value.map_or("undefined".to_owned(), |value| format!("{} %", percent(value)));
    Some(format!(
        "Abstention: {} answers decline, {} questions cannot be answered, {} both; precision {}, recall {}.",
        told.declined,
        told.unanswerable,
        told.rightly_declined,
        share(told.precision),
        share(told.recall)
    ))
}

/// What the raw labels allow beside what was reached.
pub(super) fn ceiling(report: &Report) -> Option<String> {
    let ceiling = report.ceiling.as_ref()?;
    let main = report.main();
    let of = |metric| main.mean(metric).map_or("-".to_owned(), percent);
    Some(format!(
        "Labels: {} of {} gold answers are known to be wrong and {} only cite the wrong turns, so that right answers reach \
         {} % of the raw labels at most. F1 on raw labels {}, on audited labels {}.",
        ceiling.wrong_answers,
        ceiling.n,
        ceiling.wrong_citations,
        percent(ceiling.ceiling),
        of(Metric::F1Locomo),
        of(Metric::F1LocomoAudited)
    ))
}

/// The price of every run.
pub(super) fn cost(variants: &[Variant]) -> Grid {
    let mut grid = Grid::new(&[
        "per question",
        "iterations",
        "prompt tokens",
        "cached",
        "computed",
        "generated",
        "seconds",
        "latency s",
        "tokens/s",
        "peak MiB",
        "ingest s",
    ]);
    for variant in variants {
        let cost = &variant.cost;
        grid.rows.push(vec![
            variant.name.clone(),
            format!("{:.2}", cost.iterations),
            format!("{:.0}", cost.prompt_tokens),
            optional(cost.cached_tokens, 0),
            optional(cost.computed_tokens, 0),
            format!("{:.0}", cost.generated_tokens),
            optional(cost.seconds_per_question, 2),
            format!("{:.2}", cost.latency_seconds),
            optional(cost.tokens_per_second, 0),
            cost.peak_bytes
                .map_or("-".into(), |bytes| (bytes / (1 << 20)).to_string()),
            if cost.ingested_turns > 0 {
                format!("{:.1} ({} turns)", cost.ingest_seconds, cost.ingested_turns)
            } else {
                "-".into()
            },
        ]);
    }
    grid
}

/// Runs beside each other; `None` when there is only one.
pub(super) fn variants(report: &Report) -> Option<Grid> {
    if report.variants.len() < 2 {
        return None;
    }
    let leading = report.main().leading();
    let mut grid = Grid::new(&["run", "n"]);
    grid.head.push(leading.name().into());
    grid.head.extend(
        [
            "recall",
            "difference",
            "p (sign flip)",
            "flipped + / -",
            "tokens",
            "seconds",
        ]
        .map(str::to_owned),
    );
    for variant in &report.variants {
        let versus = variant.versus.as_ref();
        let difference = versus.and_then(|versus| versus.overall(leading));
        let flips = versus.map(|versus| {
            let gained = versus
                .flips
                .iter()
                .filter(|flip| flip.second > flip.first)
                .count();
            format!("{gained} / {}", versus.flips.len() - gained)
        });
        let cell = variant.table.overall.cells.get(&leading);
        grid.rows.push(vec![
            variant.name.clone(),
            variant.table.overall.n.to_string(),
            cell.map_or("-".into(), interval),
            variant.recall().map_or("-".into(), percent),
            difference.map_or("-".into(), signed),
            difference.map_or("-".into(), |d| p_value(d.p_permutation)),
            flips.unwrap_or_else(|| "-".into()),
            format!(
                "{:.0}",
                variant.cost.prompt_tokens + variant.cost.generated_tokens
            ),
            optional(variant.cost.seconds_per_question, 2),
        ]);
    }
    Some(grid)
}

/// A difference in points with its interval.
pub(super) fn signed(d: &Difference) -> String {
    let points = |value: f64| format!("{:+.1}", 100.0 * value);
    format!(
        "{} [{}, {}]",
        points(d.difference),
        points(d.interval[0]),
        points(d.interval[1])
    )
}

/// How far the judges can be trusted; `None` without a judge.
pub(super) fn judges(report: &Report) -> Option<Grid> {
    if report.agreements.is_empty() {
        return None;
    }
    let mut grid = Grid::new(&[
        "judge",
        "rules",
        "labels by hand",
        "agreement",
        "kappa",
        "accepts wrong",
        "refuses right",
    ]);
    for agreement in &report.agreements {
        let share = |value: Option<f64>| value.map_or("-".into(), |value| format!("{} %", percent(value)));
        grid.rows.push(vec![
            agreement.judge.clone(),
            agreement.rules.name().to_owned(),
            agreement.n.to_string(),
            format!("{} %", percent(agreement.agreement)),
            format!("{:.2}", agreement.kappa),
            share(agreement.accepts_wrong),
            share(agreement.refuses_right),
        ]);
    }
    Some(grid)
}

pub(super) fn environment(report: &Report) -> Grid {
    let mut grid = Grid::new(&["what", "value"]);
    let rows = report
        .environment
        .iter()
        .map(|(name, value)| vec![name.clone(), value.clone()]);
    grid.rows.extend(rows);
    grid
}

/// The worst questions by id.
pub(super) fn worst(variant: &Variant) -> Grid {
    let leading = variant.leading();
    let mut grid = Grid::new(&["question", "group"]);
    grid.head
        .extend([leading.name().to_owned(), "recall".to_owned(), "trace".to_owned()]);
    for item in variant.worst() {
        let recall = [Metric::RecallRepaired, Metric::RecallTurns];
        let recall = recall.iter().find_map(|metric| item.values.get(metric));
        grid.rows.push(vec![
            item.id.clone(),
            item.group.clone(),
            item.values
                .get(&leading)
                .map_or("-".into(), |value| percent(*value)),
            recall.map_or("-".into(), |value| percent(*value)),
            variant.trace(&item.id),
        ]);
    }
    grid
}
