//! Weights from files.

use std::path::Path;
use std::sync::Arc;

use kernels::{Cpu, Linear, TilePolicy, TiledMatrix};
use weights::{Gguf, ModelFiles};

use super::embedding::Embedding;
use super::model::{Layer, Qwen2};
use super::shape::Qwen2Shape;
use super::source::WeightFiles;
use super::tile_cache::{TileStore, Tiles};
use crate::LoadError;

/// Layers read through one map of the files. One map for all would hold the whole model beside the laid-out weights.
const LAYERS_PER_MAP: usize = 4;

/// How weights are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Which tiles a file's weights become.
    pub policy: TilePolicy,
    /// Keep the tiles in a file beside the model (as large as the model), so that the next start maps them.
    pub cache: bool,
}

impl From<TilePolicy> for Tiling {
    /// Without a file.
    fn from(policy: TilePolicy) -> Self {
        Self { policy, cache: false }
    }
}

/// Matrices in the order they were read, and whether all came from the cache.
#[derive(Debug)]
struct Read {
    cached: Tiles,
    matrices: Vec<(String, TiledMatrix)>,
    complete: bool,
}

/// Reads the tensors of one model.
struct Loader<'a> {
    files: WeightFiles,
    shape: &'a Qwen2Shape,
    cpu: &'a Cpu,
    policy: TilePolicy,
    read: &'a mut Read,
}

impl Loader<'_> {
    fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>, LoadError> {
        self.files.find(name, &[n])?.values(n)
    }

    fn matrix(&mut self, name: &str, n: usize, k: usize) -> Result<TiledMatrix, LoadError> {
        let source = self.files.find(name, &[n, k])?;
        let kind = self.policy.kind(source.format);
        let fits = |tiles: &TiledMatrix| (tiles.n(), tiles.k(), tiles.kind()) == (n, k, kind);
        let matrix = match self.read.cached.remove(name).filter(fits) {
            Some(tiles) => tiles,
            None => {
                self.read.complete = false;
                self.cpu.tile(source.format, (n, k), source.bytes, self.policy)?
            }
        };
        // Shares its bytes with the one returned.
        self.read.matrices.push((name.to_owned(), matrix.clone()));
        Ok(matrix)
    }

    fn layer(&mut self, index: usize) -> Result<Layer, LoadError> {
        let Qwen2Shape {
            hidden, intermediate, ..
        } = *self.shape;
        let shape = self.shape;
        let (q, kv) = (shape.attention(), shape.kv_heads * shape.head_dim);
        let name = |part: &str| format!("blk.{index}.{part}");
        let mut bias = (!shape.qk_norm).then(|| Vec::with_capacity(shape.qkv()));
        let mut qkv = Vec::with_capacity(3);
        for (part, n) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
            qkv.push(self.matrix(&name(&format!("{part}.weight")), n, hidden)?);
            if let Some(bias) = &mut bias {
                bias.extend(self.vector(&name(&format!("{part}.bias")), n)?);
            }
        }
        let gate_up = vec![
            self.matrix(&name("ffn_gate.weight"), intermediate, hidden)?,
            self.matrix(&name("ffn_up.weight"), intermediate, hidden)?,
        ];
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm.weight"), hidden)?,
            qkv: Linear::new(qkv, bias)?,
            qk_norm: self.qk_norm(index)?,
            attention_output: Linear::new(vec![self.matrix(&name("attn_output.weight"), hidden, q)?], None)?,
            feed_forward_norm: self.vector(&name("ffn_norm.weight"), hidden)?,
            gate_up: Linear::new(gate_up, None)?,
            down: Linear::new(
                vec![self.matrix(&name("ffn_down.weight"), hidden, intermediate)?],
                None,
            )?,
        })
    }

    fn qk_norm(&self, layer: usize) -> Result<Option<[Vec<f32>; 2]>, LoadError> {
        let norm = |part: &str| self.vector(&format!("blk.{layer}.{part}.weight"), self.shape.head_dim);
        self.shape
            .qk_norm
            .then(|| Ok([norm("attn_q_norm")?, norm("attn_k_norm")?]))
            .transpose()
    }

    /// Small models use the embedding matrix as the output matrix.
    fn output(&mut self) -> Result<Linear, LoadError> {
        let name = if self.files.has("output.weight") {
            "output.weight"
        } else {
            "token_embd.weight"
        };
        Ok(Linear::new(
            vec![self.matrix(name, self.shape.vocabulary, self.shape.hidden)?],
            None,
        )?)
    }
}

