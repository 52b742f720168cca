//! The dimensions of a Qwen2 model.

use std::path::Path;

use serde::Deserialize;
use weights::Gguf;

use crate::LoadError;

/// Dimensions and constants of a Qwen2 or Qwen2.5 model.
#[derive(Debug, Clone, PartialEq)]
pub struct Qwen2Shape {
    /// Width of a row between layers.
    pub hidden: usize,
    /// Width inside the feed-forward part.
    pub intermediate: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the embedding and of the output matrix.
    pub vocabulary: usize,
    /// Positions the model was trained for.
    pub context_tokens: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Added to the mean square in RMSNorm.
    pub norm_epsilon: f32,
    /// Qwen3: an RMSNorm of each query and key head, and no biases.
    pub qk_norm: bool,
}

/// Name, hidden, intermediate, layers, heads, KV heads, vocabulary. From the models' `config.json`.
const PUBLISHED: [(&str, [usize; 6]); 6] = [
    ("qwen2.5-0.5b", [896, 4864, 24, 14, 2, 151_936]),
    ("qwen2.5-1.5b", [1536, 8960, 28, 12, 2, 151_936]),
    ("qwen2.5-3b", [2048, 11_008, 36, 16, 2, 151_936]),
    ("qwen2.5-7b", [3584, 18_944, 28, 28, 4, 152_064]),
    ("qwen2.5-14b", [5120, 13_824, 48, 40, 8, 152_064]),
    ("qwen2.5-32b", [5120, 27_648, 64, 40, 8, 152_064]),
];

impl Qwen2Shape {
    /// Names that [`Qwen2Shape::published`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PUBLISHED.iter().map(|(name, _)| *name)
    }

    /// The shape of a published model: `qwen2.5-0.5b` to `qwen2.5-32b`.
    #[must_use]
    pub fn published(name: &str) -> Option<Self> {
        let (_, [hidden, intermediate, layers, heads, kv_heads, vocabulary]) =
            PUBLISHED.iter().find(|(known, _)| *known == name)?;
        Some(Self {
            hidden: *hidden,
            intermediate: *intermediate,
            layers: *layers,
            heads: *heads,
            kv_heads: *kv_heads,
            head_dim: hidden / heads,
            vocabulary: *vocabulary,
            context_tokens: 32_768,
            rope_base: 1e6,
            norm_epsilon: 1e-6,
            qk_norm: false,
        })
    }

    /// The shape of a GGUF model.
    ///
    /// # Errors
    /// [`LoadError::Architecture`] for another family, [`LoadError::Weights`] when a field is absent,
    /// [`LoadError::ModelConfig`] when fields contradict each other.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, LoadError> {
        let architecture = gguf.string("general.architecture")?;
        let qk_norm = is_qwen3(&gguf.path().display().to_string(), architecture)?;
        let key = |key: &str| format!("{architecture}.{key}");
        let number = |name: &str| gguf.u32(&key(name)).map(|value| value as usize);
        let hidden = number("embedding_length")?;
        let heads = number("attention.head_count")?;
        let head_dim = if gguf.has(&key("attention.key_length")) {
            number("attention.key_length")?
        } else {
            hidden.checked_div(heads).unwrap_or(0)
        };
        let vocabulary = gguf
            .tensor("token_embd.weight")?
            .shape
            .first()
            .copied()
            .unwrap_or(0);
        let shape = Self {
            hidden,
            intermediate: number("feed_forward_length")?,
            layers: number("block_count")?,
            heads,
            kv_heads: number("attention.head_count_kv")?,
            head_dim,
            vocabulary,
            context_tokens: number("context_length")?,
            rope_base: gguf.f32(&key("rope.freq_base"))?,
            norm_epsilon: gguf.f32(&key("attention.layer_norm_rms_epsilon"))?,
            qk_norm,
        };
        shape.check()?;
        Ok(shape)
    }

    /// The shape in a Hugging Face `config.json` of the model called `model`.
    ///
    /// # Errors
    /// [`LoadError::Architecture`] for another family, [`LoadError::ModelConfig`] when the text is no such
    /// configuration or contradicts itself.
    pub fn from_config_json(model: &str, json: &str) -> Result<Self, LoadError> {
        let config: Config = serde_json::from_str(json).map_err(|error| {
            bad(
                "config.json",
                &error.to_string(),
                "the configuration of a Qwen2 model",
            )
        })?;
        let qk_norm = is_qwen3(model, &config.model_type)?;
        if config.is_causal == Some(false) {
            return Err(bad(
                "is_causal",
                "false",
                "true: tokens see what is before them only",
            ));
        }
        let head_dim = config
            .hidden_size
            .checked_div(config.num_attention_heads)
            .unwrap_or(0);
        let shape = Self {
            hidden: config.hidden_size,
            intermediate: config.intermediate_size,
            layers: config.num_hidden_layers,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim.unwrap_or(head_dim),
            vocabulary: config.vocab_size,
            context_tokens: config.max_position_embeddings,
            rope_base: config.rope_theta,
            norm_epsilon: config.rms_norm_eps,
            qk_norm,
        };
        shape.check()?;
        Ok(shape)
    }

    /// The shape in the `config.json` of a Hugging Face folder.
    ///
    /// # Errors
    /// [`LoadError::Io`] when there is none, else as [`Qwen2Shape::from_config_json`].
    pub fn from_folder(folder: &Path) -> Result<Self, LoadError> {
        let path = folder.join("config.json");
        let config = std::fs::read_to_string(&path).map_err(|source| LoadError::Io { path, source })?;
        Self::from_config_json(&folder.display().to_string(), &config)
    }

    /// Width of the fused q, k and v row.
    pub(crate) fn qkv(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of the attention's result.
    pub(crate) fn attention(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Whether the dimensions fit each other.
    ///
    /// # Errors
    /// [`LoadError::ModelConfig`] names the first that does not.
    pub fn check(&self) -> Result<(), LoadError> {
        let positive = [
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.intermediate),
            ("block_count", self.layers),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("the head size", self.head_dim),
            ("the vocabulary", self.vocabulary),
            ("context_length", self.context_tokens),
        ];
        if let Some((what, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(bad(what, "0", "at least 1"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("a divisor of the {} query heads", self.heads);
            return Err(bad(
                "attention.head_count_kv",
                &self.kv_heads.to_string(),
                &expected,
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(bad("the head size", &self.head_dim.to_string(), "an even number"));
        }
        if !(self.rope_base.is_finite() && self.rope_base > 1.0) {
            return Err(bad(
                "rope.freq_base",
                &self.rope_base.to_string(),
                "a finite number above 1",
            ));
        }
        Ok(())
    }
}

/// The fields of `config.json` that matter here.
#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rope_theta: f32,
    rms_norm_eps: f32,
    is_causal: Option<bool>,
}

/// Which of the two families it is.
fn is_qwen3(model: &str, architecture: &str) -> Result<bool, LoadError> {
    match architecture {
        "qwen2" => Ok(false),
        "qwen3" => Ok(true),
        other => Err(LoadError::Architecture {
            model: model.to_owned(),
            expected: "qwen2 or qwen3",
            received: other.to_owned(),
        }),
    }
}

fn bad(what: &str, received: &str, expected: &str) -> LoadError {
    LoadError::ModelConfig {
        what: what.to_owned(),
        received: received.to_owned(),
        expected: expected.to_owned(),
    }
}
