//! Texts to vectors.

use std::sync::Arc;

use engine_contract::{EmbedKind, Embedder, EmbedderInfo, EngineError, TextVectors};
use kernels::Cpu;
use weights::{ModelFiles, Pooling, SafeTensors, Tokenizer};

use super::dense::Precision;
use super::forward::{Encoder, Scratch};
use super::layers::BertWeights;
use super::shape::BertShape;
use crate::LoadError;
use crate::embedding::{Frame, Texts, normalise, passes, profile};

/// Tokens of one forward pass and thread, unless a single text has more. What matters is that a pass's activations
/// stay in the second-level cache: MiniLM embeds 8,090 tokens/s and core at 256, 6,480 at 1024, 5,130 at 16,384.
const TOKENS_PER_THREAD: usize = 256;

/// An embedder of the BERT family, safe to share between threads.
#[derive(Debug)]
pub struct BertEmbedder {
    info: EmbedderInfo,
    texts: Texts,
    encoder: Encoder,
    cpu: Arc<Cpu>,
}

impl BertEmbedder {
    /// Loads `config.json`, `tokenizer.json` and `model.safetensors`; pooling, prefixes and the longest text come
    /// from the manifest, or from the folder's Sentence Transformers files when the manifest does not know the model.
    ///
    /// # Errors
    /// [`LoadError`] names the file, field or tensor that is missing or not supported.
    pub fn load(files: &ModelFiles, cpu: Arc<Cpu>, precision: Precision) -> Result<Self, LoadError> {
        let path = files.file("config.json")?;
        let config = std::fs::read_to_string(&path).map_err(|source| LoadError::Io { path, source })?;
        let shape = BertShape::parse(&files.name, &config)?;
        let mut profile = profile(files, shape.positions)?;
        profile.max_tokens = profile.max_tokens.min(shape.positions);
        let tokenizer = Tokenizer::from_file(files.file("tokenizer.json")?)?;
        if tokenizer.vocab_size() > shape.vocabulary {
            return Err(LoadError::ModelConfig {
                what: format!("vocabulary of {}'s tokenizer.json", files.name),
                received: tokenizer.vocab_size().to_string(),
                expected: format!("at most the model's {} entries", shape.vocabulary),
            });
        }
        let tensors = SafeTensors::open(files.file("model.safetensors")?)?;
        Ok(Self {
            info: EmbedderInfo {
                name: files.name.clone(),
                dimension: shape.hidden,
                normalised: profile.normalise,
                max_tokens: profile.max_tokens,
            },
            texts: Texts {
                tokenizer,
                profile,
                frame: Frame::Template,
            },
            encoder: Encoder {
                weights: BertWeights::load(&tensors, &shape, precision)?,
                shape,
            },
            cpu,
        })
    }

    /// Calls `each` with the hidden states `[tokens, hidden]` of every text, in order.
    fn each_text(
        &self,
        texts: &[&str],
        kind: EmbedKind,
        mut each: impl FnMut(&[f32]),
    ) -> Result<(), EngineError> {
        let tokens = self.texts.tokens(texts, kind)?;
        let mut scratch = Scratch::default();
        for pass in passes(&tokens, TOKENS_PER_THREAD * self.cpu.threads()) {
            let mut rest = self.encoder.run(&self.cpu, &pass, &mut scratch);
            for text in &pass {
                let (own, others) = rest.split_at(text.len() * self.encoder.shape.hidden);
                each(own);
                rest = others;
            }
        }
        Ok(())
    }

    /// The vector of one text's hidden states `[tokens, hidden]`.
    fn pool(&self, states: &[f32]) -> Vec<f32> {
        let hidden = self.encoder.shape.hidden;
        let mut vector = match self.texts.profile.pooling {
            Pooling::Mean => mean(states, hidden),
            Pooling::Cls => states[..hidden].to_vec(),
            Pooling::LastToken => states[states.len() - hidden..].to_vec(),
        };
        if self.texts.profile.normalise {
            normalise(&mut vector);
        }
        vector
    }
}

impl Embedder for BertEmbedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        let mut vectors = Vec::with_capacity(texts.len());
        self.each_text(texts, kind, |states| vectors.push(self.pool(states)))?;
        Ok(vectors)
    }

    fn embed_tokens(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<TextVectors>, EngineError> {
        let mut vectors = Vec::with_capacity(texts.len());
        self.each_text(texts, kind, |states| {
            vectors.push(TextVectors {
                text: self.pool(states),
                tokens: directions(states, self.encoder.shape.hidden),
            });
        })?;
        Ok(vectors)
    }
}

/// The states between the first and the last, each brought to unit length: what the template frames a text with says
/// nothing of its words.
fn directions(states: &[f32], hidden: usize) -> Vec<f32> {
    let end = states.len().saturating_sub(hidden);
    let mut directions = states.get(hidden..end).unwrap_or_default().to_vec();
    directions.chunks_exact_mut(hidden).for_each(normalise);
    directions
}

fn mean(states: &[f32], hidden: usize) -> Vec<f32> {
    let mut sum = vec![0.0f32; hidden];
    for row in states.chunks_exact(hidden) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    let count = (states.len() / hidden) as f32;
    sum.iter_mut().for_each(|value| *value /= count);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_over_rows() {
        assert_eq!(mean(&[1.0, 2.0, 3.0, 6.0], 2), [2.0, 4.0]);
    }
}
