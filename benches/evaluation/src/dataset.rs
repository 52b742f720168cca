//! A data set: its questions, whichever of the known formats the file has.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::EvaluationError;
use crate::question::Question;
use crate::{locomo, sample};

/// The first two bytes of every gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The questions of one file, in its order, with ids that occur once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    questions: Vec<Question>,
}

impl Dataset {
    /// Reads LoCoMo's JSON or our own `questions.json`, plain or gzip-compressed.
    ///
    /// # Errors
    /// When the file cannot be read, is neither format, or holds a question that no metric can score.
    pub fn open(path: &Path) -> Result<Self, EvaluationError> {
        let read = |source| EvaluationError::Read {
            path: path.to_owned(),
            source,
        };
        let mut bytes = fs::read(path).map_err(read)?;
        if bytes.starts_with(&GZIP) {
            let mut plain = Vec::new();
            MultiGzDecoder::new(bytes.as_slice())
                .read_to_end(&mut plain)
                .map_err(read)?;
            bytes = plain;
        }
        Self::from_json(&bytes, &path.display().to_string())
    }

    /// Reads the same from memory; `name` stands for the file in errors.
    ///
    /// # Errors
    /// When the bytes are neither format, or hold a question that no metric can score.
    pub fn from_json(bytes: &[u8], name: &str) -> Result<Self, EvaluationError> {
        let json = |source| EvaluationError::Json {
            name: name.to_owned(),
            source,
        };
        let is_array = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        let questions = if is_array {
            let samples: Vec<locomo::Sample> = serde_json::from_slice(bytes).map_err(json)?;
            let nested = samples
                .into_iter()
                .map(locomo::questions)
                .collect::<Result<Vec<_>, _>>()?;
            nested.into_iter().flatten().collect()
        } else {
            sample::questions(serde_json::from_slice(bytes).map_err(json)?)?
        };
        Self::new(questions, name)
    }

    fn new(questions: Vec<Question>, name: &str) -> Result<Self, EvaluationError> {
        let mut seen = HashSet::new();
        if let Some(twice) = questions
            .iter()
            .find(|question| !seen.insert(question.id.as_str()))
        {
            return Err(EvaluationError::DuplicateId {
                name: name.to_owned(),
                id: twice.id.clone(),
            });
        }
        Ok(Self { questions })
    }

    /// The same questions, each changed by `change`, which keeps its id.
    pub(crate) fn map(&self, change: impl Fn(&Question) -> Question) -> Self {
        Self {
            questions: self.questions.iter().map(change).collect(),
        }
    }

    /// The questions in the order of the file.
    #[must_use]
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }
}
