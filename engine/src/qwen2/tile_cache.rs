//! The tiles of one model in a file beside it, so that the second start maps them instead of making them again.
//!
//! Layout: each matrix as [`TiledMatrix::write_to`] writes it, from a multiple of 64; then the index (JSON: what the
//! tiles were made from, and each matrix's name, place and SHA-256); then the index's length, its SHA-256 and the
//! magic. A file that is cut, damaged or made from something else is never used.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use kernels::{Cpu, SharedBytes, TilePolicy, TiledMatrix};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weights::MappedFile;

use super::source::WeightFiles;
use crate::LoadError;

const MAGIC: &[u8; 8] = b"mnemetc1";
const ALIGNMENT: u64 = 64;
const DIGEST_BYTES: usize = 32;
/// Length, digest, magic.
const FOOTER_BYTES: usize = 8 + DIGEST_BYTES + MAGIC.len();

/// Matrices by the names of their tensors.
pub(super) type Tiles = HashMap<String, TiledMatrix>;

/// The cache file of one model under one policy.
#[derive(Debug)]
pub(super) struct TileStore {
    path: PathBuf,
    source: String,
}

impl TileStore {
    /// The file beside the model's first. What it is made from is known by the files' names, lengths and times of
    /// change.
    pub(super) fn beside(files: &WeightFiles, policy: TilePolicy) -> Result<Self, LoadError> {
        let mut source = format!("{policy:?}; {}", env!("CARGO_PKG_VERSION"));
        let paths = files.paths();
        for path in &paths {
            let (bytes, changed) = stamp(path).map_err(|source| LoadError::Io {
                path: path.clone(),
                source,
            })?;
            let name = path.file_name().unwrap_or_default().display();
            source.push_str(&format!("; {name} {bytes} {changed}"));
        }
        let mut path = paths.into_iter().next().unwrap_or_default().into_os_string();
        path.push(match policy {
            TilePolicy::Int8 => ".int8.tiles",
            TilePolicy::Native => ".native.tiles",
        });
        Ok(Self {
            path: path.into(),
            source,
        })
    }

    /// The tiles, none where there is no file or it is of no use.
    pub(super) fn read(&self, cpu: &Cpu) -> Tiles {
        let path = self.path.display();
        read(&self.path, &self.source, cpu)
            .inspect_err(|reason| tracing::info!(%path, reason, "the tile cache is made again"))
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Keeps the tiles for the next start; a failure (a read-only folder, a full disk) costs time only.
    pub(super) fn write(&self, matrices: &[(String, TiledMatrix)]) {
        let path = self.path.display();
        let named = matrices.iter().map(|(name, matrix)| (name.as_str(), matrix));
        match write(&self.path, &self.source, named) {
            Ok(true) => tracing::debug!(%path, "tiles are kept for the next start"),
            Ok(false) => tracing::debug!(%path, "another process keeps the tiles"),
            Err(error) => tracing::info!(%path, %error, "tiles are not kept for the next start"),
        }
    }
}

/// Length in bytes, and nanoseconds since 1970 of the last change.
fn stamp(path: &Path) -> io::Result<(u64, u128)> {
    let metadata = std::fs::metadata(path)?;
    let changed = metadata
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok((metadata.len(), changed.as_nanos()))
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    /// Everything that the tiles depend on.
    source: String,
    matrices: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    name: String,
    start: u64,
    bytes: u64,
    sha256: [u8; DIGEST_BYTES],
}

/// Reads what [`write()`] wrote for the same source. `Ok(None)` where there is no file; the reason where the file is of
/// no use.
fn read(path: &Path, source: &str, cpu: &Cpu) -> Result<Option<Tiles>, String> {
    if !path.is_file() {
        return Ok(None);
    }
    let map = Arc::new(MappedFile::open(path).map_err(|error| error.to_string())?);
    let bytes = SharedBytes::new(map);
    let index = index_of(&bytes)?;
    if index.source != source {
        return Err("it was made from another file, setting or version of the program".into());
    }
    let matrices = index
        .matrices
        .iter()
        .map(|entry| {
            let end = entry
                .start
                .checked_add(entry.bytes)
                .ok_or("a matrix ends nowhere")?;
            let place = |at: u64| usize::try_from(at).map_err(|_| "a matrix is too far away".to_owned());
            bytes
                .slice(place(entry.start)?..place(end)?)
                .map_err(|error| error.to_string())
        })
        .collect::<Result<Vec<_>, String>>()?;
    if let Some(damaged) = first_damaged(&index.matrices, &matrices, cpu) {
        return Err(format!(
            "the checksum of {} is wrong: it is damaged",
            damaged.name
        ));
    }
    let mut tiles = Tiles::with_capacity(matrices.len());
    for (entry, bytes) in index.matrices.into_iter().zip(&matrices) {
        let matrix = TiledMatrix::from_cache(bytes).map_err(|error| error.to_string())?;
        tiles.insert(entry.name, matrix);
    }
    Ok(Some(tiles))
}

fn index_of(bytes: &[u8]) -> Result<Index, String> {
    let (rest, footer) = bytes
        .split_last_chunk::<FOOTER_BYTES>()
        .ok_or("it is too short")?;
    let (length, footer) = footer.split_first_chunk().unwrap_or((&[0; 8], footer));
    let (digest, magic) = footer.split_at(DIGEST_BYTES);
    if magic != MAGIC {
        return Err("it is no complete tile cache of this version".into());
    }
    let start = usize::try_from(u64::from_le_bytes(*length))
        .ok()
        .and_then(|length| rest.len().checked_sub(length))
        .ok_or("its index ends too early")?;
    let index = &rest[start..];
    if Sha256::digest(index).as_slice() != digest {
        return Err("the checksum of its index is wrong: it is damaged".into());
    }
    serde_json::from_slice(index).map_err(|error| error.to_string())
}

/// The first matrix whose bytes are not those that were written, looked at on all threads.
fn first_damaged<'a>(entries: &'a [Entry], matrices: &[SharedBytes], cpu: &Cpu) -> Option<&'a Entry> {
    // The largest first, so that no thread is left with it at the end.
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(entries[index].bytes));
    let damaged = AtomicUsize::new(usize::MAX);
    cpu.pool().run(order.len(), &|task| {
        let index = order[task];
        if Sha256::digest(&matrices[index][..]).as_slice() != entries[index].sha256 {
            damaged.fetch_min(index, Ordering::Relaxed);
        }
    });
    entries.get(damaged.into_inner())
}

