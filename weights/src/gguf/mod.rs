//! GGUF model files, version 2 and 3, single or split, read through a memory map.

mod cursor;
mod shard;
mod types;
mod value;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use shard::Shard;
pub use types::ggml_type_name;
use value::{Array, Value, ValueType};

use crate::error::WeightsError;

/// A GGUF model. Opening checks the head and that every tensor lies inside its file; tensor bytes are
/// mapped, not copied.
#[derive(Debug)]
pub struct Gguf {
    shards: Vec<Shard>,
    /// Name of a tensor to (shard, index in the shard).
    by_name: HashMap<String, (usize, usize)>,
}

/// A tensor of a [`Gguf`], borrowed from the map.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// Name in the file ("blk.0.attn_q.weight").
    pub name: &'a str,
    /// Row-major: `[n, k]` for a matrix of n rows of k values.
    pub shape: &'a [usize],
    /// Type id of ggml's `enum ggml_type`.
    pub ggml_type: u32,
    /// The encoded blocks, row after row.
    pub bytes: &'a [u8],
}

impl Gguf {
    /// Opens a model. For the first file of a split model (`…-00001-of-00003.gguf`) the others are opened too.
    ///
    /// # Errors
    /// A file cannot be read, is truncated or foreign, or a part of a split model is missing; the error names
    /// the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let first = Shard::open(path)?;
        let mut shards = vec![first];
        for sibling in siblings(&shards[0])? {
            shards.push(Shard::open(&sibling)?);
        }
        let mut by_name = HashMap::new();
        for (shard, file) in shards.iter().enumerate() {
            for (index, tensor) in file.tensors.iter().enumerate() {
                if by_name.insert(tensor.name.clone(), (shard, index)).is_some() {
                    return Err(WeightsError::Malformed {
                        path: file.path.clone(),
                        format: "GGUF",
                        what: format!("tensor `{}` is in an earlier part too", tensor.name),
                    });
                }
            }
        }
        Ok(Self { shards, by_name })
    }

    /// The (first) file.
    pub fn path(&self) -> &Path {
        &self.shards[0].path
    }

    /// GGUF version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.shards[0].version
    }

    /// Total size of the files, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes.len() as u64).sum()
    }

    /// Every tensor, in file order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.shards
            .iter()
            .flat_map(|shard| (0..shard.tensors.len()).map(move |index| tensor(shard, index)))
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`WeightsError::MissingTensor`].
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, WeightsError> {
        match self.by_name.get(name) {
            Some(&(shard, index)) => Ok(tensor(&self.shards[shard], index)),
            None => Err(WeightsError::MissingTensor {
                path: self.path().to_owned(),
                name: name.to_owned(),
                count: self.by_name.len(),
            }),
        }
    }

    /// Whether a tensor called `name` exists (a tied output matrix, for instance, does not).
    pub fn has_tensor(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Metadata keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.shards[0].metadata.keys().map(String::as_str)
    }

    /// Whether the metadata holds `key`.
    pub fn has(&self, key: &str) -> bool {
        self.shards[0].metadata.contains_key(key)
    }

    /// A string.
    ///
    /// # Errors
    /// [`WeightsError::Metadata`]: absent or another type.
    pub fn string(&self, key: &str) -> Result<&str, WeightsError> {
        match self.value(key) {
            Some(Value::String(range)) => self.text(range.clone()),
            other => Err(self.wrong(key, "a string", other)),
        }
    }

    /// An unsigned number that fits 32 bits (stored with any integer type).
    ///
    /// # Errors
    /// [`WeightsError::Metadata`]: absent, another type or out of range.
    pub fn u32(&self, key: &str) -> Result<u32, WeightsError> {
        let value = self.value(key);
        let number = match value {
            Some(Value::Unsigned(number)) => u32::try_from(*number).ok(),
            Some(Value::Signed(number)) => u32::try_from(*number).ok(),
            _ => None,
        };
        number.ok_or_else(|| self.wrong(key, "an unsigned 32-bit number", value))
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// [`WeightsError::Metadata`]: absent or another type.
    pub fn f32(&self, key: &str) -> Result<f32, WeightsError> {
        match self.value(key) {
            Some(Value::F32(value)) => Ok(*value),
            #[expect(clippy::cast_possible_truncation, reason = "the caller asked for f32")]
            Some(Value::F64(value)) => Ok(*value as f32),
            other => Err(self.wrong(key, "a floating-point number", other)),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// [`WeightsError::Metadata`]: absent or another type.
    pub fn bool(&self, key: &str) -> Result<bool, WeightsError> {
        match self.value(key) {
            Some(Value::Bool(value)) => Ok(*value),
            other => Err(self.wrong(key, "a bool", other)),
        }
    }

    /// An array of strings, borrowed from the map.
    ///
    /// # Errors
    /// [`WeightsError::Metadata`]: absent or another type.
    pub fn strings(&self, key: &str) -> Result<Vec<&str>, WeightsError> {
        let array = self.array(key, ValueType::String, "an array of strings")?;
        let mut cursor = cursor::Cursor::new(&self.shards[0].bytes[array.range.clone()]);
        let mut out = Vec::with_capacity(array.count);
        for _ in 0..array.count {
            let range = cursor.string(key).map_err(|what| self.malformed(what))?;
            out.push(self.text(range.start + array.range.start..range.end + array.range.start)?);
        }
        Ok(out)
    }

    /// An array of signed 32-bit numbers.
    ///
    /// # Errors
    /// [`WeightsError::Metadata`]: absent or another type.
    pub fn i32s(&self, key: &str) -> Result<Vec<i32>, WeightsError> {
        let array = self.array(key, ValueType::I32, "an array of i32")?;
        let bytes = &self.shards[0].bytes[array.range.clone()];
        Ok(bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|chunk| i32::from_le_bytes(*chunk))
            .collect())
    }

    /// Number of elements of the array `key`; `None` when there is no such array.
    pub fn array_length(&self, key: &str) -> Option<usize> {
        match self.value(key) {
            Some(Value::Array(array)) => Some(array.count),
            _ => None,
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.shards[0].metadata.get(key)
    }

    fn array(&self, key: &str, element: ValueType, expected: &'static str) -> Result<&Array, WeightsError> {
        match self.value(key) {
            Some(Value::Array(array)) if array.element == element => Ok(array),
            other => Err(self.wrong(key, expected, other)),
        }
    }

    fn text(&self, range: std::ops::Range<usize>) -> Result<&str, WeightsError> {
        std::str::from_utf8(&self.shards[0].bytes[range]).map_err(|error| self.malformed(error.to_string()))
    }

    fn wrong(&self, key: &str, expected: &'static str, received: Option<&Value>) -> WeightsError {
        WeightsError::Metadata {
            path: self.path().to_owned(),
            key: key.to_owned(),
            expected,
            received: received.map_or_else(|| "absent".to_owned(), Value::describe),
        }
    }

    fn malformed(&self, what: String) -> WeightsError {
        WeightsError::Malformed {
            path: self.path().to_owned(),
            format: "GGUF",
            what,
        }
    }
}

fn tensor(shard: &Shard, index: usize) -> Tensor<'_> {
    let placement = &shard.tensors[index];
    Tensor {
        name: &placement.name,
        shape: &placement.shape,
        ggml_type: placement.ggml_type,
        bytes: &shard.bytes[placement.range.clone()],
    }
}

/// Paths of the other files of a split model (llama.cpp `gguf-split`), none for a single file.
fn siblings(first: &Shard) -> Result<Vec<PathBuf>, WeightsError> {
    let count = match first.metadata.get("split.count") {
        None | Some(Value::Unsigned(0 | 1)) => return Ok(Vec::new()),
        Some(Value::Unsigned(count)) => *count,
        Some(other) => return Err(split_error(first, format!("split.count is {}", other.describe()))),
    };
    let name = first
        .path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let ending = format!("-00001-of-{count:05}.gguf");
    let Some(stem) = name.strip_suffix(&ending) else {
        return Err(split_error(
            first,
            format!("it is one of {count} parts: give the first part, whose name ends in `{ending}`"),
        ));
    };
    let names = (2..=count).map(|number| format!("{stem}-{number:05}-of-{count:05}.gguf"));
    Ok(names.map(|name| first.path.with_file_name(name)).collect())
}

fn split_error(shard: &Shard, what: String) -> WeightsError {
    WeightsError::Malformed {
        path: shard.path.clone(),
        format: "GGUF",
        what,
    }
}
