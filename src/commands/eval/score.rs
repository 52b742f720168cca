//! `mneme eval score`: somebody's predictions against a data set.

use anyhow::{Result, bail};
use evaluation::{Gold, Resampling, ScoreOptions, Scores, Table, score};
use serde_json::json;

use super::{judging, parse_categories, publish, write_json};
use crate::cli::ScoreArgs;
use crate::output;

pub(super) fn run(args: &ScoreArgs) -> Result<()> {
    let gold = Gold::open(&args.data)?;
    let records = gold.read_records(&args.predictions)?;
    let Gold::Questions(dataset) = &gold else {
        return histories(args, &gold, &records);
    };
    let audit = judging::audit(args.audit.as_deref(), &gold)?;
    let options = ScoreOptions {
        categories: parse_categories(&args.categories)?,
        complete: args.complete,
        ..ScoreOptions::default()
    };
    let predictions: Vec<_> = records.iter().map(evaluation::Record::prediction).collect();
    let scores = score(&predictions, dataset, &options)?;
    let audited = audit
        .as_ref()
        .map(|audit| score(&predictions, &audit.apply(dataset), &options))
        .transpose()?;
    print(&scores, audited.as_ref());
    if !scores.missing.is_empty() {
        output::line(format!(
            "{} questions have no prediction and count nowhere",
            scores.missing.len()
        ));
    }
    if scores.left_out > 0 {
        output::line(format!(
            "{} predictions lie outside these categories and count nowhere",
            scores.left_out
        ));
    }
    let Some(path) = &args.json else { return Ok(()) };
    let mut all = serde_json::to_value(&scores)?;
    if let (Some(audit), Some(audited)) = (&audit, &audited) {
        let asked = dataset
            .questions()
            .iter()
            .filter(|question| scores.questions.iter().any(|scored| scored.id == question.id));
        all["ceiling"] = json!(audit.ceiling(asked));
        all["audited"] = json!({ "overall": audited.overall, "by_category": audited.by_category });
    }
    write_json(path, &all)
}

fn histories(args: &ScoreArgs, gold: &Gold, records: &[evaluation::Record]) -> Result<()> {
    if args.audit.is_some() {
        bail!("--audit is for LoCoMo's labels, not for LongMemEval's");
    }
    let items = gold.measure(records, None)?;
    let unanswered = gold.asked().len() - items.len();
    if args.complete && unanswered > 0 {
        bail!("{unanswered} questions have no prediction; complete the file or leave --complete out");
    }
    let table = Table::of(&items, &gold.order(), Resampling::default());
    output::table(&publish::rows(&table));
    if unanswered > 0 {
        output::line(format!(
            "{unanswered} questions have no prediction and count nowhere"
        ));
    }
    match &args.json {
        Some(path) => write_json(path, &json!({ "table": table, "questions": items })),
        None => Ok(()),
    }
}

/// Means in percent with their 95 % intervals, by category and overall; on audited labels beside raw ones.
fn print(scores: &Scores, audited: Option<&Scores>) {
    let percent = |value: f64| format!("{:.1}", 100.0 * value);
    let interval = |[low, high]: [f64; 2]| format!("{}–{}", percent(low), percent(high));
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), percent);
    let mut head = ["category", "n", "f1_locomo", "95 %", "f1_set", "bleu1"]
        .map(str::to_owned)
        .to_vec();
    if audited.is_some() {
        head.push("f1_locomo audited".into());
    }
    let row = |name: &str, summary: &evaluation::Summary, corrected: Option<&evaluation::Summary>| {
        let mut row = vec![
            name.to_owned(),
            summary.n.to_string(),
            percent(summary.f1_locomo),
            interval(summary.f1_locomo_interval),
            optional(summary.f1_set),
            optional(summary.bleu1),
        ];
        row.extend(corrected.map(|summary| percent(summary.f1_locomo)));
        row
    };
    let mut rows = vec![head];
    rows.extend(scores.by_category.iter().map(|(category, summary)| {
        row(
            category.name(),
            summary,
            audited.map(|scores| &scores.by_category[category]),
        )
    }));
    rows.push(row("all", &scores.overall, audited.map(|scores| &scores.overall)));
    output::table(&rows);
}
