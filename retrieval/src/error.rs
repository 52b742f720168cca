//! Everything that can go wrong between a conversation file and a found turn.

use engine_contract::EngineError;

/// Why a file was refused or a store could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// No such turn in the store.
    #[error("conversation {conversation} has no turn {turn}; `mneme memory show` lists what is stored")]
    UnknownTurn {
        /// The conversation looked in.
        conversation: String,
        /// The turn looked for.
        turn: String,
    },
    /// The embedder failed.
    #[error(transparent)]
    Embedder(#[from] EngineError),
}
