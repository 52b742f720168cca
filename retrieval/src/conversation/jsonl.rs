//! Our own format: one JSON object a line, documented in `docs/formats.md`.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::chat::PIECE;
use super::container::Container;
use super::intake::Intake;
use super::json::{LineError, Source, for_each_line};
use crate::{Conversation, ConversationId, Moment, RetrievalError, Session, SessionId, Turn, TurnId};

/// Written in the first line of every conversation.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationRecord {
    mneme: u32,
    conversation: ConversationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRecord {
    session: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<Moment>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnRecord {
    turn: TurnId,
    speaker: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caption: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<Moment>,
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

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: "mneme JSONL",
    };
    let mut building = Building::default();
    for_each_line(&source, container.read(index)?, |_, line| {
        building.take(Record::parse(line)?, intake)
    })?;
    building.close(intake)
}

/// The conversation that the lines so far describe, or the piece of it that was not passed on yet.
#[derive(Default)]
struct Building {
    current: Option<Conversation>,
    sessions: HashSet<SessionId>,
    turns: usize,
    wanted: bool,
    whole: bool,
}

impl Building {
    fn take(&mut self, record: Record, intake: &mut Intake<'_>) -> Result<(), LineError> {
        match record {
            Record::Conversation(record) => {
                if record.mneme != VERSION {
                    let reason = format!("format version {}, expected {VERSION}", record.mneme);
                    return Err(LineError::Malformed(reason));
                }
                self.close(intake)?;
                self.wanted = intake.wants(record.conversation.as_str());
                self.current = Some(Conversation {
                    id: record.conversation,
                    title: record.title,
                    sessions: Vec::new(),
                });
                self.whole = true;
            }
            Record::Session(record) => {
                let current = self.current()?;
                current.sessions.push(Session {
                    id: record.session.clone(),
                    time: record.time,
                    turns: Vec::new(),
                });
                if !self.sessions.insert(record.session.clone()) {
                    return Err(LineError::Malformed(format!(
                        "session {} occurs twice, expected once",
                        record.session
                    )));
                }
            }
            Record::Turn(record) => self.turn(record, intake)?,
        }
        Ok(())
    }

    fn turn(&mut self, record: TurnRecord, intake: &mut Intake<'_>) -> Result<(), LineError> {
        let current = self.current()?;
        if current.sessions.is_empty() {
            return Err(LineError::Malformed(
                "a turn before the first session, expected a session record".into(),
            ));
        }
        if !intake.is_new(&current.id, record.turn.as_str()) {
            let reason = format!(
                "conversation {} cannot be stored: turn {} occurs twice, expected once",
                current.id, record.turn
            );
            return Err(LineError::Malformed(reason));
        }
        if let Some(session) = current.sessions.last_mut() {
            session.turns.push(Turn {
                id: record.turn,
                speaker: record.speaker,
                text: record.text,
                caption: record.caption,
                time: record.time,
            });
        }
        self.turns += 1;
        if self.turns == PIECE {
            self.pass_on(intake)?;
        }
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Conversation, LineError> {
        self.current.as_mut().ok_or_else(|| {
            LineError::Malformed(
                "a record before the first conversation, expected {\"mneme\":1,\"conversation\":ID}".into(),
            )
        })
    }

    /// Passes on what is gathered; the last session may go on.
    fn pass_on(&mut self, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let open = current.sessions.last().map(|session| Session {
            id: session.id.clone(),
            time: session.time.clone(),
            turns: Vec::new(),
        });
        let mut sessions = std::mem::replace(&mut current.sessions, open.into_iter().collect());
        sessions.retain(|session| !session.turns.is_empty());
        self.turns = 0;
        self.whole = false;
        if self.wanted {
            intake.deliver(Conversation {
                id: current.id.clone(),
                title: current.title.clone(),
                sessions,
            })?;
        }
        Ok(())
    }

    fn close(&mut self, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        // A conversation without a turn is refused; only the rest of a piecewise one may be empty.
        if self.turns > 0 || self.whole {
            self.pass_on(intake)?;
        }
        *self = Self::default();
        Ok(())
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
        title: conversation.title.clone(),
    })?)?;
    for session in &conversation.sessions {
        line(serde_json::to_string(&SessionRecord {
            session: session.id.clone(),
            time: session.time.clone(),
        })?)?;
        for turn in &session.turns {
            line(serde_json::to_string(&TurnRecord {
                turn: turn.id.clone(),
                speaker: turn.speaker.clone(),
                text: turn.text.clone(),
                caption: turn.caption.clone(),
                time: turn.time.clone(),
            })?)?;
        }
    }
    Ok(())
}
