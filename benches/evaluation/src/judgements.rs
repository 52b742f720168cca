//! What judges said of a run, kept beside its answers so that no question is judged twice.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EvaluationError;
use crate::item::Item;
use crate::judge::{Agreement, Rules};

const FILE: &str = "judgements.jsonl";

/// A line of `judgements.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// How far the judge agrees with labels by hand.
    Agreement(Agreement),
    /// One verdict.
    Verdict {
        judge: String,
        rules: Rules,
        id: String,
        right: bool,
    },
}

/// The verdicts in a run's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgements {
    path: PathBuf,
    lines: Vec<Line>,
}

impl Judgements {
    /// Reads the verdicts in a run's folder; none where nobody has judged.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn open(folder: &Path) -> Result<Self, EvaluationError> {
        let path = folder.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(source) => return Err(EvaluationError::Read { path, source }),
        };
        // A torn last line is a verdict that is asked for again.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        Ok(Self { path, lines })
    }

    /// The agreements that were measured, each judge and rules once.
    #[must_use]
    pub fn agreements(&self) -> Vec<Agreement> {
        let mut found: Vec<Agreement> = Vec::new();
        for line in &self.lines {
            if let Line::Agreement(agreement) = line
                && !found
                    .iter()
                    .any(|a| a.judge == agreement.judge && a.rules == agreement.rules)
            {
                found.push(agreement.clone());
            }
        }
        found
    }

    /// Enters the verdicts of a judge, or of the last one where `judge` is `None`; says which items have none.
    pub fn enter(&self, judge: Option<&str>, rules: Rules, items: &mut [Item]) -> Vec<usize> {
        let verdicts: HashMap<&str, bool> = self
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::Verdict {
                    judge: by,
                    rules: of,
                    id,
                    right,
                } if *of == rules => judge
                    .is_none_or(|judge| judge == by)
                    .then_some((id.as_str(), *right)),
                Line::Verdict { .. } | Line::Agreement(_) => None,
            })
            .collect();
        let mut missing = Vec::new();
        for (index, item) in items.iter_mut().enumerate() {
            match verdicts.get(item.id.as_str()) {
                Some(right) => {
                    item.values.insert(rules.metric(), f64::from(u8::from(*right)));
                }
                None => missing.push(index),
            }
        }
        missing
    }

    /// Keeps how far a judge can be trusted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add_agreement(&mut self, agreement: Agreement) -> Result<(), EvaluationError> {
        self.add(vec![Line::Agreement(agreement)])
    }

    /// Keeps verdicts.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add_verdicts(
        &mut self,
        judge: &str,
        rules: Rules,
        verdicts: impl IntoIterator<Item = (String, bool)>,
    ) -> Result<(), EvaluationError> {
        let line = |(id, right)| Line::Verdict {
            judge: judge.to_owned(),
            rules,
            id,
            right,
        };
        self.add(verdicts.into_iter().map(line).collect())
    }

    fn add(&mut self, lines: Vec<Line>) -> Result<(), EvaluationError> {
        let mut text = String::new();
        for line in &lines {
            text.push_str(&serde_json::to_string(line).unwrap_or_default());
            text.push('\n');
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|source| EvaluationError::Write {
                path: self.path.clone(),
                source,
            })?;
        self.lines.extend(lines);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::item::Metric;

    #[test]
    fn verdicts_are_kept_by_judge_and_rules() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Judgements::open(folder.path()).unwrap();
        kept.add_verdicts("m", Rules::Strict, [("a".to_owned(), true)])
            .unwrap();
        kept.add_verdicts("n", Rules::Strict, [("a".to_owned(), false)])
            .unwrap();
        let item = |id: &str| Item {
            id: id.into(),
            group: "x".into(),
            unanswerable: false,
            declined: false,
            values: BTreeMap::new(),
            question: String::new(),
            gold: String::new(),
            prediction: String::new(),
        };
        let mut items = [item("a"), item("b")];
        let read = Judgements::open(folder.path()).unwrap();
        assert_eq!(read.enter(Some("m"), Rules::Strict, &mut items), [1]);
        assert_eq!(items[0].values[&Metric::JudgeStrict], 1.0);
        assert_eq!(read.enter(Some("m"), Rules::Lenient, &mut items), [0, 1]);
        read.enter(None, Rules::Strict, &mut items);
        assert_eq!(items[0].values[&Metric::JudgeStrict], 0.0);
    }
}
