//! Memories, and what the loops ask of the place that keeps them.

use jiff::civil::DateTime;
use retrieval::{ConversationId, Hit, RetrievalError, SessionId, TurnRecord};
use serde::{Deserialize, Serialize};

use crate::TurnKey;

/// Names a memory, unique in a bank and never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemoryId(pub u64);

/// One remembered fact with its proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Unique in its bank.
    pub id: MemoryId,
    /// The fact, one or two sentences that stand alone.
    pub text: String,
    /// The time the fact speaks of, in words; empty where it speaks of none.
    pub time: String,
    /// When its newest source was said.
    pub said: Option<DateTime>,
    /// The turns it rests on, in the order in which they were said.
    pub sources: Vec<TurnRecord>,
}

/// One change of a bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "op")]
pub enum Operation {
    /// A new fact.
    Add {
        /// The fact.
        text: String,
        /// The time it speaks of, in words; may be empty.
        time: String,
        /// The turns it rests on, at least one.
        sources: Vec<TurnKey>,
    },
    /// The same fact, told newer or fuller. The old version stays as history.
    Update {
        /// Which memory.
        id: MemoryId,
        /// The fact as it is now.
        text: String,
        /// The time it speaks of, in words; may be empty.
        time: String,
        /// The turns of this session it rests on besides its old ones.
        sources: Vec<TurnKey>,
    },
    /// A fact that turned out to be wrong. It stays as a tombstone.
    Delete {
        /// Which memory.
        id: MemoryId,
        /// Why.
        reason: String,
        /// The turns that contradict it.
        sources: Vec<TurnKey>,
    },
}

/// A session by name; session ids are unique within a conversation only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// The conversation.
    pub conversation: ConversationId,
    /// The session.
    pub session: SessionId,
}

/// Where memories are kept, beside the turns they rest on.
pub trait MemoryBank: Send + Sync {
    /// Sessions whose memories are not formed yet, in the order of time within each conversation.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn unformed(&self) -> Result<Vec<SessionKey>, RetrievalError>;

    /// The turns of a session in order.
    ///
    /// # Errors
    /// When there is no such session or the store cannot be read.
    fn session(&self, session: &SessionKey) -> Result<Vec<TurnRecord>, RetrievalError>;

    /// The turns of one session nearest to a text by cosine, best first.
    ///
    /// # Errors
    /// When the store cannot be read or the text cannot be embedded.
    fn similar_turns(
        &self,
        session: &SessionKey,
        text: &str,
        limit: usize,
    ) -> Result<Vec<Hit>, RetrievalError>;

    /// The living memories nearest to a text by cosine, best first.
    ///
    /// # Errors
    /// When the store cannot be read or the text cannot be embedded.
    fn similar_memories(&self, text: &str, limit: usize) -> Result<Vec<Memory>, RetrievalError>;

    /// Applies all operations of a session and marks it as formed, in one transaction: wholly or not at all. A
    /// session that is formed already is left alone.
    ///
    /// # Errors
    /// When an operation names an unknown memory or turn, or the store cannot be written; nothing is changed.
    fn apply(&self, session: &SessionKey, operations: &[Operation]) -> Result<(), RetrievalError>;
}
