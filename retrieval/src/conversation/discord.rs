//! DiscordChatExporter's JSON: one channel.
//!
//! Ids are strings and stay so. Joins, pins and the like are left out, and messages that hold only attachments.

use serde::Deserialize;
use serde_json::Value;

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, Step, walk};
use crate::{Moment, RetrievalError, Turn, TurnId};

const MESSAGES: [Step; 2] = [Step::Keys(&["messages"]), Step::Each];

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: "DiscordChatExporter",
    };
    let mut top = None;
    walk(&source, container.read(index)?, &[], |_, found: Top| {
        top = Some(found);
        Ok(true)
    })?;
    let Some(Top { guild, channel }) = top else {
        return Ok(());
    };
    let id = intake.unique(channel.id);
    if !intake.wants(&id) {
        return Ok(());
    }
    let names = [guild.and_then(|guild| guild.name), channel.name];
    let title = names.into_iter().flatten().collect::<Vec<_>>().join(" / ");
    let heading = Heading {
        id,
        title: Some(title),
        time: None,
    };
    let mut chat = Chat::new(intake, heading);
    walk(
        &source,
        container.read(index)?,
        &MESSAGES,
        |_, message: Message| {
            message.say(&mut chat, intake)?;
            Ok(true)
        },
    )?;
    chat.finish(intake)
}

#[derive(Deserialize)]
struct Top {
    guild: Option<Guild>,
    channel: Channel,
}

#[derive(Deserialize)]
struct Guild {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Channel {
    id: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    id: String,
    #[serde(rename = "type")]
    kind: Option<Value>,
    timestamp: Option<String>,
    content: Option<String>,
    author: Author,
}

#[derive(Deserialize)]
struct Author {
    id: Option<String>,
    name: Option<String>,
    nickname: Option<String>,
}

impl Message {
    fn say(self, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        // Names since version 2.0, numbers before.
        let is_said = match &self.kind {
            Some(Value::String(kind)) => matches!(kind.as_str(), "Default" | "Reply" | "0" | "19"),
            Some(kind) => matches!(kind.as_u64(), Some(0 | 19)),
            None => true,
        };
        let text = self.content.unwrap_or_default();
        if !is_said {
            intake.skip("system messages", &self.id);
            return Ok(());
        }
        if text.trim().is_empty() {
            intake.skip("attachments without words", &self.id);
            return Ok(());
        }
        let Author { id, name, nickname } = self.author;
        let speaker = [nickname, name, id]
            .into_iter()
            .flatten()
            .find(|name| !name.is_empty());
        chat.say(
            Turn {
                id: TurnId::new(self.id),
                speaker: speaker.unwrap_or_else(|| "unknown".into()),
                text,
                caption: None,
                time: self.timestamp.as_deref().and_then(Moment::parse),
            },
            intake,
        )
    }
}