impl Qwen2 {
    /// Reads a GGUF model and lays its weights out for the kernels. The file stays mapped for the embeddings.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor or field that is missing, misshapen or of an unknown format.
    pub fn load(gguf: Arc<Gguf>, cpu: Arc<Cpu>, tiling: impl Into<Tiling>) -> Result<Self, LoadError> {
        let shape = Qwen2Shape::from_gguf(&gguf)?;
        Self::read((WeightFiles::Gguf(gguf), shape), cpu, tiling.into(), true)
    }

    /// Reads the `config.json` and the `.safetensors` files (F32, F16 or BF16) of a Hugging Face folder. The matrices
    /// are rounded to 8 bits in blocks of 32, whatever the policy.
    ///
    /// # Errors
    /// As [`Qwen2::load`].
    pub fn load_folder(folder: &Path, cpu: Arc<Cpu>, tiling: impl Into<Tiling>) -> Result<Self, LoadError> {
        let files = (
            WeightFiles::open_folder(folder)?,
            Qwen2Shape::from_folder(folder)?,
        );
        Self::read(files, cpu, tiling.into(), true)
    }

    /// The model without its output matrix, for embeddings.
    pub(crate) fn load_without_head(
        files: &ModelFiles,
        cpu: Arc<Cpu>,
        tiling: Tiling,
    ) -> Result<Self, LoadError> {
        let opened = if files.is_gguf() {
            let gguf = Arc::new(Gguf::open(files.gguf()?)?);
            let shape = Qwen2Shape::from_gguf(&gguf)?;
            (WeightFiles::Gguf(gguf), shape)
        } else {
            let folder = &files.folder;
            (
                WeightFiles::open_folder(folder)?,
                Qwen2Shape::from_folder(folder)?,
            )
        };
        Self::read(opened, cpu, tiling, false)
    }

    fn read(
        (files, shape): (WeightFiles, Qwen2Shape),
        cpu: Arc<Cpu>,
        mut tiling: Tiling,
        head: bool,
    ) -> Result<Self, LoadError> {
        if matches!(files, WeightFiles::SafeTensors(_)) {
            tiling.policy = TilePolicy::Int8;
        }
        let store = tiling
            .cache
            .then(|| TileStore::beside(&files, tiling.policy))
            .transpose()?;
        let mut read = Read {
            cached: store.as_ref().map(|store| store.read(&cpu)).unwrap_or_default(),
            matrices: Vec::new(),
            complete: true,
        };
        let mut layers = Vec::with_capacity(shape.layers);
        let mut loader = Loader {
            files: files.reopen()?,
            shape: &shape,
            cpu: &cpu,
            policy: tiling.policy,
            read: &mut read,
        };
        for index in 0..shape.layers {
            if index % LAYERS_PER_MAP == LAYERS_PER_MAP - 1 {
                loader.files = files.reopen()?;
            }
            layers.push(loader.layer(index)?);
        }
        loader.files = files.reopen()?;
        let norm = loader.vector("output_norm.weight", shape.hidden)?;
        let output = head.then(|| loader.output()).transpose()?;
        drop(loader);
        if let Some(store) = store.filter(|_| !read.complete) {
            store.write(&read.matrices);
        }
        let embedding = Embedding::open(files, &shape)?;
        Self::assemble(shape, cpu, (embedding, layers, norm, output))
    }
}
