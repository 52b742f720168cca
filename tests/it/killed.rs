//! `kill -9` at random points: the memory opens, is whole, and the next run completes what was begun.
//!
//! 20 kills by default; `MNEME_KILLS=200 cargo test --release -p mneme --test it killed -- --nocapture` for more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture;

const SESSIONS: usize = 150;
const TURNS: usize = 40;

/// Sessions of turns with words of their own; in an edited one every seventh turn says something else.
fn conversation(edited: bool) -> String {
    let mut lines = vec![r#"{"mneme": 1, "conversation": "long"}"#.to_owned()];
    for session in 0..SESSIONS {
        lines.push(format!(
            r#"{{"session": "s{session}", "time": "2024-01-{:02}T10:00:00"}}"#,
            1 + session % 28
        ));
        for turn in 0..TURNS {
            let number = session * TURNS + turn;
            let what = if edited && number % 7 == 0 {
                "swans"
            } else {
                "herons"
            };
            lines.push(format!(
                r#"{{"turn": "{number}", "speaker": "{}", "text": "On walk {turn} of week {session} we counted {} {what} by river{}."}}"#,
                ["Ann", "Ben"][turn % 2],
                number * 31 % 997,
                number % 211,
            ));
        }
    }
    lines.join("\n")
}

/// What is killed, beginning from an empty memory or from a full one.
#[derive(Debug, Clone, Copy)]
enum Work {
    Ingest,
    Edit,
    Delete,
    Import,
}

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, work: Work, memory: &Path) -> Command {
        let mut command = fixture::mneme();
        match work {
            Work::Ingest => command
                .arg("ingest")
                .arg(self.path("long.jsonl"))
                .args(["--embedder", "none"]),
            Work::Edit => command
                .arg("ingest")
                .arg(self.path("edited.jsonl"))
                .args(["--embedder", "none"]),
            Work::Delete => command.args(["memory", "delete", "--conversation", "long"]),
            Work::Import => command.args(["memory", "import"]).arg(self.path("export.jsonl")),
        };
        command
            .arg("--memory")
            .arg(memory)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// A memory as it is before the work.
    fn begin(&self, work: Work, memory: &Path) {
        fs::create_dir_all(memory).expect("a folder");
        if matches!(work, Work::Edit | Work::Delete) {
            fs::copy(self.path("full").join("data.mdb"), memory.join("data.mdb")).expect("a copy");
        }
    }

    fn check(&self, memory: &Path) -> usize {
        let mut check = fixture::mneme();
        check.args(["memory", "check", "--json", "--memory"]).arg(memory);
        let report = fixture::json_lines(&mut check).remove(0);
        assert_eq!(report["whole"], true, "{report}");
        usize::try_from(report["turns"].as_u64().expect("a count")).expect("a small count")
    }

    fn export(&self, memory: &Path) -> Vec<u8> {
        let mut command = fixture::mneme();
        command.args(["memory", "export", "--memory"]).arg(memory);
        fixture::ok(&mut command).stdout
    }
}

/// SplitMix64, so that a failing run can be run again.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^ (value >> 31)
}

#[test]
fn a_memory_survives_kills_at_random_points() {
    let kills: usize = std::env::var("MNEME_KILLS").map_or(20, |text| text.parse().expect("a number"));
    let files = Files {
        folder: tempfile::tempdir().expect("a temporary folder"),
    };
    fs::write(files.path("long.jsonl"), conversation(false)).expect("a file");
    fs::write(files.path("edited.jsonl"), conversation(true)).expect("a file");
    fixture::ok(&mut files.command(Work::Ingest, &files.path("full")));
    let original = files.export(&files.path("full"));
    fs::write(files.path("export.jsonl"), &original).expect("a file");
    let works = [Work::Ingest, Work::Edit, Work::Delete, Work::Import];
    // What each work leaves when nobody kills it, and how long it takes.
    let whole = works.map(|work| {
        let memory = files.path(&format!("{work:?}"));
        files.begin(work, &memory);
        let start = Instant::now();
        fixture::ok(&mut files.command(work, &memory));
        (start.elapsed(), files.export(&memory))
    });
    let (mut at_work, mut halfway, mut state) = (0, 0, 7);
    for run in 0..kills {
        let work = works[run % works.len()];
        let (time, expected) = &whole[run % works.len()];
        let memory = files.path(&format!("run {run}"));
        files.begin(work, &memory);
        let mut child = files.command(work, &memory).spawn().expect("mneme starts");
        let wait = time.mul_f64(next(&mut state) as f64 / u64::MAX as f64);
        std::thread::sleep(wait.min(Duration::from_secs(60)));
        at_work += usize::from(child.try_wait().expect("the child can be asked").is_none());
        child.kill().expect("the child can be killed");
        child.wait().expect("the child ends");
        // Killed before the memory was made, there is none yet.
        let mut stats = fixture::mneme();
        stats.args(["memory", "stats", "--memory"]).arg(&memory);
        if stats.output().expect("mneme starts").status.success() {
            let turns = files.check(&memory);
            halfway += usize::from(turns > 0 && turns < SESSIONS * TURNS);
        } else {
            assert!(
                matches!(work, Work::Ingest | Work::Import),
                "run {run}: a full memory does not open"
            );
        }
        let again = files.command(work, &memory).status().expect("mneme starts");
        // A deletion that was done finds nothing to delete.
        assert!(
            again.success() || matches!(work, Work::Delete),
            "run {run} {work:?} is not completed"
        );
        files.check(&memory);
        assert!(
            files.export(&memory) == *expected,
            "run {run} {work:?} ends in another memory"
        );
        fs::remove_dir_all(&memory).expect("the memory goes");
    }
    println!("{kills} kills: {at_work} at work, {halfway} between the first part and the last");
    assert!(at_work * 2 > kills, "{at_work} of {kills} kills came at work");
}
