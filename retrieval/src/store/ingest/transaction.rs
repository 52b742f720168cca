//! Writing a part of a conversation: everything in one LMDB transaction.

use std::collections::BTreeMap;

use heed::RwTxn;

use super::IngestReport;
use super::missing::Missing;
use crate::store::databases::{Databases, id_key, session_key};
use crate::store::memory::{COUNTERS, get_json, put_json};
use crate::store::postings::{self, Posting};
use crate::store::records::{ConversationRecord, Counters, SessionRecord, StoredTurn, TurnFlags};
use crate::store::{Memory, passages, tokens, vectors};
use crate::text::{Analyzer, Telling, asks, token_estimate};
use crate::{ConversationId, RetrievalError, Session, Turn};

pub(super) struct Transaction<'a, 't> {
    txn: &'a mut RwTxn<'t>,
    databases: Databases,
    analyzer: &'a Analyzer,
    /// `None` in a memory without vectors.
    dimension: Option<usize>,
    missing: &'a Missing,
    counters: Counters,
    number: u32,
    record: ConversationRecord,
    /// By stem; written at the end, block by block.
    postings: BTreeMap<String, Vec<Posting>>,
    report: IngestReport,
}

impl<'a, 't> Transaction<'a, 't> {
    pub(super) fn begin(
        memory: &'a Memory,
        txn: &'a mut RwTxn<'t>,
        id: &ConversationId,
        missing: &'a Missing,
    ) -> Result<Self, RetrievalError> {
        let databases = memory.inner.databases;
        let mut counters: Counters = get_json(databases.meta, txn, COUNTERS)?;
        let known = databases.conversation_ids.get(txn, id.as_str())?;
        let (number, record) = match known {
            Some(number) => {
                let record = databases.conversations.get(txn, &number)?;
                (
                    number,
                    record.unwrap_or_else(|| ConversationRecord::new(id.clone())),
                )
            }
            None => {
                let number = counters.conversations;
                counters.conversations += 1;
                databases.conversation_ids.put(txn, id.as_str(), &number)?;
                (number, ConversationRecord::new(id.clone()))
            }
        };
        Ok(Self {
            txn,
            databases,
            analyzer: memory.analyzer(),
            dimension: memory.embedder().map(|info| info.dimension),
            missing,
            counters,
            number,
            record,
            postings: BTreeMap::new(),
            report: IngestReport::default(),
        })
    }

    pub(super) fn session(&mut self, session: &Session, turns: &[Turn]) -> Result<(), RetrievalError> {
        let (index, mut stored) = self.find_session(session)?;
        let before = stored.turns.len();
        for turn in turns {
            self.turn(index, &mut stored, turn)?;
        }
        let grown = u32::try_from(stored.turns.len() - before).unwrap_or(u32::MAX);
        self.record.turns += grown;
        self.databases
            .sessions
            .put(self.txn, &session_key(self.number, index), &stored)?;
        for later in (index + 1..self.record.sessions).take_while(|_| grown > 0) {
            let key = session_key(self.number, later);
            if let Some(mut session) = self.databases.sessions.get(self.txn, &key)? {
                session.first_position += grown;
                self.databases.sessions.put(self.txn, &key, &session)?;
            }
        }
        Ok(())
    }

    /// The stored session, or a new one after the last.
    fn find_session(&mut self, session: &Session) -> Result<(u32, SessionRecord), RetrievalError> {
        let key = id_key(self.number, session.id.as_str());
        if let Some(index) = self.databases.session_ids.get(self.txn, &key)?
            && let Some(mut stored) = self
                .databases
                .sessions
                .get(self.txn, &session_key(self.number, index))?
        {
            stored.time = session.time.clone().or(stored.time);
            self.record.dated(stored.time.as_ref());
            return Ok((index, stored));
        }
        let index = self.record.sessions;
        self.record.sessions += 1;
        self.record.dated(session.time.as_ref());
        self.databases.session_ids.put(self.txn, &key, &index)?;
        self.report.sessions_added += 1;
        Ok((
            index,
            SessionRecord::new(session.id.clone(), session.time.clone(), self.record.turns),
        ))
    }

