//! Prompts: chat messages made of parts, so that prefixes stay equal token for token.

use serde::{Deserialize, Serialize};

/// Who speaks in a chat message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Rules that come before the dialogue.
    System,
    /// The person, or the program that asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name used by chat templates: `system`, `user` or `assistant`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One chat message, its content cut into parts.
///
/// A backend tokenises every part by itself and joins the token ids. A prompt that only appends parts
/// therefore extends an earlier prompt token for token, which is what makes the KV cache hit. Special
/// tokens written in a part are plain text to the model: content cannot close its own message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The content, in order; its text is the concatenation.
    pub parts: Vec<String>,
}

impl Message {
    /// A message of one part.
    #[must_use]
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![text.into()],
        }
    }

    /// The whole content as one string.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts.concat()
    }
}

/// What the model is asked to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prompt {
    /// A dialogue, rendered with the model's own chat template; the model continues as the assistant.
    Chat(Vec<Message>),
    /// Plain text without a template; special tokens in it are recognised.
    Text(String),
    /// Token ids of this model's vocabulary.
    Tokens(Vec<u32>),
}
