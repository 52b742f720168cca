//! Which loop answers a question.

use retrieval::Card;
use serde::{Deserialize, Serialize};

use crate::{
    AgentError, FullContextSettings, Machine, Memcot, Question, Rag, RagSettings, Rime, RimeSettings,
    Settings,
};

/// A loop and its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The MemCoT loop.
    Memcot(Settings),
    /// One search, one call.
    Rag(RagSettings),
    /// The whole conversation, one call.
    #[serde(rename = "full-context")]
    FullContext(FullContextSettings),
    /// Memories first, source turns where they are silent.
    Rime(RimeSettings),
}

impl Method {
    /// The loop at its first step.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] and [`AgentError::EmptyQuestion`].
    pub fn start(&self, question: Question, card: Card) -> Result<Box<dyn Machine>, AgentError> {
        Ok(match self {
            Self::Memcot(settings) => Box::new(Memcot::new(question, settings.clone(), card)?),
            Self::Rag(settings) => Box::new(Rag::new(question, settings, card)?),
            Self::FullContext(settings) => Box::new(Rag::over_everything(question, settings, card)?),
            Self::Rime(settings) => Box::new(Rime::new(question, settings.clone(), card)?),
        })
    }
}
