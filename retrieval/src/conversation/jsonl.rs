//! Our own format: one JSON object a line, documented in `docs/formats.md`.

use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::path::Path;

use serde_json::{Map, Value};

use super::chat::PIECE;
use super::container::{Container, unreadable};
use super::intake::Intake;
use super::json::{LineError, Source, for_each_line};
use crate::{Conversation, ReadOptions, RetrievalError, Session, SessionId, Turn};

/// Written in the first line of every conversation.
const VERSION: u32 = 1;
/// Bytes of a first line that are looked at.
const LONGEST_HEAD: u64 = 1 << 16;

pub(crate) mod records {
    //! What a line holds.

    use serde::{Deserialize, Serialize};

    use crate::{ConversationId, Moment, SessionId, TurnId};

    /// Begins a conversation.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct Conversation {
        pub(super) mneme: u32,
        pub(super) conversation: ConversationId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) title: Option<String>,
    }

    impl Conversation {
        pub(crate) fn new(conversation: ConversationId, title: Option<String>) -> Self {
            Self {
                mneme: super::VERSION,
                conversation,
                title,
            }
        }
    }

    /// Begins a session.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct Session {
        pub(super) session: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) time: Option<Moment>,
    }

    impl Session {
        pub(crate) fn new(session: SessionId, time: Option<Moment>) -> Self {
            Self { session, time }
        }
    }

    /// A turn of the session above.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct Turn {
        turn: TurnId,
        speaker: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caption: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Moment>,
    }

    impl From<crate::Turn> for Turn {
        fn from(turn: crate::Turn) -> Self {
            Self {
                turn: turn.id,
                speaker: turn.speaker,
                text: turn.text,
                caption: turn.caption,
                time: turn.time,
            }
        }
    }

    impl From<Turn> for crate::Turn {
        fn from(record: Turn) -> Self {
            Self {
                id: record.turn,
                speaker: record.speaker,
                text: record.text,
                caption: record.caption,
                time: record.time,
            }
        }
    }
}

enum Record {
    Conversation(records::Conversation),
    Session(records::Session),
    Turn(records::Turn),
}

impl Record {
    /// The record's kind is the key that holds its id.
    fn parse(value: Map<String, Value>) -> Result<Self, String> {
        let kind = ["mneme", "session", "turn"]
            .into_iter()
            .find(|key| value.contains_key(*key));
        let value = Value::Object(value);
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
    read_lines(container, index, intake, &mut |_| Ok(true))
}

/// Sees a line before it is read, may take keys out, and says whether anything is left to read.
pub(crate) type First<'f> = dyn FnMut(&mut Map<String, Value>) -> Result<bool, String> + 'f;

/// As [`read`], every line by `first` before.
fn read_lines(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
    first: &mut First<'_>,
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: "mneme JSONL",
    };
    let mut building = Building::default();
    for_each_line(&source, container.read(index)?, |_, line| {
        let mut line = serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
        if first(&mut line)? {
            building.take(Record::parse(line)?, intake)?;
        }
        Ok(())
    })?;
    building.close(intake)
}

/// Reads lines of our own format with further keys, which `first` takes out; `each` takes the conversations as in
/// [`crate::for_each_conversation`]. A file without a turn is no error.
pub(crate) fn read_records(
    path: &Path,
    options: &ReadOptions,
    first: &mut First<'_>,
    each: &mut dyn FnMut(Conversation) -> Result<(), RetrievalError>,
) -> Result<(), RetrievalError> {
    let mut container = Container::open(path)?;
    read_lines(&mut container, 0, &mut Intake::new(options, each), first)
}

/// The first line of a file, gzip undone.
pub(crate) fn first_line(path: &Path) -> Result<String, RetrievalError> {
    let mut line = String::new();
    let mut container = Container::open(path)?;
    let read = container.read(0)?.take(LONGEST_HEAD).read_line(&mut line);
    read.map_err(|error| unreadable(path, error))?;
    Ok(line)
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

    fn turn(&mut self, record: records::Turn, intake: &mut Intake<'_>) -> Result<(), LineError> {
        let current = self.current()?;
        if current.sessions.is_empty() {
            return Err(LineError::Malformed(
                "a turn before the first session, expected a session record".into(),
            ));
        }
        let turn = Turn::from(record);
        if !intake.is_new(&current.id, turn.id.as_str()) {
            let reason = format!(
                "conversation {} cannot be stored: turn {} occurs twice, expected once",
                current.id, turn.id
            );
            return Err(LineError::Malformed(reason));
        }
        if let Some(session) = current.sessions.last_mut() {
            session.turns.push(turn);
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
    let head = records::Conversation::new(conversation.id.clone(), conversation.title.clone());
    line(serde_json::to_string(&head)?)?;
    for session in &conversation.sessions {
        let head = records::Session::new(session.id.clone(), session.time.clone());
        line(serde_json::to_string(&head)?)?;
        for turn in &session.turns {
            line(serde_json::to_string(&records::Turn::from(turn.clone()))?)?;
        }
    }
    Ok(())
}
