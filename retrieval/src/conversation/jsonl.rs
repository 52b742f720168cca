//! Our own format: one JSON object a line, documented in `docs/formats.md`.

use std::io::BufRead;
use std::path::Path;

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use super::file::{Wanted, unreadable};
use super::json::Source;
use crate::{Conversation, ConversationId, RetrievalError, Session, SessionId, Turn, TurnId};

/// Written in the first line of every conversation.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationRecord {
    mneme: u32,
    conversation: ConversationId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRecord {
    session: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<DateTime>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnRecord {
    turn: TurnId,
    speaker: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caption: Option<String>,
}

enum Record {
    Conversation(ConversationRecord),
    Session(SessionRecord),
    Turn(TurnRecord),
}

impl Record {
    /// The record's kind is the key that holds its id.
    fn parse(line: &str) -> Result<Self, String> {
        let value: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
        let kind = ["mneme", "session", "turn"]
            .into_iter()
            .find(|key| value.contains_key(*key));
        let value = serde_json::Value::Object(value);
        match kind {
            Some("mneme") => serde_json::from_value(value).map(Self::Conversation),
            Some("session") => serde_json::from_value(value).map(Self::Session),
            Some(_) => serde_json::from_value(value).map(Self::Turn),
            None => return Err("expected an object with the key \"mneme\", \"session\" or \"turn\"".into()),
        }
        .map_err(|error| error.to_string())
    }
}

pub(super) fn read(path: &Path, reader: impl BufRead, wanted: &mut Wanted<'_>) -> Result<(), RetrievalError> {
    let source = Source {
        path,
        format: "mneme JSONL",
    };
    let mut building = Building::default();
    for (index, line) in reader.lines().enumerate() {
        let line = line.map_err(|error| {
            let not_utf8 = error.kind() == std::io::ErrorKind::InvalidData;
            if not_utf8 {
                source.at_line(index + 1, "not UTF-8")
            } else {
                unreadable(path, error)
            }
        })?;
        if line.trim().is_empty() {
            continue;
        }
        Record::parse(&line)
            .and_then(|record| building.take(record, wanted))
            .map_err(|reason| source.at_line(index + 1, reason))?;
    }
    building.close(wanted);
    Ok(())
}

/// The conversation that the lines so far describe.
#[derive(Default)]
struct Building {
    current: Option<Conversation>,
}

impl Building {
    fn take(&mut self, record: Record, wanted: &mut Wanted<'_>) -> Result<(), String> {
        match record {
            Record::Conversation(record) => {
                if record.mneme != VERSION {
                    return Err(format!("format version {}, expected {VERSION}", record.mneme));
                }
                self.close(wanted);
                self.current = Some(Conversation {
                    id: record.conversation,
                    sessions: Vec::new(),
                });
            }
            Record::Session(record) => self.conversation()?.sessions.push(Session {
                id: record.session,
                time: record.time,
                turns: Vec::new(),
            }),
            Record::Turn(record) => {
                let session = self.conversation()?.sessions.last_mut();
                let session = session.ok_or("a turn before the first session, expected a session record")?;
                session.turns.push(Turn {
                    id: record.turn,
                    speaker: record.speaker,
                    text: record.text,
                    caption: record.caption,
                });
            }
        }
        Ok(())
    }

    fn conversation(&mut self) -> Result<&mut Conversation, String> {
        self.current.as_mut().ok_or_else(|| {
            "a record before the first conversation, expected {\"mneme\":1,\"conversation\":ID}".into()
        })
    }

    fn close(&mut self, wanted: &mut Wanted<'_>) {
        if let Some(mut conversation) = self.current.take()
            && wanted.wants(conversation.id.as_str())
        {
            conversation.sessions.retain(|session| !session.turns.is_empty());
            wanted.keep(conversation);
        }
    }
}

/// Writes a conversation in our own format; [`crate::read_conversations`] gives it back unchanged.
///
/// # Errors
/// Whatever the writer gives.
pub fn write_jsonl(conversation: &Conversation, mut writer: impl std::io::Write) -> std::io::Result<()> {
    let mut line = |record: String| writeln!(writer, "{record}");
    line(serde_json::to_string(&ConversationRecord {
        mneme: VERSION,
        conversation: conversation.id.clone(),
    })?)?;
    for session in &conversation.sessions {
        line(serde_json::to_string(&SessionRecord {
            session: session.id.clone(),
            time: session.time,
        })?)?;
        for turn in &session.turns {
            line(serde_json::to_string(&TurnRecord {
                turn: turn.id.clone(),
                speaker: turn.speaker.clone(),
                text: turn.text.clone(),
                caption: turn.caption.clone(),
            })?)?;
        }
    }
    Ok(())
}
