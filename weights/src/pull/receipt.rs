//! What arrived for files the manifest does not pin, so that they can be verified later all the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Fetched;
use crate::error::WeightsError;
use crate::manifest::ModelEntry;

const NAME: &str = "receipt.json";

/// Digests of the unpinned files of one model folder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Receipt {
    files: BTreeMap<String, Arrived>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Arrived {
    sha256: String,
    source: String,
}

impl Receipt {
    /// The receipt of `folder`, empty where there is none.
    pub(crate) fn read(folder: &Path) -> Result<Self, WeightsError> {
        let path = folder.join(NAME);
        match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json).map_err(|error| WeightsError::Malformed {
                path,
                format: "receipt",
                what: error.to_string(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(WeightsError::io("read", path)(error)),
        }
    }

    /// Digest of `file` when it arrived.
    pub(crate) fn sha256(&self, file: &str) -> Option<&str> {
        self.files.get(file).map(|arrived| arrived.sha256.as_str())
    }

    /// Notes the files of `fetched` that `entry` does not pin.
    pub(super) fn record(
        folder: &Path,
        entry: &ModelEntry,
        fetched: &[Fetched],
        source: &str,
    ) -> Result<(), WeightsError> {
        let pinned = |name: &str| {
            entry
                .files
                .iter()
                .any(|file| file.name == name && file.sha256.is_some())
        };
        let mut receipt = Self::read(folder)?;
        let before = receipt.files.len();
        for file in fetched.iter().filter(|file| !pinned(&file.name)) {
            let arrived = Arrived {
                sha256: file.sha256.clone(),
                source: source.to_owned(),
            };
            receipt.files.insert(file.name.clone(), arrived);
        }
        if receipt.files.len() == before {
            return Ok(());
        }
        let path = folder.join(NAME);
        let json = serde_json::to_vec_pretty(&receipt).map_err(|error| WeightsError::Malformed {
            path: path.clone(),
            format: "receipt",
            what: error.to_string(),
        })?;
        let part = path.with_added_extension("part");
        fs::write(&part, json).map_err(WeightsError::io("write", &part))?;
        fs::rename(&part, &path).map_err(WeightsError::io("move into place", &path))
    }
}
