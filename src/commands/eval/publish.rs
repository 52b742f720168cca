//! Prints and writes reports, and compares runs: `mneme eval compare` and `mneme eval report`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use evaluation::{
    Agreement, Audit, Comparison, FinishedRun, Gold, Item, Judgements, Measured, Record, Report, Resampling,
    Rules, Session, Table, compare, html, markdown,
};
use serde_json::{Value, json};

use super::answers::Task;
use super::environment::{self, ModelFile};
use super::judging::Runs;
use super::write_json;
use crate::cli::{CompareArgs, ReportArgs};
use crate::output;

const EVERY_RULES: [Rules; 3] = [Rules::Lenient, Rules::Strict, Rules::Longmemeval];

/// Prints what a run gave and writes its report.
pub(super) fn run(task: &Task<'_>, file: &ModelFile, runs: Runs) -> Result<()> {
    let mut report = Report::of(runs.measured, &task.gold.order(), Resampling::default())?;
    let model = &file.name;
    report.title = format!("{}: {} with {model}", task.data_set, task.method_name());
    report.command = environment::command().replace(" --resume", "");
    let (settings, environment) = match &task.answering.out {
        Some(out) => {
            let begun = FinishedRun::open(out)?.description;
            (begun.settings, begun.environment)
        }
        None => (
            json!({ "method": task.method }),
            environment::describe(file, task.embedder, task.model.threads),
        ),
    };
    report.environment = pairs(&environment);
    report.settings = settings;
    report.agreements = runs.agreements;
    report.ceiling = ceiling(runs.audit.as_ref(), &task.gold, &report.variants[0].items);
    report.notes = notes(&report, task.asked.len());
    print(&report);
    if let Some(out) = &task.answering.out {
        write(out, &report)?;
    }
    match task.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

fn ceiling(audit: Option<&Audit>, gold: &Gold, items: &[Item]) -> Option<evaluation::Ceiling> {
    let (Some(audit), Gold::Questions(dataset)) = (audit, gold) else {
        return None;
    };
    let asked = |id: &str| items.iter().any(|item| item.id == id);
    Some(audit.ceiling(dataset.questions().iter().filter(|question| asked(&question.id))))
}

/// What a reader must know beside the figures.
fn notes(report: &Report, asked: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let main = &report.variants[0];
    let n = main.table.overall.n;
    if n < asked {
        notes.push(format!("Incomplete: {n} of {asked} questions are answered."));
    }
    if main.cost.truncated > 0 {
        notes.push(format!(
            "Truncated: for {} of {n} questions only the newest part of the conversation was shown.",
            main.cost.truncated
        ));
    }
    if report.variants.len() > 1 && main.cost.cached_tokens.is_some() {
        notes.push(
            "Runs made one after another share the prefix cache: a later one computes less and takes less time than it \
             would alone. Compare tokens, not seconds."
                .into(),
        );
    }
    if report.agreements.iter().any(|agreement| agreement.kappa < 0.4) {
        notes.push("A judge whose kappa is below 0.4 agrees with us little more than chance: its figures say little.".into());
    }
    notes
}

fn print(report: &Report) {
    output::table(&report.variants[0].quality_rows());
    for line in report.lines() {
        output::line(line);
    }
    let more = [report.judge_rows(), report.run_rows(), Some(report.cost_rows())];
    for rows in more.into_iter().flatten() {
        output::line("");
        output::table(&rows);
    }
}

fn write(folder: &Path, report: &Report) -> Result<()> {
    let files = [("report.md", markdown(report)), ("report.html", html(report))];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    write_json(&folder.join("report.json"), report)
}

/// The answers of a run's folder or of a prediction file.
pub(super) fn records(path: &Path, gold: &Gold) -> Result<Vec<Record>> {
    if path.is_dir() {
        return Ok(FinishedRun::open(path)?.records);
    }
    Ok(gold.read_records(path)?)
}

/// Measured answers, with the verdicts that lie beside them.
fn items(path: &Path, gold: &Gold) -> Result<Vec<Item>> {
    let mut items = gold.measure(&records(path, gold)?, None)?;
    if path.is_dir() {
        let kept = Judgements::open(path)?;
        for rules in EVERY_RULES {
            kept.enter(None, rules, &mut items);
        }
    }
    Ok(items)
}

/// `mneme eval compare`.
pub(super) fn compare_runs(args: &CompareArgs) -> Result<()> {
    let gold = Gold::open(&args.data)?;
    let (first, second) = (items(&args.first, &gold)?, items(&args.second, &gold)?);
    let comparison = compare(&first, &second, Resampling::default())?;
    print_comparison(args, &comparison);
    match &args.json {
        Some(path) => write_json(path, &comparison),
        None => Ok(()),
    }
}

fn print_comparison(args: &CompareArgs, comparison: &Comparison) {
    output::line(format!(
        "A = {}, B = {}; {} questions in both, {} only in A and {} only in B count nowhere",
        args.first.display(),
        args.second.display(),
        comparison.n,
        comparison.only_first,
        comparison.only_second
    ));
    let head = [
        "group",
        "metric",
        "n",
        "A",
        "B",
        "B - A",
        "95 %",
        "p bootstrap",
        "p sign flip",
        "p McNemar",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for d in &comparison.differences {
        rows.push(vec![
            d.group.clone(),
            d.metric.name().to_owned(),
            d.n.to_string(),
            format!("{:.1}", 100.0 * d.first),
            format!("{:.1}", 100.0 * d.second),
            format!("{:+.1}", 100.0 * d.difference),
            format!("{:+.1} to {:+.1}", 100.0 * d.interval[0], 100.0 * d.interval[1]),
            format!("{:.3}", d.p_bootstrap),
            format!("{:.3}", d.p_permutation),
            d.mcnemar
                .as_ref()
                .map_or("-".into(), |test| format!("{:.3}", test.p_value)),
        ]);
    }
    output::table(&rows);
    output::line(format!(
        "{} questions flipped by {}:",
        comparison.flips.len(),
        comparison.leading.name()
    ));
    for flip in &comparison.flips {
        output::line(format!(
            "  {} ({}): {:.1} -> {:.1}",
            flip.id,
            flip.group,
            100.0 * flip.first,
            100.0 * flip.second
        ));
    }
}

/// `mneme eval report`.
pub(super) fn report(args: &ReportArgs) -> Result<()> {
    let gold = Gold::open(&args.data)?;
    let mut runs = Vec::new();
    let mut measured = Vec::new();
    let mut agreements: Vec<Agreement> = Vec::new();
    for path in &args.runs {
        let run = FinishedRun::open(path)?;
        if run.records.is_empty() {
            bail!("{} has no answer yet", path.display());
        }
        for agreement in Judgements::open(path)?.agreements() {
            if !agreements.contains(&agreement) {
                agreements.push(agreement);
            }
        }
        measured.push(Measured {
            name: path.file_name().map_or_else(
                || path.display().to_string(),
                |n| n.to_string_lossy().into_owned(),
            ),
            folder: fs::canonicalize(path)
                .unwrap_or_else(|_| path.clone())
                .display()
                .to_string(),
            axis: None,
            items: items(path, &gold)?,
            records: run.records.clone(),
            sessions: run.sessions.clone(),
        });
        runs.push(run);
    }
    let mut report = Report::of(measured, &gold.order(), Resampling::default())?;
    let first = &runs[0].description;
    report.title = format!(
        "{}: {} runs",
        first.settings["data_set"].as_str().unwrap_or("Runs"),
        runs.len()
    );
    report.command = runs
        .iter()
        .map(|run| {
            run.description.environment["command"]
                .as_str()
                .unwrap_or_default()
                .replace(" --resume", "")
        })
        .chain([environment::command()])
        .collect::<Vec<_>>()
        .join("\n");
    report.environment = pairs(&first.environment);
    report.settings = first.settings.clone();
    report.agreements = agreements;
    report.notes = notes(&report, report.variants[0].table.overall.n);
    print(&report);
    fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    write(&args.out, &report)
}

/// The method of a run's settings: the one key of its object.
pub(super) fn method_name(method: &Value) -> String {
    let key = method.as_object().and_then(|object| object.keys().next());
    key.cloned().unwrap_or_else(|| "unknown method".into())
}

/// An object as names and texts.
fn pairs(object: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all = object.as_object().into_iter().flatten();
    all.filter(|(name, _)| *name != "command")
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

/// Means in percent by group, without a run around them.
pub(super) fn rows(table: &Table) -> Vec<Vec<String>> {
    let bare = evaluation::Variant {
        name: String::new(),
        folder: String::new(),
        table: table.clone(),
        cost: evaluation::Cost::of(&[] as &[Record], &[] as &[Session]),
        versus: None,
        items: Vec::new(),
    };
    bare.quality_rows()
}

pub(super) fn agreement_rows(agreements: &[Agreement]) -> Vec<Vec<String>> {
    let head = [
        "judge",
        "rules",
        "labels by hand",
        "agreement",
        "kappa",
        "accepts wrong",
        "refuses right",
    ];
    let share = |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.1} %", 100.0 * value));
    let row = |a: &Agreement| {
        vec![
            a.judge.clone(),
            a.rules.name().to_owned(),
            a.n.to_string(),
            share(Some(a.agreement)),
            format!("{:.2}", a.kappa),
            share(a.accepts_wrong),
            share(a.refuses_right),
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec())
        .chain(agreements.iter().map(row))
        .collect()
}
