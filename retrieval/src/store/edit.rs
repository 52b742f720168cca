//! Taking turns out of every index, and keeping a conversation's records true afterwards.

use std::collections::{BTreeMap, BTreeSet};

use heed::{RoTxn, RwTxn};

use super::databases::{Databases, id_key, session_key};
use super::postings::{self, Posting};
use super::records::{ConversationRecord, SessionRecord, StoredTurn};
use super::vectors::{self, VectorSpace};
use super::{Memory, Reading};
use super::{graph, tokens};
use crate::RetrievalError;
use crate::text::Analyzer;

/// Changes inside one transaction.
pub(super) struct Edit<'a, 't> {
    pub(super) txn: &'a mut RwTxn<'t>,
    pub(super) databases: Databases,
    pub(super) analyzer: &'a Analyzer,
    /// `None` in a memory without vectors.
    pub(super) vectors: Option<VectorSpace>,
    /// Words of turns that were taken out: those that no turn holds any more go at the end.
    loose: BTreeSet<String>,
}

impl<'a, 't> Edit<'a, 't> {
    /// # Errors
    /// [`RetrievalError::Reindexed`] when the store's vectors are no longer those that `memory` knows.
    pub(super) fn new(memory: &'a Memory, txn: &'a mut RwTxn<'t>) -> Result<Self, RetrievalError> {
        memory.check_header(txn)?;
        Ok(Self {
            txn,
            databases: memory.inner.databases,
            analyzer: memory.analyzer(),
            vectors: memory.vector_space(),
            loose: BTreeSet::new(),
        })
    }

    pub(super) fn stems(&self, passage: &str) -> BTreeMap<String, u32> {
        stems(self.analyzer, passage)
    }

    /// Takes a turn out of the keyword index; its record and its vector stay.
    pub(super) fn unpost(&mut self, number: u32, turn: &StoredTurn) -> Result<(), RetrievalError> {
        let passage = turn.passage();
        for stem in self.stems(&passage).into_keys() {
            let key = (stem.as_str(), turn.conversation);
            postings::remove(self.databases.postings, self.txn, key, number)?;
        }
        self.loose.extend(self.analyzer.content_words(&passage));
        graph::forget(self.databases.graph, self.txn, self.analyzer, number)?;
        // A vector that a reindexing has made meanwhile is one of the old text.
        if let Some(space) = self.vectors {
            vectors::remove(self.databases.vectors, self.txn, space.other(), number)?;
            tokens::remove(self.databases.tokens, self.txn, (space.other().index, number))?;
        }
        Ok(())
    }

    /// Takes a turn out of everything but its session's columns.
    fn forget(&mut self, number: u32) -> Result<(), RetrievalError> {
        let turn = self.databases.turns.get(self.txn, &number)?;
        let turn = turn.ok_or_else(|| missing("turn", number))?;
        self.unpost(number, &turn)?;
        if let Some(space) = self.vectors {
            vectors::remove(self.databases.vectors, self.txn, space, number)?;
            tokens::remove(self.databases.tokens, self.txn, (space.index, number))?;
        }
        let key = id_key(turn.conversation, turn.id.as_str());
        self.databases.turn_ids.delete(self.txn, &key)?;
        self.databases.turns.delete(self.txn, &number)?;
        Ok(())
    }

    /// Deletes a turn; a session that becomes empty goes with it. The records must be settled afterwards.
    pub(super) fn delete_turn(
        &mut self,
        record: &mut ConversationRecord,
        number: u32,
    ) -> Result<(), RetrievalError> {
        let turn = self.databases.turns.get(self.txn, &number)?;
        let turn = turn.ok_or_else(|| missing("turn", number))?;
        let mut session = self.session(turn.conversation, turn.session)?;
        let place = session.turns.iter().position(|&other| other == number);
        let place = place.ok_or_else(|| missing("turn", number))?;
        session.remove(place);
        self.forget(number)?;
        if session.turns.is_empty() {
            return self.delete_session_record(record, (turn.conversation, turn.session));
        }
        let key = session_key(turn.conversation, turn.session);
        Ok(self.databases.sessions.put(self.txn, &key, &session)?)
    }

    /// Deletes a session with its turns. The records must be settled afterwards.
    pub(super) fn delete_session(
        &mut self,
        record: &mut ConversationRecord,
        (conversation, index): (u32, u32),
    ) -> Result<usize, RetrievalError> {
        let turns = self.session(conversation, index)?.turns;
        for &number in &turns {
            self.forget(number)?;
        }
        self.delete_session_record(record, (conversation, index))?;
        Ok(turns.len())
    }

