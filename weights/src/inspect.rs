//! What is in a model file, without loading it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::WeightsError;
use crate::gguf::{Gguf, ggml_type_name};
use crate::safetensors::SafeTensors;

/// What a model file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The file that was read.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Architecture ("qwen2", "bert").
    pub architecture: Option<String>,
    /// Name the makers gave it.
    pub name: Option<String>,
    /// Length in bytes, all parts of a split model together.
    pub bytes: u64,
    /// Values in all tensors.
    pub parameters: u64,
    /// Number of layers.
    pub layers: Option<u32>,
    /// Longest sequence in tokens.
    pub context: Option<u32>,
    /// Tokens in the vocabulary.
    pub vocabulary: Option<u32>,
    /// Kind of tokenizer ("gpt2 (qwen2)", "WordPiece").
    pub tokenizer: Option<String>,
    /// Whether a chat template comes with it.
    pub chat_template: bool,
    /// Tensors by number format, largest share of the bytes first.
    pub types: Vec<TypeShare>,
}

/// Format of a model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// GGUF.
    Gguf {
        /// Version of the format.
        version: u32,
    },
    /// Safetensors.
    SafeTensors,
}

/// The tensors of one number format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeShare {
    /// The format ("Q5_0", "F32").
    pub name: String,
    /// How many tensors.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Reads the head of a GGUF or safetensors file. Beside a safetensors file, `config.json`, `tokenizer.json` and
/// `tokenizer_config.json` are read where they exist.
///
/// # Errors
/// The file cannot be read, or is neither; the error names it.
pub fn inspect(path: impl AsRef<Path>) -> Result<Summary, WeightsError> {
    let path = path.as_ref();
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(WeightsError::io("open", path))?;
    let read = file.read(&mut magic).map_err(WeightsError::io("read", path))?;
    let named_gguf = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    if named_gguf || magic[..read] == *b"GGUF" {
        return inspect_gguf(&Gguf::open(path)?);
    }
    if path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"))
    {
        return inspect_safetensors(&SafeTensors::open(path)?);
    }
    Err(WeightsError::Malformed {
        path: path.to_owned(),
        format: "model",
        what: "expected the magic `GGUF` or the extension .safetensors".to_owned(),
    })
}

fn inspect_gguf(gguf: &Gguf) -> Result<Summary, WeightsError> {
    let architecture = gguf.string("general.architecture").ok().map(str::to_owned);
    let number = |key: &str| {
        architecture
            .as_ref()
            .and_then(|name| gguf.u32(&format!("{name}.{key}")).ok())
    };
    let (layers, context) = (number("block_count"), number("context_length"));
    let tokenizer = gguf.string("tokenizer.ggml.model").ok().map(|model| {
        gguf.string("tokenizer.ggml.pre")
            .map_or_else(|_| model.to_owned(), |pre| format!("{model} ({pre})"))
    });
    let vocabulary = gguf
        .array_length("tokenizer.ggml.tokens")
        .and_then(|count| u32::try_from(count).ok());
    let tensors = gguf.tensors().map(|tensor| Counted {
        kind: ggml_type_name(tensor.ggml_type),
        shape: tensor.shape,
        bytes: tensor.bytes,
    });
    let (parameters, types) = count(tensors);
    Ok(Summary {
        path: gguf.path().to_owned(),
        format: Format::Gguf {
            version: gguf.version(),
        },
        name: gguf.string("general.name").ok().map(str::to_owned),
        architecture,
        bytes: gguf.file_bytes(),
        parameters,
        layers,
        context,
        vocabulary,
        tokenizer,
        chat_template: gguf.has("tokenizer.chat_template"),
        types,
    })
}

