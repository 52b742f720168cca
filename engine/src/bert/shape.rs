//! What `config.json` says about a BERT model.

use serde::Deserialize;

use crate::LoadError;

/// Sizes of a BERT encoder.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct BertShape {
    #[serde(default = "unknown")]
    model_type: String,
    /// Width of a token's vector.
    #[serde(rename = "hidden_size")]
    pub(super) hidden: usize,
    /// Width between the two feed-forward layers.
    #[serde(rename = "intermediate_size")]
    pub(super) intermediate: usize,
    #[serde(rename = "num_hidden_layers")]
    pub(super) layers: usize,
    #[serde(rename = "num_attention_heads")]
    pub(super) heads: usize,
    #[serde(rename = "vocab_size")]
    pub(super) vocabulary: usize,
    /// Longest text in tokens.
    #[serde(rename = "max_position_embeddings")]
    pub(super) positions: usize,
    #[serde(rename = "type_vocab_size", default = "two")]
    pub(super) token_types: usize,
    #[serde(default = "default_eps")]
    pub(super) layer_norm_eps: f32,
    #[serde(rename = "hidden_act", default = "gelu")]
    activation: String,
    #[serde(rename = "position_embedding_type", default = "absolute")]
    position_type: String,
}

impl BertShape {
    /// Reads the text of a `config.json` of the model called `name`.
    pub(super) fn parse(name: &str, json: &str) -> Result<Self, LoadError> {
        let shape: Self = serde_json::from_str(json).map_err(|error| LoadError::ModelConfig {
            what: format!("config.json of {name}"),
            received: error.to_string(),
            expected: "the configuration of a BERT encoder".into(),
        })?;
        if shape.model_type != "bert" {
            return Err(LoadError::Architecture {
                model: name.into(),
                expected: "bert",
                received: shape.model_type,
            });
        }
        shape.check()?;
        Ok(shape)
    }

    /// Width of one attention head.
    pub(super) fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }

    fn check(&self) -> Result<(), LoadError> {
        let texts = [
            ("hidden_act", &self.activation, "gelu"),
            ("position_embedding_type", &self.position_type, "absolute"),
        ];
        for (what, received, expected) in texts {
            if received != expected {
                return Err(wrong(what, received, expected));
            }
        }
        for (what, value) in [
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("intermediate_size", self.intermediate),
            ("max_position_embeddings", self.positions),
            ("type_vocab_size", self.token_types),
        ] {
            if value == 0 {
                return Err(wrong(what, "0", "at least 1"));
            }
        }
        if !self.hidden.is_multiple_of(self.heads * 16) || self.hidden == 0 {
            let expected = format!("{} heads of a multiple of 16 values", self.heads);
            return Err(wrong("hidden_size", &self.hidden.to_string(), &expected));
        }
        Ok(())
    }
}

fn wrong(what: &str, received: &str, expected: &str) -> LoadError {
    LoadError::ModelConfig {
        what: what.into(),
        received: received.into(),
        expected: expected.into(),
    }
}

fn unknown() -> String {
    "not named".into()
}

fn two() -> usize {
    2
}

fn default_eps() -> f32 {
    1e-12
}

fn gelu() -> String {
    "gelu".into()
}

fn absolute() -> String {
    "absolute".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINI: &str = r#"{ "model_type": "bert", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "vocab_size": 10, "max_position_embeddings": 8 }"#;

    #[test]
    fn left_out_fields_have_the_defaults_of_the_family() {
        let shape = BertShape::parse("mini", MINI).unwrap();
        assert_eq!(
            (shape.head_dim(), shape.token_types, shape.layer_norm_eps),
            (16, 2, 1e-12)
        );
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let refused = |from: &str, to: &str| {
            assert!(MINI.contains(from));
            BertShape::parse("mini", &MINI.replace(from, to))
                .unwrap_err()
                .to_string()
        };
        assert!(refused("\"bert\"", "\"nomic_bert\"").contains("nomic_bert"));
        assert!(
            refused("\"vocab_size\"", "\"hidden_act\": \"relu\", \"vocab_size\"")
                .contains("hidden_act is relu")
        );
        assert!(
            refused("\"num_attention_heads\": 2", "\"num_attention_heads\": 3").contains("hidden_size is 32")
        );
        assert!(
            refused("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 0")
                .contains("num_hidden_layers is 0")
        );
        assert!(refused("\"hidden_size\": 32,", "").contains("hidden_size"));
    }
}