    /// Sessions are numbered without gaps: the later ones move up.
    fn delete_session_record(
        &mut self,
        record: &mut ConversationRecord,
        (conversation, index): (u32, u32),
    ) -> Result<(), RetrievalError> {
        let gone = self.session(conversation, index)?;
        let key = id_key(conversation, gone.id.as_str());
        self.databases.session_ids.delete(self.txn, &key)?;
        for later in index + 1..record.sessions {
            let session = self.session(conversation, later)?;
            for number in &session.turns {
                if let Some(mut turn) = self.databases.turns.get(self.txn, number)? {
                    turn.session = later - 1;
                    self.databases.turns.put(self.txn, number, &turn)?;
                }
            }
            let key = id_key(conversation, session.id.as_str());
            self.databases.session_ids.put(self.txn, &key, &(later - 1))?;
            let key = session_key(conversation, later - 1);
            self.databases.sessions.put(self.txn, &key, &session)?;
        }
        record.sessions -= 1;
        let last = session_key(conversation, record.sessions);
        self.databases.sessions.delete(self.txn, &last)?;
        Ok(())
    }

    fn session(&self, conversation: u32, index: u32) -> Result<SessionRecord, RetrievalError> {
        let key = session_key(conversation, index);
        let session = self.databases.sessions.get(self.txn, &key)?;
        session.ok_or_else(|| missing("session", index))
    }

    /// Brings positions, counts, dates and speakers in line with the sessions, and stores the conversation's record, or
    /// removes it when no session is left.
    pub(super) fn settle(
        &mut self,
        number: u32,
        record: &mut ConversationRecord,
    ) -> Result<(), RetrievalError> {
        if record.sessions == 0 {
            self.databases
                .conversation_ids
                .delete(self.txn, record.id.as_str())?;
            self.databases.conversations.delete(self.txn, &number)?;
            return Ok(());
        }
        let mut settled = ConversationRecord {
            title: record.title.clone(),
            sessions: record.sessions,
            ..ConversationRecord::new(record.id.clone())
        };
        for index in 0..record.sessions {
            let before = self.session(number, index)?;
            let mut session = before.clone();
            session.first_position = settled.turns;
            for speaker in &mut session.speakers {
                let name = record.speakers.get(*speaker as usize);
                let name = name.ok_or_else(|| missing("speaker", *speaker))?;
                *speaker = settled.speaker(name);
            }
            settled.dated(session.time.as_ref());
            settled.turns += u32::try_from(session.turns.len()).unwrap_or(u32::MAX);
            if session != before {
                let key = session_key(number, index);
                self.databases.sessions.put(self.txn, &key, &session)?;
            }
        }
        self.databases.conversations.put(self.txn, &number, &settled)?;
        *record = settled;
        Ok(())
    }

    /// Removes the vectors of words that no turn holds any more.
    pub(super) fn finish(self) -> Result<(), RetrievalError> {
        for word in &self.loose {
            if self.databases.words.get(self.txn, word)?.is_some() && !self.is_said(word)? {
                self.databases.words.delete(self.txn, word)?;
                self.databases.staged_words.delete(self.txn, word)?;
            }
        }
        Ok(())
    }

    /// Whether a turn of the store holds the word.
    fn is_said(&self, word: &str) -> Result<bool, RetrievalError> {
        let txn: &RoTxn<'_> = self.txn;
        let reading = Reading {
            txn,
            databases: self.databases,
            vectors: self.vectors.map_or(0, |space| space.index),
        };
        let mut found: Vec<Posting> = Vec::new();
        postings::read(&reading, &self.analyzer.stem(word), None, &mut found)?;
        for posting in found {
            let passage = reading.stored_turn(posting.turn)?.passage();
            if self
                .analyzer
                .content_words(&passage)
                .iter()
                .any(|other| other == word)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The index terms of a passage, with their counts.
pub(super) fn stems(analyzer: &Analyzer, passage: &str) -> BTreeMap<String, u32> {
    let mut stems = BTreeMap::new();
    for word in analyzer.content_words(passage) {
        *stems.entry(analyzer.stem(&word)).or_insert(0) += 1;
    }
    stems
}

impl SessionRecord {
    fn remove(&mut self, place: usize) {
        self.turns.remove(place);
        self.tokens.remove(place);
        self.words.remove(place);
        self.speakers.remove(place);
        self.flags.remove(place);
        self.telling.remove(place);
    }
}

pub(super) fn missing(what: &str, number: u32) -> RetrievalError {
    RetrievalError::Damaged {
        reason: format!("{what} number {number} is referred to, but has no record"),
    }
}
