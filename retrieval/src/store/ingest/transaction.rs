//! Writing a part of a conversation: everything in one LMDB transaction.

use std::collections::{BTreeMap, BTreeSet};

use heed::RwTxn;

use super::missing::{Missing, is_vocabulary};
use super::{IngestReport, Part};
use crate::store::databases::{id_key, session_key};
use crate::store::edit::Edit;
use crate::store::memory::{COUNTERS, get_json, put_json};
use crate::store::postings::{self, Posting};
use crate::store::records::{ConversationRecord, Counters, SessionRecord, StoredTurn, TurnFlags};
use crate::store::{Memory, passages, tokens, vectors};
use crate::text::{Telling, asks, token_estimate};
use crate::{Conversation, RetrievalError, Session, Turn};

pub(super) struct Transaction<'a, 't> {
    edit: Edit<'a, 't>,
    missing: &'a Missing,
    counters: Counters,
    number: u32,
    record: ConversationRecord,
    /// By stem; written at the end, block by block.
    postings: BTreeMap<String, Vec<Posting>>,
    /// Words of the turns written, which must have vectors in the end.
    words: BTreeSet<String>,
    /// Whether positions, dates or speakers of the records have to be found anew.
    unsettled: bool,
    report: IngestReport,
}

impl<'a, 't> Transaction<'a, 't> {
    pub(super) fn begin(
        memory: &'a Memory,
        txn: &'a mut RwTxn<'t>,
        conversation: &Conversation,
        missing: &'a Missing,
    ) -> Result<Self, RetrievalError> {
        let edit = Edit::new(memory, txn)?;
        let (databases, id) = (edit.databases, &conversation.id);
        let mut counters: Counters = get_json(databases.meta, edit.txn, COUNTERS)?;
        let known = databases.conversation_ids.get(edit.txn, id.as_str())?;
        let (number, record) = match known {
            Some(number) => (number, databases.conversations.get(edit.txn, &number)?),
            None => {
                let number = counters.conversations;
                counters.conversations += 1;
                databases.conversation_ids.put(edit.txn, id.as_str(), &number)?;
                (number, None)
            }
        };
        let mut record = record.unwrap_or_else(|| ConversationRecord::new(id.clone()));
        record.title = conversation.title.clone().or(record.title);
        Ok(Self {
            edit,
            missing,
            counters,
            number,
            record,
            postings: BTreeMap::new(),
            words: BTreeSet::new(),
            unsettled: false,
            report: IngestReport::default(),
        })
    }

    /// Stores the part.
    pub(super) fn part(mut self, part: &Part<'_>) -> Result<IngestReport, RetrievalError> {
        let moved = self.take_out_moved(part)?;
        for (session, turns) in part {
            self.session(session, turns)?;
        }
        self.report.turns_added -= moved;
        self.report.turns_changed += moved;
        self.finish()
    }

    /// Deletes turns that the source now has in another session; they are stored anew there.
    fn take_out_moved(&mut self, part: &Part<'_>) -> Result<usize, RetrievalError> {
        let mut moved = 0;
        let databases = self.edit.databases;
        for (session, turns) in part {
            let key = id_key(self.number, session.id.as_str());
            for turn in *turns {
                let turn_key = id_key(self.number, turn.id.as_str());
                let Some(number) = databases.turn_ids.get(self.edit.txn, &turn_key)? else {
                    continue;
                };
                let stored = databases.turns.get(self.edit.txn, &number)?;
                let stored = stored.ok_or_else(|| damaged(turn, "has a number, but no record"))?;
                // Deleting renumbers sessions, so the present number is looked up each time.
                if databases.session_ids.get(self.edit.txn, &key)? != Some(stored.session) {
                    self.edit.delete_turn(&mut self.record, number)?;
                    self.unsettled = true;
                    moved += 1;
                }
            }
        }
        Ok(moved)
    }

    fn session(&mut self, session: &Session, turns: &[Turn]) -> Result<(), RetrievalError> {
        let (index, mut stored) = self.find_session(session)?;
        let before = stored.turns.len();
        for turn in turns {
            self.turn(index, &mut stored, turn)?;
        }
        let grown = u32::try_from(stored.turns.len() - before).unwrap_or(u32::MAX);
        self.record.turns += grown;
        self.unsettled |= grown > 0 && index + 1 < self.record.sessions;
        let key = session_key(self.number, index);
        Ok(self.edit.databases.sessions.put(self.edit.txn, &key, &stored)?)
    }

