//! `mneme eval` on our own sample: recall, scores, a run that goes on.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fixture;

fn eval(memory: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = fixture::mneme();
    command.args([
        "eval",
        "locomo",
        "--quiet",
        "--data",
        fixture::SAMPLE,
        "--questions",
        fixture::QUESTIONS,
    ]);
    command.args(arguments).arg("--memory").arg(memory);
    command
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("the file is there")).expect("it is JSON")
}

#[test]
fn retrieval_is_measured_with_and_without_the_priors() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (memory, json) = (folder.path().join("memory"), folder.path().join("recall.json"));
    for ranking in ["default", "no-priors", "rrf"] {
        let mut command = eval(&memory, &["--method", "retrieval", "--ranking", ranking]);
        fixture::ok(command.arg("--json").arg(&json));
        let report = read(&json);
        assert_eq!(report["n"], 73, "84 questions less 11 unanswerable ones");
        let recall = |key: &str| report["recall"][key].as_f64().expect("a share");
        assert!(
            0.0 < recall("5") && recall("5") <= recall("10") && recall("50") <= 1.0,
            "{report}"
        );
        assert!(report["recall_at_tokens"]["1000"].as_f64().expect("a share") > 0.0);
        assert!(report["by_category"]["temporal"]["n"].as_u64().expect("a count") > 0);
    }
}

#[test]
fn a_run_goes_on_and_its_predictions_score_the_same() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (memory, out) = (folder.path().join("memory"), folder.path().join("run"));
    let json = folder.path().join("scores.json");
    let run = |sample: &str| {
        let mut command = eval(&memory, &["--method", "rag", "--sample", sample]);
        command.arg("--out").arg(&out).arg("--json").arg(&json);
        fixture::ok(&mut command);
        read(&json)
    };
    let first = run("2");
    assert_eq!(
        (&first["price"]["questions"], &first["scores"]["overall"]["n"]),
        (&2.into(), &2.into())
    );
    let again = run("2");
    assert_eq!(again["price"]["questions"], 0, "both were answered already");
    assert_eq!(again["scores"], first["scores"]);

    let scored = folder.path().join("again.json");
    let mut score = fixture::mneme();
    score.args(["eval", "score"]).arg(out.join("predictions.jsonl"));
    score.args(["--data", fixture::QUESTIONS, "--json"]).arg(&scored);
    fixture::ok(&mut score);
    assert_eq!(read(&scored)["overall"], first["scores"]["overall"]);

    let mut other = eval(&memory, &["--method", "memcot", "--sample", "2"]);
    let line = fixture::refused(other.arg("--out").arg(&out));
    assert!(line.contains("run.json") && line.contains("--out"), "{line}");
}
