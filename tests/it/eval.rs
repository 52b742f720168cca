//! `mneme eval` on our own sample: recall, scores, a run that goes on.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

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
    let rag = |more: &[&str]| {
        let mut command = eval(&memory, &["--method", "rag", "--sample", "2"]);
        command.arg("--out").arg(&out).args(more);
        command
    };
    fixture::ok(&mut rag(&["--judge", "strict"]));
    let first = read(&out.join("report.json"));
    let run = &first["variants"][0];
    assert_eq!(
        (&run["cost"]["priced"], &run["table"]["overall"]["n"]),
        (&2.into(), &2.into())
    );
    assert!(run["cost"]["seconds_per_question"].as_f64().expect("a time") > 0.0);
    assert!(
        run["table"]["overall"]["cells"]["judge_strict"]["mean"].is_number(),
        "{run}"
    );
    assert!(
        first["agreements"][0]["n"].as_u64().expect("a count") >= 15,
        "{first}"
    );
    for name in ["report.html", "report.md"] {
        let text = fs::read_to_string(out.join(name)).expect("the report is there");
        assert!(text.contains("rag with qwen2.5-coder-0.5b"), "{name}: {text}");
    }

    let line = fixture::refused(&mut rag(&[]));
    assert!(
        line.contains("holds a run already") && line.contains("--resume"),
        "{line}"
    );
    let line = fixture::refused(&mut rag(&["--resume", "--set", "K=3"]));
    assert!(line.contains("method.rag.top_k = 10, now it is 3"), "{line}");
    fixture::ok(&mut rag(&["--resume", "--judge", "strict"]));
    let again = read(&out.join("report.json"));
    assert_eq!(again["variants"][0]["table"], run["table"]);
    let sessions = fs::read_to_string(out.join("sessions.jsonl")).expect("the sessions are there");
    assert_eq!(sessions.lines().count(), 1, "nothing was asked again");

    let scored = folder.path().join("again.json");
    let mut score = fixture::mneme();
    score.args(["eval", "score"]).arg(out.join("predictions.jsonl"));
    score.args(["--data", fixture::QUESTIONS, "--json"]).arg(&scored);
    fixture::ok(&mut score);
    let overall = &read(&scored)["overall"];
    assert_eq!(
        overall["f1_locomo"],
        run["table"]["overall"]["cells"]["f1_locomo"]["mean"]
    );
    let keys = ["id", "f1_locomo", "f1_set", "bleu1"];
    assert!(
        keys.iter()
            .all(|key| read(&scored)["questions"][0].get(key).is_some())
    );
}

#[test]
fn a_killed_run_ends_as_one_that_was_left_alone() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = folder.path().join("memory");
    let run = |out: &str| {
        let mut command = eval(
            &memory,
            &["--method", "rag", "--sample", "6", "--concurrency", "1"],
        );
        command.arg("--out").arg(folder.path().join(out));
        command
    };
    fixture::ok(&mut run("whole"));
    let mut killed = run("killed").spawn().expect("mneme starts");
    let lines = folder.path().join("killed/predictions.jsonl");
    let answered = || fs::read_to_string(&lines).map_or(0, |text| text.lines().count());
    let started = Instant::now();
    while answered() == 0 && started.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let kept = answered();
    assert!((1..6).contains(&kept), "{kept} of 6 answers when it was killed");
    fixture::ok(run("killed").arg("--resume"));
    let answers = |out: &str| {
        let text = fs::read_to_string(folder.path().join(out).join("predictions.jsonl")).expect("answers");
        let pair = |line: &str| {
            let answer: Value = serde_json::from_str(line).expect("a line of JSON");
            (answer["id"].to_string(), answer["prediction"].to_string())
        };
        text.lines().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(
        answers("killed"),
        answers("whole"),
        "greedy answers do not depend on the kill"
    );
}

#[test]
fn a_sweep_runs_every_value_once_and_runs_can_be_compared() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (memory, out) = (folder.path().join("memory"), folder.path().join("run"));
    let sweep = [
        "--method",
        "rag",
        "--sample",
        "2",
        "--stratify",
        "--sweep",
        "K=2,10",
    ];
    fixture::ok(eval(&memory, &sweep).arg("--out").arg(&out));
    let report = read(&out.join("report.json"));
    let names: Vec<&str> = report["variants"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|run| run["name"].as_str())
        .collect();
    assert_eq!(names, ["rag", "K=2", "K=10"]);
    assert_eq!(
        report["axes"][0]["points"],
        serde_json::json!([[2.0, 1], [10.0, 2]])
    );
    assert!(!out.join("runs/K=10").exists(), "the run itself has K=10 already");

    let compare = |first: &Path, second: &Path| {
        let mut command = fixture::mneme();
        command
            .args(["eval", "compare"])
            .arg(first)
            .arg(second)
            .args(["--data", fixture::QUESTIONS]);
        command
    };
    let output = fixture::ok(&mut compare(&out, &out.join("runs/K=2")));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("2 questions in both") && text.contains("questions flipped by f1_locomo"),
        "{text}"
    );
    let line = fixture::refused(&mut compare(&out, &memory));
    assert!(line.contains("is no run"), "{line}");
}

