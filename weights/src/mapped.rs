//! Read-only memory maps of weight files.
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe because another process could change it"
)]

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::error::WeightsError;

/// A whole file, mapped read-only and shared with every other reader of it.
#[derive(Debug)]
pub struct MappedFile {
    map: Mmap,
}

impl MappedFile {
    /// Maps `path`, which must not be changed in place while it is mapped; replacing it by a rename is fine.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is a folder.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let file = File::open(path).map_err(WeightsError::io("open", path))?;
        let metadata = file.metadata().map_err(WeightsError::io("read", path))?;
        if metadata.is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(WeightsError::Io {
                action: "read",
                path: path.to_owned(),
                source,
            });
        }
        // SAFETY: the map is read-only, and the bytes behind it stay put: the model store never writes to a
        // finished file in place (it writes beside it and renames), so the old bytes live as long as the map.
        let map = unsafe { Mmap::map(&file) }.map_err(WeightsError::io("map", path))?;
        Ok(Self { map })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
