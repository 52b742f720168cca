//! No socket is opened except by `models pull`: every other command runs under a kernel filter that kills the
//! process at its first `socket` call.
#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "installs a seccomp filter in the child between fork and exec"
)]

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use crate::fixture;

const SIGSYS: i32 = 31;

/// A filter program: load the call's number, kill on `socket`, allow the rest.
fn filter() -> [libc::sock_filter; 4] {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let number_offset = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number_offset),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: libc::SYS_socket as u32,
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ]
}

fn without_sockets(command: &mut Command) -> &mut Command {
    let install = || {
        let mut filter = filter();
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: `program` and the filter it points to live on this stack until both calls have returned; the kernel
        // copies them. Both calls are async-signal-safe, as a child between fork and exec requires.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
        };
        if failed {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: the closure only makes the two system calls above and touches no lock or heap of the parent.
    unsafe { command.pre_exec(install) }
}

fn assert_no_socket(mut command: Command) -> String {
    let output = without_sockets(&mut command)
        .output()
        .expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_ne!(
        output.status.signal(),
        Some(SIGSYS),
        "{command:?} opened a socket; stderr: {stderr}"
    );
    assert!(output.status.success(), "{command:?} failed: {stderr}");
    String::from_utf8(output.stdout).expect("stdout is UTF-8")
}

#[test]
fn the_filter_kills_whoever_opens_a_socket() {
    let mut python = Command::new("python3");
    python.args(["-c", "import socket; socket.socket()"]);
    let status = without_sockets(&mut python).status().expect("python3 starts");
    assert_eq!(status.signal(), Some(SIGSYS));
}

#[test]
fn no_command_but_pull_opens_a_socket() {
    fixture::models();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = folder.path().join("memory");
    let run = |arguments: &[&str]| {
        let mut command = fixture::mneme();
        command.args(arguments).arg("--memory").arg(&memory);
        assert_no_socket(command)
    };
    run(&["ingest", fixture::SAMPLE]);
    assert!(run(&["search", "pets", "--json"]).contains("\"hits\""));
    assert!(run(&["ask", "Who has a dog?", "--json", "--max-iterations", "1"]).contains("\"answer\""));
    assert!(run(&["memory", "show"]).contains("two-friends"));

    run(&["demo", "--quiet"]);
    let questions = fixture::QUESTIONS;
    let eval = [
        "eval",
        "locomo",
        "--data",
        fixture::SAMPLE,
        "--questions",
        questions,
        "--method",
    ];
    assert!(run(&[&eval[..], &["retrieval"]].concat()).contains("single-hop"));
    assert!(run(&[&eval[..], &["rag", "--sample", "1"]].concat()).contains("f1_locomo"));

    let alone = |arguments: &[&str]| {
        let mut command = fixture::mneme();
        command.args(arguments);
        assert_no_socket(command)
    };
    assert!(alone(&["generate", "Say hello.", "--max-tokens", "2", "--json"]).contains("\"text\""));
    assert!(alone(&["models", "list"]).contains(fixture::EMBEDDER));
    assert!(alone(&["models", "inspect", fixture::EMBEDDER]).contains("bert"));
    alone(&["models", "verify", fixture::EMBEDDER]);
    let predictions = folder.path().join("predictions.jsonl");
    std::fs::write(&predictions, r#"{"id": "q1", "prediction": "paper conservator"}"#)
        .expect("a file is written");
    let predictions = predictions.to_str().expect("a UTF-8 path");
    assert!(alone(&["eval", "score", predictions, "--data", questions]).contains("100.0"));
    assert!(
        alone(&["eval", "compare", predictions, predictions, "--data", questions])
            .contains("0 questions flipped")
    );
    assert!(
        alone(&[
            "eval",
            "judge",
            predictions,
            "--data",
            questions,
            "--judge",
            "strict"
        ])
        .contains("kappa")
    );
}

#[test]
fn offline_mode_refuses_to_pull_and_says_why() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut command = fixture::mneme();
    command
        .args(["models", "pull", fixture::EMBEDDER])
        .env("MNEME_HOME", home.path())
        .env("MNEME_OFFLINE", "1");
    let output = without_sockets(&mut command)
        .output()
        .expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("MNEME_OFFLINE"), "{stderr}");
}
