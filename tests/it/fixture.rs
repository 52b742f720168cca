//! What the integration tests share: the binary, the models, the sample, JSON from stdout.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The default language model.
pub(crate) const MODEL: &str = "qwen2.5-coder-0.5b";
/// The default embedder.
pub(crate) const EMBEDDER: &str = "all-minilm-l6-v2";
/// The sample conversation.
pub(crate) const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/sample/two-friends.jsonl");

/// Its questions.
pub(crate) const QUESTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/sample/questions.json");

/// The binary under test.
pub(crate) fn mneme() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mneme"))
}

/// Pulls the default models once, by the product's own code, into the user's cache.
pub(crate) fn models() {
    static PULLED: OnceLock<()> = OnceLock::new();
    PULLED.get_or_init(|| {
        for name in [EMBEDDER, MODEL] {
            let output = mneme()
                .args(["models", "pull", name])
                .output()
                .expect("mneme starts");
            assert!(
                output.status.success(),
                "this test needs the model {name}, and `mneme models pull {name}` failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    });
}

/// Runs to the end and expects success.
pub(crate) fn ok(command: &mut Command) -> Output {
    let output = command.output().expect("mneme starts");
    assert!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs to the end, expects success and one JSON value per line of stdout.
pub(crate) fn json_lines(command: &mut Command) -> Vec<serde_json::Value> {
    let output = ok(command);
    let text = String::from_utf8(output.stdout).expect("stdout is UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// Runs to the end and expects a failure with one line on stderr; returns that line.
pub(crate) fn refused(command: &mut Command) -> String {
    let output = command.output().expect("mneme starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{command:?} should fail with 1: {stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "one clear line, not: {stderr}");
    assert!(output.stdout.is_empty(), "nothing on stdout");
    stderr
}

/// Ingests the sample into a fresh memory.
pub(crate) fn ingest_sample(memory: &Path) {
    models();
    ok(mneme()
        .args(["ingest", SAMPLE, "--quiet", "--memory"])
        .arg(memory));
}