    /// The stored session, or a new one after the last.
    fn find_session(&mut self, session: &Session) -> Result<(u32, SessionRecord), RetrievalError> {
        let databases = self.edit.databases;
        let key = id_key(self.number, session.id.as_str());
        if let Some(index) = databases.session_ids.get(self.edit.txn, &key)?
            && let Some(mut stored) = databases
                .sessions
                .get(self.edit.txn, &session_key(self.number, index))?
        {
            if session.time.is_some() && session.time != stored.time {
                stored.time = session.time.clone();
                self.unsettled = true;
            }
            return Ok((index, stored));
        }
        let index = self.record.sessions;
        self.record.sessions += 1;
        self.record.dated(session.time.as_ref());
        databases.session_ids.put(self.edit.txn, &key, &index)?;
        self.report.sessions_added += 1;
        Ok((
            index,
            SessionRecord::new(session.id.clone(), session.time.clone(), self.record.turns),
        ))
    }

    fn turn(&mut self, session: u32, stored: &mut SessionRecord, turn: &Turn) -> Result<(), RetrievalError> {
        let databases = self.edit.databases;
        let key = id_key(self.number, turn.id.as_str());
        let new = StoredTurn::new(self.number, session, turn);
        let Some(number) = databases.turn_ids.get(self.edit.txn, &key)? else {
            let number = self.counters.turns;
            self.counters.turns += 1;
            databases.turn_ids.put(self.edit.txn, &key, &number)?;
            self.report.turns_added += 1;
            stored.push(number);
            return self.index(stored.turns.len() - 1, number, stored, &new);
        };
        let Some(old) = databases.turns.get(self.edit.txn, &number)? else {
            return Err(damaged(turn, "has a number, but no record"));
        };
        if old == new {
            self.report.turns_present += 1;
            return Ok(());
        }
        self.report.turns_changed += 1;
        if old.same_content(turn) {
            return Ok(databases.turns.put(self.edit.txn, &number, &new)?);
        }
        let place = stored.turns.iter().position(|&other| other == number);
        let place = place.ok_or_else(|| damaged(turn, "is not in the session that it names"))?;
        self.unsettled = true;
        self.edit.unpost(number, &old)?;
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
        let analyzer = self.edit.analyzer;
        let stems = self.edit.stems(&passage);
        session.tokens[place] = token_estimate(&passage);
        session.words[place] = stems.values().sum();
        session.speakers[place] = self.record.speaker(&turn.speaker);
        session.flags[place] = TurnFlags::new(asks(&turn.text), analyzer.has_time_word(&turn.text));
        session.telling[place] = analyzer.telling(&turn.text, session.tokens[place]);
        for (stem, count) in stems {
            self.postings
                .entry(stem)
                .or_default()
                .push(Posting { turn: number, count });
        }
        self.edit.databases.turns.put(self.edit.txn, &number, turn)?;
        if let Some(space) = self.edit.vectors {
            // Found present when the vectors were made, and gone or changed since.
            let known = self.missing.vectors.get(&passage);
            let known = known.ok_or_else(|| RetrievalError::ChangedMeanwhile)?;
            let (databases, txn) = (self.edit.databases, &mut *self.edit.txn);
            vectors::put(databases.vectors, txn, space, (number, &known.text))?;
            tokens::put(databases.tokens, txn, (space.index, number), &known.tokens)?;
            passages::put(databases.passages, txn, (&passage, number))?;
            let words = analyzer.content_words(&passage).into_iter();
            self.words.extend(words.filter(|word| is_vocabulary(word)));
        }
        Ok(())
    }

    /// Writes what was gathered over the part.
    fn finish(mut self) -> Result<IngestReport, RetrievalError> {
        let databases = self.edit.databases;
        for (stem, new) in &mut self.postings {
            new.sort_unstable_by_key(|posting| posting.turn);
            postings::insert(databases.postings, self.edit.txn, (stem, self.number), new)?;
        }
        for (word, vector) in &self.missing.word_vectors {
            self.report.words_added += usize::from(databases.words.get(self.edit.txn, word)?.is_none());
            databases.words.put(self.edit.txn, word, vector)?;
        }
        for word in &self.words {
            if databases.words.get(self.edit.txn, word)?.is_none() {
                return Err(RetrievalError::ChangedMeanwhile);
            }
        }
        if self.unsettled {
            self.edit.settle(self.number, &mut self.record)?;
        } else {
            databases
                .conversations
                .put(self.edit.txn, &self.number, &self.record)?;
        }
        put_json(databases.meta, self.edit.txn, COUNTERS, &self.counters)?;
        self.edit.finish()?;
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
