//! From a conversation to an answer, on the real models.

use serde_json::Value;

use crate::fixture;

fn ask(memory: &std::path::Path, arguments: &[&str]) -> Vec<Value> {
    fixture::json_lines(
        fixture::mneme()
            .arg("ask")
            .args(arguments)
            .args(["--json", "--memory"])
            .arg(memory),
    )
}

#[test]
fn a_question_is_answered_with_its_evidence_and_the_next_reuses_tokens() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = folder.path().join("memory");
    fixture::ingest_sample(&memory);

    let trace = folder.path().join("trace.json");
    let trace = trace.to_str().expect("a UTF-8 path");
    let first = &ask(&memory, &["What is Tamsin's profession?", "--trace", trace])[0];
    assert!(
        first["answer"]
            .as_str()
            .expect("an answer")
            .contains("paper conservator"),
        "{first}"
    );
    assert_eq!(first["abstained"], false);
    let evidence: Vec<&Value> = first["evidence"]
        .as_array()
        .expect("evidence")
        .iter()
        .map(|e| &e["id"])
        .collect();
    assert!(evidence.iter().any(|id| *id == "s1:3"), "{first}");
    let usage = &first["usage"];
    let count = |usage: &Value, key: &str| usage[key].as_u64().unwrap_or_else(|| panic!("{key} in {usage}"));
    assert_eq!(
        count(usage, "prompt_tokens"),
        count(usage, "cached_tokens") + count(usage, "computed_tokens")
    );
    assert!(count(usage, "generated_tokens") > 0 && first["seconds"].as_f64().expect("seconds") > 0.0);

    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(trace).expect("the trace")).expect("JSON");
    assert_eq!(trace["version"], 1);
    assert!(trace["steps"].as_array().expect("steps").len() >= 3);

    // Another process, a related question: rules and card of the conversation come from the first run's cache.
    let second = &ask(
        &memory,
        &["How much did the cargo bike cost?", "--max-iterations", "1"],
    )[0];
    assert!(count(&second["usage"], "cached_tokens") > 0, "{second}");
}

#[test]
fn questions_asked_together_are_answered_as_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = folder.path().join("memory");
    fixture::ingest_sample(&memory);
    let questions = [
        "What is Tamsin's profession?",
        "How much did the cargo bike cost?",
    ];
    let options = ["--max-iterations", "1", "--no-prefix-cache"];
    let together = ask(&memory, &[&questions[..], &options[..]].concat());
    for (question, batched) in questions.iter().zip(&together) {
        let alone = &ask(&memory, &[&[*question][..], &options[..]].concat())[0];
        assert_eq!(batched["question"], *question);
        for key in ["answer", "abstained", "evidence", "iterations"] {
            assert_eq!(batched[key], alone[key], "{key} of {question}");
        }
    }
}

#[test]
fn the_demo_answers_from_the_sample() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = fixture::ok(
        fixture::mneme()
            .args(["demo", "--memory"])
            .arg(folder.path().join("memory")),
    );
    let text = String::from_utf8(output.stdout).expect("stdout is UTF-8");
    assert!(
        text.contains("paper conservator") && text.contains("[s1:3]"),
        "{text}"
    );
}
