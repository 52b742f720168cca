//! Checking the content of models that are here.

use crate::digest::sha256_of;
use crate::error::WeightsError;
use crate::manifest::FileEntry;
use crate::pull::{PullProgress, PullStage, PullUpdate, Receipt};
use crate::store::{ModelFiles, ModelStore};

/// A file whose content was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedFile {
    /// Name in the model's folder.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Lower-case hex digest of the content.
    pub sha256: String,
    /// What the digest was compared with.
    pub pin: Pin,
}

/// What a digest was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// The manifest.
    Manifest,
    /// The manifest does not pin the file; its digest is the one that arrived when it was pulled.
    Receipt,
    /// Nothing: the manifest does not pin the file, and it was not pulled by this program.
    None,
}

impl ModelStore {
    /// Hashes every file of a model that is here and compares with the manifest.
    ///
    /// # Errors
    /// [`WeightsError::NotPulled`], or [`WeightsError::SizeMismatch`] and [`WeightsError::HashMismatch`] with the
    /// file, expected and received.
    pub fn verify(
        &self,
        name: &str,
        progress: &mut dyn PullProgress,
    ) -> Result<Vec<VerifiedFile>, WeightsError> {
        let entry = self.entry(name)?;
        let files = self.locate(name)?;
        let receipt = Receipt::read(&files.folder)?;
        entry
            .files
            .iter()
            .map(|file| verify(&files, file, &receipt, progress))
            .collect()
    }
}

fn verify(
    files: &ModelFiles,
    file: &FileEntry,
    receipt: &Receipt,
    progress: &mut dyn PullProgress,
) -> Result<VerifiedFile, WeightsError> {
    let path = files.file(&file.name)?;
    let bytes = std::fs::metadata(&path)
        .map_err(WeightsError::io("read", &path))?
        .len();
    let received = sha256_of(&path, &mut |done| {
        let (stage, total) = (PullStage::Verifying, Some(bytes));
        progress.update(&PullUpdate {
            stage,
            file: &file.name,
            done,
            total,
        });
    })?;
    let (expected, pin) = match (&file.sha256, receipt.sha256(&file.name)) {
        (Some(pinned), _) => (pinned.as_str(), Pin::Manifest),
        (None, Some(arrived)) => (arrived, Pin::Receipt),
        (None, None) => (received.as_str(), Pin::None),
    };
    if expected != received {
        return Err(WeightsError::HashMismatch {
            path,
            expected: expected.to_owned(),
            received,
        });
    }
    Ok(VerifiedFile {
        name: file.name.clone(),
        bytes,
        sha256: received,
        pin,
    })
}
