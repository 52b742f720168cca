//! A conversation as every part of the product sees it, whatever file it came from.

use std::fmt;

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

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
}

/// Turns that belong together in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Unique in its conversation.
    pub id: SessionId,
    /// When it began, local time of the source; `None` where the source does not say. Never invented.
    pub time: Option<DateTime>,
    /// In the order in which they were said.
    pub turns: Vec<Turn>,
}

/// A history: sessions in the order of the source, which is their order in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Unique in a store.
    pub id: ConversationId,
    /// In order.
    pub sessions: Vec<Session>,
}
