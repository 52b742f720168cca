//! What the ranking needs of every turn in reach, column by column, read once per state of the store.

use std::collections::HashMap;

use jiff::civil::DateTime;

use super::config::Neighbours;
use super::kernel::Kernel;
use crate::store::{ConversationRecord, Reading, SessionRecord, TurnFlags};
use crate::{ConversationId, RetrievalError};

/// Turns are counted from 0 in the order of conversations, sessions and utterance, so that neighbours in a session are
/// neighbours here: a turn's place.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// The number of the only conversation in reach; `None` when the whole store is.
    pub(super) within: Option<u32>,
    pub(super) conversations: Vec<(u32, ConversationRecord)>,
    pub(super) sessions: Vec<SessionSpan>,
    /// Distinct names, in order of appearance.
    pub(super) speakers: Vec<String>,
    /// Turn numbers of the store.
    pub(super) number: Vec<u32>,
    /// Index in `sessions`.
    pub(super) session: Vec<u32>,
    /// Index in `speakers`.
    pub(super) speaker: Vec<u32>,
    /// Approximate model tokens.
    pub(super) tokens: Vec<u32>,
    /// Tokens from the session's begin to the middle of the turn.
    pub(super) middle: Vec<f32>,
    pub(super) flags: Vec<TurnFlags>,
    /// Content words, shared with neighbours.
    pub(super) spread_words: Vec<f32>,
    /// Above 0.
    pub(super) mean_spread_words: f32,
    place: HashMap<u32, u32>,
}

/// A session's turns have the places `start..end`.
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
        neighbours: Option<Neighbours>,
    ) -> Result<Self, RetrievalError> {
        let conversations = match within {
            Some(id) => vec![reading.conversation(id)?],
            None => reading.conversations()?,
        };
        let mut snapshot = Self {
            within: within.and_then(|_| conversations.first().map(|(number, _)| *number)),
            ..Self::default()
        };
        let mut words = Vec::new();
        for (conversation, (number, record)) in conversations.iter().enumerate() {
            let speakers: Vec<u32> = record
                .speakers
                .iter()
                .map(|name| snapshot.speaker_index(name))
                .collect();
            for index in 0..record.sessions {
                let session = reading.session(*number, index)?;
                snapshot.push(&session, &speakers, (conversation, index));
                words.extend(session.words.iter().map(|&n| n as f32));
            }
        }
        snapshot.conversations = conversations;
        snapshot.place = snapshot
            .number
            .iter()
            .zip(0..)
            .map(|(&number, place)| (number, place))
            .collect();
        snapshot.spread_words = Kernel::new(neighbours, &snapshot).apply(&words);
        let sum: f64 = snapshot.spread_words.iter().map(|&n| f64::from(n)).sum();
        snapshot.mean_spread_words = ((sum / snapshot.len().max(1) as f64) as f32).max(f32::MIN_POSITIVE);
        Ok(snapshot)
    }

    fn speaker_index(&mut self, name: &str) -> u32 {
        let known = self.speakers.iter().position(|speaker| speaker == name);
        let index = known.unwrap_or_else(|| {
            self.speakers.push(name.to_owned());
            self.speakers.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn push(&mut self, session: &SessionRecord, speakers: &[u32], (conversation, index): (usize, u32)) {
        let start = self.number.len();
        let span = u32::try_from(self.sessions.len()).unwrap_or(u32::MAX);
        self.session.resize(start + session.turns.len(), span);
        self.number.extend(&session.turns);
        self.speaker.extend(
            session
                .speakers
                .iter()
                .map(|&speaker| speakers.get(speaker as usize).copied().unwrap_or(u32::MAX)),
        );
        self.tokens.extend(&session.tokens);
        let mut before = 0.0;
        for &tokens in &session.tokens {
            self.middle.push(before + tokens as f32 / 2.0);
            before += tokens as f32;
        }
        self.flags.extend(&session.flags);
        self.sessions.push(SessionSpan {
            conversation,
            index,
            time: session.time.as_ref().map(|moment| moment.time),
            start,
            end: self.number.len(),
        });
    }

    /// Number of turns in reach.
    pub(super) fn len(&self) -> usize {
        self.number.len()
    }

    /// Where a turn of the store stands; `None` when it is out of reach.
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        self.place.get(&number).map(|&place| place as usize)
    }

    /// The first place of the turn's session, and the place after its last.
    pub(super) fn session_of(&self, place: usize) -> (usize, usize) {
        let session = &self.sessions[self.session[place] as usize];
        (session.start, session.end)
    }
}
