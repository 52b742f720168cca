//! A conversation as every part of the product sees it, whatever file it came from.

mod chat;
mod chatgpt;
mod claude;
mod container;
mod discord;
mod intake;
mod json;
mod jsonl;
mod locomo;
mod longmemeval;
mod moment;
mod openai;
mod read;
mod sharegpt;
mod slack;
mod sniff;
mod telegram;
#[cfg(test)]
mod tests;
mod whatsapp;

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::RetrievalError;

pub use intake::{DateOrder, ReadOptions, ReadReport, Skipped};
pub use jsonl::write_jsonl;
pub(crate) use jsonl::{first_line, read_records, records};
pub use moment::{Moment, Zone};
pub use read::{Format, for_each_conversation, read_conversations, recognise};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an id as the source spells it.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as the source spells it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id!(
    /// Names a conversation, unique in a store: `conv-26`.
    ConversationId
);
string_id!(
    /// Names a session, unique in its conversation: `session_1`.
    SessionId
);
string_id!(
    /// Names a turn, unique in its conversation: `D1:3`.
    TurnId
);

/// One utterance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Unique in its conversation.
    pub id: TurnId,
    /// Who speaks, as the source spells it.
    pub speaker: String,
    /// What was said; may be empty where only an image was sent.
    pub text: String,
    /// What an attached image shows, where the source says it.
    pub caption: Option<String>,
    /// When it was said; `None` where the source gives a time for the session alone, or none.
    pub time: Option<Moment>,
}

/// Turns that belong together in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Unique in its conversation.
    pub id: SessionId,
    /// When it began; `None` where the source does not say. Never invented.
    pub time: Option<Moment>,
    /// In the order in which they were said.
    pub turns: Vec<Turn>,
}

/// A history: sessions in the order of the source, which is their order in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Unique in a store.
    pub id: ConversationId,
    /// What people call it, where the source says it.
    pub title: Option<String>,
    /// In order.
    pub sessions: Vec<Session>,
}

/// Ids become LMDB keys, which are at most 511 bytes.
const MAX_ID_BYTES: usize = 400;

impl Conversation {
    /// Adds the sessions of a later piece of the same conversation.
    fn append(&mut self, piece: Self) {
        for session in piece.sessions {
            match self.sessions.iter_mut().rfind(|known| known.id == session.id) {
                Some(known) => known.turns.extend(session.turns),
                None => self.sessions.push(session),
            }
        }
    }

    /// Number of turns.
    #[must_use]
    pub fn turn_count(&self) -> usize {
        self.sessions.iter().map(|session| session.turns.len()).sum()
    }

    /// Checks what every store relies on: at least one turn, ids unique, none empty or longer than 400 bytes.
    ///
    /// # Errors
    /// [`RetrievalError::InvalidConversation`] names the first id that breaks a rule.
    pub fn validate(&self) -> Result<(), RetrievalError> {
        let fail = |reason: String| RetrievalError::InvalidConversation {
            conversation: self.id.to_string(),
            reason,
        };
        check_id("conversation", self.id.as_str()).map_err(fail)?;
        if self.turn_count() == 0 {
            return Err(fail("it has no turn, expected at least one".into()));
        }
        let (mut sessions, mut turns) = (HashSet::new(), HashSet::new());
        for session in &self.sessions {
            check_id("session", session.id.as_str()).map_err(fail)?;
            if !sessions.insert(&session.id) {
                return Err(fail(format!(
                    "session {} occurs twice, expected once",
                    session.id
                )));
            }
            for turn in &session.turns {
                check_id("turn", turn.id.as_str()).map_err(fail)?;
                if !turns.insert(&turn.id) {
                    return Err(fail(format!("turn {} occurs twice, expected once", turn.id)));
                }
            }
        }
        Ok(())
    }
}

fn check_id(what: &str, id: &str) -> Result<(), String> {
    match id.len() {
        0 => Err(format!(
            "it has an empty {what} id, expected at least one character"
        )),
        length if length > MAX_ID_BYTES => Err(format!(
            "a {what} id has {length} bytes, expected at most {MAX_ID_BYTES}"
        )),
        _ => Ok(()),
    }
}
