//! LongMemEval (Wu et al., ICLR 2025): every question has its own history of user and assistant turns.
//!
//! A history becomes a conversation named by its question id. The marks that tell which turns hold the answer are
//! not read. Sessions keep the order of the file, which sorts them by day, not by time of day.

use std::collections::HashMap;

use jiff::civil::DateTime;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each};
use crate::{Conversation, ConversationId, Moment, RetrievalError, Session, SessionId, Turn, TurnId};

/// `2023/05/20 (Sat) 02:21`
const TIME_FORMAT: &str = "%Y/%m/%d (%a) %H:%M";

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: "LongMemEval",
    };
    for_each(&source, container.read(index)?, |question: Question| {
        if intake.wants(&question.question_id) {
            let conversation = question
                .into_conversation()
                .map_err(|reason| source.at_line(1, reason))?;
            intake.deliver(conversation)?;
        }
        Ok(true)
    })
}

#[derive(Deserialize)]
struct Question {
    question_id: String,
    haystack_session_ids: Vec<String>,
    haystack_dates: Vec<Time>,
    haystack_sessions: Vec<Vec<Message>>,
}

struct Time(Moment);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Ok(time) = DateTime::strptime(TIME_FORMAT, &text) else {
            return Err(D::Error::custom(format!(
                "date {text:?}, expected one like \"2023/05/20 (Sat) 02:21\""
            )));
        };
        Ok(Self(Moment::local(time, text)))
    }
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

impl Question {
    fn into_conversation(self) -> Result<Conversation, String> {
        let lengths = [
            self.haystack_session_ids.len(),
            self.haystack_dates.len(),
            self.haystack_sessions.len(),
        ];
        if lengths.iter().any(|&length| length != lengths[0]) {
            let [ids, dates, sessions] = lengths;
            return Err(format!(
                "question {} has {ids} session ids, {dates} dates and {sessions} sessions, expected equal numbers",
                self.question_id
            ));
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        let sessions = self
            .haystack_session_ids
            .into_iter()
            .zip(self.haystack_dates)
            .zip(self.haystack_sessions);
        let sessions = sessions
            .filter(|(_, messages)| !messages.is_empty())
            .map(|((id, time), messages)| {
                // The same session occurs twice in some histories.
                let occurrence = seen.entry(id.clone()).and_modify(|n| *n += 1).or_insert(1);
                let id = if *occurrence == 1 {
                    id
                } else {
                    format!("{id}#{occurrence}")
                };
                session(id, time.0, messages)
            });
        Ok(Conversation {
            id: ConversationId::new(self.question_id),
            title: None,
            sessions: sessions.collect(),
        })
    }
}

/// Turn ids are the session's id and the position from 1, as in the official `corpus_id`.
fn session(id: String, time: Moment, messages: Vec<Message>) -> Session {
    let turns = messages.into_iter().enumerate().map(|(index, message)| Turn {
        id: TurnId::new(format!("{id}_{}", index + 1)),
        speaker: message.role,
        text: message.content,
        caption: None,
        time: None,
    });
    Session {
        time: Some(time),
        turns: turns.collect(),
        id: SessionId::new(id),
    }
}
