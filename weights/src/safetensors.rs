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
