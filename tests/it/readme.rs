//! The README tells the truth: its commands exist, and CI runs its test command.

use std::fs;

use crate::fixture;

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let command = "cargo test --release --workspace";
    assert!(
        read("README.md").lines().any(|line| line.trim() == command),
        "the README shows `{command}`"
    );
    assert!(
        read(".ci/run").lines().any(|line| line.trim() == command),
        ".ci/run runs `{command}`"
    );
}

#[test]
fn every_command_is_in_the_readme() {
    let help = String::from_utf8(fixture::ok(fixture::mneme().arg("--help")).stdout).expect("help is UTF-8");
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|l| !l.starts_with(' '))?
                .split_whitespace()
                .next()
        })
        .filter(|name| *name != "help")
        .collect();
    assert!(
        commands.contains(&"ask") && commands.contains(&"demo"),
        "{commands:?}"
    );
    let readme = read("README.md");
    for name in commands {
        assert!(
            readme.contains(&format!("mneme {name}")),
            "`mneme {name}` is missing in README.md"
        );
    }
}

/// Paths in backticks that begin with a folder of ours.
fn paths(text: &str) -> Vec<&str> {
    let folders = [
        "agents/",
        "retrieval/",
        "engine/",
        "kernels/",
        "weights/",
        "benches/",
        "src/",
        "tests/",
        "docs/",
        "data/",
    ];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| folders.iter().any(|folder| code.starts_with(folder)))
        .collect()
}

#[test]
fn every_path_in_the_documents_exists() {
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(document);
        for path in paths(&text) {
            let path = path.split(['{', '*', ' ']).next().unwrap_or_default();
            let full = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
            assert!(
                fs::exists(&full).unwrap_or(false),
                "{document} names {path}, which is not there"
            );
        }
    }
}

#[test]
fn paths_are_found_in_backticks() {
    assert_eq!(
        paths("see `src/main.rs`, `cargo x` and `agents/prompts/*.md`"),
        ["src/main.rs", "agents/prompts/*.md"]
    );
}
