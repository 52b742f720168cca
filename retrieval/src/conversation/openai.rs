//! OpenAI chat messages, as fine-tuning files hold them: `{messages: [{role, content}]}`, an object a line, an array, or one
//! object.
//!
//! There are no times. Instructions and tool traffic are left out. Turn ids are positions from 1.

use serde::Deserialize;
use serde_json::Value;

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each_record};
use super::sharegpt::Id;
use crate::{RetrievalError, Turn, TurnId};

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let (path, stem) = (container.display(index), container.stem(index));
    let name = intake.options.name.clone().unwrap_or(stem);
    let source = Source {
        path: &path,
        format: "OpenAI messages",
    };
    for_each_record(&source, container, index, |number, record: Record| {
        let id = record.conversation_id.or(record.id).as_ref().and_then(Id::text);
        let id = intake.unique(id.unwrap_or_else(|| format!("{name}:{number}")));
        if !intake.wants(&id) {
            return Ok(());
        }
        let mut chat = Chat::new(
            intake,
            Heading {
                id,
                title: record.title,
                time: None,
            },
        );
        for (message, position) in record.messages.into_iter().zip(1..) {
            message.say(position, &mut chat, intake)?;
        }
        chat.finish(intake)
    })
}

#[derive(Deserialize)]
struct Record {
    id: Option<Id>,
    conversation_id: Option<Id>,
    title: Option<String>,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    name: Option<String>,
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Value>),
}

impl Message {
    fn say(self, position: usize, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        match self.role.as_str() {
            "system" | "developer" => intake.skip("system messages", position),
            "tool" | "function" => intake.skip("tool messages", position),
            _ => return self.say_words(position, chat, intake),
        }
        Ok(())
    }

    fn say_words(
        self,
        position: usize,
        chat: &mut Chat,
        intake: &mut Intake<'_>,
    ) -> Result<(), RetrievalError> {
        let calls = self.tool_calls.is_some_and(|calls| !calls.is_empty());
        let text = match self.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                let mut texts = Vec::new();
                for part in &parts {
                    match part.get("text").and_then(Value::as_str) {
                        Some(text) => texts.push(text),
                        None => intake.skip("attachments", position),
                    }
                }
                texts.join("\n")
            }
        };
        if calls {
            intake.skip("tool calls", position);
        }
        if text.trim().is_empty() {
            if !calls {
                intake.skip("messages without text", position);
            }
            return Ok(());
        }
        chat.say(
            Turn {
                id: TurnId::new(position.to_string()),
                speaker: self.name.filter(|name| !name.is_empty()).unwrap_or(self.role),
                text,
                caption: None,
                time: None,
            },
            intake,
        )
    }
}
