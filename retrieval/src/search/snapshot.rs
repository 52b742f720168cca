//! What the ranking needs of every turn in reach, column by column, read once per state of the store.

use std::collections::HashMap;

use jiff::civil::DateTime;

use super::config::Neighbours;
use super::kernel::Kernel;
use crate::store::{ConversationRecord, Reading, SessionRecord, TurnFlags};
use crate::text::Telling;
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
    pub(super) telling: Vec<Telling>,
    /// Content words, shared with neighbours.
    pub(super) spread_words: Vec<f32>,
    /// Above 0.
    pub(super) mean_spread_words: f32,
    /// How much the distance to the next turn of the session leaves of a weight; 1 without neighbours.
    pub(super) decay: Vec<f32>,
    place: Places,
}

/// From turn numbers to places.
#[derive(Debug)]
enum Places {
    /// By number, counted from the first; `u32::MAX` is out of reach.
    Table { first: u32, places: Vec<u32> },
    /// For numbers far apart.
    Map(HashMap<u32, u32>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Map(HashMap::new())
    }
}

/// A table may have so many entries for each turn.
const SPREAD: usize = 8;

impl Places {
    fn new(numbers: &[u32]) -> Self {
        let (first, last) = match (numbers.iter().min(), numbers.iter().max()) {
            (Some(&first), Some(&last)) => (first, last),
            _ => return Self::default(),
        };
        let entries = numbers.iter().copied().zip(0..);
        let range = (last - first) as usize + 1;
        if range > SPREAD * numbers.len() {
            return Self::Map(entries.collect());
        }
        let mut places = vec![u32::MAX; range];
        for (number, place) in entries {
            places[(number - first) as usize] = place;
        }
        Self::Table { first, places }
    }

    fn get(&self, number: u32) -> Option<usize> {
        let place = match self {
            Self::Map(places) => places.get(&number).copied(),
            Self::Table { first, places } => {
                let index = number.checked_sub(*first)? as usize;
                places.get(index).copied().filter(|&place| place != u32::MAX)
            }
        };
        place.map(|place| place as usize)
    }
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
        snapshot.place = Places::new(&snapshot.number);
        snapshot.decay = snapshot.decays(neighbours);
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
        self.telling.extend(&session.telling);
        self.sessions.push(SessionSpan {
            conversation,
            index,
            time: session.time.as_ref().map(|moment| moment.time),
            start,
            end: self.number.len(),
        });
    }

    /// Sessions of turns of these lengths, said by nobody.
    #[cfg(test)]
    pub(super) fn of_lengths(sessions: &[Vec<u32>], neighbours: Option<Neighbours>) -> Self {
        let mut snapshot = Self::default();
        for (index, tokens) in sessions.iter().enumerate() {
            let mut session = SessionRecord::new(crate::SessionId::new(index.to_string()), None, 0);
            let first = u32::try_from(snapshot.len()).unwrap();
            session.turns = (first..).take(tokens.len()).collect();
            session.tokens.clone_from(tokens);
            snapshot.push(&session, &[], (0, u32::try_from(index).unwrap()));
        }
        snapshot.decay = snapshot.decays(neighbours);
        snapshot
    }

    /// Number of turns in reach.
    pub(super) fn len(&self) -> usize {
        self.number.len()
    }

    /// Where a turn of the store stands; `None` when it is out of reach.
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        self.place.get(number)
    }

    fn decays(&self, neighbours: Option<Neighbours>) -> Vec<f32> {
        let Some(reach) = neighbours.map(|neighbours| neighbours.tokens) else {
            return vec![1.0; self.len()];
        };
        let after = self.middle.iter().skip(1).chain(self.middle.last());
        let distances = self.middle.iter().zip(after);
        distances
            .map(|(here, next)| (-(next - here).abs() / reach).exp())
            .collect()
    }

    /// The first place of the turn's session, and the place after its last.
    pub(super) fn session_of(&self, place: usize) -> (usize, usize) {
        let session = &self.sessions[self.session[place] as usize];
        (session.start, session.end)
    }
}
