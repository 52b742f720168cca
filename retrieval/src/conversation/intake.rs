//! Between the formats and whoever takes the conversations: what was asked for, what was left out and why.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::BuildHasher;
use std::path::Path;

use jiff::civil::DateTime;

use super::read::Format;
use crate::{Conversation, ConversationId, Moment, RetrievalError};

/// In what order a file without a year in front writes its dates: only the reader can say where the file does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DateOrder {
    /// `31/12/20`
    DayMonthYear,
    /// `12/31/20`
    MonthDayYear,
    /// `20/12/31`
    YearMonthDay,
}

/// What a file does not say itself, and what is wanted of it.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Only the conversation of this id.
    pub sample: Option<String>,
    /// The id of a conversation whose file does not name it, such as a WhatsApp chat; the default is the file's name
    /// without its ending.
    pub name: Option<String>,
    /// When an undated conversation took place. Without it such a conversation stays undated.
    pub date: Option<DateTime>,
    /// How a WhatsApp chat writes its dates, where its dates allow more than one order.
    pub date_order: Option<DateOrder>,
}

/// What was left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Why, in a few words: `system messages`.
    pub reason: &'static str,
    /// How often.
    pub count: usize,
    /// The first of them.
    pub first: String,
}

/// What a file turned out to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadReport {
    /// Formats of its documents, in order; a zip may hold several.
    pub formats: Vec<Format>,
    /// What was left out, by reason.
    pub skipped: Vec<Skipped>,
}

/// Takes conversations one by one or, where they are long, piece by piece.
pub(super) struct Intake<'a> {
    pub(super) options: &'a ReadOptions,
    each: &'a mut dyn FnMut(Conversation) -> Result<(), RetrievalError>,
    known: Vec<String>,
    delivered: bool,
    skipped: BTreeMap<&'static str, Skipped>,
    open: Open,
    /// How often a name was given to a conversation.
    names: HashMap<String, usize>,
}

/// The conversation that pieces come of, to find out what occurs twice in it. Ids are kept as hashes, so that millions
/// fit.
#[derive(Default)]
struct Open {
    conversation: Option<ConversationId>,
    hasher: RandomState,
    turns: HashSet<u64>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        options: &'a ReadOptions,
        each: &'a mut dyn FnMut(Conversation) -> Result<(), RetrievalError>,
    ) -> Self {
        Self {
            options,
            each,
            known: Vec::new(),
            delivered: false,
            skipped: BTreeMap::new(),
            open: Open::default(),
            names: HashMap::new(),
        }
    }

    /// Whether to convert the conversation of this id; notes that it exists.
    pub(super) fn wants(&mut self, id: &str) -> bool {
        let sample = self.options.sample.as_deref();
        // The list serves the message about an unknown sample only.
        if sample.is_some() {
            self.known.push(id.to_owned());
        }
        sample.is_none_or(|sample| sample == id)
    }

    /// An id that no other conversation of the file has: the second `x` becomes `x#2`.
    pub(super) fn unique(&mut self, id: String) -> String {
        let count = self.names.entry(id.clone()).or_insert(0);
        *count += 1;
        match count {
            1 => id,
            n => format!("{id}#{n}"),
        }
    }

    /// The caller's date for what has none.
    pub(super) fn given_date(&self) -> Option<Moment> {
        self.options.date.map(Moment::from)
    }

    /// Notes that something is left out.
    pub(super) fn skip(&mut self, reason: &'static str, what: impl fmt::Display) {
        let skipped = self.skipped.entry(reason).or_insert_with(|| Skipped {
            reason,
            count: 0,
            first: what.to_string(),
        });
        skipped.count += 1;
    }

    /// Whether no turn of this id came before in the conversation; notes that it came.
    pub(super) fn is_new(&mut self, conversation: &ConversationId, turn: &str) -> bool {
        if self.open.conversation.as_ref() != Some(conversation) {
            self.open.turns = HashSet::new();
            self.open.conversation = Some(conversation.clone());
        }
        self.open.turns.insert(self.open.hasher.hash_one(turn))
    }

    /// Passes a conversation on, whole or a piece of it that has at least one turn.
    pub(super) fn deliver(&mut self, conversation: Conversation) -> Result<(), RetrievalError> {
        conversation.validate()?;
        self.delivered = true;
        (self.each)(conversation)
    }

    /// The report, or why there is nothing to report.
    pub(super) fn finish(self, path: &Path, formats: Vec<Format>) -> Result<ReadReport, RetrievalError> {
        if let Some(sample) = &self.options.sample
            && !self.known.is_empty()
            && !self.known.contains(sample)
        {
            return Err(RetrievalError::UnknownSample {
                path: path.to_owned(),
                sample: sample.clone(),
                known: self.known,
            });
        }
        if !self.delivered {
            return Err(RetrievalError::NothingToIngest {
                path: path.to_owned(),
            });
        }
        Ok(ReadReport {
            formats,
            skipped: self.skipped.into_values().collect(),
        })
    }
}
