//! Conversations in, evidence out: file formats, the LMDB store, indexes and search.
//!
//! This crate does not know prompts, text generation or benchmarks.

mod conversation;
mod error;
mod recall;

pub use conversation::{Conversation, ConversationId, Session, SessionId, Turn, TurnId};
pub use error::RetrievalError;
pub use recall::{Card, Hit, Recall, Retriever, SearchRequest, TurnRecord};