/// Writes the matrices; the file appears whole or not at all. Returns false when another process is writing it.
fn write<'a>(
    path: &Path,
    source: &str,
    matrices: impl Iterator<Item = (&'a str, &'a TiledMatrix)>,
) -> io::Result<bool> {
    let partial = partial_path(path);
    // Not truncated before the lock is held: the file may be another process's.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&partial)?;
    if file.try_lock().is_err() {
        return Ok(false);
    }
    file.set_len(0)?;
    let written = write_partial(file, source, matrices).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&partial);
    }
    written.map(|()| true)
}

fn partial_path(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

fn write_partial<'a>(
    file: File,
    source: &str,
    matrices: impl Iterator<Item = (&'a str, &'a TiledMatrix)>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut index = Index {
        source: source.to_owned(),
        matrices: Vec::new(),
    };
    let mut end = 0;
    for (name, matrix) in matrices {
        let bytes = matrix.cached_len() as u64;
        debug_assert!(bytes.is_multiple_of(ALIGNMENT));
        let mut hashing = Hashing {
            inner: &mut out,
            digest: Sha256::new(),
        };
        matrix.write_to(&mut hashing)?;
        index.matrices.push(Entry {
            name: name.to_owned(),
            start: end,
            bytes,
            sha256: hashing.digest.finalize().into(),
        });
        end += bytes;
    }
    let index = serde_json::to_vec(&index)?;
    out.write_all(&index)?;
    out.write_all(&(index.len() as u64).to_le_bytes())?;
    out.write_all(&Sha256::digest(&index))?;
    out.write_all(MAGIC)?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

struct Hashing<W> {
    inner: W,
    digest: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize) -> TiledMatrix {
        let values: Vec<f32> = (0..n * 32).map(|at| (at % 17) as f32 - 8.0).collect();
        TiledMatrix::from_f32(n, 32, &values).unwrap()
    }

    fn row(matrix: &TiledMatrix) -> Vec<f32> {
        let mut row = vec![0.0; 32];
        matrix.row(1, &mut row);
        row
    }

    #[test]
    fn what_was_written_is_read_back_for_the_same_source_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.tiles");
        let cpu = Cpu::new(Some(2)).unwrap();
        assert!(read(&path, "a", &cpu).unwrap().is_none(), "no file, no tiles");
        let (first, second) = (matrix(16), matrix(40));
        assert!(write(&path, "a", [("first", &first), ("second", &second)].into_iter()).unwrap());
        let tiles = read(&path, "a", &cpu).unwrap().unwrap();
        assert_eq!(row(&tiles["first"]), row(&first));
        assert_eq!(row(&tiles["second"]), row(&second));
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no partial file is left"
        );
        assert!(read(&path, "b", &cpu).unwrap_err().contains("another file"));
    }

    #[test]
    fn any_damaged_byte_and_any_cut_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.tiles");
        let cpu = Cpu::new(Some(1)).unwrap();
        write(&path, "a", [("only", &matrix(16))].into_iter()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(read(&path, "a", &cpu).is_err(), "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path, "a", &cpu).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_a_killed_process_left_is_replaced_and_a_writer_is_not_disturbed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.tiles");
        let cpu = Cpu::new(Some(1)).unwrap();
        std::fs::write(partial_path(&path), [7; 100_000]).unwrap();
        let other = File::open(partial_path(&path)).unwrap();
        other.lock().unwrap();
        assert!(!write(&path, "a", [("only", &matrix(16))].into_iter()).unwrap());
        drop(other);
        assert!(write(&path, "a", [("only", &matrix(16))].into_iter()).unwrap());
        assert!(read(&path, "a", &cpu).unwrap().is_some());
    }
}
