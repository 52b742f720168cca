//! Plots as inline SVG, coloured by the page's style sheet.

use std::fmt::Write as _;

use super::grid::escape;
use super::tables::percent;
use super::{Axis, Report, Variant};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
/// Left, top, right, bottom.
const MARGIN: [f64; 4] = [48.0, 50.0, 18.0, 44.0];

/// A horizontal bar for each group with its interval.
pub(super) fn bars(variant: &Variant) -> String {
    let leading = variant.leading();
    let rows: Vec<_> = variant
        .table
        .groups
        .iter()
        .chain([&variant.table.overall])
        .filter_map(|row| Some((row, row.cells.get(&leading)?)))
        .collect();
    let (left, bar, width) = (190.0, 24.0, 1010.0);
    let height = 30.0 + bar * rows.len() as f64 + 22.0;
    let x = |value: f64| left + value.clamp(0.0, 1.0) * (width - left - 120.0);
    let mut svg = open(width, height, &format!("{} by group", leading.name()), 0.0);
    for tick in 0..=5 {
        let value = f64::from(tick) / 5.0;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"26\" y2=\"{1:.1}\"/><text x=\"{0:.1}\" y=\"{2:.1}\" \
             text-anchor=\"middle\">{3}</text>",
            x(value),
            height - 20.0,
            height - 5.0,
            tick * 20
        );
    }
    for (place, (row, cell)) in rows.iter().enumerate() {
        let y = 30.0 + bar * place as f64;
        let middle = y + bar / 2.0;
        let class = if row.name == "all" { "two" } else { "one" };
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} <tspan opacity=\".6\">({})</tspan></text>\
             <rect class=\"{class}\" x=\"{left}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" opacity=\".8\"/>\
             <line class=\"whisker\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 8.0,
            middle + 4.0,
            escape(&row.name),
            cell.n,
            y + 4.0,
            (x(cell.mean) - left).max(1.0),
            bar - 8.0,
            x(cell.low),
            x(cell.high),
            x(cell.high.max(cell.mean)) + 8.0,
            middle + 4.0,
            percent(cell.mean)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Quality with its interval, and recall, over the values of a setting.
pub(super) fn sweep(report: &Report, axis: &Axis) -> String {
    let leading = report.main().leading();
    let xs: Vec<f64> = axis.points.iter().map(|point| point.0).collect();
    let frame = Frame::new(&xs, [0.0, 1.0]);
    let mut svg = open(
        WIDTH,
        HEIGHT,
        &format!("{} and recall over {}", leading.name(), axis.name),
        MARGIN[0],
    );
    frame.grid(&mut svg, &axis.name);
    for x in &xs {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
            frame.x(*x),
            HEIGHT - MARGIN[3] + 16.0
        );
    }
    let run = |index: usize| &report.variants[index];
    let quality: Vec<(f64, f64)> = axis
        .points
        .iter()
        .filter_map(|(x, i)| Some((*x, run(*i).mean(leading)?)))
        .collect();
    let recall: Vec<(f64, f64)> = axis
        .points
        .iter()
        .filter_map(|(x, i)| Some((*x, run(*i).recall()?)))
        .collect();
    for (x, index) in &axis.points {
        if let Some(cell) = run(*index).table.overall.cells.get(&leading) {
            let _ = write!(
                svg,
                "<line class=\"whisker\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>",
                frame.x(*x),
                frame.y(cell.low),
                frame.y(cell.high)
            );
        }
    }
    frame.line(&mut svg, &recall, 2);
    frame.line(&mut svg, &quality, 1);
    legend(
        &mut svg,
        &[(1, leading.name().into()), (2, "evidence recall".into())],
    );
    svg.push_str("</svg>\n");
    svg
}

