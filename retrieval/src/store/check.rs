//! Whether a memory is whole: every record against every other that speaks of the same turn.
//!
//! Records are read from the conversations down and compared with what points back at them; what is left over in any database is
//! reported too. The keyword index is compared with the text of every turn, so that the check needs the memory of the vocabulary,
//! not of the index.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use heed::types::DecodeIgnore;
use serde::Serialize;

use super::databases::session_key;
use super::edit::stems;
use super::ingest::missing::is_vocabulary;
use super::memory::{COUNTERS, get_json};
use super::postings::{self, decode_block};
use super::records::{ConversationRecord, Counters, SessionRecord, StoredTurn, TurnFlags};
use super::{Memory, Reading};
use crate::RetrievalError;
use crate::text::{asks, token_estimate};

/// Something that is wrong with a memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The database in which it was found.
    pub table: &'static str,
    /// What is there and what should be.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.table, self.what)
    }
}

/// What a check looked at and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CheckReport {
    /// Conversations looked at.
    pub conversations: usize,
    /// Sessions looked at.
    pub sessions: usize,
    /// Turns looked at.
    pub turns: usize,
    /// Postings looked at: pairs of a turn and a stem.
    pub postings: usize,
    /// Vectors of turns looked at.
    pub vectors: usize,
    /// Vectors of words looked at.
    pub words: usize,
    /// What is wrong; empty for a memory that is whole.
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub more: usize,
}

/// Findings listed; more are counted.
const LISTED: usize = 100;

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, table: &'static str, what: String) {
        if self.findings.len() < LISTED {
            self.findings.push(Finding { table, what });
        } else {
            self.more += 1;
        }
    }
}

impl Memory {
    /// Compares every record of one state of the store with all others.
    ///
    /// # Errors
    /// When the store cannot be read at all; what is wrong in it is in the report.
    pub fn check(&self) -> Result<CheckReport, RetrievalError> {
        self.read(|reading| {
            let mut check = Check {
                memory: self,
                reading,
                report: CheckReport::default(),
                seen: HashSet::new(),
                words: BTreeSet::new(),
            };
            check.conversations()?;
            check.left_over()?;
            check.postings()?;
            check.vectors()?;
            check.words()?;
            Ok(check.report)
        })
    }
}

struct Check<'m, 'r> {
    memory: &'m Memory,
    reading: &'r Reading<'r>,
    report: CheckReport,
    /// Turn numbers found in sessions.
    seen: HashSet<u32>,
    /// Words that turns say and that should have vectors.
    words: BTreeSet<String>,
}

