//! A run on disk: what it is, its answers so far, its traces, what each session of it cost.
//!
//! After every question its trace and then its line are written and synced, so that a crash loses at most the questions
//! in flight. A torn last line is cut off when the run goes on.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::EvaluationError;
use crate::record::Record;

const DESCRIPTION: &str = "run.json";
const PREDICTIONS: &str = "predictions.jsonl";
const SESSIONS: &str = "sessions.jsonl";
const TRACES: &str = "traces";

/// What a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Everything that answers depend on; a run goes on with the same settings only.
    pub settings: Value,
    /// Where and by what it was begun: machine, code version, command line.
    pub environment: Value,
}

/// What one session of a run cost. An interrupted run has several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Questions answered in it.
    pub answered: usize,
    /// Wall-clock time from the first question to the last.
    pub seconds: f64,
    /// Wall-clock time of ingesting conversations.
    pub ingest_seconds: f64,
    /// Turns that were ingested.
    pub ingested_turns: usize,
    /// Most memory that the process held, in bytes; `None` where the system does not say.
    pub peak_bytes: Option<u64>,
}

/// An open run.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    predictions: File,
    records: Vec<Record>,
    done: HashSet<String>,
}

impl RunFolder {
    /// Begins a run in `path`, or goes on with the one that is there when `resume`.
    ///
    /// # Errors
    /// [`EvaluationError::RunExists`] without `resume`, [`EvaluationError::ChangedSetting`] with other settings, and when
    /// the folder cannot be read or written.
    pub fn open(path: &Path, description: &Description, resume: bool) -> Result<Self, EvaluationError> {
        let traces = path.join(TRACES);
        fs::create_dir_all(&traces).map_err(|source| write_error(&traces, source))?;
        let file = path.join(DESCRIPTION);
        match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = serde_json::to_string_pretty(description).unwrap_or_default();
                replace(&file, &text)?;
            }
            Err(source) => return Err(EvaluationError::Read { path: file, source }),
            Ok(_) if !resume => {
                return Err(EvaluationError::RunExists {
                    path: path.to_owned(),
                });
            }
            Ok(text) => {
                let before: Description =
                    serde_json::from_str(&text).map_err(|error| not_a_run(&file, error))?;
                same("", &before.settings, &description.settings, &file)?;
            }
        }
        let file = path.join(PREDICTIONS);
        cut_torn_line(&file)?;
        let records = read_lines(&file)?;
        let opened = OpenOptions::new().create(true).append(true).open(&file);
        let predictions = opened.map_err(|source| write_error(&file, source))?;
        Ok(Self {
            path: path.to_owned(),
            predictions,
            done: records.iter().map(|record: &Record| record.id.clone()).collect(),
            records,
        })
    }

    /// Whether the question was answered already.
    #[must_use]
    pub fn holds(&self, id: &str) -> bool {
        self.done.contains(id)
    }

    /// The answers so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Keeps an answer and its trace. The trace comes first: an answer that stands in the file has its trace.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn add(&mut self, record: Record, trace: &str) -> Result<(), EvaluationError> {
        replace(&self.path.join(trace_name(&record.id)), trace)?;
        let mut line = serde_json::to_string(&record).unwrap_or_default();
        line.push('\n');
        let written = self
            .predictions
            .write_all(line.as_bytes())
            .and_then(|()| self.predictions.sync_data());
        written.map_err(|source| write_error(&self.path.join(PREDICTIONS), source))?;
        self.done.insert(record.id.clone());
        self.records.push(record);
        Ok(())
    }

    /// Keeps what a session cost.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn add_session(&self, session: &Session) -> Result<(), EvaluationError> {
        let path = self.path.join(SESSIONS);
        let line = serde_json::to_string(session).unwrap_or_default();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| writeln!(file, "{line}"))
            .map_err(|source| write_error(&path, source))
    }
}

/// A run that is only read.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedRun {
    /// The folder.
    pub path: PathBuf,
    /// What it is.
    pub description: Description,
    /// Its answers.
    pub records: Vec<Record>,
    /// What its sessions cost.
    pub sessions: Vec<Session>,
}

