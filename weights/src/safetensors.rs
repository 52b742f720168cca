//! Safetensors files, read through a memory map.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use safetensors::Dtype;

use crate::error::WeightsError;
use crate::mapped::MappedFile;

/// A safetensors file. Opening checks the header and that the tensors fill the file exactly.
#[derive(Debug)]
pub struct SafeTensors {
    path: PathBuf,
    bytes: MappedFile,
    tensors: BTreeMap<String, Placement>,
}

#[derive(Debug)]
struct Placement {
    dtype: Dtype,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// A tensor of a [`SafeTensors`], borrowed from the map.
#[derive(Debug, Clone, Copy)]
pub struct SafeTensor<'a> {
    /// Name in the file.
    pub name: &'a str,
    /// Row-major shape.
    pub shape: &'a [usize],
    /// Type of the values.
    pub dtype: Dtype,
    /// The values, little-endian. Not necessarily aligned.
    pub bytes: &'a [u8],
}

impl SafeTensors {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, or is not a whole safetensors file; the error names it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let bytes = MappedFile::open(path)?;
        let tensors = read_tensors(&bytes).map_err(|what| WeightsError::Malformed {
            path: path.to_owned(),
            format: "safetensors",
            what,
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            tensors,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Every tensor, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = SafeTensor<'_>> {
        self.tensors
            .iter()
            .map(|(name, placement)| self.borrow(name, placement))
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`WeightsError::MissingTensor`].
    pub fn tensor(&self, name: &str) -> Result<SafeTensor<'_>, WeightsError> {
        match self.tensors.get_key_value(name) {
            Some((name, placement)) => Ok(self.borrow(name, placement)),
            None => Err(WeightsError::MissingTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                count: self.tensors.len(),
            }),
        }
    }

    fn borrow<'a>(&'a self, name: &'a str, placement: &'a Placement) -> SafeTensor<'a> {
        SafeTensor {
            name,
            shape: &placement.shape,
            dtype: placement.dtype,
            bytes: &self.bytes[placement.range.clone()],
        }
    }
}

fn read_tensors(bytes: &[u8]) -> Result<BTreeMap<String, Placement>, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    // `deserialize` also checks that the last tensor ends where the file ends.
    let whole = safetensors::SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let base = bytes.as_ptr().addr();
    let place = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let start = view.data().as_ptr().addr() - base;
        let range = start..start + view.data().len();
        (
            name,
            Placement {
                dtype: view.dtype(),
                shape: view.shape().to_vec(),
                range,
            },
        )
    };
    Ok(whole.tensors().into_iter().map(place).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> Vec<u8> {
        let header = br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(0..11);
        bytes
    }

    fn open_bytes(bytes: &[u8]) -> Result<SafeTensors, WeightsError> {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("m.safetensors");
        std::fs::write(&path, bytes).unwrap();
        SafeTensors::open(path)
    }

    #[test]
    fn tensors_are_found_by_name() {
        let file = open_bytes(&small()).unwrap();
        let tensor = file.tensor("b").unwrap();
        assert_eq!(
            (tensor.shape, tensor.dtype, tensor.bytes),
            (&[1, 3][..], Dtype::U8, &[8, 9, 10][..])
        );
        let missing = file.tensor("c").unwrap_err().to_string();
        assert!(
            missing.contains("m.safetensors has no tensor `c` (it holds 2 tensors"),
            "{missing}"
        );
        assert!(
            open_bytes(b"")
                .unwrap_err()
                .to_string()
                .contains("the file is empty")
        );
    }

    proptest! {
        #[test]
        fn truncation_is_always_refused(cut in any::<prop::sample::Index>()) {
            let bytes = small();
            let error = open_bytes(&bytes[..cut.index(bytes.len())]).unwrap_err().to_string();
            prop_assert!(error.contains("m.safetensors"), "{}", error);
        }

        #[test]
        fn flipped_bytes_never_panic(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let mut bytes = small();
            let at = at.index(bytes.len());
            bytes[at] = value;
            if let Ok(file) = open_bytes(&bytes) {
                prop_assert!(file.tensors().all(|tensor| tensor.bytes.len() <= 11));
            }
        }
    }
}
