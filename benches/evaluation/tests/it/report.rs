//! Reports: what they hold, and that the one for repositories holds no text of the data set.

use std::collections::BTreeMap;

use evaluation::{Item, Measured, Metric, Price, Record, Report, Resampling, Session, html, markdown};

fn item(number: usize, group: &str, f1: f64) -> Item {
    Item {
        id: format!("conv-1#{number}"),
        group: group.into(),
        unanswerable: false,
        declined: number == 0,
        values: BTreeMap::from([(Metric::F1Locomo, f1), (Metric::RecallRepaired, 1.0 - f1 / 2.0)]),
        question: "SECRET question <b>".into(),
        gold: "SECRET gold".into(),
        prediction: "SECRET answer".into(),
    }
}

fn run(name: &str, folder: &str, shift: f64, axis: Option<(&str, f64)>) -> Measured {
    let items: Vec<Item> = (0..12)
        .map(|n| {
            item(
                n,
                if n % 3 == 0 { "temporal" } else { "multi-hop" },
                (n as f64 / 12.0 + shift).min(1.0),
            )
        })
        .collect();
    let record = |item: &Item| Record {
        id: item.id.clone(),
        price: Some(Price {
            iterations: 2,
            prompt_tokens: 1_000,
            cached_tokens: Some(600),
            computed_tokens: Some(400 + (1_000.0 * shift) as usize),
            generated_tokens: 50,
            seconds: 3.0,
        }),
        ..Record::default()
    };
    Measured {
        name: name.into(),
        folder: folder.into(),
        axis: axis.map(|(name, place)| (name.to_owned(), place)),
        records: items.iter().map(record).collect(),
        sessions: vec![Session {
            answered: 12,
            seconds: 24.0,
            ..Session::default()
        }],
        items,
    }
}

fn report() -> Report {
    let runs = vec![
        run("memcot", "", 0.0, None),
        run("W=9", "runs/W=9", 0.2, Some(("W", 9.0))),
        run("W=1", "runs/W=1", -0.1, Some(("W", 1.0))),
    ];
    let mut report = Report::of(runs, &["multi-hop", "temporal"], Resampling::default())
        .expect("every run has the same questions");
    report.title = "LoCoMo: memcot with m".into();
    report.command = "mneme eval locomo --sweep W=1,9".into();
    report.environment = vec![("model sha256".into(), "ab12".into())];
    report
}

#[test]
fn the_page_stands_alone_and_shows_every_part() {
    let page = html(&report());
    for part in [
        "<!doctype html>",
        "LoCoMo: memcot with m",
        "mneme eval locomo --sweep W=1,9",
        "ab12",
        "f1_locomo and recall over W",
        "Cost against quality",
        "Ten worst questions",
        "href=\"traces/conv-1_0.json\"",
        "SECRET question &lt;b&gt;",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    for outside in ["<script", "src=", "@import", "url(", "http:", "https:"] {
        assert!(!page.contains(outside), "{outside} would fetch something");
    }
    assert_eq!(page.matches("<article>").count(), 10);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(
        !page.contains("NaN") && !page.contains("inf"),
        "every coordinate is a number"
    );
}

#[test]
fn the_table_for_repositories_holds_ids_alone() {
    let text = markdown(&report());
    assert!(!text.contains("SECRET"), "{text}");
    for part in [
        "conv-1#0",
        "| W=9 |",
        "traces/conv-1_0.json",
        "| model sha256 | ab12 |",
        "2.00",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn sweeps_are_in_order_and_compared_with_the_first_run() {
    let report = report();
    assert_eq!(report.axes[0].points, [(1.0, 2), (9.0, 1)]);
    assert!(report.variants[0].versus.is_none());
    let better = report.variants[1]
        .versus
        .as_ref()
        .unwrap()
        .overall(Metric::F1Locomo)
        .unwrap();
    assert!(
        better.difference > 0.1 && better.p_permutation < 0.05,
        "{better:?}"
    );
    assert_eq!(report.variants[0].cost.tokens_per_second, Some(225.0));
}
