//! Telegram Desktop's `result.json`: one chat, or all chats of an account.
//!
//! `date_unixtime` is UTC; older files have only `date`, local time without a zone. Service messages and media without words
//! are left out.

use serde::Deserialize;
use serde_json::{Number, Value};

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
        format: "Telegram",
    };
    // First who the chats are, in whatever order the keys come, then their messages one by one.
    let mut top = Top::default();
    walk(&source, container.read(index)?, &[], |_, found: Top| {
        top = found;
        Ok(true)
    })?;
    let one = top.id.map(|id| Head { id, name: top.name });
    let groups: [(Vec<Head>, &[Step]); 3] = [
        (one.into_iter().collect(), &[]),
        (
            top.chats.list,
            &[Step::Keys(&["chats"]), Step::Keys(&["list"]), Step::Each],
        ),
        (
            top.left_chats.list,
            &[Step::Keys(&["left_chats"]), Step::Keys(&["list"]), Step::Each],
        ),
    ];
    for (heads, steps) in groups.into_iter().filter(|(heads, _)| !heads.is_empty()) {
        let mut reading = Messages::new(heads, intake);
        let steps = [steps, &MESSAGES].concat();
        walk(
            &source,
            container.read(index)?,
            &steps,
            |indices, message: Message| {
                reading.take(indices, message, intake)?;
                Ok(true)
            },
        )?;
        reading.close(intake)?;
    }
    Ok(())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Top {
    id: Option<Number>,
    name: Option<String>,
    chats: Heads,
    left_chats: Heads,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Heads {
    list: Vec<Head>,
}

#[derive(Deserialize)]
struct Head {
    id: Number,
    name: Option<String>,
}

/// The messages of several chats, chat after chat.
struct Messages {
    heads: Vec<(String, Option<String>)>,
    wanted: Vec<bool>,
    open: Option<(usize, Chat)>,
}

impl Messages {
    fn new(heads: Vec<Head>, intake: &mut Intake<'_>) -> Self {
        let heads = heads
            .into_iter()
            .map(|head| (intake.unique(head.id.to_string()), head.name));
        let heads: Vec<_> = heads.collect();
        Self {
            wanted: heads.iter().map(|(id, _)| intake.wants(id)).collect(),
            heads,
            open: None,
        }
    }

    fn take(
        &mut self,
        indices: &[usize],
        message: Message,
        intake: &mut Intake<'_>,
    ) -> Result<(), RetrievalError> {
        let place = if let [place, _] = indices { *place } else { 0 };
        if !self.wanted.get(place).copied().unwrap_or(false) {
            return Ok(());
        }
        if self.open.as_ref().is_some_and(|(open, _)| *open != place) {
            self.close(intake)?;
        }
        let heads = &self.heads;
        let (_, chat) = self.open.get_or_insert_with(|| {
            let (id, title) = heads[place].clone();
            (
                place,
                Chat::new(
                    intake,
                    Heading {
                        id,
                        title,
                        time: None,
                    },
                ),
            )
        });
        message.say(chat, intake)
    }

    fn close(&mut self, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        self.open.take().map_or(Ok(()), |(_, chat)| chat.finish(intake))
    }
}

#[derive(Deserialize)]
struct Message {
    id: Number,
    #[serde(rename = "type")]
    kind: Option<String>,
    date: Option<String>,
    date_unixtime: Option<Value>,
    from: Option<String>,
    from_id: Option<Value>,
    #[serde(default)]
    text: Value,
}

impl Message {
    fn say(self, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        if self.kind.as_deref().is_some_and(|kind| kind != "message") {
            intake.skip("system messages", &self.id);
            return Ok(());
        }
        let text = words(&self.text);
        if text.trim().is_empty() {
            intake.skip("media without words", &self.id);
            return Ok(());
        }
        let from_id = self.from_id.as_ref().map(plain);
        let speaker = self.from.clone().filter(|name| !name.is_empty()).or(from_id);
        chat.say(
            Turn {
                id: TurnId::new(self.id.to_string()),
                speaker: speaker.unwrap_or_else(|| "deleted account".into()),
                text,
                caption: None,
                time: self.moment(),
            },
            intake,
        )
    }

    /// UTC where the file has it; the local spelling is kept beside it.
    fn moment(&self) -> Option<Moment> {
        let unix = self.date_unixtime.as_ref().map(plain);
        let utc = unix.and_then(|text| Moment::unix(text.parse().ok()?, text));
        match (utc, &self.date) {
            (Some(utc), Some(local)) => Some(Moment {
                raw: Some(local.clone()),
                ..utc
            }),
            (Some(utc), None) => Some(utc),
            (None, local) => Moment::parse(local.as_deref()?),
        }
    }
}

/// A number or a string as text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A string, or strings and `{type, text}` in a row.
fn words(text: &Value) -> String {
    match text {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(words).collect(),
        Value::Object(part) => part.get("text").map_or(String::new(), words),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}
