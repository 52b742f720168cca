//! Texts to vectors.

use std::sync::Arc;

use engine_contract::{EmbedKind, Embedder, EmbedderInfo, EngineError, TextVectors};
use kernels::Cpu;
use weights::{EmbedderProfile, ModelFiles, Pooling, SafeTensors, Tokenizer};

use super::dense::Precision;
use super::forward::{Encoder, Scratch};
use super::layers::BertWeights;
use super::profile::profile;
use super::shape::BertShape;
use crate::LoadError;

/// Tokens of one forward pass and thread, unless a single text has more. What matters is that a pass's activations
/// stay in the second-level cache: MiniLM embeds 8,090 tokens/s and core at 256, 6,480 at 1024, 5,130 at 16,384.
const TOKENS_PER_THREAD: usize = 256;

/// An embedder of the BERT family, safe to share between threads.
#[derive(Debug)]
pub struct BertEmbedder {
    info: EmbedderInfo,
    profile: EmbedderProfile,
    tokenizer: Tokenizer,
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
        let mut profile = profile(files, &shape)?;
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
            profile,
            tokenizer,
            encoder: Encoder {
                weights: BertWeights::load(&tensors, &shape, precision)?,
                shape,
            },
            cpu,
        })
    }

    fn tokens(&self, index: usize, text: &str, kind: EmbedKind) -> Result<Vec<u32>, EngineError> {
        let prefix = match kind {
            EmbedKind::Query => &self.profile.query_prefix,
            EmbedKind::Passage => &self.profile.passage_prefix,
        };
        let joined;
        let text = if prefix.is_empty() {
            text
        } else {
            joined = format!("{prefix}{text}");
            &joined
        };
        let tokens = self.tokenizer.encode_with_template(text, self.profile.max_tokens);
        tokens.map_err(|error| EngineError::Embedding {
            index,
            reason: error.to_string(),
        })
    }

    /// Calls `each` with the hidden states `[tokens, hidden]` of every text, in order.
    fn each_text(
        &self,
        texts: &[&str],
        kind: EmbedKind,
        mut each: impl FnMut(&[f32]),
    ) -> Result<(), EngineError> {
        let tokens = texts
            .iter()
            .enumerate()
            .map(|(index, text)| self.tokens(index, text, kind));
        let tokens: Vec<Vec<u32>> = tokens.collect::<Result<_, _>>()?;
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
        let mut vector = match self.profile.pooling {
            Pooling::Mean => mean(states, hidden),
            Pooling::Cls => states[..hidden].to_vec(),
            Pooling::LastToken => states[states.len() - hidden..].to_vec(),
        };
        if self.profile.normalise {
            let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            // A vector without direction stays as it is.
            if norm > 0.0 {
                vector.iter_mut().for_each(|value| *value /= norm);
            }
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
    for row in directions.chunks_exact_mut(hidden) {
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        if norm > 0.0 {
            row.iter_mut().for_each(|value| *value /= norm);
        }
    }
    directions
}

/// Cuts texts into runs of at most `budget` tokens; a longer text is a run of its own.
fn passes(texts: &[Vec<u32>], budget: usize) -> Vec<Vec<&[u32]>> {
    let mut passes: Vec<Vec<&[u32]>> = Vec::new();
    let mut used = budget;
    for text in texts {
        match passes.last_mut() {
            Some(pass) if used + text.len() <= budget => pass.push(text),
            _ => {
                passes.push(vec![text]);
                used = 0;
            }
        }
        used += text.len();
    }
    passes
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
    fn passes_respect_the_budget_and_keep_the_order() {
        let texts: Vec<Vec<u32>> = [3, 4, 9, 1, 1]
            .into_iter()
            .map(|length| vec![length; length as usize])
            .collect();
        let lengths: Vec<Vec<usize>> = passes(&texts, 7)
            .iter()
            .map(|pass| pass.iter().map(|text| text.len()).collect())
            .collect();
        assert_eq!(lengths, [vec![3, 4], vec![9], vec![1, 1]]);
        assert!(passes(&[], 7).is_empty());
    }

    #[test]
    fn the_mean_is_over_rows() {
        assert_eq!(mean(&[1.0, 2.0, 3.0, 6.0], 2), [2.0, 4.0]);
    }
}
