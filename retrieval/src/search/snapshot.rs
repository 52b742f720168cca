//! What the ranking needs of every turn in reach, column by column, read once per state of the store.

use std::collections::HashMap;

use jiff::civil::DateTime;

use crate::store::{ConversationRecord, Reading, TurnFlags};
use crate::{ConversationId, RetrievalError};

/// Turns are counted from 0 in the order of conversations, sessions and utterance: neighbours in a session are
/// neighbours here.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The store's state that was read.
    pub(super) state: usize,
    pub(super) conversations: Vec<(u32, ConversationRecord)>,
    pub(super) sessions: Vec<SessionSpan>,
    /// Turn numbers of the store.
    pub(super) number: Vec<u32>,
    /// Index in `sessions`.
    pub(super) session: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    pub(super) words: Vec<u32>,
    pub(super) flags: Vec<TurnFlags>,
    place: HashMap<u32, u32>,
}

/// A session's turns are `start..end` of the columns.
#[derive(Debug)]
pub(super) struct SessionSpan {
    /// Index in `conversations`.
    pub(super) conversation: usize,
    /// Its number in the conversation.
    pub(super) index: u32,
    pub(super) time: Option<DateTime>,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Snapshot {
    /// Reads the turns of one conversation, or of all.
    pub(super) fn read(
        reading: &Reading<'_>,
        within: Option<&ConversationId>,
    ) -> Result<Self, RetrievalError> {
        let conversations = match within {
            Some(id) => vec![reading.conversation(id)?],
            None => reading.conversations()?,
        };
        let mut snapshot = Self {
            state: reading.state(),
            conversations: Vec::new(),
            sessions: Vec::new(),
            number: Vec::new(),
            session: Vec::new(),
            tokens: Vec::new(),
            words: Vec::new(),
            flags: Vec::new(),
            place: HashMap::new(),
        };
        for (conversation, (number, record)) in conversations.iter().enumerate() {
            for index in 0..record.sessions {
                let session = reading.session(*number, index)?;
                let start = snapshot.number.len();
                let span = u32::try_from(snapshot.sessions.len()).unwrap_or(u32::MAX);
                snapshot.session.resize(start + session.turns.len(), span);
                snapshot.number.extend(&session.turns);
                snapshot.tokens.extend(&session.tokens);
                snapshot.words.extend(&session.words);
                snapshot.flags.extend(&session.flags);
                snapshot.sessions.push(SessionSpan {
                    conversation,
                    index,
                    time: session.time,
                    start,
                    end: snapshot.number.len(),
                });
            }
        }
        snapshot.place = snapshot
            .number
            .iter()
            .zip(0..)
            .map(|(&number, place)| (number, place))
            .collect();
        snapshot.conversations = conversations;
        Ok(snapshot)
    }

    pub(super) fn len(&self) -> usize {
        self.number.len()
    }

    /// Where a turn of the store stands in the columns; `None` when it is out of reach.
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        self.place.get(&number).map(|&place| place as usize)
    }
}
