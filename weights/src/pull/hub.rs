//! Files of a Hugging Face repository, fetched in ranges so that an interrupted pull continues.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hf_hub::progress::{DownloadEvent, ProgressEvent, ProgressHandler};
use hf_hub::repository::{RepoTreeEntry, RepoTypeModel};
use hf_hub::{HFClient, HFError, HFRepositorySync};

use super::partial::PartialFile;
use super::progress::{PullProgress, PullStage};
use super::{Fetched, Job};
use crate::error::WeightsError;
use crate::manifest::FileEntry;

/// Where the Hub cannot be reached, the next source is tried after this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that has been silent for so long is dead.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes per request: large enough that a request's own cost vanishes, small enough to hold in memory.
const RANGE: u64 = 32 << 20;
const POLL: Duration = Duration::from_millis(100);
/// Failures in a row, after the Hub has answered once, that end the attempt.
const MAX_FAILURES: u32 = 4;

/// A repository at one revision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repository<'a> {
    pub(super) name: &'a str,
    pub(super) revision: Option<&'a str>,
}

/// What the Hub says of a file.
struct Published {
    bytes: u64,
    /// For files in Git LFS, so for all weights.
    sha256: Option<String>,
}

/// Fetches every file of `missing`.
pub(super) fn fetch(
    job: &Job<'_>,
    repository: Repository<'_>,
    missing: &[&FileEntry],
    progress: &mut dyn PullProgress,
) -> Result<Vec<Fetched>, WeightsError> {
    let handle = connect(repository, job.store.reach.hub.as_deref())?;
    let opened = Opened { repository, handle };
    let published = published(&opened, missing)?;
    let mut fetched = Vec::new();
    for (entry, published) in missing.iter().zip(&published) {
        let partial = job.partial(entry)?;
        fetch_file(&opened, &partial, published, progress)?;
        let sha256 = partial.finish(published.sha256.as_deref(), progress)?;
        fetched.push(Fetched {
            name: entry.name.clone(),
            sha256,
        });
    }
    Ok(fetched)
}

fn connect(
    repository: Repository<'_>,
    endpoint: Option<&str>,
) -> Result<HFRepositorySync<RepoTypeModel>, WeightsError> {
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .user_agent(concat!("mneme/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| WeightsError::Source { what: chain(&error) })?;
    let mut builder = HFClient::builder().client(client).retry_max_attempts(0);
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint(endpoint);
    }
    let client = builder.build_sync().map_err(source_error)?;
    let (owner, name) = hf_hub::split_id(repository.name);
    Ok(client.model(owner, name))
}

/// Lengths and digests of `missing`, in its order, in one request; also tells whether the Hub is there at all.
fn published(opened: &Opened<'_>, missing: &[&FileEntry]) -> Result<Vec<Published>, WeightsError> {
    let paths = missing.iter().map(|entry| entry.name.clone()).collect();
    let request = opened
        .handle
        .get_paths_info()
        .paths(paths)
        .maybe_revision(opened.revision());
    let listed = request.send().map_err(source_error)?;
    let find = |entry: &&FileEntry| {
        let found = listed.iter().find_map(|listed| match listed {
            RepoTreeEntry::File { path, size, lfs, .. } if *path == entry.name => Some(Published {
                bytes: *size,
                sha256: lfs.as_ref().and_then(|lfs| lfs.sha256.clone()),
            }),
            RepoTreeEntry::File { .. } | RepoTreeEntry::Directory { .. } => None,
        });
        let found = found.ok_or_else(|| WeightsError::Source {
            what: format!("no file `{}`", entry.name),
        })?;
        agrees(entry, &found)?;
        Ok(found)
    };
    missing.iter().map(find).collect()
}

/// Refuses, before anything is fetched, a file that is not the pinned one.
fn agrees(entry: &FileEntry, published: &Published) -> Result<(), WeightsError> {
    let differs = |what: &str, expected: &str, received: &str| {
        let what = format!(
            "`{}`: {what} differs: expected {expected}, the Hub has {received}",
            entry.name
        );
        Err(WeightsError::Source { what })
    };
    match (entry.bytes, &entry.sha256, &published.sha256) {
        (Some(bytes), _, _) if bytes != published.bytes => {
            differs("size", &bytes.to_string(), &published.bytes.to_string())
        }
        (_, Some(pinned), Some(theirs)) if pinned != theirs => differs("sha256", pinned, theirs),
        _ => Ok(()),
    }
}

fn fetch_file(
    opened: &Opened<'_>,
    partial: &PartialFile<'_>,
    published: &Published,
    progress: &mut dyn PullProgress,
) -> Result<(), WeightsError> {
    if partial.length() > published.bytes {
        partial.truncate(0)?;
    }
    let mut failures = 0;
    loop {
        let start = partial.length();
        progress.update(&partial.update(PullStage::Hub, start));
        if start == published.bytes {
            return Ok(());
        }
        let range = start..published.bytes.min(start + RANGE);
        let length = range.end - range.start;
        match opened.fetch_range(partial, range, progress) {
            Ok(bytes) if bytes.len() as u64 == length => {
                partial.append(&bytes)?;
                failures = 0;
            }
            Ok(bytes) => {
                let what = format!(
                    "`{}`: expected {length} bytes, received {}",
                    partial.entry.name,
                    bytes.len()
                );
                return Err(WeightsError::Source { what });
            }
            Err(error) => {
                failures += 1;
                if failures >= MAX_FAILURES {
                    return Err(source_error(error));
                }
                std::thread::sleep(Duration::from_secs(1 << failures));
            }
        }
    }
}

/// An open repository.
struct Opened<'a> {
    repository: Repository<'a>,
    handle: HFRepositorySync<RepoTypeModel>,
}

impl Opened<'_> {
    fn revision(&self) -> Option<String> {
        self.repository.revision.map(str::to_owned)
    }

    /// Reads a range on a thread of its own, so that the progress made can be shown meanwhile.
    fn fetch_range(
        &self,
        partial: &PartialFile<'_>,
        range: Range<u64>,
        progress: &mut dyn PullProgress,
    ) -> Result<Vec<u8>, HFError> {
        let start = range.start;
        let received = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            let request = self
                .handle
                .download_file_to_bytes()
                .filename(partial.entry.name.as_str())
                .maybe_revision(self.revision())
                .range(range)
                .progress(Received(Arc::clone(&received)));
            let reader = scope.spawn(move || request.send());
            while !reader.is_finished() {
                std::thread::park_timeout(POLL);
                let done = start + received.load(Ordering::Relaxed);
                progress.update(&partial.update(PullStage::Hub, done));
            }
            match reader.join() {
                Ok(outcome) => outcome.map(Vec::from),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

/// Counts the bytes of one range.
struct Received(Arc<AtomicU64>);

impl ProgressHandler for Received {
    fn on_progress(&self, event: &ProgressEvent) {
        if let ProgressEvent::Download(DownloadEvent::Progress { files }) = event
            && let Some(file) = files.last()
        {
            self.0.store(file.bytes_completed, Ordering::Relaxed);
        }
    }
}

fn source_error(error: HFError) -> WeightsError {
    // A request's address is in the text twice otherwise.
    let what = if let HFError::Request { source, .. } = error {
        chain(&source.without_url())
    } else {
        chain(&error)
    };
    WeightsError::Source { what }
}

/// The error and its causes on one line, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
