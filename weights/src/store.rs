//! Where models live on this machine.

use std::path::{Path, PathBuf};

use crate::error::WeightsError;
use crate::manifest::{FileEntry, Manifest, ModelEntry};

/// The folder of downloaded models, and the manifest of those that can be fetched.
///
/// Layout: `<home>/models/<name>/<file>`; unfinished downloads are in `<home>/models/.partial/<name>/`.
#[derive(Debug, Clone)]
pub struct ModelStore {
    /// `<home>/models`.
    pub(crate) folder: PathBuf,
    /// `MNEME_MODELS`: a folder with models copied there by hand (a USB stick, a shared disk).
    pub(crate) local: Option<PathBuf>,
    /// `MNEME_OFFLINE`: nothing is ever fetched.
    pub(crate) offline: bool,
    pub(crate) manifest: Manifest,
    pub(crate) reach: Reach,
}

/// How the outside is reached; other than the default only in tests.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// Address of the Hub; hf-hub's own default (`HF_ENDPOINT`) when absent.
    pub(crate) hub: Option<String>,
    /// Names the Python interpreter goes by, in the order to try.
    pub(crate) interpreters: Vec<PathBuf>,
}

/// A model that is here, ready to be opened.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    /// Name in the manifest, or the folder's or file's own name.
    pub name: String,
    /// Folder of the files.
    pub folder: PathBuf,
    /// What the manifest says of it; `None` for a folder or file given by path.
    pub entry: Option<ModelEntry>,
    /// Set when a single .gguf file was given by path.
    file: Option<PathBuf>,
}

/// A model of the manifest and whether it is here.
#[derive(Debug, Clone)]
pub struct ModelStatus {
    /// What the manifest says.
    pub entry: ModelEntry,
    /// Whether it is here.
    pub state: ModelState,
}

/// Whether a model is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelState {
    /// Every file is here with the right length.
    Present,
    /// A pull was interrupted; the next one continues it.
    Partial,
    /// Nothing is here.
    Absent,
}

impl ModelStore {
    /// The store the environment names: `MNEME_HOME` (default `$XDG_CACHE_HOME/mneme`, else `~/.cache/mneme`),
    /// `MNEME_MODELS` (an extra folder of models, read only) and `MNEME_OFFLINE=1`.
    ///
    /// # Errors
    /// No home directory is known.
    pub fn from_env() -> Result<Self, WeightsError> {
        let set = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = set("MNEME_HOME")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("mneme")))
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache").join("mneme")))
            .ok_or(WeightsError::NoHome)?;
        let offline = set("MNEME_OFFLINE").is_some_and(|value| value.as_os_str() != "0");
        let mut store = Self::new(home)?;
        store.local = set("MNEME_MODELS");
        store.offline = offline;
        Ok(store)
    }

    /// A store in `home/models` with the built-in manifest, no extra folder, fetching allowed.
    ///
    /// # Errors
    /// The built-in manifest contradicts itself.
    pub fn new(home: impl Into<PathBuf>) -> Result<Self, WeightsError> {
        Ok(Self {
            folder: home.into().join("models"),
            local: None,
            offline: false,
            manifest: Manifest::builtin()?,
            reach: Reach {
                hub: None,
                interpreters: vec!["python3".into(), "python".into()],
            },
        })
    }

    /// The same store with another manifest.
    #[must_use]
    pub fn with_manifest(mut self, manifest: Manifest) -> Self {
        self.manifest = manifest;
        self
    }

    /// The same store with an extra folder of models (what `MNEME_MODELS` names).
    #[must_use]
    pub fn with_local_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.local = Some(folder.into());
        self
    }

    /// The same store, with fetching refused or allowed.
    #[must_use]
    pub fn with_offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// The folder that holds one folder per model.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The models that can be named.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Files of a model: a name of the manifest, a folder, or a path to a .gguf file. Checks that each file is
    /// there and has the pinned length, not its content ([`Self::verify`] does).
    ///
    /// # Errors
    /// [`WeightsError::NotPulled`] says the command that fetches it; [`WeightsError::UnknownModel`] lists the
    /// known names; [`WeightsError::SizeMismatch`] names a file that is cut short.
    pub fn locate(&self, name_or_path: &str) -> Result<ModelFiles, WeightsError> {
        match self.manifest.get(name_or_path) {
            Some(entry) => self.locate_entry(entry),
            None => locate_path(name_or_path).ok_or_else(|| self.unknown(name_or_path)),
        }
    }

    /// Every model of the manifest, and whether it is here.
    pub fn list(&self) -> Vec<ModelStatus> {
        let state = |entry: &ModelEntry| {
            if self.locate_entry(entry).is_ok() {
                ModelState::Present
            } else if self.partial_folder(&entry.name).exists() || self.folder.join(&entry.name).exists() {
                ModelState::Partial
            } else {
                ModelState::Absent
            }
        };
        let status = |entry: &ModelEntry| ModelStatus {
            entry: entry.clone(),
            state: state(entry),
        };
        self.manifest.models().iter().map(status).collect()
    }

    pub(crate) fn entry(&self, name: &str) -> Result<&ModelEntry, WeightsError> {
        self.manifest.get(name).ok_or_else(|| self.unknown(name))
    }

    pub(crate) fn partial_folder(&self, name: &str) -> PathBuf {
        self.folder.join(".partial").join(name)
    }

    fn locate_entry(&self, entry: &ModelEntry) -> Result<ModelFiles, WeightsError> {
        let own = self.folder.join(&entry.name);
        let extra = self.local.as_ref().map(|local| local.join(&entry.name));
        let mut failure = None;
        for folder in std::iter::once(own).chain(extra) {
            match entry
                .files
                .iter()
                .try_for_each(|file| check_length(&folder, entry, file))
            {
                Ok(()) => {
                    let (name, entry) = (entry.name.clone(), Some(entry.clone()));
                    return Ok(ModelFiles {
                        name,
                        folder,
                        entry,
                        file: None,
                    });
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| not_pulled(entry, &self.folder)))
    }

    fn unknown(&self, name: &str) -> WeightsError {
        let known: Vec<&str> = self
            .manifest
            .models()
            .iter()
            .map(|model| model.name.as_str())
            .collect();
        WeightsError::UnknownModel {
            name: name.to_owned(),
            known: known.join(", "),
        }
    }
}

