//! What embedders of every family share: the profile of a model, its tokens, the cutting into passes.
//!
//! Knows texts and vectors; does not know layers.

mod profile;
mod qwen2;

use std::sync::Arc;

use engine_contract::{EmbedKind, Embedder, EngineError};
use kernels::Cpu;
use weights::{EmbedderProfile, ModelFiles, Specials, Tokenizer};

use crate::LoadError;
use crate::bert::{BertEmbedder, Precision};

pub(crate) use profile::profile;
pub use qwen2::Qwen2Embedder;

/// Loads the embedder of a folder or GGUF file, whatever its family: Qwen2 and Qwen3 by their `config.json` or GGUF
/// file, in 8 bits; everything else as BERT, in the precision given.
///
/// # Errors
/// As [`BertEmbedder::load`] and [`Qwen2Embedder::load`].
pub fn load_embedder(
    files: &ModelFiles,
    cpu: Arc<Cpu>,
    precision: Precision,
) -> Result<Arc<dyn Embedder>, LoadError> {
    if files.is_gguf() || is_qwen(files) {
        return Ok(Arc::new(Qwen2Embedder::load(files, cpu)?));
    }
    Ok(Arc::new(BertEmbedder::load(files, cpu, precision)?))
}

/// A file that cannot be read is reported by the loader that needs it.
fn is_qwen(files: &ModelFiles) -> bool {
    let config = std::fs::read_to_string(files.folder.join("config.json")).unwrap_or_default();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap_or_default();
    matches!(config["model_type"].as_str(), Some("qwen2" | "qwen3"))
}

/// Texts to tokens, as a model wants them.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) profile: EmbedderProfile,
    pub(crate) frame: Frame,
}

/// What goes around a text's tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame {
    /// What the tokenizer's own file says.
    Template,
    /// At most an end token: a GGUF file says no more.
    End(Option<u32>),
}

impl Texts {
    /// The tokens of each text with the kind's prefix, cut to the longest that the model takes.
    pub(crate) fn tokens(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<u32>>, EngineError> {
        let prefix = match kind {
            EmbedKind::Query => &self.profile.query_prefix,
            EmbedKind::Passage => &self.profile.passage_prefix,
        };
        let encode = |text: &str| match self.frame {
            Frame::Template => self.tokenizer.encode_with_template(text, self.profile.max_tokens),
            Frame::End(end) => {
                let mut tokens = self.tokenizer.encode(text, Specials::AsText)?;
                tokens.truncate(self.profile.max_tokens - usize::from(end.is_some()));
                tokens.extend(end);
                Ok(tokens)
            }
        };
        let tokens = texts.iter().enumerate().map(|(index, text)| {
            let tokens = if prefix.is_empty() {
                encode(text)
            } else {
                encode(&format!("{prefix}{text}"))
            };
            tokens.map_err(|error| EngineError::Embedding {
                index,
                reason: error.to_string(),
            })
        });
        tokens.collect()
    }
}

/// Scales a vector to length 1; one without direction stays as it is.
pub(crate) fn normalise(vector: &mut [f32]) {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|value| *value /= norm);
    }
}

/// Cuts texts into runs of at most `budget` tokens; a longer text is a run of its own.
pub(crate) fn passes(texts: &[Vec<u32>], budget: usize) -> Vec<Vec<&[u32]>> {
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
}