impl FinishedRun {
    /// Reads the run in a folder.
    ///
    /// # Errors
    /// [`EvaluationError::NotARun`], and when the folder cannot be read.
    pub fn open(path: &Path) -> Result<Self, EvaluationError> {
        let file = path.join(DESCRIPTION);
        let text = fs::read_to_string(&file).map_err(|error| EvaluationError::NotARun {
            path: path.to_owned(),
            problem: format!("{DESCRIPTION} cannot be read ({error})"),
        })?;
        Ok(Self {
            path: path.to_owned(),
            description: serde_json::from_str(&text).map_err(|error| not_a_run(&file, error))?,
            records: read_lines(&path.join(PREDICTIONS))?,
            sessions: read_lines(&path.join(SESSIONS))?,
        })
    }
}

/// Where a question's trace lies, below the run's folder.
#[must_use]
pub fn trace_name(id: &str) -> String {
    format!("{TRACES}/{}.json", id.replace(['/', '\\', '#'], "_"))
}

/// Names the first setting that differs.
fn same(place: &str, before: &Value, now: &Value, path: &Path) -> Result<(), EvaluationError> {
    if let (Value::Object(a), Value::Object(b)) = (before, now) {
        let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
        for key in keys {
            let place = if place.is_empty() {
                key.clone()
            } else {
                format!("{place}.{key}")
            };
            let value =
                |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
            same(&place, &value(a), &value(b), path)?;
        }
        return Ok(());
    }
    if before == now {
        return Ok(());
    }
    Err(EvaluationError::ChangedSetting {
        path: path.to_owned(),
        setting: place.to_owned(),
        before: before.to_string(),
        now: now.to_string(),
    })
}

/// Writes beside the file and renames, so that the file is old or new and never torn.
fn replace(path: &Path, text: &str) -> Result<(), EvaluationError> {
    let aside = path.with_extension("part");
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()
    });
    written
        .and_then(|()| fs::rename(&aside, path))
        .map_err(|source| write_error(path, source))
}

fn cut_torn_line(path: &Path) -> Result<(), EvaluationError> {
    let Ok(bytes) = fs::read(path) else { return Ok(()) };
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    if whole < bytes.len() {
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.set_len(whole as u64))
            .map_err(|source| write_error(path, source))?;
    }
    Ok(())
}

fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, EvaluationError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(EvaluationError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| not_a_run(path, error)))
        .collect()
}

fn write_error(path: &Path, source: std::io::Error) -> EvaluationError {
    EvaluationError::Write {
        path: path.to_owned(),
        source,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn not_a_run(path: &Path, error: serde_json::Error) -> EvaluationError {
    EvaluationError::NotARun {
        path: path.to_owned(),
        problem: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn description(window: usize) -> Description {
        Description {
            settings: json!({"model": "m", "method": {"memcot": {"window": window}}}),
            environment: json!({"machine": "x"}),
        }
    }

    fn record(id: &str) -> Record {
        Record {
            id: id.into(),
            prediction: "x\ny".into(),
            ..Record::default()
        }
    }

    #[test]
    fn a_killed_run_goes_on_without_its_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunFolder::open(folder.path(), &description(4), false).unwrap();
        run.add(record("a#0"), "{}").unwrap();
        run.add(record("a#1"), "{}").unwrap();
        drop(run);
        let file = folder.path().join(PREDICTIONS);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..text.len() - 3]).unwrap();
        let mut run = RunFolder::open(folder.path(), &description(4), true).unwrap();
        assert!(run.holds("a#0") && !run.holds("a#1"));
        run.add(record("a#1"), "{}").unwrap();
        run.add_session(&Session::default()).unwrap();
        let read = FinishedRun::open(folder.path()).unwrap();
        assert_eq!(read.records, [record("a#0"), record("a#1")]);
        assert_eq!(read.sessions.len(), 1);
        assert!(folder.path().join("traces/a_1.json").exists());
    }

    #[test]
    fn a_run_is_never_mixed_with_another() {
        let folder = tempfile::tempdir().unwrap();
        RunFolder::open(folder.path(), &description(4), true).unwrap();
        let again = RunFolder::open(folder.path(), &description(4), false)
            .unwrap_err()
            .to_string();
        assert!(
            again.contains("holds a run already") && again.contains("--resume"),
            "{again}"
        );
        let other = RunFolder::open(folder.path(), &description(5), true)
            .unwrap_err()
            .to_string();
        assert!(
            other.contains("method.memcot.window = 4, now it is 5") && other.contains("--out"),
            "{other}"
        );
        let empty = tempfile::tempdir().unwrap();
        let error = FinishedRun::open(empty.path()).unwrap_err().to_string();
        assert!(
            error.contains("is no run") && error.contains("run.json"),
            "{error}"
        );
    }
}
