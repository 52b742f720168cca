//! Namespaces: memories side by side in one folder that know nothing of each other.
//!
//! Each is an LMDB environment of its own, in a folder named by the bytes of the namespace's name. A search in one has no key,
//! posting, vector, word or count of another within its reach, whatever the names are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::RetrievalError;

const FOLDER: &str = "namespaces";
/// Two hexadecimal digits a byte stay below the 255 of file systems.
const MAX_BYTES: usize = 120;

/// The folder of a namespace in the memory folder `root`, for [`crate::Memory::create_or_open`] and the like. A name is any
/// text of 1 to 120 bytes, compared byte by byte: names that look alike are different.
///
/// # Errors
/// [`RetrievalError::InvalidNamespace`] for an empty or longer name.
pub fn namespace_folder(root: &Path, name: &str) -> Result<PathBuf, RetrievalError> {
    if name.is_empty() || name.len() > MAX_BYTES {
        return Err(RetrievalError::InvalidNamespace {
            name: name.to_owned(),
            bytes: name.len(),
        });
    }
    let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    Ok(root.join(FOLDER).join(hex))
}

/// The namespaces in a memory folder, sorted.
///
/// # Errors
/// [`RetrievalError::Store`] when the folder cannot be read.
pub fn namespaces(root: &Path) -> Result<Vec<String>, RetrievalError> {
    let folder = root.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(RetrievalError::Store {
                path: folder,
                source: error.into(),
            });
        }
    };
    let names = entries
        .flatten()
        .filter_map(|entry| decode(entry.file_name().to_str()?));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    Ok(names)
}

fn decode(hex: &str) -> Option<String> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
    String::from_utf8(bytes?).ok()
}