impl ModelFiles {
    /// Path of the file `name` ("tokenizer.json").
    ///
    /// # Errors
    /// [`WeightsError::MissingFile`].
    pub fn file(&self, name: &str) -> Result<PathBuf, WeightsError> {
        let path = self.folder.join(name);
        if path.is_file() {
            Ok(path)
        } else {
            Err(self.missing(name))
        }
    }

    /// Path of the .gguf file; of a split model, of its first part.
    ///
    /// # Errors
    /// [`WeightsError::MissingFile`]: there is none, or several that do not belong together.
    pub fn gguf(&self) -> Result<PathBuf, WeightsError> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let mut found: Vec<PathBuf> = match &self.entry {
            Some(entry) => entry
                .files
                .iter()
                .map(|file| self.folder.join(&file.name))
                .collect(),
            None => std::fs::read_dir(&self.folder)
                .map_err(WeightsError::io("read", &self.folder))?
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .collect(),
        };
        found.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
        });
        found.retain(|path| !is_later_part(path));
        found.sort();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(self.missing("with the extension .gguf")),
            several => Err(self.missing(&format!(
                "that is its only .gguf: it has {} (give the path of one of them)",
                several.len()
            ))),
        }
    }

    /// Whether the model is a GGUF file (and not a folder of safetensors).
    pub fn is_gguf(&self) -> bool {
        self.gguf().is_ok()
    }

    fn missing(&self, wanted: &str) -> WeightsError {
        WeightsError::MissingFile {
            folder: self.folder.clone(),
            wanted: wanted.to_owned(),
        }
    }
}

/// Whether the name ends in `-000NN-of-000MM.gguf` with N above 1 (llama.cpp `gguf-split`).
fn is_later_part(path: &Path) -> bool {
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let Some((before, count)) = stem.rsplit_once("-of-") else {
        return false;
    };
    let Some((_, number)) = before.rsplit_once('-') else {
        return false;
    };
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(count) && digits(number) && number != "00001"
}

fn locate_path(given: &str) -> Option<ModelFiles> {
    let path = Path::new(given);
    let name = path.file_stem()?.to_string_lossy().into_owned();
    if path.is_dir() {
        return Some(ModelFiles {
            name,
            folder: path.to_owned(),
            entry: None,
            file: None,
        });
    }
    let is_gguf = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    (is_gguf && path.is_file()).then(|| ModelFiles {
        name,
        folder: path.parent().map(Path::to_owned).unwrap_or_default(),
        entry: None,
        file: Some(path.to_owned()),
    })
}

pub(crate) fn check_length(folder: &Path, entry: &ModelEntry, file: &FileEntry) -> Result<(), WeightsError> {
    let path = folder.join(&file.name);
    let Ok(metadata) = std::fs::metadata(&path) else {
        return Err(not_pulled(entry, &path));
    };
    match file.bytes {
        Some(expected) if expected != metadata.len() => Err(WeightsError::SizeMismatch {
            path,
            expected,
            received: metadata.len(),
        }),
        _ => Ok(()),
    }
}

fn not_pulled(entry: &ModelEntry, missing: &Path) -> WeightsError {
    WeightsError::NotPulled {
        name: entry.name.clone(),
        missing: format!("{} is missing", missing.display()),
    }
}