fn inspect_safetensors(file: &SafeTensors) -> Result<Summary, WeightsError> {
    let config = beside(file.path(), "config.json")?;
    let number = |key: &str| {
        config
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|value| u32::try_from(value).ok())
    };
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let tokenizer = beside(file.path(), "tokenizer.json")?;
    let chat_template = beside(file.path(), "tokenizer_config.json")?
        .get("chat_template")
        .is_some();
    let tensors = file.tensors().map(|tensor| Counted {
        kind: format!("{:?}", tensor.dtype),
        shape: tensor.shape,
        bytes: tensor.bytes,
    });
    let (parameters, types) = count(tensors);
    Ok(Summary {
        path: file.path().to_owned(),
        format: Format::SafeTensors,
        architecture: text("model_type"),
        name: text("_name_or_path"),
        bytes: file.file_bytes(),
        parameters,
        layers: number("num_hidden_layers"),
        context: number("max_position_embeddings"),
        vocabulary: number("vocab_size"),
        tokenizer: tokenizer
            .pointer("/model/type")
            .and_then(Value::as_str)
            .map(str::to_owned),
        chat_template,
        types,
    })
}

/// The JSON file `name` in the folder of `path`; null where there is none.
fn beside(path: &Path, name: &str) -> Result<Value, WeightsError> {
    let path = path.with_file_name(name);
    match std::fs::read(&path) {
        Ok(json) => serde_json::from_slice(&json).map_err(|error| WeightsError::Malformed {
            path,
            format: "JSON",
            what: error.to_string(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(WeightsError::io("read", path)(error)),
    }
}

struct Counted<'a> {
    kind: String,
    shape: &'a [usize],
    bytes: &'a [u8],
}

fn count<'a>(tensors: impl Iterator<Item = Counted<'a>>) -> (u64, Vec<TypeShare>) {
    let mut parameters = 0;
    let mut by_type: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for tensor in tensors {
        parameters += tensor.shape.iter().product::<usize>() as u64;
        let share = by_type.entry(tensor.kind).or_default();
        share.0 += 1;
        share.1 += tensor.bytes.len() as u64;
    }
    let share = |(name, (tensors, bytes))| TypeShare { name, tensors, bytes };
    let mut types: Vec<TypeShare> = by_type.into_iter().map(share).collect();
    types.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    (parameters, types)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::fixture::small;

    #[test]
    fn a_gguf_file_is_summed_up() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("m.gguf");
        std::fs::write(&path, small(3).string("general.name", "Small").build()).unwrap();
        let summary = inspect(&path).unwrap();
        let types = [("F32", 1, 128), ("Q8_0", 1, 102)];
        let types = types.map(|(name, tensors, bytes)| TypeShare {
            name: name.to_owned(),
            tensors,
            bytes,
        });
        assert_eq!(summary.types, types);
        assert_eq!(
            (summary.parameters, summary.context, summary.vocabulary),
            (128, Some(32768), Some(3))
        );
        assert_eq!(summary.architecture.as_deref(), Some("qwen2"));
        assert_eq!(summary.name.as_deref(), Some("Small"));
        assert!(!summary.chat_template);
    }

    #[test]
    fn a_safetensors_file_is_summed_up_with_its_neighbours() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("model.safetensors");
        let header = br#"{"w":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend([0; 12]);
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(
            folder.path().join("config.json"),
            r#"{"model_type":"bert","vocab_size":9}"#,
        )
        .unwrap();
        let summary = inspect(&path).unwrap();
        assert_eq!((summary.format, summary.parameters), (Format::SafeTensors, 6));
        assert_eq!(
            (summary.architecture.as_deref(), summary.vocabulary),
            (Some("bert"), Some(9))
        );
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = inspect(&path).unwrap_err().to_string();
        assert!(
            error.contains("model.safetensors is not a usable safetensors file"),
            "{error}"
        );
    }

    #[test]
    fn foreign_files_are_named() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "hello").unwrap();
        let error = inspect(&path).unwrap_err().to_string();
        assert!(
            error.contains("notes.txt is not a usable model file: expected the magic `GGUF`"),
            "{error}"
        );
        assert!(
            inspect(folder.path().join("absent"))
                .unwrap_err()
                .to_string()
                .starts_with("cannot open ")
        );
    }
}
