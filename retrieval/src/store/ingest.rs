//! Taking a conversation into the store.
//!
//! A conversation is taken in parts of about [`PART_TURNS`] turns. What is missing of a part is found out, embedded
//! outside any transaction, and then written in one transaction: turns, postings, vectors and word vectors together.
//! A killed ingest therefore leaves whole parts, and the next one embeds and stores only what is missing.

pub(super) mod missing;
mod transaction;

use std::collections::HashSet;

use engine_contract::Embedder;

use self::missing::Missing;
use self::transaction::Transaction;
use super::Memory;
use crate::{Conversation, RetrievalError, Session, Turn};

/// Turns per transaction: enough that commits cost little, few enough that a kill loses little.
const PART_TURNS: usize = 512;
/// How often a part is prepared anew when another process changes what it rests on.
const ATTEMPTS: usize = 5;

/// What an ingest is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IngestStage {
    /// Texts of turns become vectors and are stored; counted in turns of the conversation.
    Turns,
    /// New words become vectors; counted in words of the current part.
    Words,
    /// The vector index is built; counted in builds.
    Index,
}

/// How far an ingest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestProgress {
    /// What is being done.
    pub stage: IngestStage,
    /// Units done.
    pub done: usize,
    /// Units in all.
    pub total: usize,
}

/// What an ingest did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IngestReport {
    /// Sessions that were new.
    pub sessions_added: usize,
    /// Turns that were new.
    pub turns_added: usize,
    /// Turns whose speaker, text or caption differed from what was stored; they were replaced.
    pub turns_changed: usize,
    /// Turns that were stored already.
    pub turns_present: usize,
    /// Words that were new to the vocabulary.
    pub words_added: usize,
}

impl IngestReport {
    /// Adds what a later ingest did.
    pub fn add(&mut self, other: &Self) {
        self.sessions_added += other.sessions_added;
        self.turns_added += other.turns_added;
        self.turns_changed += other.turns_changed;
        self.turns_present += other.turns_present;
        self.words_added += other.words_added;
    }
}

