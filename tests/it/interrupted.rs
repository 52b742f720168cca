//! Killed at any moment: the next run completes, and nothing is there twice.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::fixture;

/// Bytes of all files below a folder.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Kills without warning once `ready` says so; says whether the process was still at work.
fn kill_when(child: &mut Child, ready: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !ready() && child.try_wait().expect("the child can be asked").is_none() {
        assert!(
            start.elapsed() < Duration::from_secs(600),
            "the moment to kill never came"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let was_running = child.try_wait().expect("the child can be asked").is_none();
    child.kill().expect("the child can be killed");
    child.wait().expect("the child ends");
    was_running
}

/// 40 sessions of 50 turns, no two alike.
fn long_conversation() -> String {
    let mut lines = vec![r#"{"mneme": 1, "conversation": "long"}"#.to_owned()];
    for session in 1..=40 {
        lines.push(format!(
            r#"{{"session": "s{session}", "time": "2024-01-{:02}T10:00:00"}}"#,
            1 + session % 28
        ));
        for turn in 1..=50 {
            let speaker = if turn % 2 == 0 { "Ann" } else { "Ben" };
            lines.push(format!(
                r#"{{"turn": "s{session}:{turn}", "speaker": "{speaker}", "text": "On walk {turn} of week {session} we counted {} herons by the river."}}"#,
                session * turn
            ));
        }
    }
    lines.join("\n")
}

#[test]
fn a_killed_ingest_is_completed_by_the_next() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("long.jsonl");
    fs::write(&file, long_conversation()).expect("the file is written");
    let memory = folder.path().join("memory");
    let ingest = || {
        let mut command = fixture::mneme();
        command
            .arg("ingest")
            .arg(&file)
            .arg("--memory")
            .arg(&memory)
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        command
    };
    let mut killed = 0;
    for kilobytes in [1, 40, 400, 1_000, 2_500] {
        let mut child = ingest().spawn().expect("mneme starts");
        killed += usize::from(kill_when(&mut child, || bytes_below(&memory) >= kilobytes * 1024));
    }
    assert!(killed > 0, "at least one ingest was killed at work");
    fixture::ok(&mut ingest());
    let shown = fixture::json_lines(
        fixture::mneme()
            .args(["memory", "show", "--json", "--conversation", "long", "--memory"])
            .arg(&memory),
    );
    let mut ids: Vec<&str> = shown[0]["turns"]
        .as_array()
        .expect("turns")
        .iter()
        .map(|turn| turn["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids.len(), 2_000);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2_000, "every turn once");
    let found = fixture::json_lines(
        fixture::mneme()
            .args([
                "search",
                "1739 herons on walk 47 of week 37",
                "--json",
                "--memory",
            ])
            .arg(&memory),
    );
    assert_eq!(found[0]["hits"][0]["turn"]["id"], "s37:47");
}

#[test]
fn a_killed_pull_is_completed_by_the_next() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let pull = || {
        let mut command = fixture::mneme();
        command
            .args(["models", "pull", fixture::EMBEDDER])
            .env("MNEME_HOME", home.path());
        command.stderr(Stdio::null()).stdout(Stdio::null());
        command
    };
    let mut child = pull().spawn().expect("mneme starts");
    let was_running = kill_when(&mut child, || bytes_below(home.path()) > 2 * 1024 * 1024);
    assert!(was_running, "the pull was killed at work");
    let folder = home.path().join("models").join(fixture::EMBEDDER);
    let listed = fixture::json_lines(
        fixture::mneme()
            .args(["models", "list", "--json"])
            .env("MNEME_HOME", home.path()),
    );
    let state = listed[0]["models"]
        .as_array()
        .and_then(|m| m.iter().find(|m| m["name"] == fixture::EMBEDDER).cloned());
    assert_ne!(
        state.expect("listed")["state"],
        "here",
        "half a model is not a model"
    );

    let output = pull().stderr(Stdio::piped()).output().expect("mneme starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(folder.join("model.safetensors").exists());
    fixture::ok(
        fixture::mneme()
            .args(["models", "verify", fixture::EMBEDDER])
            .env("MNEME_HOME", home.path()),
    );
}
