//! The one error type of this crate.

use std::path::PathBuf;

/// Anything that can go wrong between a model's name and its usable bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The operating system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb ("read", "create").
        action: &'static str,
        /// The file or folder it was tried on.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
    /// A file is truncated, foreign or contradicts itself.
    #[error("{} is not a usable {format} file: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: &'static str,
        /// What was expected and what was found.
        what: String,
    },
    /// A metadata key is missing or has another type than the caller needs.
    #[error("{}: metadata `{key}` is {received}, expected {expected}", path.display())]
    Metadata {
        /// The GGUF file.
        path: PathBuf,
        /// The key that was asked for.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// What the file holds ("absent" when nothing).
        received: String,
    },
    /// A tensor is not in the file.
    #[error("{} has no tensor `{name}` (it holds {count} tensors; another architecture?)", path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor that was asked for.
        name: String,
        /// Number of tensors in the file.
        count: usize,
    },
    /// Neither the manifest nor the file system knows this model.
    #[error("unknown model `{name}`: known are {known}; a folder or a path to a .gguf file works too")]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// Names in the manifest, comma-separated.
        known: String,
    },
    /// The model is in the manifest, and its files are not on this machine.
    #[error("model `{name}` is not here ({missing}): run `mneme models pull {name}`")]
    NotPulled {
        /// Name in the manifest.
        name: String,
        /// What was looked for and where.
        missing: String,
    },
    /// A model folder lacks a file.
    #[error("{} has no file {wanted}", folder.display())]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The file that was asked for.
        wanted: String,
    },
    /// A file has another length than the manifest says.
    #[error(
        "{}: size differs: expected {expected} bytes, received {received}; \
         delete the file and run `mneme models pull` again",
        path.display()
    )]
    SizeMismatch {
        /// The file.
        path: PathBuf,
        /// Bytes according to the manifest.
        expected: u64,
        /// Bytes found.
        received: u64,
    },
    /// A file has another content than the manifest says.
    #[error(
        "{}: sha256 differs: expected {expected}, received {received}; \
         delete the file and run `mneme models pull` again",
        path.display()
    )]
    HashMismatch {
        /// The file.
        path: PathBuf,
        /// Hex digest according to the manifest.
        expected: String,
        /// Hex digest of the bytes found.
        received: String,
    },
    /// `MNEME_OFFLINE=1` and a fetch would be needed.
    #[error(
        "MNEME_OFFLINE is set, so `{name}` is not fetched: unset it, or put the files into \
         {} (or into a folder named by MNEME_MODELS)",
        folder.display()
    )]
    Offline {
        /// Name in the manifest.
        name: String,
        /// Where the files may be put by hand.
        folder: PathBuf,
    },
    /// The disk is too full for the download.
    #[error(
        "{}: not enough free space: expected {needed} bytes, received {available}; \
         free some or point MNEME_HOME at another disk",
        folder.display()
    )]
    NotEnoughSpace {
        /// Folder on the full disk.
        folder: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// Every source of a model failed.
    #[error("`{name}` could not be fetched; each source said:{}", listed(attempts))]
    SourcesFailed {
        /// Name in the manifest.
        name: String,
        /// Source and what it said, in the order tried.
        attempts: Vec<SourceFailure>,
    },
    /// One source failed; becomes part of [`WeightsError::SourcesFailed`].
    #[error("{what}")]
    Source {
        /// What was asked for and what the source said.
        what: String,
    },
    /// The built-in or a given manifest is wrong.
    #[error("model manifest: {what}")]
    Manifest {
        /// What is wrong, and at which model.
        what: String,
    },
    /// A vocabulary cannot be used, or a text cannot be encoded with it.
    #[error("tokenizer of {}: {what}", path.display())]
    Tokenizer {
        /// File the tokenizer came from.
        path: PathBuf,
        /// What was expected and what was found.
        what: String,
    },
    /// A chat template does not compile or refuses the messages.
    #[error("chat template of {}: {what}", path.display())]
    Template {
        /// File the template came from.
        path: PathBuf,
        /// The template engine's words.
        what: String,
    },
    /// There is no folder to keep models in.
    #[error("no home directory found for the model store: set MNEME_HOME to a folder")]
    NoHome,
}

/// What one source said when it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFailure {
    /// The source ("Hugging Face Hub Qwen/…", "Python package index").
    pub source: String,
    /// Its error, one line.
    pub said: String,
}

fn listed(attempts: &[SourceFailure]) -> String {
    attempts
        .iter()
        .map(|attempt| format!("\n  {}: {}", attempt.source, attempt.said))
        .collect()
}

impl WeightsError {
    /// Wraps an I/O error with the action and the path it happened on.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
