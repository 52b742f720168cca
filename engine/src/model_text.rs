//! The tokenizer and chat template of one model.

use std::path::Path;

use weights::{ChatTemplate, Gguf, Tokenizer};

use crate::LoadError;

/// What turns text into tokens and back.
#[derive(Debug)]
pub struct ModelText {
    /// The model's tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template; without one, chat prompts are refused.
    pub template: Option<ChatTemplate>,
}

impl ModelText {
    /// The tokenizer and the template stored in a GGUF file.
    ///
    /// # Errors
    /// [`LoadError::Weights`] when the file has no tokenizer, or the template does not compile.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, LoadError> {
        let template = gguf
            .has("tokenizer.chat_template")
            .then(|| ChatTemplate::from_gguf(gguf))
            .transpose()?;
        Ok(Self {
            tokenizer: Tokenizer::from_gguf(gguf)?,
            template,
        })
    }

    /// The `tokenizer.json` and, where there is one, the template of `tokenizer_config.json` in a Hugging Face folder.
    ///
    /// # Errors
    /// [`LoadError::Weights`] when there is no tokenizer, or the template does not compile.
    pub fn from_folder(folder: &Path) -> Result<Self, LoadError> {
        let config = folder.join("tokenizer_config.json");
        let template = config
            .is_file()
            .then(|| ChatTemplate::from_tokenizer_config(&config))
            .transpose()?;
        Ok(Self {
            tokenizer: Tokenizer::from_file(folder.join("tokenizer.json"))?,
            template,
        })
    }
}
