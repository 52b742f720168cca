//! Claude's data export: an array of conversations with `chat_messages`.
//!
//! `text` and the text blocks of `content` say the same; blocks win where there are any. Thinking, tool calls and tool results
//! are left out, also those that arrive as a human's. The text of an attached file is a turn of its own.

use serde::Deserialize;
use serde_json::Value;

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each, or_default};
use crate::{Moment, RetrievalError, Turn, TurnId};

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: "Claude",
    };
    for_each(&source, container.read(index)?, |exported: Exported| {
        let id = intake.unique(exported.uuid.clone());
        if !intake.wants(&id) {
            return Ok(true);
        }
        let mut chat = Chat::new(
            intake,
            Heading {
                id,
                title: exported.name,
                time: exported.created_at.as_deref().and_then(Moment::parse),
            },
        );
        for message in exported.chat_messages {
            message.say(&mut chat, intake)?;
        }
        chat.finish(intake)?;
        Ok(true)
    })
}

#[derive(Deserialize)]
struct Exported {
    uuid: String,
    name: Option<String>,
    created_at: Option<String>,
    #[serde(deserialize_with = "or_default")]
    chat_messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    uuid: String,
    text: Option<String>,
    content: Option<Vec<Value>>,
    sender: String,
    created_at: Option<String>,
    #[serde(default)]
    attachments: Option<Vec<Attachment>>,
    #[serde(default)]
    files: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Attachment {
    file_name: Option<String>,
    extracted_content: Option<String>,
}

impl Message {
    fn say(self, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let mut texts = Vec::new();
        let mut only_tools = false;
        for block in self.content.iter().flatten() {
            match block.get("type").and_then(Value::as_str) {
                Some("text") => texts.extend(block.get("text").and_then(Value::as_str)),
                Some("thinking" | "redacted_thinking") => intake.skip("reasoning", &self.uuid),
                Some("tool_use" | "tool_result") => {
                    only_tools = true;
                    intake.skip("tool calls and results", &self.uuid);
                }
                _ => intake.skip("blocks of an unknown type", &self.uuid),
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        // Where tools speak, `text` repeats what they said.
        if texts.is_empty() && !only_tools {
            texts.extend(self.text.as_deref().filter(|text| !text.trim().is_empty()));
        }
        let text = texts.join("\n");
        let time = self.created_at.as_deref().and_then(Moment::parse);
        let turn = |id: String, text: String| Turn {
            id: TurnId::new(id),
            speaker: self.sender.clone(),
            text,
            caption: None,
            time: time.clone(),
        };
        if !text.is_empty() {
            chat.say(turn(self.uuid.clone(), text), intake)?;
        } else if !only_tools {
            intake.skip("messages without text", &self.uuid);
        }
        for (attachment, number) in self.attachments.iter().flatten().zip(1..) {
            let content = attachment.extracted_content.as_deref().unwrap_or_default();
            let name = attachment.file_name.as_deref().unwrap_or_default();
            if content.trim().is_empty() {
                intake.skip("attachments", format!("{} {name}", self.uuid));
            } else {
                let text = if name.is_empty() {
                    content.to_owned()
                } else {
                    format!("[{name}]\n{content}")
                };
                chat.say(turn(format!("{}/{number}", self.uuid), text), intake)?;
            }
        }
        for _ in self.files.iter().flatten() {
            intake.skip("attachments", &self.uuid);
        }
        Ok(())
    }
}
