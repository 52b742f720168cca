//! The life of a memory from the command line, without a model: `--embedder none`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::fixture;

const TRIP: &str = r#"{"mneme": 1, "conversation": "trip", "title": "The trip"}
{"session": "s1", "time": "2023-05-08T13:56:00"}
{"turn": "1", "speaker": "Ann", "text": "I bought a red boat."}
{"turn": "2", "speaker": "Ben", "text": "Lovely! Does it leak?"}
{"session": "s2", "time": "2023-05-09T10:00:00Z"}
{"turn": "3", "speaker": "Ann", "text": "It sank in the harbour."}
"#;

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("the file is written");
        path
    }

    fn memory(&self) -> PathBuf {
        self.folder.path().join("memory")
    }

    fn ingest(&self, file: &Path) -> Command {
        let mut command = fixture::mneme();
        command
            .arg("ingest")
            .arg(file)
            .args(["--embedder", "none", "--json", "--memory"])
            .arg(self.memory());
        command
    }

    /// `mneme memory … --json --memory M`, with more arguments.
    fn command(&self, name: &str, more: &[&str]) -> Command {
        let mut command = fixture::mneme();
        command
            .args(["memory", name])
            .args(more)
            .args(["--json", "--memory"])
            .arg(self.memory());
        command
    }

    fn json(&self, name: &str, more: &[&str]) -> Value {
        fixture::json_lines(&mut self.command(name, more)).remove(0)
    }

    fn found(&self, query: &str, more: &[&str]) -> Vec<String> {
        let mut command = fixture::mneme();
        command
            .args(["search", query])
            .args(more)
            .args(["--json", "--memory"])
            .arg(self.memory());
        let found = fixture::json_lines(&mut command).remove(0);
        let hits = found["hits"].as_array().expect("hits");
        hits.iter()
            .map(|hit| hit["turn"]["id"].as_str().expect("an id").to_owned())
            .collect()
    }
}

#[test]
fn a_memory_lives_and_stays_whole() {
    let desk = Desk::new();
    let file = desk.file("trip.jsonl", TRIP);
    let ingested = |command: &mut Command| fixture::json_lines(command).remove(0)["conversations"][0].clone();
    assert_eq!(ingested(&mut desk.ingest(&file))["turns_added"], 3);
    let again = ingested(&mut desk.ingest(&file));
    assert_eq!(
        (&again["turns_present"], &again["turns_added"]),
        (&3.into(), &0.into())
    );
    desk.file("trip.jsonl", TRIP.replace("a red boat", "a green canoe"));
    // The embedder of a memory need not be named again.
    let mut edit = fixture::mneme();
    edit.arg("ingest")
        .arg(&file)
        .args(["--json", "--memory"])
        .arg(desk.memory());
    assert_eq!(ingested(&mut edit)["turns_changed"], 1);
    assert_eq!(desk.found("green canoe", &[])[0], "1");

    let listed = desk.json("list", &[]);
    assert_eq!(listed["conversations"][0]["title"], "The trip");
    assert_eq!(listed["conversations"], desk.json("show", &[])["conversations"]);
    let stats = desk.json("stats", &[]);
    assert_eq!(
        (&stats["schema"], &stats["turns"], &stats["sessions"]),
        (&2.into(), &3.into(), &2.into())
    );
    assert_eq!(stats["languages"][0], "english");
    assert!(stats["file_bytes"].as_u64().expect("bytes") > 4096);
    assert_eq!(desk.json("check", &[])["whole"], true);

    let export = desk.folder.path().join("export.jsonl");
    desk.json("export", &["--output", export.to_str().expect("UTF-8")]);
    assert_eq!(
        desk.json("delete", &["--conversation", "trip", "--turn", "1"])["turns_deleted"],
        1
    );
    assert_eq!(
        desk.json("delete", &["--conversation", "trip", "--session", "s1"])["turns_deleted"],
        1
    );
    assert!(desk.found("canoe", &[]).iter().all(|id| id == "3"));
    let line = fixture::refused(&mut desk.command("delete", &["--conversation", "trip", "--session", "s1"]));
    assert!(line.contains("no session s1"), "{line}");
    assert_eq!(
        desk.json("delete", &["--conversation", "trip"])["turns_deleted"],
        1
    );
    assert_eq!(desk.json("check", &[])["turns"], 0);
    let back = desk.json("import", &[export.to_str().expect("UTF-8")]);
    assert_eq!(back["turns_added"], 3);
    let written = |desk: &Desk| {
        let mut command = fixture::mneme();
        command.args(["memory", "export", "--memory"]).arg(desk.memory());
        fixture::ok(&mut command).stdout
    };
    assert_eq!(written(&desk), fs::read(&export).expect("the export"));
}