/// Every run as a point: tokens against quality.
pub(super) fn cost_against_quality(report: &Report) -> String {
    let leading = report.main().leading();
    let points: Vec<(&Variant, f64, f64)> = report
        .variants
        .iter()
        .filter_map(|variant| {
            let tokens = variant.cost.prompt_tokens + variant.cost.generated_tokens;
            Some((variant, tokens, variant.mean(leading)?)).filter(|_| tokens > 0.0)
        })
        .collect();
    if points.len() < 2 {
        return String::new();
    }
    let xs: Vec<f64> = points.iter().map(|point| point.1).collect();
    let (low, high) = range(points.iter().map(|point| point.2));
    let ys = [outward(low - 0.02, f64::floor), outward(high + 0.02, f64::ceil)];
    let frame = Frame::new(&xs, ys);
    let title = format!("Cost against quality: {}", leading.name());
    let mut svg = open(WIDTH, HEIGHT, &title, MARGIN[0]);
    frame.grid(&mut svg, "tokens of prompts and replies per question");
    let (left, right) = range(xs.iter().copied());
    for value in [left, f64::midpoint(left, right), right] {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value:.0}</text>",
            frame.x(value),
            HEIGHT - MARGIN[3] + 16.0
        );
    }
    // A run that was not asked again stands where its twin does.
    let mut distinct: Vec<(&Variant, f64, f64)> = Vec::new();
    for point in points {
        if !distinct.iter().any(|(twin, ..)| twin.folder == point.0.folder) {
            distinct.push(point);
        }
    }
    let places = distinct
        .iter()
        .map(|(variant, tokens, quality)| (variant.name.as_str(), frame.x(*tokens), frame.y(*quality)));
    named_points(&mut svg, places);
    svg.push_str("</svg>\n");
    svg
}

/// Points with their names, which step down until they touch no earlier one.
fn named_points<'a>(svg: &mut String, points: impl Iterator<Item = (&'a str, f64, f64)>) {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (name, x, y) in points {
        let mut text_y = y - 8.0;
        while taken
            .iter()
            .any(|(tx, ty)| (tx - x).abs() < 110.0 && (ty - text_y).abs() < 13.0)
        {
            text_y += 13.0;
        }
        taken.push((x, text_y));
        let (anchor, text_x) = if x > WIDTH * 0.7 {
            ("end", x - 8.0)
        } else {
            ("start", x + 8.0)
        };
        let _ = write!(
            svg,
            "<circle class=\"one\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/><text class=\"label\" x=\"{text_x:.1}\" \
             y=\"{text_y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(name)
        );
    }
}

/// The area of a plot and its scales.
struct Frame {
    xs: (f64, f64),
    ys: [f64; 2],
}

impl Frame {
    fn new(xs: &[f64], ys: [f64; 2]) -> Self {
        Self {
            xs: range(xs.iter().copied()),
            ys,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let (low, high) = self.xs;
        let inset = 18.0;
        let width = WIDTH - MARGIN[0] - MARGIN[2] - 2.0 * inset;
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        };
        MARGIN[0] + inset + share * width
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.ys;
        let height = HEIGHT - MARGIN[1] - MARGIN[3];
        let share = if high > low {
            (value.clamp(low, high) - low) / (high - low)
        } else {
            0.5
        };
        HEIGHT - MARGIN[3] - share * height
    }

    fn grid(&self, svg: &mut String, x_title: &str) {
        let [low, high] = self.ys;
        for tick in 0..=4 {
            let value = low + (high - low) * f64::from(tick) / 4.0;
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>",
                MARGIN[0],
                WIDTH - MARGIN[2],
                self.y(value)
            );
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
                MARGIN[0] - 8.0,
                self.y(value) + 4.0,
                100.0 * value
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(MARGIN[0], WIDTH),
            HEIGHT - 8.0,
            escape(x_title)
        );
    }

    fn line(&self, svg: &mut String, points: &[(f64, f64)], series: u8) {
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y)))
            .collect();
        let _ = write!(
            svg,
            "<polyline class=\"line{series}\" points=\"{}\"/>",
            path.join(" ")
        );
        let class = if series == 1 { "one" } else { "two" };
        for (x, y) in points {
            let _ = write!(
                svg,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>",
                self.x(*x),
                self.y(*y),
                percent(*y)
            );
        }
    }
}

fn open(width: f64, height: f64, title: &str, title_x: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" role=\"img\" aria-label=\"{0}\">\
         <text class=\"title\" x=\"{title_x:.0}\" y=\"16\">{0}</text>",
        escape(title)
    )
}

fn legend(svg: &mut String, entries: &[(u8, String)]) {
    for (place, (series, name)) in entries.iter().enumerate() {
        let x = MARGIN[0] + 20.0 + 150.0 * place as f64;
        let _ = write!(
            svg,
            "<line class=\"line{series}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"34\" y2=\"34\"/><text x=\"{:.1}\" y=\"38\">{}</text>",
            x + 22.0,
            x + 28.0,
            escape(name)
        );
    }
}

/// The next step of four points on an axis from 0 to 1.
fn outward(value: f64, round: impl Fn(f64) -> f64) -> f64 {
    (round(value * 25.0) / 25.0).clamp(0.0, 1.0)
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}