impl Check<'_, '_> {
    fn conversations(&mut self) -> Result<(), RetrievalError> {
        let (databases, txn) = (self.reading.databases, self.reading.txn);
        let counters: Counters = get_json(databases.meta, txn, COUNTERS)?;
        for entry in databases.conversations.iter(txn)? {
            let (number, record) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.report
                        .find("conversations", format!("a record cannot be read: {error}"));
                    continue;
                }
            };
            self.report.conversations += 1;
            if databases.conversation_ids.get(txn, record.id.as_str())? != Some(number) {
                let what = format!("{} does not lead to conversation {number}", record.id);
                self.report.find("conversation_ids", what);
            }
            if number >= counters.conversations {
                let what = format!(
                    "conversation {number} is not below the counter {}",
                    counters.conversations
                );
                self.report.find("meta", what);
            }
            self.conversation(number, &record)?;
        }
        if let Some(highest) = self
            .seen
            .iter()
            .max()
            .filter(|&&highest| highest >= counters.turns)
        {
            let what = format!("turn {highest} is not below the counter {}", counters.turns);
            self.report.find("meta", what);
        }
        Ok(())
    }

    fn conversation(&mut self, number: u32, record: &ConversationRecord) -> Result<(), RetrievalError> {
        let mut found = ConversationRecord::new(record.id.clone());
        let mut spoken = HashSet::new();
        for index in 0..record.sessions {
            let key = session_key(number, index);
            let session = match self.reading.databases.sessions.get(self.reading.txn, &key) {
                Ok(Some(session)) => session,
                Ok(None) => {
                    self.report.find(
                        "sessions",
                        format!("{}: session number {index} is missing", record.id),
                    );
                    continue;
                }
                Err(error) => {
                    self.report.find(
                        "sessions",
                        format!("{}: number {index} cannot be read: {error}", record.id),
                    );
                    continue;
                }
            };
            self.report.sessions += 1;
            if session.first_position != found.turns {
                let what = format!(
                    "{} {}: begins at position {}, expected {}",
                    record.id, session.id, session.first_position, found.turns
                );
                self.report.find("sessions", what);
            }
            found.turns += u32::try_from(session.turns.len()).unwrap_or(u32::MAX);
            found.dated(session.time.as_ref());
            spoken.extend(session.speakers.iter().copied());
            self.session((number, index), record, &session)?;
        }
        if record.turns != found.turns {
            let what = format!(
                "{}: {} turns are counted, its sessions have {}",
                record.id, record.turns, found.turns
            );
            self.report.find("conversations", what);
        }
        if (record.first, record.last) != (found.first, found.last) {
            let what = format!(
                "{}: its first or last date is not that of its sessions",
                record.id
            );
            self.report.find("conversations", what);
        }
        if spoken.len() != record.speakers.len() {
            let what = format!(
                "{}: {} speakers are listed, {} speak",
                record.id,
                record.speakers.len(),
                spoken.len()
            );
            self.report.find("conversations", what);
        }
        Ok(())
    }

    fn session(
        &mut self,
        (number, index): (u32, u32),
        record: &ConversationRecord,
        session: &SessionRecord,
    ) -> Result<(), RetrievalError> {
        let name = format!("{} {}", record.id, session.id);
        if self.reading.session_number(number, &session.id)? != Some(index) {
            let what = format!("{name} does not lead to session number {index}");
            self.report.find("session_ids", what);
        }
        let columns = [&session.tokens, &session.words, &session.speakers].map(Vec::len);
        let others = [session.flags.len(), session.telling.len()];
        let turns = session.turns.len();
        if columns.iter().chain(&others).any(|&length| length != turns) || turns == 0 {
            let what = format!(
                "{name}: its columns have unequal lengths or none, expected {turns} each and at least 1"
            );
            self.report.find("sessions", what);
            return Ok(());
        }
        for (place, &turn) in session.turns.iter().enumerate() {
            if !self.seen.insert(turn) {
                self.report.find(
                    "sessions",
                    format!("{name}: turn number {turn} is in another place too"),
                );
                continue;
            }
            let stored = match self.reading.databases.turns.get(self.reading.txn, &turn) {
                Ok(Some(stored)) => stored,
                Ok(None) => {
                    self.report
                        .find("turns", format!("{name}: turn number {turn} has no record"));
                    continue;
                }
                Err(error) => {
                    self.report
                        .find("turns", format!("{name}: number {turn} cannot be read: {error}"));
                    continue;
                }
            };
            self.report.turns += 1;
            if (stored.conversation, stored.session) != (number, index) {
                self.report
                    .find("turns", format!("{name} {}: it names another session", stored.id));
            }
            if self.reading.turn_number(number, &stored.id)? != Some(turn) {
                self.report.find(
                    "turn_ids",
                    format!("{name} {} does not lead to turn number {turn}", stored.id),
                );
            }
            let speaker = record.speakers.get(session.speakers[place] as usize);
            if speaker != Some(&stored.speaker) {
                let what = format!(
                    "{name} {}: its speaker's number is not that of {}",
                    stored.id, stored.speaker
                );
                self.report.find("sessions", what);
            }
            self.turn((turn, place), session, &stored)?;
        }
        Ok(())
    }

    /// A turn's lengths, flags, postings and words against its text.
    fn turn(
        &mut self,
        (number, place): (u32, usize),
        session: &SessionRecord,
        stored: &StoredTurn,
    ) -> Result<(), RetrievalError> {
        let analyzer = self.memory.analyzer();
        let passage = stored.passage();
        let stems = stems(analyzer, &passage);
        let flags = TurnFlags::new(asks(&stored.text), analyzer.has_time_word(&stored.text));
        let lengths = (token_estimate(&passage), stems.values().sum::<u32>(), flags);
        let telling = analyzer.telling(&stored.text, lengths.0);
        if (session.tokens[place], session.words[place], session.flags[place]) != lengths
            || session.telling[place] != telling
        {
            let what = format!(
                "{} {}: its length or flags are not those of its text",
                session.id, stored.id
            );
            self.report.find("sessions", what);
        }
        for (stem, count) in stems {
            self.report.postings += 1;
            let found = postings::count_of(self.reading, (&stem, stored.conversation), number)?;
            if found != Some(count) {
                let found = found.map_or("no posting".into(), |found| format!("a count of {found}"));
                let what = format!(
                    "{} {}: {stem} has {found}, expected {count}",
                    session.id, stored.id
                );
                self.report.find("postings", what);
            }
        }
        if self.memory.embedder().is_some() {
            let words = analyzer.content_words(&passage).into_iter();
            self.words.extend(words.filter(|word| is_vocabulary(word)));
        }
        Ok(())
    }

    /// Records that nothing leads to.
    fn left_over(&mut self) -> Result<(), RetrievalError> {
        let (databases, txn) = (self.reading.databases, self.reading.txn);
        for entry in databases.turns.remap_data_type::<DecodeIgnore>().iter(txn)? {
            let (number, ()) = entry?;
            if !self.seen.contains(&number) {
                self.report
                    .find("turns", format!("turn number {number} is in no session"));
            }
        }
        let counts = [
            (
                "conversation_ids",
                databases.conversation_ids.len(txn)?,
                self.report.conversations,
            ),
            ("sessions", databases.sessions.len(txn)?, self.report.sessions),
            (
                "session_ids",
                databases.session_ids.len(txn)?,
                self.report.sessions,
            ),
            ("turn_ids", databases.turn_ids.len(txn)?, self.report.turns),
        ];
        for (table, stored, expected) in counts {
            if stored != expected as u64 {
                self.report
                    .find(table, format!("{stored} records, expected {expected}"));
            }
        }
        Ok(())
    }

    /// Postings that no turn's text accounts for, and blocks that cannot be read.
    fn postings(&mut self) -> Result<(), RetrievalError> {
        let mut stored = 0;
        let mut of: HashMap<u32, Option<u32>> = HashMap::new();
        for block in self.reading.databases.postings.iter(self.reading.txn)? {
            let (key, bytes) = block?;
            let (stem, conversation, postings) = match decode_block(key, bytes) {
                Ok(block) => block,
                Err(error) => {
                    self.report.find("postings", error.to_string());
                    continue;
                }
            };
            stored += postings.len();
            if !postings.is_sorted_by(|a, b| a.turn < b.turn) || postings.is_empty() {
                let what =
                    format!("a block of {stem} in conversation {conversation} is empty or out of order");
                self.report.find("postings", what);
            }
            for posting in postings {
                let turn = of.entry(posting.turn).or_insert_with(|| {
                    let turn = self.reading.databases.turns.get(self.reading.txn, &posting.turn);
                    turn.ok().flatten().map(|turn| turn.conversation)
                });
                if *turn != Some(conversation) {
                    let what = format!(
                        "{stem} leads to turn number {}, which is not in conversation {conversation}",
                        posting.turn
                    );
                    self.report.find("postings", what);
                }
            }
        }
        if stored != self.report.postings {
            let what = format!(
                "{stored} postings, the turns' texts have {}",
                self.report.postings
            );
            self.report.find("postings", what);
        }
        Ok(())
    }

    fn vectors(&mut self) -> Result<(), RetrievalError> {
        let Some(space) = self.memory.vector_space() else {
            let vectors = self.reading.databases.vectors.len(self.reading.txn)?;
            let reindexing = self
                .reading
                .databases
                .meta
                .get(self.reading.txn, super::reindex::REINDEX)?;
            if vectors > 0 && reindexing.is_none() {
                self.report.find(
                    "vectors",
                    format!("{vectors} records in a memory without an embedder"),
                );
            }
            return Ok(());
        };
        let mut without: HashSet<u32> = self.seen.clone();
        let mut found = Vec::new();
        self.reading.each_vector(space.dimension, |turn, vector| {
            if !without.remove(&turn) {
                found.push(format!("turn number {turn} has a vector, but no record"));
            }
            if vector.len() != space.dimension || vector.iter().any(|value| !value.is_finite()) {
                found.push(format!(
                    "turn number {turn}: {} values, expected {} finite ones",
                    vector.len(),
                    space.dimension
                ));
            }
        })?;
        self.report.vectors = self.seen.len() - without.len();
        found.extend(
            without
                .into_iter()
                .map(|turn| format!("turn number {turn} has no vector")),
        );
        found.sort_unstable();
        for what in found {
            self.report.find("vectors", what);
        }
        Ok(())
    }

    fn words(&mut self) -> Result<(), RetrievalError> {
        let dimension = self.memory.embedder().map_or(0, |info| info.dimension);
        let mut without = std::mem::take(&mut self.words);
        for entry in self.reading.databases.words.iter(self.reading.txn)? {
            let (word, vector) = entry?;
            self.report.words += 1;
            if !without.remove(word) {
                self.report
                    .find("words", format!("{word} has a vector, but no turn says it"));
            }
            if vector.len() != dimension {
                self.report.find(
                    "words",
                    format!("{word}: {} bytes, expected {dimension}", vector.len()),
                );
            }
        }
        for word in without {
            self.report.find("words", format!("{word} has no vector"));
        }
        Ok(())
    }
}
