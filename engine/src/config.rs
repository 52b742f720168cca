//! How one engine is set up: memory, batch sizes, threads.

use kernels::{KvDtype, TilePolicy};

use crate::LoadError;

const MIB: u64 = 1024 * 1024;

/// Settings of one engine. `Default` suits a laptop and the small models.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// Threads of the kernels; `None` takes one per physical core.
    pub threads: Option<usize>,
    /// Bytes of keys and values kept for running requests and for the prefix cache together.
    pub kv_bytes: u64,
    /// How keys and values are stored.
    pub kv_dtype: KvDtype,
    /// Rows of one forward pass at most: decoding sequences first, then chunks of prompts.
    pub max_batch_tokens: usize,
    /// Sequences that run at once at most.
    pub max_sequences: usize,
    /// Requests that may wait to run; one more is refused with `QueueFull`.
    pub queue_capacity: usize,
    /// A waiting request is overtaken by at most this many later ones with longer cached prefixes.
    pub max_overtakes: usize,
    /// Tokens guessed ahead by prompt lookup while a sequence decodes alone, shared out among few; 0 turns guessing
    /// off. Replies do not depend on it.
    pub draft_tokens: usize,
    /// Keep keys and values of finished and running sequences for later prompts with the same beginning.
    pub prefix_cache: bool,
    /// Prompt and reply together have at most this many tokens; `None` takes the model's own limit.
    pub context_tokens: Option<usize>,
    /// How weights are laid out in memory.
    pub weights: TilePolicy,
    /// Keep the laid-out weights in a file beside the model's, as large as these, so that the next start maps them.
    pub tile_cache: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            threads: None,
            kv_bytes: 512 * MIB,
            kv_dtype: KvDtype::F16,
            max_batch_tokens: 512,
            max_sequences: 32,
            queue_capacity: 1024,
            max_overtakes: 16,
            draft_tokens: 3,
            prefix_cache: true,
            context_tokens: None,
            weights: TilePolicy::Native,
            tile_cache: true,
        }
    }
}

impl EngineConfig {
    /// Checks every setting by itself.
    ///
    /// # Errors
    /// [`LoadError::InvalidConfig`] names the first bad one.
    pub fn validate(&self) -> Result<(), LoadError> {
        let positive = [
            ("threads", self.threads.unwrap_or(1)),
            ("max_batch_tokens", self.max_batch_tokens),
            ("max_sequences", self.max_sequences),
            ("queue_capacity", self.queue_capacity),
            ("context_tokens", self.context_tokens.unwrap_or(1)),
        ];
        for (field, value) in positive {
            if value == 0 {
                return Err(LoadError::InvalidConfig {
                    field,
                    received: "0".into(),
                    expected: "at least 1".into(),
                });
            }
        }
        if self.max_batch_tokens < self.max_sequences {
            return Err(LoadError::InvalidConfig {
                field: "max_batch_tokens",
                received: self.max_batch_tokens.to_string(),
                expected: format!("at least max_sequences ({})", self.max_sequences),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        EngineConfig::default().validate().unwrap();
    }

    #[test]
    fn a_bad_setting_is_named() {
        let bad = EngineConfig {
            max_sequences: 0,
            ..EngineConfig::default()
        };
        assert_eq!(
            bad.validate().unwrap_err().to_string(),
            "invalid engine setting: max_sequences is 0, expected at least 1"
        );
        let bad = EngineConfig {
            max_batch_tokens: 8,
            max_sequences: 9,
            ..EngineConfig::default()
        };
        assert!(
            bad.validate()
                .unwrap_err()
                .to_string()
                .contains("max_batch_tokens is 8")
        );
    }
}
