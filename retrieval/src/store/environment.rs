//! The LMDB environment: opening, transactions, growth of the map.
#![expect(
    unsafe_code,
    reason = "LMDB maps a file into memory; heed marks opening and resizing as unsafe"
)]

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use heed::{Env, EnvOpenOptions, MdbError, RoTxn, RwTxn, WithoutTls};

use crate::RetrievalError;

pub(super) const DATA_FILE: &str = "data.mdb";
const MAX_DATABASES: u32 = 32;
const MAX_READERS: u32 = 512;
/// `ENOSPC`, `EFBIG` and `EDQUOT`; the last as Linux and as macOS number it.
const NO_SPACE: [i32; 4] = [28, 27, 122, 69];
const IO: i32 = 5;
/// Bytes that LMDB may write at once, and more.
const PROBE: usize = 1 << 20;

/// An open environment. One writer at a time over all processes, any number of readers; a reader sees the state of
/// one commit.
#[derive(Debug)]
pub(super) struct Environment {
    env: Env<WithoutTls>,
    path: PathBuf,
    /// Shared by running transactions, taken alone to resize the map, which LMDB allows only between transactions.
    gate: RwLock<()>,
}

impl Environment {
    /// Opens the environment in an existing folder with a map of at least `map_bytes`, a multiple of the page size.
    pub(super) fn open(path: &Path, map_bytes: usize) -> Result<Self, RetrievalError> {
        let stored = fs::metadata(path.join(DATA_FILE)).map_or(0, |data| data.len());
        let mut map = map_bytes;
        while (map as u64) < stored.saturating_mul(2) {
            map *= 2;
        }
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options
            .map_size(map)
            .max_dbs(MAX_DATABASES)
            .max_readers(MAX_READERS);
        // SAFETY: the mapped file changes only through LMDB: nothing in this crate writes to the folder, no flag
        // weakens LMDB's locking, and heed refuses a second environment of the same folder in this process.
        let env = unsafe { options.open(path) };
        let env = env.map_err(|source| store_error(path, source))?;
        env.clear_stale_readers()
            .map_err(|source| store_error(path, source))?;
        Ok(Self {
            env,
            path: path.to_owned(),
            gate: RwLock::new(()),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn env(&self) -> &Env<WithoutTls> {
        &self.env
    }

    /// Bytes of the data file and of the map.
    pub(super) fn sizes(&self) -> Result<(u64, usize), RetrievalError> {
        let file = self
            .env
            .real_disk_size()
            .map_err(|error| self.named(error.into()))?;
        Ok((file, self.env.info().map_size))
    }

    /// Whether no database was ever made here.
    pub(super) fn is_empty(&self) -> bool {
        self.env.unnamed_database_stat().entries == 0
    }

    /// Runs `body` on a snapshot. It must not begin another transaction of this environment.
    pub(super) fn read<T>(
        &self,
        body: impl FnOnce(&RoTxn<'_>) -> Result<T, RetrievalError>,
    ) -> Result<T, RetrievalError> {
        loop {
            let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            match self.env.read_txn() {
                Ok(txn) => return body(&txn).map_err(|error| self.named(error)),
                Err(heed::Error::Mdb(MdbError::MapResized)) => {
                    drop(gate);
                    self.adopt_size()?;
                }
                Err(error) => return Err(self.named(error.into())),
            }
        }
    }

    /// Runs `body` in a transaction and commits it; on an error nothing of it is stored. When the map is full it
    /// grows and `body` runs again from the start, so it must build its results anew each time.
    pub(super) fn write<T>(
        &self,
        mut body: impl FnMut(&mut RwTxn<'_>) -> Result<T, RetrievalError>,
    ) -> Result<T, RetrievalError> {
        loop {
            let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let outcome = self.attempt(&mut body);
            drop(gate);
            match outcome {
                Err(RetrievalError::Lmdb(heed::Error::Mdb(MdbError::MapFull))) => self.grow()?,
                Err(RetrievalError::Lmdb(heed::Error::Mdb(MdbError::MapResized))) => self.adopt_size()?,
                outcome => return outcome.map_err(|error| self.named(error)),
            }
        }
    }

    fn attempt<T>(
        &self,
        body: &mut impl FnMut(&mut RwTxn<'_>) -> Result<T, RetrievalError>,
    ) -> Result<T, RetrievalError> {
        let mut txn = self.env.write_txn()?;
        let value = body(&mut txn)?;
        txn.commit()?;
        Ok(value)
    }

    fn grow(&self) -> Result<(), RetrievalError> {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.env.info().map_size.saturating_mul(2);
        tracing::debug!(path = %self.path.display(), bytes, "the LMDB map grows");
        // SAFETY: the gate is held alone, and every transaction of this process holds it shared.
        unsafe { self.env.resize(bytes) }.map_err(|error| self.named(error.into()))
    }

    /// Takes over the map size that another process has set.
    fn adopt_size(&self) -> Result<(), RetrievalError> {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as in `grow`.
        unsafe { self.env.resize(0) }.map_err(|error| self.named(error.into()))
    }

    fn named(&self, error: RetrievalError) -> RetrievalError {
        if let RetrievalError::Lmdb(source) = error {
            store_error(&self.path, source)
        } else {
            error
        }
    }
}

fn store_error(path: &Path, source: heed::Error) -> RetrievalError {
    let path = path.to_owned();
    let heed::Error::Io(error) = &source else {
        return RetrievalError::Store { path, source };
    };
    let full = match error.raw_os_error() {
        Some(code) if NO_SPACE.contains(&code) => Some(error.to_string()),
        // LMDB says no more when the system has written a part only, as it does when the disk becomes full.
        Some(IO) => probe(&path).err().map(|error| error.to_string()),
        _ => None,
    };
    match full {
        Some(reason) => RetrievalError::DiskFull { path, reason },
        None => RetrievalError::Store { path, source },
    }
}

/// Fails with the system's reason when the folder has no room for one more write, or its data file may not grow.
fn probe(folder: &Path) -> io::Result<()> {
    // A folder that cannot be asked has another fault.
    let (Ok(data), Ok(mut file)) = (
        fs::metadata(folder.join(DATA_FILE)),
        tempfile::tempfile_in(folder),
    ) else {
        return Ok(());
    };
    file.write_all(&[1; PROBE])?;
    file.set_len(data.len() + PROBE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let path = Path::new("memory");
        let error = |code| store_error(path, heed::Error::Io(std::io::Error::from_raw_os_error(code)));
        for code in NO_SPACE {
            assert!(matches!(error(code), RetrievalError::DiskFull { .. }));
        }
        assert!(matches!(error(IO), RetrievalError::Store { .. }));
    }
}
