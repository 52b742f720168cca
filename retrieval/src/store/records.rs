//! The records behind the LMDB keys. Ids are text, everything that points at another record is a number.

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use engine_contract::EmbedderInfo;

use crate::text::Telling;
use crate::{ConversationId, Language, Moment, SessionId, Turn, TurnId};

/// Raised whenever a record, a key or the analysis of text changes.
pub(super) const FORMAT_VERSION: u32 = 2;

/// What the whole store was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) language: Language,
    pub(super) embedder: Option<EmbedderInfo>,
    /// The arroy index that holds the vectors; a reindexing fills the other one.
    #[serde(default)]
    pub(super) vectors: u16,
}

/// The next free numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    pub(super) conversations: u32,
    pub(super) turns: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConversationRecord {
    pub(crate) id: ConversationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// In order of appearance.
    pub(crate) speakers: Vec<String>,
    /// Number of sessions; they are numbered from 0.
    pub(crate) sessions: u32,
    pub(crate) turns: u32,
    /// Begin of the earliest and of the latest dated session.
    pub(crate) first: Option<DateTime>,
    pub(crate) last: Option<DateTime>,
}

impl ConversationRecord {
    pub(super) fn new(id: ConversationId) -> Self {
        Self {
            id,
            title: None,
            speakers: Vec::new(),
            sessions: 0,
            turns: 0,
            first: None,
            last: None,
        }
    }

    pub(super) fn speaker(&mut self, name: &str) -> u32 {
        let known = self.speakers.iter().position(|speaker| speaker == name);
        let index = known.unwrap_or_else(|| {
            self.speakers.push(name.to_owned());
            self.speakers.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    pub(super) fn dated(&mut self, moment: Option<&Moment>) {
        let Some(time) = moment.map(|moment| moment.time) else {
            return;
        };
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }
}

/// What the ranking knows about a turn's wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TurnFlags(u8);

impl TurnFlags {
    const QUESTION: u8 = 1;
    const TIME_WORD: u8 = 2;

    pub(super) fn new(is_question: bool, has_time_word: bool) -> Self {
        let question = if is_question { Self::QUESTION } else { 0 };
        let time_word = if has_time_word { Self::TIME_WORD } else { 0 };
        Self(question | time_word)
    }

    /// Most of its text is questions.
    pub(crate) fn is_question(self) -> bool {
        self.0 & Self::QUESTION != 0
    }

    /// It holds a word that places something in time.
    pub(crate) fn has_time_word(self) -> bool {
        self.0 & Self::TIME_WORD != 0
    }
}

/// A session with what the ranking needs of its turns, column by column: `turns[i]`, `tokens[i]`, ... are of turn i.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) id: SessionId,
    pub(crate) time: Option<Moment>,
    /// Position of its first turn in the conversation.
    pub(crate) first_position: u32,
    /// Turn numbers, in the order in which the turns were said.
    pub(crate) turns: Vec<u32>,
    /// Approximate model tokens.
    pub(crate) tokens: Vec<u32>,
    /// Content words.
    pub(crate) words: Vec<u32>,
    /// Index in the conversation's speakers.
    pub(crate) speakers: Vec<u32>,
    pub(crate) flags: Vec<TurnFlags>,
    /// Filled by [`super::migrate`] in a memory of format 1.
    #[serde(default)]
    pub(crate) telling: Vec<Telling>,
}

impl SessionRecord {
    pub(crate) fn new(id: SessionId, time: Option<Moment>, first_position: u32) -> Self {
        Self {
            id,
            time,
            first_position,
            turns: Vec::new(),
            tokens: Vec::new(),
            words: Vec::new(),
            speakers: Vec::new(),
            flags: Vec::new(),
            telling: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredTurn {
    pub(crate) conversation: u32,
    pub(crate) session: u32,
    pub(crate) id: TurnId,
    pub(crate) speaker: String,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caption: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<Moment>,
}

impl StoredTurn {
    pub(super) fn new(conversation: u32, session: u32, turn: &Turn) -> Self {
        Self {
            conversation,
            session,
            id: turn.id.clone(),
            speaker: turn.speaker.clone(),
            text: turn.text.clone(),
            caption: turn.caption.clone(),
            time: turn.time.clone(),
        }
    }
}

impl From<StoredTurn> for Turn {
    fn from(turn: StoredTurn) -> Self {
        Self {
            id: turn.id,
            speaker: turn.speaker,
            text: turn.text,
            caption: turn.caption,
            time: turn.time,
        }
    }
}
