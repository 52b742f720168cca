//! Conversations in, evidence out: file formats, the LMDB store, indexes and search.
//!
//! ```
//! use std::sync::Arc;
//!
//! use engine_contract::{Embedder, scripted::HashEmbedder};
//! use retrieval::{Memory, Recall, Retriever, SearchRequest, Searcher, read_conversations};
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("chat.jsonl");
//! # std::fs::write(&file, r#"{"mneme":1,"conversation":"chat"}
//! # {"session":"1","time":"2023-05-08T13:56:00"}
//! # {"turn":"1:1","speaker":"Ann","text":"I went to the pottery class yesterday."}
//! # {"turn":"1:2","speaker":"Ben","text":"Lovely!"}"#)?;
//! let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new(64));
//! let conversations = read_conversations(&file, None)?;
//! let memory = Memory::create_or_open(&folder.path().join("memory"), embedder.info())?;
//! for conversation in &conversations {
//!     memory.ingest(conversation, Some(&*embedder), &mut |_| {})?;
//! }
//! let hits = Searcher::new(memory, Some(embedder))?.search(&SearchRequest {
//!     query: "Who does pottery?".into(),
//!     limit: 1,
//!     retriever: Retriever::Hybrid,
//! })?;
//! assert_eq!(hits[0].turn.id.as_str(), "1:1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not know prompts, text generation or benchmarks.

mod conversation;
mod error;
mod recall;
mod search;
mod store;
mod text;

pub use conversation::{
    Conversation, ConversationId, DateOrder, Format, Moment, ReadOptions, ReadReport, Session, SessionId,
    Skipped, Turn, TurnId, Zone, for_each_conversation, read_conversations, recognise, write_jsonl,
};
pub use error::RetrievalError;
pub use recall::{Card, Hit, Recall, Retriever, SearchRequest, TurnRecord};
pub use search::{Fusion, LateInteraction, Neighbours, RankingConfig, Searcher, Vocabulary};
pub use store::{
    CheckReport, ConversationSummary, Deletion, Entity, Finding, GraphCost, GraphSummary, IngestProgress,
    IngestReport, IngestStage, Memory, MemorySettings, Relation, Stats, Table, TurnGraph, export_embedder,
    namespace_folder, namespaces,
};
pub use text::Language;
