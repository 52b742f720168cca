//! On what a run was made: machine, code, model files, data.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weights::ModelStore;

use crate::output;

/// A model and the file that stands for it.
pub(super) struct ModelFile {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Finds a model's weights and hashes them.
pub(super) fn model_file(given: &str) -> Result<ModelFile> {
    let files = ModelStore::from_env()?.locate(given)?;
    let path = if files.is_gguf() {
        files.gguf()?
    } else {
        files.file("model.safetensors")?
    };
    Ok(ModelFile {
        name: files.name.clone(),
        file: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        bytes: fs::metadata(&path).map(|data| data.len()).unwrap_or(0),
        sha256: sha256(&path)?,
    })
}

/// Lower-case hex digits of a file's SHA-256.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let read = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(read)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut buffer).with_context(read)?;
        if length == 0 {
            break;
        }
        digest.update(&buffer[..length]);
    }
    Ok(digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// What the report's environment table says, as an object of names and values.
pub(super) fn describe(model: &ModelFile, embedder: &str, threads: Option<usize>) -> Value {
    json!({
        "processor": field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "threads": threads.map_or_else(|| "one per physical core".to_owned(), |n| n.to_string()),
        "memory": field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".into()),
        "system": fs::read_to_string("/proc/version")
            .map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
            .unwrap_or_else(|_| std::env::consts::OS.into()),
        "code": format!("mneme {} at commit {}", env!("CARGO_PKG_VERSION"), env!("MNEME_COMMIT")),
        "model": format!("{}, file {}, {}", model.name, model.file, output::bytes(model.bytes)),
        "model sha256": model.sha256,
        "embedder": embedder,
        "begun": jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
    })
}

/// The most memory this process has held, in bytes; `None` where the system does not say.
pub(super) fn peak_bytes() -> Option<u64> {
    let text = field("/proc/self/status", "VmHWM")?;
    let kibibytes: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The command line, its program by name alone.
pub(super) fn command() -> String {
    let quoted = |word: String| {
        if word.contains([' ', '#', '"']) {
            format!("'{word}'")
        } else {
            word
        }
    };
    std::iter::once("mneme".to_owned())
        .chain(std::env::args().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The value behind `name:` in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(
        line.split_once(':')?
            .1
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_hashed_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"abc").unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256(file.path()).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