    fn turn(&mut self, session: u32, stored: &mut SessionRecord, turn: &Turn) -> Result<(), RetrievalError> {
        let key = id_key(self.number, turn.id.as_str());
        let new = StoredTurn::new(self.number, session, turn);
        let Some(number) = self.databases.turn_ids.get(self.txn, &key)? else {
            let number = self.counters.turns;
            self.counters.turns += 1;
            self.databases.turn_ids.put(self.txn, &key, &number)?;
            self.report.turns_added += 1;
            stored.push(number);
            return self.index(stored.turns.len() - 1, number, stored, &new);
        };
        let Some(old) = self.databases.turns.get(self.txn, &number)? else {
            return Err(damaged(turn, "has a number, but no record"));
        };
        if old == new {
            self.report.turns_present += 1;
            return Ok(());
        }
        let Some(place) = stored.turns.iter().position(|&other| other == number) else {
            return Err(RetrievalError::InvalidConversation {
                conversation: self.record.id.to_string(),
                reason: format!("turn {} is stored in another session than {}", turn.id, stored.id),
            });
        };
        self.report.turns_changed += 1;
        for stem in self.stems(&old.passage()).into_keys() {
            postings::remove(self.databases.postings, self.txn, (&stem, self.number), number)?;
        }
        self.index(place, number, stored, &new)
    }

    /// Writes a turn and everything by which it is found.
    fn index(
        &mut self,
        place: usize,
        number: u32,
        session: &mut SessionRecord,
        turn: &StoredTurn,
    ) -> Result<(), RetrievalError> {
        let passage = turn.passage();
        let stems = self.stems(&passage);
        session.tokens[place] = token_estimate(&passage);
        session.words[place] = stems.values().sum();
        session.speakers[place] = self.record.speaker(&turn.speaker);
        session.flags[place] = TurnFlags::new(asks(&turn.text), self.analyzer.has_time_word(&turn.text));
        session.telling[place] = self.analyzer.telling(&turn.text, session.tokens[place]);
        for (stem, count) in stems {
            self.postings
                .entry(stem)
                .or_default()
                .push(Posting { turn: number, count });
        }
        self.databases.turns.put(self.txn, &number, turn)?;
        if let Some(dimension) = self.dimension {
            // Found present when the vectors were made, and gone or changed since.
            let known = self.missing.vectors.get(&passage);
            let known = known.ok_or_else(|| RetrievalError::ChangedMeanwhile)?;
            vectors::put(self.databases.vectors, self.txn, dimension, (number, &known.text))?;
            tokens::put(self.databases.tokens, self.txn, (number, &known.tokens))?;
            passages::put(self.databases.passages, self.txn, (&passage, number))?;
        }
        Ok(())
    }

    fn stems(&self, passage: &str) -> BTreeMap<String, u32> {
        let mut stems = BTreeMap::new();
        for word in self.analyzer.content_words(passage) {
            *stems.entry(self.analyzer.stem(&word)).or_insert(0) += 1;
        }
        stems
    }

    /// Writes what was gathered over the part.
    pub(super) fn finish(mut self) -> Result<IngestReport, RetrievalError> {
        for (stem, new) in &mut self.postings {
            new.sort_unstable_by_key(|posting| posting.turn);
            postings::insert(self.databases.postings, self.txn, (stem, self.number), new)?;
        }
        for (word, vector) in &self.missing.word_vectors {
            self.report.words_added += usize::from(self.databases.words.get(self.txn, word)?.is_none());
            self.databases.words.put(self.txn, word, vector)?;
        }
        self.databases
            .conversations
            .put(self.txn, &self.number, &self.record)?;
        put_json(self.databases.meta, self.txn, COUNTERS, &self.counters)?;
        Ok(self.report)
    }
}

impl SessionRecord {
    /// Makes room for a turn at the end; its columns are filled when it is indexed.
    fn push(&mut self, number: u32) {
        self.turns.push(number);
        self.tokens.push(0);
        self.words.push(0);
        self.speakers.push(0);
        self.flags.push(TurnFlags::default());
        self.telling.push(Telling::default());
    }
}

fn damaged(turn: &Turn, what: &str) -> RetrievalError {
    RetrievalError::Damaged {
        reason: format!("turn {} {what}", turn.id),
    }
}
