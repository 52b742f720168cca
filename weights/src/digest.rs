//! SHA-256 of files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::WeightsError;

/// Bytes hashed or copied between two progress reports.
pub(crate) const CHUNK: usize = 1 << 20;

/// A digest in the making.
#[derive(Debug, Default)]
pub(crate) struct Sha256Hex(Sha256);

impl Sha256Hex {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Lower-case hex digits.
    pub(crate) fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Hashes the file at `path`, telling `report` the bytes done.
pub(crate) fn sha256_of(path: &Path, report: &mut dyn FnMut(u64)) -> Result<String, WeightsError> {
    let mut file = File::open(path).map_err(WeightsError::io("open", path))?;
    let mut digest = Sha256Hex::default();
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let length = file.read(&mut buffer).map_err(WeightsError::io("read", path))?;
        if length == 0 {
            return Ok(digest.finish());
        }
        digest.update(&buffer[..length]);
        done += length as u64;
        report(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_with_progress() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        let mut seen = Vec::new();
        let digest = sha256_of(file.path(), &mut |done| seen.push(done)).unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            digest,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(seen, [3]);
    }
}
