//! An embedder that keeps every vector on disk by the hash of its text: histories share sessions, and a run that was
//! killed embeds nothing twice.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use engine_contract::{EmbedKind, Embedder, EmbedderInfo, EngineError};
use sha2::{Digest, Sha256};

/// The first half of a SHA-256 over embedder, kind and text.
type Key = [u8; 16];

/// An embedder with its vectors on disk.
pub(super) struct CachedEmbedder<E> {
    inner: E,
    kept: Mutex<Kept>,
}

struct Kept {
    vectors: HashMap<Key, Box<[f32]>>,
    file: File,
}

impl<E: AsRef<dyn Embedder>> CachedEmbedder<E> {
    /// Takes the vectors of earlier runs in; a torn last one is cut off.
    pub(super) fn open(inner: E, path: &Path) -> Result<Self> {
        let what = || format!("cannot keep vectors in {}", path.display());
        let record = size_of::<Key>() + 4 * inner.as_ref().info().dimension;
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .with_context(what)?;
        let whole = file.metadata().with_context(what)?.len() / record as u64;
        file.set_len(whole * record as u64).with_context(what)?;
        let mut reader = BufReader::new(file.try_clone().with_context(what)?);
        let mut vectors = HashMap::with_capacity(whole as usize);
        let mut buffer = vec![0; record];
        for _ in 0..whole {
            reader.read_exact(&mut buffer).with_context(what)?;
            let (key, bytes) = buffer.split_at(size_of::<Key>());
            let mut own = Key::default();
            own.copy_from_slice(key);
            vectors.insert(own, floats(bytes));
        }
        Ok(Self {
            inner,
            kept: Mutex::new(Kept { vectors, file }),
        })
    }

    fn key(&self, text: &str, kind: EmbedKind) -> Key {
        let mut digest = Sha256::new();
        digest.update(format!("{}\0{kind:?}\0", self.inner.as_ref().info().name));
        digest.update(text);
        let mut key = Key::default();
        key.copy_from_slice(&digest.finalize()[..size_of::<Key>()]);
        key
    }
}

fn floats(bytes: &[u8]) -> Box<[f32]> {
    bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect()
}

impl<E: AsRef<dyn Embedder> + Send + Sync> Embedder for CachedEmbedder<E> {
    fn info(&self) -> &EmbedderInfo {
        self.inner.as_ref().info()
    }

    fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        let keys: Vec<Key> = texts.iter().map(|text| self.key(text, kind)).collect();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<usize> = (0..texts.len())
            .filter(|&i| !kept.vectors.contains_key(&keys[i]))
            .collect();
        if !missing.is_empty() {
            let wanted: Vec<&str> = missing.iter().map(|&index| texts[index]).collect();
            let made = self.inner.as_ref().embed(&wanted, kind)?;
            let mut bytes = Vec::new();
            for (&index, vector) in missing.iter().zip(made) {
                bytes.extend_from_slice(&keys[index]);
                vector
                    .iter()
                    .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
                kept.vectors.insert(keys[index], vector.into_boxed_slice());
            }
            kept.file
                .write_all(&bytes)
                .map_err(|error| EngineError::Backend {
                    backend: "the vectors' file".into(),
                    reason: format!("{error}; make room on the disk and run again"),
                })?;
        }
        Ok(keys.iter().map(|key| kept.vectors[key].to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts what it embeds.
    struct Counting(EmbedderInfo, AtomicUsize);

    impl Embedder for Counting {
        fn info(&self) -> &EmbedderInfo {
            &self.0
        }

        fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
            self.1.fetch_add(texts.len(), Ordering::Relaxed);
            let sign = if kind == EmbedKind::Query { -1.0 } else { 1.0 };
            Ok(texts
                .iter()
                .map(|text| vec![sign * text.len() as f32, 0.5])
                .collect())
        }
    }

    #[test]
    fn no_text_is_embedded_twice_and_a_torn_vector_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.bin");
        let counting = Arc::new(Counting(
            EmbedderInfo {
                name: "counting".into(),
                dimension: 2,
                normalised: false,
                max_tokens: 9,
            },
            AtomicUsize::new(0),
        ));
        let open = || CachedEmbedder::open(counting.clone() as Arc<dyn Embedder>, &path).unwrap();
        let first = open().embed(&["a", "bb", "a"], EmbedKind::Passage).unwrap();
        assert_eq!(first, [[1.0, 0.5], [2.0, 0.5], [1.0, 0.5]]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, [bytes.as_slice(), &[7; 5]].concat()).unwrap();
        let cached = open();
        let before = counting.1.load(Ordering::Relaxed);
        assert_eq!(
            cached.embed(&["bb", "a"], EmbedKind::Passage).unwrap(),
            [[2.0, 0.5], [1.0, 0.5]]
        );
        assert_eq!(counting.1.load(Ordering::Relaxed), before);
        assert_eq!(cached.embed(&["a"], EmbedKind::Query).unwrap(), [[-1.0, 0.5]]);
        assert_eq!(open().embed(&["a"], EmbedKind::Query).unwrap(), [[-1.0, 0.5]]);
        assert_eq!(counting.1.load(Ordering::Relaxed), before + 1);
    }
}