impl Memory {
    /// Stores a conversation, or what of it is not stored yet. New sessions go after the stored ones, new turns to the
    /// end of their session; a turn whose content differs from the stored one replaces it.
    ///
    /// # Errors
    /// [`RetrievalError::InvalidConversation`], [`RetrievalError::EmbedderMismatch`] when `embedder` is not the one
    /// this memory was made with, [`RetrievalError::DiskFull`], or when the embedder or the store fails. What was
    /// committed until then stays, and a later call completes it.
    pub fn ingest(
        &self,
        conversation: &Conversation,
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<IngestReport, RetrievalError> {
        let reports = self.ingest_all(std::slice::from_ref(conversation), embedder, progress)?;
        Ok(reports.into_iter().next().unwrap_or_default())
    }

    /// As [`Memory::ingest`], of several conversations or pieces of them, in order: small ones share a transaction, since a
    /// commit costs more than a few turns. One report each.
    ///
    /// # Errors
    /// As [`Memory::ingest`]; nothing is stored when one of the conversations is invalid.
    pub fn ingest_all(
        &self,
        conversations: &[Conversation],
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<Vec<IngestReport>, RetrievalError> {
        let reports = self.store(conversations, embedder, progress)?;
        self.build_vectors(progress)?;
        Ok(reports)
    }

    /// The same without the vector index of a large memory: for many conversations in a row, with one
    /// [`Self::build_index`] after the last. Until then searches scan all vectors.
    ///
    /// # Errors
    /// As [`Self::ingest`].
    pub fn ingest_unindexed(
        &self,
        conversation: &Conversation,
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<IngestReport, RetrievalError> {
        let reports = self.store(std::slice::from_ref(conversation), embedder, progress)?;
        Ok(reports.into_iter().next().unwrap_or_default())
    }

    /// Builds the vector index over what has none yet, where there are enough turns for it to pay.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn build_index(&self, progress: &mut dyn FnMut(IngestProgress)) -> Result<(), RetrievalError> {
        self.build_vectors(progress)
    }

    fn store(
        &self,
        conversations: &[Conversation],
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<Vec<IngestReport>, RetrievalError> {
        for conversation in conversations {
            conversation.validate()?;
        }
        self.check_embedder(embedder.map(Embedder::info))?;
        let mut reports = vec![IngestReport::default(); conversations.len()];
        let total = conversations.iter().map(Conversation::turn_count).sum();
        let mut before = 0;
        for batch in batches(conversations) {
            let mut report_progress = |stage, done, of| {
                let turns = stage == IngestStage::Turns;
                let (done, total) = if turns { (before + done, total) } else { (done, of) };
                progress(IngestProgress { stage, done, total });
            };
            let added = self.store_batch(conversations, &batch, embedder, &mut report_progress)?;
            for ((index, _), added) in batch.iter().zip(&added) {
                reports[*index].add(added);
            }
            let turns = batch.iter().map(|(_, part)| turns_of(part)).sum();
            report_progress(IngestStage::Turns, turns, turns);
            before += turns;
        }
        Ok(reports)
    }

    /// Embeds what is missing of a batch, then stores it in one transaction.
    fn store_batch(
        &self,
        conversations: &[Conversation],
        batch: &[(usize, Part<'_>)],
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestStage, usize, usize),
    ) -> Result<Vec<IngestReport>, RetrievalError> {
        let mut attempts = 0;
        loop {
            let mut missing = self.read(|reading| {
                let find = |(index, part): &(usize, Part<'_>)| {
                    Missing::find(reading, &conversations[*index].id, part, self)
                };
                batch.iter().map(find).collect::<Result<Vec<_>, _>>()
            })?;
            let mut words = HashSet::new();
            for missing in &mut missing {
                missing.leave_out(&mut words);
                if let Some(embedder) = embedder {
                    missing.embed(embedder, progress)?;
                }
            }
            let outcome = self.inner.environment.write(|txn| {
                let mut added = Vec::with_capacity(batch.len());
                for ((index, part), missing) in batch.iter().zip(&missing) {
                    let transaction = Transaction::begin(self, txn, &conversations[*index], missing)?;
                    added.push(transaction.part(part)?);
                }
                Ok(added)
            });
            attempts += 1;
            match outcome {
                Err(RetrievalError::ChangedMeanwhile) if attempts < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }

    /// What an ingest leaves that is killed before the vector index is built.
    #[cfg(test)]
    pub(crate) fn ingest_without_build(
        &self,
        conversation: &Conversation,
        embedder: &dyn Embedder,
    ) -> Result<IngestReport, RetrievalError> {
        let reports = self.store(std::slice::from_ref(conversation), Some(embedder), &mut |_| {})?;
        Ok(reports.into_iter().next().unwrap_or_default())
    }
}

/// Sessions, each with those of its turns that belong to the part.
type Part<'a> = Vec<(&'a Session, &'a [Turn])>;

fn turns_of(part: &Part<'_>) -> usize {
    part.iter().map(|(_, turns)| turns.len()).sum()
}

/// Parts of conversations, with the conversation's index, that are stored together: at most [`PART_TURNS`] turns.
fn batches(conversations: &[Conversation]) -> Vec<Vec<(usize, Part<'_>)>> {
    let mut batches: Vec<Vec<(usize, Part<'_>)>> = Vec::new();
    let mut room = 0;
    for (index, conversation) in conversations.iter().enumerate() {
        for part in parts(conversation) {
            let turns = turns_of(&part);
            if turns > room || batches.is_empty() {
                batches.push(Vec::new());
                room = PART_TURNS;
            }
            if let Some(batch) = batches.last_mut() {
                batch.push((index, part));
            }
            room -= turns;
        }
    }
    batches
}

/// Cuts a conversation into parts of at most [`PART_TURNS`] turns; only a session longer than that is cut itself.
fn parts(conversation: &Conversation) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut room = 0;
    for session in &conversation.sessions {
        for turns in session.turns.chunks(PART_TURNS) {
            if turns.len() > room {
                parts.push(Vec::new());
                room = PART_TURNS;
            }
            if let Some(part) = parts.last_mut() {
                part.push((session, turns));
            }
            room -= turns.len();
        }
    }
    parts
}
