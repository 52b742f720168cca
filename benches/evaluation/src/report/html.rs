//! The report for browsers: one file, no script, nothing fetched.

use std::fmt::Write as _;

use super::grid::escape;
use super::{Report, Variant, plot, tables};
use crate::item::Metric;

/// The report as one self-contained page. It quotes questions and answers and should stay on the machine when the data
/// set's licence asks for it.
///
/// # Panics
/// When the report has no run.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut body = String::new();
    head(&mut body, report);
    quality(&mut body, report);
    runs(&mut body, report);
    let _ = write!(
        body,
        "<section><h2>Cost</h2>{}</section>",
        tables::cost(&report.variants).html()
    );
    worst(&mut body, report.main());
    let settings = serde_json::to_string_pretty(&report.settings).unwrap_or_default();
    let _ = write!(
        body,
        "<section><h2>Environment</h2>{}<details><summary>Settings</summary><pre>{}</pre></details></section>",
        tables::environment(report).html(),
        escape(&settings)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\
         <style>\n{}</style></head>\n<body><main>\n{body}\n</main></body></html>\n",
        escape(&report.title),
        include_str!("style.css")
    )
}

fn head(body: &mut String, report: &Report) {
    let main = report.main();
    let _ = write!(
        body,
        "<header><h1>{}</h1><pre class=\"command\">{}</pre></header>\n<div class=\"tiles\">",
        escape(&report.title),
        escape(&report.command)
    );
    let leading = main.leading();
    if let Some(cell) = main.table.overall.cells.get(&leading) {
        let range = format!("{} to {}", tables::percent(cell.low), tables::percent(cell.high));
        tile(body, leading.name(), &tables::percent(cell.mean), &range);
    }
    if let Some(recall) = main.recall() {
        tile(
            body,
            "evidence recall",
            &tables::percent(recall),
            "of what was shown",
        );
    }
    tile(body, "questions", &main.table.overall.n.to_string(), "answered");
    if let Some(seconds) = main.cost.seconds_per_question {
        let rounds = format!("{:.2} iterations", main.cost.iterations);
        tile(body, "seconds a question", &format!("{seconds:.2}"), &rounds);
    }
    if main.cost.priced > 0 {
        let computed = main
            .cost
            .computed_tokens
            .map_or(String::new(), |n| format!("{n:.0} computed"));
        tile(
            body,
            "prompt tokens a question",
            &format!("{:.0}", main.cost.prompt_tokens),
            &computed,
        );
    }
    body.push_str("</div>\n");
}

fn tile(body: &mut String, name: &str, value: &str, beside: &str) {
    let _ = write!(
        body,
        "<div class=\"tile\"><span>{}</span><b>{}</b><small>{}</small></div>",
        escape(name),
        escape(value),
        escape(beside)
    );
}

fn quality(body: &mut String, report: &Report) {
    let main = report.main();
    let _ = write!(
        body,
        "<section><h2>Quality</h2><p class=\"note\">Percent; brackets and whiskers are 95 % bootstrap intervals.</p>\n{}{}",
        plot::bars(main),
        tables::quality(main).html()
    );
    for line in report.lines() {
        let _ = write!(body, "<p>{}</p>", escape(&line));
    }
    if let Some(grid) = tables::judges(report) {
        let _ = write!(body, "<h3>Judges</h3>{}", grid.html());
    }
    body.push_str("</section>\n");
}

fn runs(body: &mut String, report: &Report) {
    let Some(grid) = tables::variants(report) else {
        return;
    };
    let _ = write!(
        body,
        "<section><h2>Runs</h2><p class=\"note\">Differences to the first run, in points, on the same questions.</p>{}",
        grid.html()
    );
    body.push_str("<div class=\"plots\">");
    for axis in &report.axes {
        body.push_str(&plot::sweep(report, axis));
    }
    body.push_str(&plot::cost_against_quality(report));
    body.push_str("</div></section>\n");
}

fn worst(body: &mut String, variant: &Variant) {
    let leading = variant.leading();
    let _ = write!(
        body,
        "<section><h2>Ten worst questions</h2><p class=\"note\">Lowest {}; less evidence found first.</p>",
        leading.name()
    );
    for item in variant.worst() {
        let value = item
            .values
            .get(&leading)
            .map_or("-".into(), |value| tables::percent(*value));
        let recall = [Metric::RecallRepaired, Metric::RecallTurns];
        let recall = recall.iter().find_map(|metric| item.values.get(metric));
        let recall = recall.map_or("no evidence given".into(), |r| {
            format!("recall {}", tables::percent(*r))
        });
        let gold = if item.gold.is_empty() {
            "none: the conversation does not say"
        } else {
            &item.gold
        };
        let _ = writeln!(
            body,
            "<article><h4>{} <small>{} · {value} · {recall} · <a href=\"{}\">trace</a></small></h4><dl><dt>question</dt>\
             <dd>{}</dd><dt>gold</dt><dd>{}</dd><dt>answer</dt><dd>{}</dd></dl></article>",
            escape(&item.id),
            escape(&item.group),
            escape(&variant.trace(&item.id)),
            escape(&item.question),
            escape(gold),
            escape(&item.prediction)
        );
    }
    body.push_str("</section>\n");
}