#[test]
fn what_cannot_be_run_or_scored_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = folder.path().join("memory");
    for method in ["rime", "direct"] {
        let line = fixture::refused(&mut eval(&memory, &["--method", method]));
        assert!(
            line.contains("formed memories") && line.contains("use memcot, rag or full-context"),
            "{line}"
        );
    }
    let line = fixture::refused(&mut eval(&memory, &["--method", "rag", "--set", "depth=3"]));
    assert!(line.contains("no setting depth; it has top_k"), "{line}");
    let line = fixture::refused(&mut eval(&memory, &["--method", "rag", "--categories", "6"]));
    assert!(line.contains("--categories has 6"), "{line}");

    let file = folder.path().join("predictions.jsonl");
    let refused = |text: &str| {
        fs::write(&file, text).expect("a file");
        let mut score = fixture::mneme();
        score
            .args(["eval", "score", "--complete"])
            .arg(&file)
            .args(["--data", fixture::QUESTIONS]);
        fixture::refused(&mut score)
    };
    let line = "{\"id\": \"q1\", \"prediction\": \"x\"}\n";
    assert!(refused(&line.replace("\"x\"", "2022")).contains("must be text, received 2022"));
    assert!(refused(&line.replace("q1", "q999")).contains("no question of the data set"));
    assert!(refused(&line.repeat(2)).contains("occurs twice"));
    assert!(refused(line).contains("83 of 84 questions have no prediction"));
    assert!(refused("").contains("84 of 84 questions have no prediction"));
}

/// LongMemEval's shape; the texts are ours. The second question cannot be answered.
const HISTORIES: &str = r#"[
  {"question_id": "kite", "question_type": "single-session-user", "question": "What colour is my kite?", "answer": "red",
   "question_date": "2023/05/30 (Tue) 23:40", "answer_session_ids": ["answer_k"],
   "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"], "haystack_session_ids": ["other", "answer_k"],
   "haystack_sessions": [
     [{"role": "user", "content": "How do I boil an egg?"}, {"role": "assistant", "content": "Seven minutes in boiling water."}],
     [{"role": "user", "content": "My kite is red and flies well.", "has_answer": true},
      {"role": "assistant", "content": "Lovely!", "has_answer": false}]]},
  {"question_id": "boat_abs", "question_type": "single-session-user", "question": "What colour is my boat?",
   "answer": "The user never spoke of a boat.", "question_date": "2023/05/30 (Tue) 23:40", "answer_session_ids": ["answer_k"],
   "haystack_dates": ["2023/05/21 (Sun) 10:00"], "haystack_session_ids": ["answer_k"],
   "haystack_sessions": [[{"role": "user", "content": "My kite is red and flies well.", "has_answer": true}]]}]"#;

#[test]
fn longmemeval_is_found_answered_and_reported() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, memory, out) = (
        folder.path().join("lme.json"),
        folder.path().join("memory"),
        folder.path().join("run"),
    );
    fs::write(&data, HISTORIES).expect("a file");
    let run = |arguments: &[&str]| {
        let mut command = fixture::mneme();
        command
            .args(["eval", "longmemeval", "--quiet", "--data"])
            .arg(&data)
            .arg("--memory")
            .arg(&memory);
        command.args(arguments);
        command
    };
    let json = folder.path().join("recall.json");
    fixture::ok(run(&["--method", "retrieval", "--json"]).arg(&json));
    let recall = read(&json);
    assert_eq!((&recall["n"], &recall["left_out"]), (&1.into(), &1.into()));
    assert_eq!(recall["recall"]["5"], 1.0, "{recall}");
    assert_eq!(recall["official_turns"]["recall_any"]["5"], 1.0, "{recall}");

    fixture::ok(run(&["--method", "rag", "--out"]).arg(&out));
    let report = read(&out.join("report.json"));
    let overall = &report["variants"][0]["table"]["overall"];
    assert_eq!(overall["n"], 2);
    assert_eq!(overall["cells"]["recall_turns"]["mean"], 1.0, "{overall}");
    let trace = fs::read_to_string(out.join("traces/kite.json")).expect("a trace");
    assert!(
        trace.contains("30 May 2023") && !trace.contains("answer_k"),
        "dated, and no id gives the evidence away"
    );
    let line = fixture::refused(&mut run(&["--method", "rag", "--types", "easy"]));
    assert!(
        line.contains("--types has easy, expected single-session-user"),
        "{line}"
    );
}
