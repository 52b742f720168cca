//! One GGUF file: its head parsed, its tensors placed and checked against the file's length.
//!
//! Layout (GGUF specification, ggml `docs/gguf.md`): magic, version, tensor count, metadata count, metadata,
//! tensor descriptions, padding to the alignment, tensor data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::cursor::{Cursor, ReadResult};
use super::types::layout;
use super::value::{Value, ValueType};
use crate::error::WeightsError;
use crate::mapped::MappedFile;

const MAGIC: [u8; 4] = *b"GGUF";
const DEFAULT_ALIGNMENT: u64 = 32;
/// ggml's `GGML_MAX_DIMS`.
const MAX_DIMENSIONS: u32 = 4;

/// One file of a (possibly split) GGUF model.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    pub(crate) bytes: MappedFile,
    pub(crate) version: u32,
    pub(crate) metadata: BTreeMap<String, Value>,
    pub(crate) tensors: Vec<Placement>,
}

/// Where one tensor lies in its file.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) name: String,
    /// Row-major: slowest dimension first, so `[n, k]` for a matrix of n rows.
    pub(crate) shape: Vec<usize>,
    pub(crate) ggml_type: u32,
    pub(crate) range: Range<usize>,
}

struct Head {
    version: u32,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<Placement>,
}

impl Shard {
    pub(crate) fn open(path: &Path) -> Result<Self, WeightsError> {
        let bytes = MappedFile::open(path)?;
        let head = read_head(&bytes).map_err(|what| WeightsError::Malformed {
            path: path.to_owned(),
            format: "GGUF",
            what,
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            version: head.version,
            metadata: head.metadata,
            tensors: head.tensors,
        })
    }
}

fn read_head(bytes: &[u8]) -> ReadResult<Head> {
    let mut cursor = Cursor::new(bytes);
    let (version, tensor_count, metadata_count) = read_counts(&mut cursor, bytes)?;
    let metadata = read_metadata(&mut cursor, bytes, metadata_count)?;
    let mut described = Vec::new();
    for index in 0..tensor_count {
        described.push(read_description(&mut cursor, index)?);
    }
    let data_start = align(cursor.position() as u64, alignment(&metadata)?)?;
    let tensors = described
        .into_iter()
        .map(|description| description.place(data_start, bytes.len()))
        .collect::<ReadResult<Vec<_>>>()?;
    reject_duplicates(&tensors)?;
    Ok(Head {
        version,
        metadata,
        tensors,
    })
}

fn read_counts(cursor: &mut Cursor<'_>, bytes: &[u8]) -> ReadResult<(u32, u64, u64)> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let magic = cursor.skip(4, "the magic")?;
    if bytes[magic.clone()] != MAGIC {
        let found = String::from_utf8_lossy(&bytes[magic]).escape_debug().to_string();
        return Err(format!("expected the magic `GGUF`, received `{found}`"));
    }
    let version = cursor.u32("the version")?;
    if version.trailing_zeros() >= 16 && version != 0 {
        return Err("it is big-endian, expected little-endian".to_owned());
    }
    if !(2..=3).contains(&version) {
        return Err(format!("expected version 2 or 3, received {version}"));
    }
    Ok((
        version,
        cursor.u64("the tensor count")?,
        cursor.u64("the metadata count")?,
    ))
}

fn read_metadata(cursor: &mut Cursor<'_>, bytes: &[u8], count: u64) -> ReadResult<BTreeMap<String, Value>> {
    let mut metadata = BTreeMap::new();
    for index in 0..count {
        let key = cursor.string(&format!("metadata key {index}"))?;
        let key = String::from_utf8_lossy(&bytes[key]).into_owned();
        let kind = ValueType::from_id(cursor.u32(&key)?).map_err(|what| format!("`{key}`: {what}"))?;
        let value = Value::read(cursor, kind, &key)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(format!("metadata key `{key}` appears twice"));
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &BTreeMap<String, Value>) -> ReadResult<u64> {
    match metadata.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::Unsigned(value)) if value.is_power_of_two() => Ok(*value),
        Some(other) => Err(format!(
            "general.alignment: expected a power of two, received {}",
            other.describe()
        )),
    }
}

fn align(position: u64, alignment: u64) -> ReadResult<u64> {
    position
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| format!("alignment {alignment} is larger than any file"))
}

struct Description {
    name: String,
    shape: Vec<u64>,
    ggml_type: u32,
    offset: u64,
}

fn read_description(cursor: &mut Cursor<'_>, index: u64) -> ReadResult<Description> {
    let name = cursor.owned_string(&format!("the name of tensor {index}"))?;
    let dimensions = cursor.u32(&name)?;
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(format!(
            "tensor `{name}`: expected 1 to {MAX_DIMENSIONS} dimensions, received {dimensions}"
        ));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(cursor.u64(&name)?);
    }
    Ok(Description {
        ggml_type: cursor.u32(&name)?,
        offset: cursor.u64(&name)?,
        name,
        shape,
    })
}

impl Description {
    /// ggml stores the fastest dimension first; the shape given out is row-major.
    fn place(self, data_start: u64, file_length: usize) -> ReadResult<Placement> {
        let Self {
            name,
            mut shape,
            ggml_type,
            offset,
        } = self;
        let layout =
            layout(ggml_type).ok_or_else(|| format!("tensor `{name}`: unknown ggml type {ggml_type}"))?;
        if shape.contains(&0) || !shape[0].is_multiple_of(layout.values) {
            return Err(format!(
                "tensor `{name}`: shape {shape:?} does not divide into {} blocks of {}",
                layout.name, layout.values
            ));
        }
        let range = shape
            .iter()
            .try_fold(1_u64, |product, &dimension| product.checked_mul(dimension))
            .and_then(|values| (values / layout.values).checked_mul(layout.bytes))
            .and_then(|length| {
                let start = data_start.checked_add(offset)?;
                Some((
                    usize::try_from(start).ok()?,
                    usize::try_from(start.checked_add(length)?).ok()?,
                ))
            });
        let (start, end) =
            range.ok_or_else(|| format!("tensor `{name}`: shape {shape:?} at offset {offset} overflows"))?;
        if end > file_length {
            return Err(format!(
                "truncated: tensor `{name}` needs bytes {start} to {end}, the file has {file_length}"
            ));
        }
        shape.reverse();
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<_, _>>();
        let shape = shape.map_err(|_| format!("tensor `{name}`: a dimension overflows"))?;
        Ok(Placement {
            name,
            shape,
            ggml_type,
            range: start..end,
        })
    }
}

fn reject_duplicates(tensors: &[Placement]) -> ReadResult<()> {
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("tensor `{}` appears twice", pair[0])),
        None => Ok(()),
    }
}
