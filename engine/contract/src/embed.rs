//! Turning texts into vectors.

use serde::{Deserialize, Serialize};

use crate::EngineError;

/// What a text is to the embedder; models with prefixes treat the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbedKind {
    /// A question that looks for passages.
    Query,
    /// A text to be found.
    Passage,
}

/// What identifies the vectors of an embedder. Two embedders with equal info are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderInfo {
    /// Name in the manifest, or the folder's name.
    pub name: String,
    /// Length of every vector.
    pub dimension: usize,
    /// Whether vectors have unit length.
    pub normalised: bool,
    /// Tokens beyond this are cut; the cut is what the model was trained with.
    pub max_tokens: usize,
}

/// What an embedder makes of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextVectors {
    /// The text's vector, as [`Embedder::embed`] gives it.
    pub text: Vec<f32>,
    /// One vector of unit length for each token of the text in order, laid end to end; those that frame every text
    /// (`[CLS]`, `[SEP]`) are left out. Empty where the embedder gives none.
    pub tokens: Vec<f32>,
}

/// A model that maps texts to vectors.
pub trait Embedder: Send + Sync {
    /// What identifies the vectors.
    fn info(&self) -> &EmbedderInfo;

    /// One vector of `info().dimension` values per text, in order. A text's vector does not depend on the
    /// texts beside it.
    ///
    /// # Errors
    /// [`EngineError::Embedding`] names the text that cannot be embedded; nothing is returned for the others.
    fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError>;

    /// The same vectors with those of each text's tokens, for late interaction (Khattab and Zaharia, "ColBERT", SIGIR
    /// 2020). An embedder that has none for tokens need not implement this.
    ///
    /// # Errors
    /// As [`Self::embed`].
    fn embed_tokens(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<TextVectors>, EngineError> {
        let texts = self.embed(texts, kind)?.into_iter();
        Ok(texts
            .map(|text| TextVectors {
                text,
                tokens: Vec::new(),
            })
            .collect())
    }
}
