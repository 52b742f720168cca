//! Embedders made of a Qwen2 or Qwen3 language model: the last token's hidden state.

use std::sync::{Arc, Mutex, PoisonError};

use engine_contract::{EmbedKind, Embedder, EmbedderInfo, EngineError};
use kernels::{Cpu, KvDtype, KvPool, TilePolicy};
use weights::{EmbedderProfile, Gguf, ModelFiles, Pooling, Tokenizer};

use super::{Frame, Texts, normalise, passes, profile};
use crate::LoadError;
use crate::qwen2::{Batch, BatchSequence, Qwen2, Scratch, Tiling};
use crate::scheduler::blocks_for;

/// Tokens of one forward pass, unless a single text has more.
const TOKENS_PER_PASS: usize = 512;

/// An embedder of the Qwen2 or Qwen3 family (gte-Qwen2's causal form; Qwen3-Embedding, Zhang et al. 2025, section 2),
/// safe to share between threads; calls follow each other.
///
/// A text's vector is the same bit for bit whatever texts are embedded with it.
#[derive(Debug)]
pub struct Qwen2Embedder {
    info: EmbedderInfo,
    texts: Texts,
    model: Qwen2,
    memory: Mutex<Memory>,
}

/// Kept between calls.
#[derive(Debug, Default)]
struct Memory {
    scratch: Scratch,
    pool: Option<KvPool>,
    blocks: usize,
}

impl Qwen2Embedder {
    /// Loads a Hugging Face folder of safetensors, or a GGUF file, with the tokenizer in it. Weights are laid out as
    /// 8-bit integers. Prefixes and the longest text come from the manifest, or from the folder's Sentence
    /// Transformers files.
    ///
    /// # Errors
    /// [`LoadError`] names the file, field or tensor that is missing or not supported; pooling other than by the last
    /// token is not.
    pub fn load(files: &ModelFiles, cpu: Arc<Cpu>) -> Result<Self, LoadError> {
        let (tokenizer, frame) = if files.is_gguf() {
            let gguf = Gguf::open(files.gguf()?)?;
            let end = gguf.bool("tokenizer.ggml.add_eos_token").unwrap_or(false);
            let end = end.then(|| gguf.u32("tokenizer.ggml.eos_token_id")).transpose()?;
            (Tokenizer::from_gguf(&gguf)?, Frame::End(end))
        } else {
            (
                Tokenizer::from_file(files.file("tokenizer.json")?)?,
                Frame::Template,
            )
        };
        let tiling = Tiling {
            policy: TilePolicy::Int8,
            cache: true,
        };
        let model = Qwen2::load_without_head(files, cpu, tiling)?;
        let profile = last_token(files, model.shape().context_tokens)?;
        Ok(Self {
            info: EmbedderInfo {
                name: files.name.clone(),
                dimension: model.shape().hidden,
                normalised: profile.normalise,
                max_tokens: profile.max_tokens,
            },
            texts: Texts {
                tokenizer,
                profile,
                frame,
            },
            model,
            memory: Mutex::default(),
        })
    }

    /// Embeds texts of at least one token each; `vectors` grows by one for each.
    fn run(
        &self,
        texts: &[&[u32]],
        memory: &mut Memory,
        vectors: &mut Vec<Vec<f32>>,
    ) -> Result<(), LoadError> {
        let needed: usize = texts.iter().map(|text| blocks_for(text.len())).sum();
        let Memory {
            scratch,
            pool,
            blocks,
        } = memory;
        let pool = match pool {
            Some(pool) if *blocks >= needed => pool,
            _ => {
                *blocks = needed;
                pool.insert(KvPool::new(self.model.kv_layout(KvDtype::F32), needed)?)
            }
        };
        let all: Vec<u32> = (0..needed as u32).collect();
        let mut free = all.as_slice();
        let sequences: Vec<BatchSequence<'_>> = texts
            .iter()
            .map(|text| {
                let (blocks, rest) = free.split_at(blocks_for(text.len()));
                free = rest;
                BatchSequence {
                    tokens: text,
                    start: 0,
                    blocks,
                    outputs: 1,
                }
            })
            .collect();
        let states = self.model.hidden(&Batch::new(&sequences), pool, scratch);
        for state in states.chunks_exact(self.info.dimension) {
            let mut vector = state.to_vec();
            if self.info.normalised {
                normalise(&mut vector);
            }
            vectors.push(vector);
        }
        Ok(())
    }
}

/// The model's profile; without any file on pooling the last token is what this family is trained for.
fn last_token(files: &ModelFiles, positions: usize) -> Result<EmbedderProfile, LoadError> {
    let profile = profile(files, positions)?;
    let told = files.entry.is_some() || files.folder.join("1_Pooling/config.json").is_file();
    if told && profile.pooling != Pooling::LastToken {
        return Err(LoadError::ModelConfig {
            what: format!("pooling of {}", files.name),
            received: format!("{:?}", profile.pooling),
            expected: "the last token".into(),
        });
    }
    Ok(EmbedderProfile {
        pooling: Pooling::LastToken,
        max_tokens: profile.max_tokens.clamp(1, positions),
        ..profile
    })
}

impl Embedder for Qwen2Embedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        let mut tokens = self.texts.tokens(texts, kind)?;
        for (index, text) in tokens.iter_mut().enumerate().filter(|(_, text)| text.is_empty()) {
            // Without a frame, an empty text has no last token of its own.
            let end = self.texts.tokenizer.end_tokens().first();
            text.push(*end.ok_or_else(|| EngineError::Embedding {
                index,
                reason: "the text is empty and the tokenizer has no end token".into(),
            })?);
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut vectors = Vec::with_capacity(texts.len());
        for pass in passes(&tokens, TOKENS_PER_PASS) {
            let first = vectors.len();
            self.run(&pass, &mut memory, &mut vectors)
                .map_err(|error| EngineError::Embedding {
                    index: first,
                    reason: error.to_string(),
                })?;
        }
        Ok(vectors)
    }
}
