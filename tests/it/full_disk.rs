//! No space left: one clear line, a memory that is whole, and a next run that goes on when there is space.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::fixture;

/// About 2 MB in a memory.
fn conversation() -> String {
    let mut lines = vec![r#"{"mneme": 1, "conversation": "long"}"#.to_owned()];
    for turn in 0..4_000 {
        if turn % 40 == 0 {
            lines.push(format!(r#"{{"session": "s{turn}"}}"#));
        }
        lines.push(format!(
            r#"{{"turn": "{turn}", "speaker": "Ann", "text": "On walk {turn} we counted {} herons by river{}."}}"#,
            turn * 31 % 997,
            turn % 211
        ));
    }
    lines.join("\n")
}

/// `sh -c SCRIPT` in which "$@" is the ingest.
fn ingest(script: &str, file: &Path, memory: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(env!("CARGO_BIN_EXE_mneme"));
    command
        .arg("ingest")
        .arg(file)
        .args(["--quiet", "--embedder", "none", "--memory"])
        .arg(memory);
    command
}

fn turns(memory: &Path) -> u64 {
    let mut check = fixture::mneme();
    check.args(["memory", "check", "--json", "--memory"]).arg(memory);
    let report = fixture::json_lines(&mut check).remove(0);
    assert_eq!(report["whole"], true, "{report}");
    report["turns"].as_u64().expect("a count")
}

#[test]
fn a_file_that_may_not_grow_is_left_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, memory) = (folder.path().join("long.jsonl"), folder.path().join("memory"));
    fs::write(&file, conversation()).expect("a file");
    // Blocks of 512 bytes; the signal would end the process before the error is seen.
    let line = fixture::refused(&mut ingest(
        "trap '' XFSZ; ulimit -f 2000; exec \"$@\"",
        &file,
        &memory,
    ));
    assert!(
        line.contains("no space is left for the memory") && line.contains("run again"),
        "{line}"
    );
    let before = turns(&memory);
    assert!(
        before > 0 && before < 4_000,
        "{before} turns were committed before"
    );
    fixture::ok(&mut ingest("exec \"$@\"", &file, &memory));
    assert_eq!(turns(&memory), 4_000);
}

#[test]
fn a_full_disk_leaves_a_whole_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, memory) = (folder.path().join("long.jsonl"), folder.path().join("memory"));
    fs::write(&file, conversation()).expect("a file");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    // A small disk of its own, which is gone with the shell: all that is asked of it happens in there.
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs '{disk}' || exit 99; \"$@\"; code=$?; cp '{disk}'/m/data.mdb '{saved}'; exit $code",
        disk = disk.display(),
        saved = folder.path().join("saved.mdb").display(),
    );
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    inside.arg(env!("CARGO_BIN_EXE_mneme")).arg("ingest").arg(&file);
    inside
        .args(["--quiet", "--embedder", "none", "--memory"])
        .arg(disk.join("m"));
    let output = match inside.output() {
        Ok(output) if output.status.code() != Some(99) && !refuses_namespaces(&output.stderr) => output,
        _ => {
            println!("no disk can be mounted here: the test above, of a file that may not grow, has to do");
            return;
        }
    };
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(
        line.contains("no space is left for the memory") && line.contains("No space left on device"),
        "{line}"
    );
    fs::create_dir(&memory).expect("a folder");
    fs::copy(folder.path().join("saved.mdb"), memory.join("data.mdb")).expect("a copy");
    let before = turns(&memory);
    assert!(
        before > 0 && before < 4_000,
        "{before} turns were committed before"
    );
    fixture::ok(&mut ingest("exec \"$@\"", &file, &memory));
    assert_eq!(turns(&memory), 4_000);
}

fn refuses_namespaces(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr).starts_with("unshare:")
}
