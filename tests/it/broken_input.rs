//! Bad input: one clear line, exit code 1, nothing written.

use std::fs;
use std::path::Path;

use crate::fixture;

fn refuse_ingest(name: &str, content: &[u8], extra: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(name);
    fs::write(&file, content).expect("the file is written");
    let memory = folder.path().join("memory");
    let mut command = fixture::mneme();
    command
        .arg("ingest")
        .arg(&file)
        .args(extra)
        .arg("--memory")
        .arg(&memory);
    let line = fixture::refused(&mut command);
    assert!(!memory.exists(), "nothing is written for a bad file");
    line
}

#[test]
fn an_empty_file() {
    let line = refuse_ingest("chat.json", b"", &[]);
    assert!(line.contains("chat.json") && line.contains("no turn"), "{line}");
}

#[test]
fn broken_json() {
    let line = refuse_ingest(
        "chat.json",
        br#"[{"sample_id": "x", "conversation": {"speaker_a": "#,
        &[],
    );
    assert!(line.contains("chat.json") && line.contains("line 1"), "{line}");
}

#[test]
fn json_that_is_no_conversation() {
    let line = refuse_ingest("chat.json", br#"{"hello": "world"}"#, &[]);
    assert!(line.contains("chat.json"), "{line}");
}

#[test]
fn a_binary_file() {
    let line = refuse_ingest("photo.jpg", &[0xff, 0xd8, 0xff, 0xe0, 0, 1, 2, 3], &[]);
    assert!(line.contains("photo.jpg"), "{line}");
}

#[test]
fn an_unknown_sample() {
    let sample = fs::read(fixture::SAMPLE).expect("the sample is there");
    let line = refuse_ingest("chat.jsonl", &sample, &["--sample", "conv-99"]);
    assert!(line.contains("conv-99") && line.contains("two-friends"), "{line}");
}

#[test]
fn a_missing_file() {
    let line = fixture::refused(fixture::mneme().args([
        "ingest",
        "/nonexistent/chat.json",
        "--memory",
        "/nonexistent/m",
    ]));
    assert!(line.contains("/nonexistent/chat.json"), "{line}");
}

#[test]
fn a_folder_where_a_file_is_expected() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = fixture::mneme();
    command
        .arg("ingest")
        .arg(folder.path())
        .arg("--memory")
        .arg(folder.path().join("memory"));
    let line = fixture::refused(&mut command);
    assert!(line.contains("folder") || line.contains("directory"), "{line}");
}

#[test]
fn a_memory_that_is_not_there() {
    let line = fixture::refused(fixture::mneme().args(["search", "x", "--memory", "/nonexistent/memory"]));
    assert!(
        line.contains("/nonexistent/memory") && line.contains("ingest"),
        "{line}"
    );
    assert!(!Path::new("/nonexistent").exists());
}

#[test]
fn a_memory_where_nothing_can_be_written() {
    let line =
        fixture::refused(fixture::mneme().args(["ingest", fixture::SAMPLE, "--memory", "/proc/mneme"]));
    assert!(line.contains("/proc/mneme"), "{line}");
}

#[test]
fn a_truncated_model_file() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let models = fixture::json_lines(fixture::mneme().args(["models", "list", "--json"]));
    let entry = models[0]["models"]
        .as_array()
        .and_then(|list| list.iter().find(|m| m["name"] == fixture::MODEL))
        .expect("the default model is listed")
        .clone();
    let source =
        Path::new(entry["folder"].as_str().expect("folder")).join(entry["files"][0].as_str().expect("file"));
    let whole = fs::read(&source).expect("the model is readable");
    let cut = folder.path().join("cut.gguf");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("the file is written");
    for command in ["inspect", "generate"] {
        let mut mneme = fixture::mneme();
        match command {
            "inspect" => mneme.args(["models", "inspect"]).arg(&cut),
            _ => mneme.args(["generate", "hello", "--model"]).arg(&cut),
        };
        let line = fixture::refused(&mut mneme);
        assert!(line.contains("cut.gguf") && line.contains("truncated"), "{line}");
    }
    let foreign = folder.path().join("foreign.gguf");
    fs::write(&foreign, b"PK\x03\x04 not a model at all").expect("the file is written");
    let line = fixture::refused(fixture::mneme().args(["models", "inspect"]).arg(&foreign));
    assert!(line.contains("foreign.gguf") && line.contains("GGUF"), "{line}");
}
