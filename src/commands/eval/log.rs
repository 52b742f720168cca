//! Predictions as they come, one line each, so that an interrupted run goes on where it was.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use agents::{Method, Outcome};
use anyhow::{Context, Result, bail};
use evaluation::{Prediction, read_predictions};
use serde_json::json;

/// The predictions of a run, and the folder that keeps them where there is one.
pub(super) struct Log {
    folder: Option<Folder>,
    done: HashSet<String>,
    predictions: Vec<Prediction>,
}

struct Folder {
    predictions: File,
    traces: PathBuf,
}

impl Log {
    /// Goes on with the run in `folder`, or begins one there. Answers of another model or method are never mixed in.
    pub(super) fn open(folder: Option<&Path>, model: &str, method: &Method) -> Result<Self> {
        let Some(path) = folder else {
            return Ok(Self {
                folder: None,
                done: HashSet::new(),
                predictions: Vec::new(),
            });
        };
        let traces = path.join("traces");
        fs::create_dir_all(&traces).with_context(|| format!("cannot create {}", traces.display()))?;
        same_run(&path.join("run.json"), model, method)?;
        let file = path.join("predictions.jsonl");
        cut_torn_line(&file)?;
        let predictions = if file.exists() {
            read_predictions(&file)?
        } else {
            Vec::new()
        };
        let opened = OpenOptions::new().create(true).append(true).open(&file);
        let opened = opened.with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self {
            folder: Some(Folder {
                predictions: opened,
                traces,
            }),
            done: predictions
                .iter()
                .map(|prediction| prediction.id.clone())
                .collect(),
            predictions,
        })
    }

    /// Whether the question was answered already.
    pub(super) fn holds(&self, id: &str) -> bool {
        self.done.contains(id)
    }

    pub(super) fn into_predictions(self) -> Vec<Prediction> {
        self.predictions
    }

    /// The trace first: a prediction that stands in the file has its trace.
    pub(super) fn write(&mut self, id: &str, outcome: &Outcome, trace: &str) -> Result<()> {
        self.predictions.push(Prediction {
            id: id.to_owned(),
            text: outcome.answer.clone(),
        });
        let Some(folder) = &mut self.folder else {
            return Ok(());
        };
        let path = folder
            .traces
            .join(format!("{}.json", id.replace(['/', '#'], "_")));
        fs::write(&path, trace).with_context(|| format!("cannot write {}", path.display()))?;
        let line = json!({
            "id": id,
            "prediction": outcome.answer,
            "evidence": outcome.evidence.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(),
        });
        writeln!(folder.predictions, "{line}").context("cannot write the predictions")
    }
}

/// Writes what the run is, or compares it with what is there.
fn same_run(path: &Path, model: &str, method: &Method) -> Result<()> {
    let now = serde_json::to_string_pretty(&json!({ "model": model, "method": method }))?;
    match fs::read_to_string(path) {
        Ok(then) if then == now => Ok(()),
        Ok(_) => bail!(
            "{} is of a run with another model, method or setting; choose another --out, or remove that folder",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::write(path, now).with_context(|| format!("cannot write {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// A killed run may leave half a line at the end; its question is asked again.
fn cut_torn_line(path: &Path) -> Result<()> {
    let Ok(text) = fs::read(path) else { return Ok(()) };
    let whole = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    if whole < text.len() {
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.set_len(whole as u64))
            .with_context(|| format!("cannot mend {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use agents::{RagSettings, Settings};

    use super::*;

    #[test]
    fn a_torn_line_is_cut_and_the_rest_kept() {
        let folder = tempfile::tempdir().unwrap();
        let method = Method::Rag(RagSettings::default());
        Log::open(Some(folder.path()), "m", &method).unwrap();
        let file = folder.path().join("predictions.jsonl");
        fs::write(
            &file,
            "{\"id\": \"a#0\", \"prediction\": \"x\"}\n{\"id\": \"a#1\", \"pred",
        )
        .unwrap();
        let log = Log::open(Some(folder.path()), "m", &method).unwrap();
        assert!(log.holds("a#0") && !log.holds("a#1"));
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
    }

    #[test]
    fn another_model_or_method_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let method = Method::Rag(RagSettings::default());
        Log::open(Some(folder.path()), "m", &method).unwrap();
        let other = Method::Memcot(Settings::default());
        for (model, method) in [("n", &method), ("m", &other)] {
            let error = Log::open(Some(folder.path()), model, method)
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains("run.json") && error.contains("--out"), "{error}");
        }
    }
}
