//! A file may be larger than the memory that reads it.
//!
//! 60 MB by default; `MNEME_LARGE_MB=1024 cargo test --release -p mneme --test it large_file -- --nocapture` for the
//! figures of docs/results/store.md.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Data that a reader may allocate, in KiB, whatever the file's size.
const LIMIT: usize = 50 * 1024;

fn megabytes() -> usize {
    std::env::var("MNEME_LARGE_MB").map_or(60, |text| text.parse().expect("a number"))
}

/// 40 words of a vocabulary of some thousands.
fn words(number: usize) -> String {
    let words = [
        "heron",
        "river",
        "counted",
        "yesterday",
        "green",
        "canoe",
        "harbour",
        "letter",
    ];
    let word = |i: usize| {
        format!(
            "{}{}",
            words[(number * 7 + i * i) % words.len()],
            number * (i + 1) % 613
        )
    };
    (0..40).map(word).collect::<Vec<_>>().join(" ")
}

/// A ChatGPT export: conversations of 40 messages.
fn chatgpt(out: &mut impl Write, bytes: usize) -> std::io::Result<()> {
    let (mut written, mut conversation) = (1, 0);
    write!(out, "[")?;
    while written < bytes {
        let mut nodes = Vec::new();
        for node in 0..40 {
            let parent = if node == 0 {
                "null".to_owned()
            } else {
                format!("\"n{}\"", node - 1)
            };
            nodes.push(format!(
                r#""n{node}": {{"id": "n{node}", "parent": {parent}, "children": ["n{}"], "message": {{"id": "c{conversation}-{node}", "author": {{"role": "{}"}}, "create_time": {}, "content": {{"content_type": "text", "parts": ["{}"]}}}}}}"#,
                node + 1,
                ["user", "assistant"][node % 2],
                1_600_000_000 + conversation * 5_000 + node,
                words(conversation * 40 + node)
            ));
        }
        let comma = if conversation == 0 { "" } else { ",\n" };
        let text = format!(
            r#"{comma}{{"id": "c{conversation}", "title": "Talk {conversation}", "current_node": "n39", "mapping": {{{}}}}}"#,
            nodes.join(", ")
        );
        out.write_all(text.as_bytes())?;
        written += text.len();
        conversation += 1;
    }
    write!(out, "]")
}

/// One Telegram chat: a single conversation as large as the file.
fn telegram(out: &mut impl Write, bytes: usize) -> std::io::Result<()> {
    let (mut written, mut message) = (1, 0);
    write!(
        out,
        r#"{{"name": "Crew", "type": "private_group", "id": 7, "messages": ["#
    )?;
    while written < bytes {
        let comma = if message == 0 { "" } else { ",\n" };
        let text = format!(
            r#"{comma}{{"id": {message}, "type": "message", "date_unixtime": "{}", "from": "Ann", "text": "{}"}}"#,
            1_500_000_000 + message * 300,
            words(message)
        );
        out.write_all(text.as_bytes())?;
        written += text.len();
        message += 1;
    }
    write!(out, "]}}")
}

/// Runs under a limit of private memory, and says how much was resident at most, in MB, and how long it took.
fn run(arguments: &[&str], file: &Path, limit: usize) -> (usize, Duration) {
    let start = Instant::now();
    let mut child = Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -d {limit}; exec \"$@\""),
            "sh",
            env!("CARGO_BIN_EXE_mneme"),
            "ingest",
        ])
        .arg(file)
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("mneme starts");
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be asked") {
            break status;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        // Pages of the memory's file are the system's cache, not the process's own.
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = anonymous.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kilobytes.unwrap_or(0) / 1024);
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{arguments:?} fails with {limit} KiB of data");
    (peak, start.elapsed())
}

type Writer = fn(&mut BufWriter<File>, usize) -> std::io::Result<()>;

fn read_and_ingest(name: &str, write: Writer) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(format!("{name}.json"));
    let mut out = BufWriter::new(File::create(&file).expect("a file"));
    write(&mut out, megabytes() * 1_000_000)
        .and_then(|()| out.flush())
        .expect("the file is written");
    let (peak, time) = run(&["--dry-run"], &file, LIMIT);
    println!(
        "{name}, {} MB, dry run: {peak} MB at most, {:.1} s",
        megabytes(),
        time.as_secs_f64()
    );
    let memory = folder.path().join(name);
    let memory = memory.to_str().expect("UTF-8");
    // A transaction's pages are the process's own until it commits.
    let ingest = ["--embedder", "none", "--quiet", "--memory", memory];
    let (peak, time) = run(&ingest, &file, 4 * LIMIT);
    println!(
        "{name}, {} MB, ingest: {peak} MB at most, {:.1} s",
        megabytes(),
        time.as_secs_f64()
    );
}

#[test]
fn an_export_of_many_conversations_needs_the_memory_of_one() {
    read_and_ingest("chatgpt", chatgpt);
}

#[test]
fn a_single_chat_as_large_as_the_file_needs_the_memory_of_a_piece() {
    read_and_ingest("telegram", telegram);
}
