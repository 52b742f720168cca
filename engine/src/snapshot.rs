//! Cached prefixes in a file, so that a second process begins warm.
//!
//! Layout, little-endian: magic, fingerprint (length, bytes), bytes per block, number of blocks, then for each block
//! its parent (0 and a namespace, or 1 and the index of an earlier block), its tokens (count, ids) and its bytes;
//! last, the SHA-256 of everything before. Knows bytes; does not know what the blocks mean.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use kernels::BLOCK_TOKENS;
use sha2::{Digest, Sha256};

use crate::LoadError;
use crate::config::EngineConfig;
use crate::qwen2::Qwen2;
use crate::worker::{SavedBlock, SavedParent};

const MAGIC: &[u8; 8] = b"mnemekv1";
const DIGEST_BYTES: usize = 32;

/// Everything that the bits of a KV row depend on beside its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint(String);

impl Fingerprint {
    /// Of a model read from files: their paths, sizes and times of change stand for their content.
    pub(crate) fn of_files(
        files: &[PathBuf],
        model: &Qwen2,
        config: &EngineConfig,
    ) -> Result<Self, LoadError> {
        let mut names = Vec::with_capacity(files.len());
        for path in files {
            let io = |source| LoadError::Io {
                path: path.clone(),
                source,
            };
            let metadata = std::fs::metadata(path).map_err(io)?;
            let changed = metadata
                .modified()
                .map_err(io)?
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            names.push(format!(
                "{} {} {}",
                path.display(),
                metadata.len(),
                changed.as_nanos()
            ));
        }
        Ok(Self::of_name(&names.join("; "), model, config))
    }

    /// Of a model known by its name.
    pub(crate) fn of_name(name: &str, model: &Qwen2, config: &EngineConfig) -> Self {
        Self(format!(
            "{name}; {:?}; {:?}; {:?}; {}; {}",
            model.shape(),
            config.weights,
            config.kv_dtype,
            model.cpu().isa(),
            env!("CARGO_PKG_VERSION"),
        ))
    }

    #[cfg(test)]
    pub(crate) fn for_test(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Writes the blocks; the file appears whole or not at all.
pub(crate) fn write(path: &Path, fingerprint: &Fingerprint, blocks: &[SavedBlock]) -> Result<(), LoadError> {
    let io = |source| LoadError::Io {
        path: path.to_owned(),
        source,
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(io)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let written = write_partial(Path::new(&partial), fingerprint, blocks)
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&partial);
    }
    written.map_err(io)
}

fn write_partial(path: &Path, fingerprint: &Fingerprint, blocks: &[SavedBlock]) -> io::Result<()> {
    let mut out = Hashing {
        inner: BufWriter::new(File::create(path)?),
        digest: Sha256::new(),
    };
    out.write_all(MAGIC)?;
    out.number(fingerprint.0.len())?;
    out.write_all(fingerprint.0.as_bytes())?;
    out.number(blocks.first().map_or(0, |block| block.bytes.len()))?;
    out.number(blocks.len())?;
    for block in blocks {
        let (kind, parent) = match block.parent {
            SavedParent::Root(namespace) => (0, namespace),
            SavedParent::Block(index) => (1, index as u64),
        };
        out.write_all(&[kind])?;
        out.write_all(&parent.to_le_bytes())?;
        out.write_all(&[block.tokens.len() as u8])?;
        for token in &block.tokens {
            out.write_all(&token.to_le_bytes())?;
        }
        out.write_all(&block.bytes)?;
    }
    let digest = out.digest.finalize();
    out.inner.write_all(&digest)?;
    out.inner
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

struct Hashing<W> {
    inner: W,
    digest: Sha256,
}

impl<W: Write> Hashing<W> {
    fn number(&mut self, value: usize) -> io::Result<()> {
        self.write_all(&(value as u64).to_le_bytes())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reads what [`write()`] wrote for the same fingerprint; nothing where there is no file, the reason where the file
/// is of no use.
pub(crate) fn read(
    path: &Path,
    fingerprint: &Fingerprint,
    bytes_per_block: usize,
) -> Result<Vec<SavedBlock>, String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let content = bytes.len().checked_sub(DIGEST_BYTES).ok_or("it is too short")?;
    let (content, digest) = bytes.split_at(content);
    let mut reader = Reader { rest: content };
    if reader.take(MAGIC.len())? != MAGIC {
        return Err("it is no prefix snapshot of this version".into());
    }
    let length = reader.number()?;
    if reader.take(length)? != fingerprint.0.as_bytes() {
        return Err("it belongs to another model, setting or version of the program".into());
    }
    if Sha256::digest(content).as_slice() != digest {
        return Err("its checksum is wrong: it is damaged".into());
    }
    let block_bytes = reader.number()?;
    let count = reader.number()?;
    if count > 0 && block_bytes != bytes_per_block {
        return Err(format!(
            "its blocks have {block_bytes} bytes, expected {bytes_per_block}"
        ));
    }
    let mut blocks: Vec<SavedBlock> = Vec::new();
    for _ in 0..count {
        let block = reader.block(bytes_per_block, &blocks)?;
        blocks.push(block);
    }
    Ok(blocks)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("it ends too early")?;
        self.rest = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<usize, String> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| "a number is too large".to_owned())
    }

    fn block(&mut self, bytes: usize, earlier: &[SavedBlock]) -> Result<SavedBlock, String> {
        let [kind] = self.array()?;
        let parent = u64::from_le_bytes(self.array()?);
        let parent = if kind == 0 {
            SavedParent::Root(parent)
        } else {
            let index = usize::try_from(parent).unwrap_or(usize::MAX);
            if earlier
                .get(index)
                .is_none_or(|parent| parent.tokens.len() < BLOCK_TOKENS)
            {
                return Err("a block hangs on none".into());
            }
            SavedParent::Block(index)
        };
        let [count] = self.array()?;
        if count == 0 || usize::from(count) > BLOCK_TOKENS {
            return Err(format!("a block has {count} tokens"));
        }
        let tokens = (0..count)
            .map(|_| Ok(u32::from_le_bytes(self.array()?)))
            .collect::<Result<_, String>>()?;
        Ok(SavedBlock {
            parent,
            tokens,
            bytes: self.take(bytes)?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Vec<SavedBlock> {
        let stem: Vec<u32> = (0..16).collect();
        vec![
            SavedBlock {
                parent: SavedParent::Root(7),
                tokens: stem,
                bytes: vec![1, 2, 3, 4],
            },
            SavedBlock {
                parent: SavedParent::Block(0),
                tokens: vec![9],
                bytes: vec![5, 6, 7, 8],
            },
        ]
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/prefixes.kv");
        let fingerprint = Fingerprint::for_test("a");
        assert_eq!(
            read(&path, &fingerprint, 4).unwrap(),
            [],
            "no file, nothing cached"
        );
        write(&path, &fingerprint, &blocks()).unwrap();
        assert_eq!(read(&path, &fingerprint, 4).unwrap(), blocks());
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no partial file is left"
        );
        assert!(
            read(&path, &Fingerprint::for_test("b"), 4)
                .unwrap_err()
                .contains("another model")
        );
        assert!(read(&path, &fingerprint, 8).unwrap_err().contains("expected 8"));
    }

    #[test]
    fn any_damaged_byte_and_any_cut_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prefixes.kv");
        let fingerprint = Fingerprint::for_test("a");
        write(&path, &fingerprint, &blocks()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(read(&path, &fingerprint, 4).is_err(), "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path, &fingerprint, 4).is_err(), "cut at {at}");
        }
    }
}
