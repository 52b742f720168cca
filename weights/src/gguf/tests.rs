//! What the reader accepts, and that nothing broken gets past it.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::fixture::{GgufBuilder, small};
use super::*;

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn open_bytes(bytes: &[u8]) -> Result<Gguf, WeightsError> {
    let folder = TempDir::new().unwrap();
    Gguf::open(write(&folder, "model.gguf", bytes))
}

fn refused(bytes: &[u8]) -> String {
    open_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn both_versions_give_metadata_and_row_major_tensors() {
    for version in [2, 3] {
        let gguf = open_bytes(&small(version).build()).unwrap();
        assert_eq!(gguf.version(), version);
        assert_eq!(gguf.string("general.architecture").unwrap(), "qwen2");
        assert_eq!(gguf.u32("qwen2.context_length").unwrap(), 32768);
        assert_eq!(gguf.f32("qwen2.rope.freq_base").unwrap(), 1e6);
        assert_eq!(gguf.strings("tokenizer.ggml.tokens").unwrap(), ["a", "b", "ab"]);
        assert_eq!(gguf.i32s("tokenizer.ggml.token_type").unwrap(), [1, 1, 1]);
        let embedding = gguf.tensor("token_embd.weight").unwrap();
        assert_eq!((embedding.shape, embedding.ggml_type), (&[3, 32][..], 8));
        assert_eq!(embedding.bytes, [7; 3 * 34]);
        assert_eq!(gguf.tensor("output_norm.weight").unwrap().bytes, [1; 128]);
        assert_eq!(gguf.tensors().count(), 2);
    }
}

#[test]
fn absent_and_mistyped_metadata_is_named() {
    let gguf = open_bytes(&small(3).build()).unwrap();
    let absent = gguf.u32("qwen2.block_count").unwrap_err().to_string();
    assert!(
        absent.ends_with("metadata `qwen2.block_count` is absent, expected an unsigned 32-bit number"),
        "{absent}"
    );
    let mistyped = gguf.strings("tokenizer.ggml.token_type").unwrap_err().to_string();
    assert!(
        mistyped.contains("is an array of 3 i32, expected an array of strings"),
        "{mistyped}"
    );
    let missing = gguf.tensor("output.weight").unwrap_err().to_string();
    assert!(
        missing.contains("has no tensor `output.weight` (it holds 2 tensors"),
        "{missing}"
    );
}

#[test]
fn foreign_files_are_named() {
    assert!(refused(b"").ends_with("model.gguf is not a usable GGUF file: the file is empty"));
    assert!(refused(b"PK\x03\x04zip").contains("expected the magic `GGUF`, received `PK\\u{3}\\u{4}`"));
    assert!(refused(b"GGUF\x00\x00\x00\x03").contains("big-endian"));
    assert!(refused(b"GGUF\x01\x00\x00\x00").contains("expected version 2 or 3, received 1"));
    assert!(refused(b"GGUF\x03\x00\x00\x00\x01").contains("truncated: the tensor count at byte 8"));
    let folder = TempDir::new().unwrap();
    let error = Gguf::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    let absent = folder.path().join("absent.gguf");
    assert!(
        Gguf::open(&absent)
            .unwrap_err()
            .to_string()
            .starts_with("cannot open ")
    );
}

#[test]
fn contradictions_are_named() {
    let broken = |name: &str, shape: &[u64], ggml_type: u32, bytes: &[u8]| {
        refused(&GgufBuilder::new(3).tensor(name, shape, ggml_type, bytes).build())
    };
    assert!(broken("t", &[33], 8, &[0; 34]).contains("tensor `t`: shape [33] does not divide into Q8_0"));
    assert!(broken("t", &[32, 0], 8, &[]).contains("does not divide"));
    assert!(broken("t", &[32], 99, &[0; 34]).contains("unknown ggml type 99"));
    assert!(broken("t", &[1; 5], 0, &[0; 4]).contains("expected 1 to 4 dimensions, received 5"));
    assert!(broken("t", &[1 << 62, 1 << 62], 0, &[0; 4]).contains("overflows"));
    assert!(
        broken("t", &[64], 8, &[0; 34])
            .contains("truncated: tensor `t` needs bytes 64 to 132, the file has 98")
    );
    let twice = GgufBuilder::new(3)
        .tensor("t", &[1], 0, &[0; 4])
        .tensor("t", &[1], 0, &[0; 4]);
    assert!(refused(&twice.build()).contains("tensor `t` appears twice"));
    let twice = GgufBuilder::new(3).u32("k", 1).u32("k", 2);
    assert!(refused(&twice.build()).contains("metadata key `k` appears twice"));
    let alignment = GgufBuilder::new(3).u32("general.alignment", 24);
    assert!(refused(&alignment.build()).contains("expected a power of two, received unsigned 24"));
}

#[test]
fn a_split_model_is_one_model() {
    let folder = TempDir::new().unwrap();
    let part = |number: u32, tensor: &str| {
        small(3)
            .u32("split.count", 2)
            .u32("split.no", number)
            .tensor(tensor, &[2], 0, &[3; 8])
            .build()
    };
    let second = GgufBuilder::new(3)
        .u32("split.count", 2)
        .tensor("blk.1.attn_norm.weight", &[2], 0, &[4; 8]);
    let first = write(
        &folder,
        "m-00001-of-00002.gguf",
        &part(0, "blk.0.attn_norm.weight"),
    );
    let error = Gguf::open(&first).unwrap_err().to_string();
    assert!(error.contains("m-00002-of-00002.gguf"), "{error}");
    let later = write(&folder, "m-00002-of-00002.gguf", &second.build());
    let gguf = Gguf::open(&first).unwrap();
    assert_eq!(gguf.tensors().count(), 4);
    assert_eq!(gguf.tensor("blk.1.attn_norm.weight").unwrap().bytes, [4; 8]);
    assert!(
        Gguf::open(&later)
            .unwrap_err()
            .to_string()
            .contains("give the first part")
    );
    write(
        &folder,
        "m-00002-of-00002.gguf",
        &part(1, "blk.1.attn_norm.weight"),
    );
    assert!(
        Gguf::open(&first)
            .unwrap_err()
            .to_string()
            .contains("is in an earlier part too")
    );
}

/// Reads everything a caller can read.
fn read_all(gguf: &Gguf) {
    for tensor in gguf.tensors() {
        assert!(!tensor.shape.is_empty() && !tensor.bytes.is_empty());
    }
    for key in gguf.keys() {
        let _ = (
            gguf.string(key),
            gguf.u32(key),
            gguf.f32(key),
            gguf.strings(key),
            gguf.i32s(key),
        );
    }
}

fn named_or_fine(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    match Gguf::open(path) {
        Ok(gguf) => read_all(&gguf),
        Err(error) => assert!(error.to_string().contains(path.to_str().unwrap()), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn truncation_never_panics_and_is_always_refused(cut in 0_usize..1000) {
        let bytes = small(3).build();
        let cut = cut % bytes.len();
        let folder = TempDir::new().unwrap();
        let path = write(&folder, "model.gguf", &bytes[..cut]);
        let error = Gguf::open(&path).unwrap_err().to_string();
        prop_assert!(error.contains(path.to_str().unwrap()), "{}", error);
    }

    #[test]
    fn flipped_bytes_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = small(3).u32("general.alignment", 32).u32("split.count", 1).build();
        for (index, value) in flips {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        let folder = TempDir::new().unwrap();
        named_or_fine(&folder.path().join("model.gguf"), &bytes);
    }

    #[test]
    fn noise_after_the_magic_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
        bytes.extend(noise);
        let folder = TempDir::new().unwrap();
        named_or_fine(&folder.path().join("model.gguf"), &bytes);
    }
}
