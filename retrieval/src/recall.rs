//! What the agents ask of a memory: find turns, widen them, say what is there.

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use crate::{ConversationId, RetrievalError, SessionId, TurnId};

/// A stored turn with everything an answer needs to cite it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The conversation it belongs to.
    pub conversation: ConversationId,
    /// The session it belongs to.
    pub session: SessionId,
    /// Unique in its conversation.
    pub id: TurnId,
    /// When it was said, or else when its session began: in UTC, or by a clock of unknown zone; `None` where the source does
    /// not say.
    pub time: Option<DateTime>,
    /// Position in the whole conversation, from 0: sorting by it restores the order in which turns were said.
    pub position: u32,
    /// Who speaks.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// What an attached image shows.
    pub caption: Option<String>,
}

/// A turn found by a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The turn.
    pub turn: TurnRecord,
    /// Higher is better; comparable within one search only.
    pub score: f32,
}

/// Which index answers a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retriever {
    /// Vectors only.
    Dense,
    /// Keywords only.
    Bm25,
    /// Both, fused.
    #[default]
    Hybrid,
    /// Both and the graph of entities and relations, fused; as hybrid where no graph was made.
    Graph,
}

/// One search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// What is looked for, in plain words.
    pub query: String,
    /// At most this many turns.
    pub limit: usize,
    /// Which index answers.
    pub retriever: Retriever,
}

/// What a memory holds, in the few words that head a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Card {
    /// Distinct speakers, in order of appearance.
    pub speakers: Vec<String>,
    /// Begin of the first dated session.
    pub first: Option<DateTime>,
    /// Begin of the last dated session.
    pub last: Option<DateTime>,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of turns.
    pub turns: usize,
}

/// A memory that can be searched. Implemented by the LMDB store, and by small fakes in tests.
pub trait Recall: Send + Sync {
    /// What is there.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn card(&self) -> Result<Card, RetrievalError>;

    /// The best turns for a query, best first, no turn twice.
    ///
    /// # Errors
    /// When the store cannot be read or the query cannot be embedded.
    fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, RetrievalError>;

    /// Every turn in reach, in the order in which they were said: by conversation, session and position.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn turns(&self) -> Result<Vec<TurnRecord>, RetrievalError>;

    /// The turn itself and at most `each_side` turns before and after it inside its session, in the order of the
    /// conversation.
    ///
    /// # Errors
    /// [`RetrievalError::UnknownTurn`] when there is no such turn, or when the store cannot be read.
    fn window(
        &self,
        conversation: &ConversationId,
        turn: &TurnId,
        each_side: usize,
    ) -> Result<Vec<TurnRecord>, RetrievalError>;
}
