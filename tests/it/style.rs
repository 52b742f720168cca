//! Rules of CONTRIBUTING.md that a machine can check and no lint does.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn tracked(pattern: &str) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--", pattern])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .expect("names are UTF-8")
        .lines()
        .map(|line| root().join(line))
        .collect()
}

/// Lines that are neither blank nor comments, up to the inline test module.
fn code_lines(source: &str) -> usize {
    source
        .split("\n#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[test]
fn files_stay_short() {
    let files = tracked("*.rs");
    assert!(files.len() > 30, "git lists the sources");
    let long: Vec<_> = files
        .iter()
        .filter_map(|file| Some((file, code_lines(&std::fs::read_to_string(file).ok()?))))
        .filter(|(_, lines)| *lines > 600)
        .collect();
    assert!(long.is_empty(), "over 600 code lines: {long:?}");
}

#[test]
fn code_lines_leave_out_comments_and_tests() {
    assert_eq!(
        code_lines(
            "//! Doc.\n\nfn a() {}\n// why\nfn b() {}\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n"
        ),
        2
    );
}

#[test]
fn lints_are_expected_with_a_reason_never_allowed() {
    for file in tracked("*.rs") {
        let Ok(source) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in source.lines().enumerate() {
            let bad = ["#[allow(", "#![allow("]
                .iter()
                .any(|attribute| line.trim_start().starts_with(attribute));
            assert!(
                !bad,
                "{}:{}: use #[expect(lint, reason = \"…\")]",
                file.display(),
                number + 1
            );
        }
    }
}
