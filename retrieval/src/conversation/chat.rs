//! A conversation from messages that carry their own times: sessions are days.
//!
//! A message without a time stays with the one before it. Where no message has a time, there is one session, `1`.

use std::collections::HashMap;

use super::intake::Intake;
use crate::{Conversation, ConversationId, Moment, RetrievalError, Session, SessionId, Turn};

/// Turns of a long conversation that are passed on together.
pub(super) const PIECE: usize = 4_096;
const UNDATED: &str = "1";

/// What a conversation is called.
pub(super) struct Heading {
    pub(super) id: String,
    pub(super) title: Option<String>,
    /// When it took place, where a message does not say it.
    pub(super) time: Option<Moment>,
}

/// Gathers one conversation and passes it on, in pieces when it is long.
pub(super) struct Chat {
    id: ConversationId,
    title: Option<String>,
    /// When a session began, also of sessions passed on before.
    began: HashMap<String, Option<Moment>>,
    current: String,
    sessions: Vec<Session>,
    /// Index in `sessions`.
    places: HashMap<String, usize>,
    turns: usize,
    pieces: usize,
}

impl Chat {
    pub(super) fn new(intake: &Intake<'_>, heading: Heading) -> Self {
        let own = heading.time.as_ref();
        let current = own.map_or(UNDATED.to_owned(), |time| time.time.date().to_string());
        let time = heading.time.or_else(|| intake.given_date());
        Self {
            id: ConversationId::new(heading.id),
            title: heading.title.filter(|title| !title.trim().is_empty()),
            began: HashMap::from([(current.clone(), time)]),
            current,
            sessions: Vec::new(),
            places: HashMap::new(),
            turns: 0,
            pieces: 0,
        }
    }

    /// Adds a message; one whose id came before is left out.
    pub(super) fn say(&mut self, turn: Turn, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        if !intake.is_new(&self.id, turn.id.as_str()) {
            intake.skip("messages whose id came before", &turn.id);
            return Ok(());
        }
        if let Some(time) = &turn.time {
            self.current = time.time.date().to_string();
            self.began
                .entry(self.current.clone())
                .or_insert_with(|| Some(time.clone()));
        }
        let place = match self.places.get(&self.current) {
            Some(&place) => place,
            None => {
                self.sessions.push(Session {
                    id: SessionId::new(self.current.clone()),
                    time: self.began.get(&self.current).cloned().flatten(),
                    turns: Vec::new(),
                });
                self.places.insert(self.current.clone(), self.sessions.len() - 1);
                self.sessions.len() - 1
            }
        };
        self.sessions[place].turns.push(turn);
        self.turns += 1;
        if self.turns == PIECE {
            self.deliver(intake)?;
        }
        Ok(())
    }

    /// Passes on what is left; a conversation without one turn is noted as left out.
    pub(super) fn finish(mut self, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        if self.turns > 0 {
            return self.deliver(intake);
        }
        if self.pieces == 0 {
            intake.skip("conversations without a turn", &self.id);
        }
        Ok(())
    }

    fn deliver(&mut self, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        self.turns = 0;
        self.pieces += 1;
        self.places.clear();
        intake.deliver(Conversation {
            id: self.id.clone(),
            title: self.title.clone(),
            sessions: std::mem::take(&mut self.sessions),
        })
    }
}
