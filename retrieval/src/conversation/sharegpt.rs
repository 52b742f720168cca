//! ShareGPT and what descends from it: `{id, conversations: [{from, value}]}`, as an array, one object, or an object a line.
//!
//! There are no times. System prompts and tool traffic are left out. Turn ids are positions from 1.

use serde::Deserialize;

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each_record};
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
        format: "ShareGPT",
    };
    for_each_record(&source, container, index, |number, record: Record| {
        let id = record.id.as_ref().and_then(Id::text);
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
        if record.system.is_some_and(|system| !system.is_empty()) {
            intake.skip("system messages", "system");
        }
        for (message, position) in record.conversations.into_iter().zip(1..) {
            message.say(position, &mut chat, intake)?;
        }
        chat.finish(intake)
    })
}

#[derive(Deserialize)]
struct Record {
    id: Option<Id>,
    title: Option<String>,
    system: Option<String>,
    conversations: Vec<Message>,
}

/// Some files count their records.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Text(String),
    Number(i64),
}

impl Id {
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) if text.is_empty() => None,
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
        }
    }
}

#[derive(Deserialize)]
struct Message {
    from: String,
    value: Option<String>,
}

impl Message {
    fn say(self, position: usize, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        match self.from.as_str() {
            "system" => intake.skip("system messages", position),
            "tool" | "function_call" | "observation" => intake.skip("tool calls and results", position),
            _ => {
                let text = plain(self.value.unwrap_or_default());
                if text.trim().is_empty() {
                    intake.skip("messages without text", position);
                    return Ok(());
                }
                return chat.say(
                    Turn {
                        id: TurnId::new(position.to_string()),
                        speaker: self.from,
                        text,
                        caption: None,
                        time: None,
                    },
                    intake,
                );
            }
        }
        Ok(())
    }
}

/// Early scrapes hold a page's HTML: only a value that is markup from end to end is taken for that.
fn plain(value: String) -> String {
    let trimmed = value.trim();
    if !(trimmed.starts_with('<') && trimmed.ends_with('>') && trimmed.contains("</")) {
        return value;
    }
    let mut text = String::with_capacity(trimmed.len());
    let mut rest = trimmed;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let Some((tag, after)) = after.split_once('>') else {
            break;
        };
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap_or_default();
        let ends_line = matches!(
            name,
            "br" | "p" | "div" | "li" | "pre" | "tr" | "h1" | "h2" | "h3" | "h4"
        );
        if ends_line && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        rest = after;
    }
    text.push_str(rest);
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    let text = entities
        .iter()
        .fold(text, |text, (entity, character)| text.replace(entity, character));
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn only_markup_from_end_to_end_is_undone() {
        assert_eq!(
            plain("<div><p>a &lt; b</p><p>c<br/>d</p></div>".into()),
            "a < b\nc\nd"
        );
        for text in ["a < b", "<T> is a type", "use Vec<u8> and </b>", "<", "<>"] {
            assert_eq!(plain(text.into()), text);
        }
    }
}
