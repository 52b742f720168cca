//! How a folder's model pools and prefixes, where the manifest does not say: the files of Sentence Transformers.

use serde_json::Value;
use weights::{EmbedderProfile, ModelFiles, Pooling};

use crate::LoadError;

/// The manifest's profile of a known model, else what the folder's own files say; `positions` are those of the model.
pub(crate) fn profile(files: &ModelFiles, positions: usize) -> Result<EmbedderProfile, LoadError> {
    if let Some(known) = files.entry.as_ref().and_then(|entry| entry.embedder.clone()) {
        return Ok(known);
    }
    let pooling = read(files, "1_Pooling/config.json")?;
    let limits = read(files, "sentence_bert_config.json")?;
    let prompts = read(files, "config_sentence_transformers.json")?;
    let prompt = |names: &[&str]| {
        let found = names.iter().find_map(|name| prompts["prompts"][name].as_str());
        found.unwrap_or_default().to_owned()
    };
    Ok(EmbedderProfile {
        pooling: pooling_of(&pooling)?,
        // Every member of the family is meant for cosine similarity, with or without a module that says so.
        normalise: true,
        max_tokens: limits["max_seq_length"]
            .as_u64()
            .map_or(positions, |limit| positions.min(limit as usize)),
        query_prefix: prompt(&["query"]),
        passage_prefix: prompt(&["passage", "document"]),
    })
}

/// Mean, unless the pooling module says otherwise.
fn pooling_of(config: &Value) -> Result<Pooling, LoadError> {
    let on = |mode: &str| config[mode].as_bool() == Some(true);
    if config.is_null() || on("pooling_mode_mean_tokens") {
        Ok(Pooling::Mean)
    } else if on("pooling_mode_cls_token") {
        Ok(Pooling::Cls)
    } else if on("pooling_mode_lasttoken") {
        Ok(Pooling::LastToken)
    } else {
        Err(LoadError::ModelConfig {
            what: "pooling mode of 1_Pooling/config.json".into(),
            received: config.to_string(),
            expected: "mean, cls or last token".into(),
        })
    }
}

/// A JSON file of the model; null when there is none.
fn read(files: &ModelFiles, name: &str) -> Result<Value, LoadError> {
    let path = files.folder.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::Null),
        Err(source) => return Err(LoadError::Io { path, source }),
    };
    serde_json::from_str(&text).map_err(|error| LoadError::ModelConfig {
        what: path.display().to_string(),
        received: error.to_string(),
        expected: "JSON".into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pooling_module_decides() {
        assert_eq!(pooling_of(&Value::Null).unwrap(), Pooling::Mean);
        let cls = json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false });
        assert_eq!(pooling_of(&cls).unwrap(), Pooling::Cls);
        assert!(pooling_of(&json!({ "pooling_mode_max_tokens": true })).is_err());
    }
}
