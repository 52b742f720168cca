//! Writes small GGUF files for tests.

/// Builds the bytes of a GGUF file.
#[derive(Debug, Clone)]
pub(crate) struct GgufBuilder {
    version: u32,
    metadata: Vec<u8>,
    metadata_count: u64,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

impl GgufBuilder {
    pub(crate) fn new(version: u32) -> Self {
        Self {
            version,
            metadata: Vec::new(),
            metadata_count: 0,
            tensors: Vec::new(),
        }
    }

    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.metadata_count += 1;
        put_string(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        &mut self.metadata
    }

    pub(crate) fn u32(mut self, key: &str, value: u32) -> Self {
        self.key(key, 4).extend(value.to_le_bytes());
        self
    }

    pub(crate) fn f32(mut self, key: &str, value: f32) -> Self {
        self.key(key, 6).extend(value.to_le_bytes());
        self
    }

    pub(crate) fn string(mut self, key: &str, value: &str) -> Self {
        put_string(self.key(key, 8), value);
        self
    }

    pub(crate) fn strings<S: AsRef<str>>(mut self, key: &str, values: &[S]) -> Self {
        let out = self.key(key, 9);
        out.extend(8_u32.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        for value in values {
            put_string(out, value.as_ref());
        }
        self
    }

    pub(crate) fn i32s(mut self, key: &str, values: &[i32]) -> Self {
        let out = self.key(key, 9);
        out.extend(5_u32.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        for value in values {
            out.extend(value.to_le_bytes());
        }
        self
    }

    /// `shape` in ggml's order, fastest dimension first.
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], ggml_type: u32, bytes: &[u8]) -> Self {
        self.tensors
            .push((name.to_owned(), shape.to_vec(), ggml_type, bytes.to_vec()));
        self
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.metadata_count.to_le_bytes());
        out.extend(&self.metadata);
        let mut offset = 0_u64;
        for (name, shape, ggml_type, bytes) in &self.tensors {
            put_string(&mut out, name);
            out.extend(u32::try_from(shape.len()).unwrap().to_le_bytes());
            shape
                .iter()
                .for_each(|dimension| out.extend(dimension.to_le_bytes()));
            out.extend(ggml_type.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset = (offset + bytes.len() as u64).next_multiple_of(32);
        }
        for (_, _, _, bytes) in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(bytes);
        }
        out
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A one-layer file with every kind of metadata the reader has getters for.
pub(crate) fn small(version: u32) -> GgufBuilder {
    GgufBuilder::new(version)
        .string("general.architecture", "qwen2")
        .u32("qwen2.context_length", 32768)
        .f32("qwen2.rope.freq_base", 1e6)
        .strings("tokenizer.ggml.tokens", &["a", "b", "ab"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 1])
        .tensor("token_embd.weight", &[32, 3], 8, &[7; 3 * 34])
        .tensor("output_norm.weight", &[32], 0, &[1; 128])
}