#[test]
fn namespaces_are_apart_on_the_command_line() {
    let desk = Desk::new();
    let ours = desk.file("a.jsonl", TRIP);
    let theirs = desk.file("b.jsonl", TRIP.replace("boat", "submarine"));
    fixture::ok(desk.ingest(&ours).args(["--namespace", "ann/../ben"]));
    fixture::ok(desk.ingest(&theirs).args(["--namespace", "ben"]));
    let text = |id: &str| {
        desk.found("submarine", &["--namespace", id, "--conversation", "trip"])
            .len()
    };
    assert!(text("ben") > 0 && text("ann/../ben") == 0);
    let listed = desk.json("list", &[]);
    assert_eq!(listed["namespaces"], serde_json::json!(["ann/../ben", "ben"]));
    assert_eq!(
        desk.json("delete", &["--namespace", "ben", "--conversation", "trip"])["turns_deleted"],
        3
    );
    assert_eq!(desk.json("check", &["--namespace", "ann/../ben"])["turns"], 3);
    let line = fixture::refused(&mut desk.command("list", &["--namespace", ""]));
    assert!(line.contains("expected 1 to 120"), "{line}");
    let line = fixture::refused(&mut desk.command("show", &[]));
    assert!(line.contains("holds no memory"), "{line}");
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_is_left_out() {
    let desk = Desk::new();
    let chat = "[13/1/20, 10:00:00] Crew: \u{200e}Messages are encrypted.\n[13/1/20, 10:00:05] Ann: Ahoy\n";
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in [("_chat.txt", chat), ("photo.jpg", "x")] {
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .expect("an entry");
        zip.write_all(content.as_bytes()).expect("its content");
    }
    let file = desk.file(
        "WhatsApp Chat - Crew.zip",
        zip.finish().expect("a zip").into_inner(),
    );
    let report = fixture::json_lines(desk.ingest(&file).arg("--dry-run")).remove(0);
    let found = &report["files"][0];
    assert_eq!(found["formats"][0], "WhatsApp text");
    assert_eq!(found["conversations"][0]["id"], "WhatsApp Chat - Crew");
    assert_eq!(found["conversations"][0]["turns"], 1);
    let reasons: Vec<&str> = found["skipped"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|s| s["reason"].as_str())
        .collect();
    assert_eq!(
        reasons,
        ["files that are no conversations", "media and system messages"]
    );
    assert!(!desk.memory().exists());
    // Without a memory, for eyes.
    let mut plain = fixture::mneme();
    plain.arg("ingest").arg(&file).arg("--dry-run");
    let text = String::from_utf8(fixture::ok(&mut plain).stdout).expect("UTF-8");
    assert!(
        text.contains("2020-01-13")
            && text.contains("left out 1 media")
            && text.contains("Nothing was written"),
        "{text}"
    );
}

#[test]
fn dates_that_leave_their_order_open_are_asked_for() {
    let desk = Desk::new();
    let file = desk.file("chat.txt", "12/9/20, 23:55 - Ann: Ahoy\n");
    let line = fixture::refused(&mut desk.ingest(&file));
    assert!(
        line.contains("--date-order dmy, mdy or ymd") && !desk.memory().exists(),
        "{line}"
    );
    fixture::ok(
        desk.ingest(&file)
            .args(["--date-order", "dmy", "--as", "harbour"]),
    );
    let shown = desk.json("show", &["--conversation", "harbour"]);
    assert_eq!(shown["turns"][0]["time"], "2020-09-12T23:55:00");
    // What has no date is undated, or has the caller's.
    let file = desk.file(
        "talk.jsonl",
        r#"{"messages": [{"role": "user", "content": "Hi"}]}"#,
    );
    fixture::ok(&mut desk.ingest(&file));
    assert!(desk.json("show", &["--conversation", "talk:1"])["turns"][0]["time"].is_null());
    fixture::ok(desk.ingest(&file).args(["--date", "2021-02-03"]));
    assert_eq!(
        desk.json("show", &["--conversation", "talk:1"])["turns"][0]["time"],
        "2021-02-03T00:00:00"
    );
    let line = fixture::refused(desk.ingest(&file).args(["--date", "yesterday"]));
    assert!(line.contains("--date is yesterday"), "{line}");
}

#[test]
fn another_embedder_takes_over() {
    fixture::models();
    let desk = Desk::new();
    let file = desk.file("trip.jsonl", TRIP);
    fixture::ok(&mut desk.ingest(&file));
    let stats = desk.json("reindex", &["--embedder", fixture::EMBEDDER]);
    assert_eq!(
        (&stats["turns"], &stats["embedder"]["name"]),
        (&3.into(), &fixture::EMBEDDER.into())
    );
    assert_eq!(desk.json("check", &[])["vectors"], 3);
    // "vessel" is in no turn: only vectors know it.
    assert_eq!(desk.found("a vessel went down", &[])[0], "3");
    desk.json("reindex", &["--embedder", "none"]);
    assert_eq!(desk.json("check", &[])["vectors"], 0);
}
