//! Another embedder for a memory that exists.
//!
//! New vectors are staged beside the old ones, part by part: in arroy's other index and in `staged_words`. When every turn and
//! word has one, a single transaction puts them in force. Until then searches and ingests go on with the old ones, and a killed
//! reindexing is continued by the next one with the same embedder.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine_contract::{Embedder, EmbedderInfo};
use serde::{Deserialize, Serialize};

use super::ingest::missing::{EMBED_BATCH, embed_passages, embed_words, is_vocabulary};
use super::memory::{HEADER, get_json, put_json};
use super::records::Header;
use super::vectors::VectorSpace;
use super::{IngestProgress, IngestStage, Memory, tokens, vectors, wordvectors};
use crate::RetrievalError;

/// Key of the record of a reindexing under way.
pub(super) const REINDEX: &str = "reindex";
/// Turns or words per transaction.
const PART: usize = 8 * EMBED_BATCH;

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Goal {
    embedder: Option<EmbedderInfo>,
}

impl Memory {
    /// Makes all vectors anew with another embedder, or removes them with `None`, and returns the memory as it is then. This
    /// one, and others opened before, say [`RetrievalError::Reindexed`] from then on. With the embedder that the memory has
    /// already, nothing is done.
    ///
    /// # Errors
    /// When the embedder or the store fails; the memory is then as it was, and the next call goes on from there.
    pub fn reindex(
        &self,
        embedder: Option<&dyn Embedder>,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<Self, RetrievalError> {
        let goal = Goal {
            embedder: embedder.map(|embedder| embedder.info().clone()),
        };
        if goal.embedder.as_ref() == self.embedder() {
            return Ok(self.clone());
        }
        let space = VectorSpace {
            index: self.inner.header.vectors ^ 1,
            dimension: goal.embedder.as_ref().map_or(1, |info| info.dimension),
        };
        self.begin(&goal, space)?;
        loop {
            if let Some(embedder) = embedder {
                self.stage_turns(embedder, space, progress)?;
                self.stage_words(embedder, progress)?;
            }
            if self.put_in_force(&goal, space)? {
                break;
            }
        }
        let environment = Arc::clone(&self.inner.environment);
        let memory = Self::assemble(environment, self.inner.databases, self.inner.limits)?;
        memory.build_vectors(progress)?;
        Ok(memory)
    }

    /// Notes the goal; what was staged for another one is dropped.
    fn begin(&self, goal: &Goal, space: VectorSpace) -> Result<(), RetrievalError> {
        let databases = self.inner.databases;
        self.inner.environment.write(|txn| {
            self.check_header(txn)?;
            let known = databases.meta.get(txn, REINDEX)?;
            if known.is_some() && get_json::<Goal>(databases.meta, txn, REINDEX)? == *goal {
                return Ok(());
            }
            space.writer(databases.vectors).clear(txn)?;
            tokens::clear(databases.tokens, txn, space.index)?;
            databases.staged_words.clear(txn)?;
            put_json(databases.meta, txn, REINDEX, goal)
        })
    }

    /// Makes the vectors of all turns that have none yet.
    fn stage_turns(
        &self,
        embedder: &dyn Embedder,
        space: VectorSpace,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<(), RetrievalError> {
        let databases = self.inner.databases;
        let centre = tokens::centre(embedder)?;
        let mut from = 0;
        let mut done = 0;
        loop {
            let (part, total) = self.read(|reading| {
                let writer = space.writer(databases.vectors);
                let mut part = Vec::new();
                for turn in databases.turns.range(reading.txn, &(from..))? {
                    let (number, turn) = turn?;
                    if !writer.contains_item(reading.txn, number)? {
                        part.push((number, turn.passage()));
                    }
                    if part.len() == PART {
                        break;
                    }
                }
                Ok((part, databases.turns.len(reading.txn)? as usize))
            })?;
            let Some((last, _)) = part.last() else {
                return Ok(());
            };
            from = last + 1;
            let staged = batches(
                &part,
                |(_, passage)| passage,
                |texts| embed_passages(embedder, texts),
            )?;
            self.inner.environment.write(|txn| {
                self.check_header(txn)?;
                for ((number, passage), of) in part.iter().zip(&staged) {
                    // Gone or changed since it was read: left for the next round.
                    let turn = databases.turns.get(txn, number)?;
                    if turn.is_some_and(|turn| turn.passage() == *passage) {
                        vectors::put(databases.vectors, txn, space, (*number, &of.text))?;
                        let bits = tokens::encode(&of.tokens, &centre);
                        tokens::put(databases.tokens, txn, (space.index, *number), &bits)?;
                    }
                }
                Ok(())
            })?;
            done += part.len();
            progress(IngestProgress {
                stage: IngestStage::Turns,
                done,
                total,
            });
        }
    }

    /// Makes the vectors of all words that have none yet.
    fn stage_words(
        &self,
        embedder: &dyn Embedder,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<(), RetrievalError> {
        let databases = self.inner.databases;
        let wanted = self.read(|reading| {
            let mut words = BTreeSet::new();
            for turn in databases.turns.iter(reading.txn)? {
                let (_, turn) = turn?;
                for word in self.analyzer().content_words(&turn.passage()) {
                    if is_vocabulary(&word)
                        && !words.contains(&word)
                        && databases.staged_words.get(reading.txn, &word)?.is_none()
                    {
                        words.insert(word);
                    }
                }
            }
            Ok(words.into_iter().collect::<Vec<_>>())
        })?;
        let mut done = 0;
        for part in wanted.chunks(PART) {
            let staged = batches(part, |word| word, |texts| embed_words(embedder, texts))?;
            self.inner.environment.write(|txn| {
                self.check_header(txn)?;
                for (word, vector) in part.iter().zip(&staged) {
                    databases
                        .staged_words
                        .put(txn, word, &wordvectors::encode(vector))?;
                }
                Ok(())
            })?;
            done += part.len();
            progress(IngestProgress {
                stage: IngestStage::Words,
                done,
                total: wanted.len(),
            });
        }
        Ok(())
    }

    /// Switches to the staged vectors; `false` when some are missing, because turns came or changed meanwhile.
    fn put_in_force(&self, goal: &Goal, space: VectorSpace) -> Result<bool, RetrievalError> {
        let databases = self.inner.databases;
        self.inner.environment.write(|txn| {
            self.check_header(txn)?;
            let mut words = BTreeSet::new();
            if goal.embedder.is_some() {
                let writer = space.writer(databases.vectors);
                for turn in databases.turns.iter(txn)? {
                    let (number, turn) = turn?;
                    if !writer.contains_item(txn, number)? {
                        return Ok(false);
                    }
                    words.extend(self.analyzer().content_words(&turn.passage()));
                }
            }
            let mut vectors = Vec::with_capacity(words.len());
            for word in words.into_iter().filter(|word| is_vocabulary(word)) {
                let Some(vector) = databases.staged_words.get(txn, &word)? else {
                    return Ok(false);
                };
                vectors.push((word, vector.to_vec()));
            }
            databases.words.clear(txn)?;
            for (word, vector) in &vectors {
                databases.words.put(txn, word, vector)?;
            }
            databases.staged_words.clear(txn)?;
            space.other().writer(databases.vectors).clear(txn)?;
            tokens::clear(databases.tokens, txn, space.other().index)?;
            let header = Header {
                embedder: goal.embedder.clone(),
                vectors: space.index,
                ..self.inner.header.clone()
            };
            put_json(databases.meta, txn, HEADER, &header)?;
            databases.meta.delete(txn, REINDEX)?;
            Ok(true)
        })
    }
}

/// Embeds in batches of texts of like length; vectors come back in the order given.
fn batches<T, V>(
    items: &[T],
    text: impl Fn(&T) -> &String,
    embed: impl Fn(&[&str]) -> Result<Vec<V>, RetrievalError>,
) -> Result<Vec<V>, RetrievalError> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&place| text(&items[place]).len());
    let mut vectors: Vec<(usize, V)> = Vec::with_capacity(items.len());
    for batch in order.chunks(EMBED_BATCH) {
        let texts: Vec<&str> = batch.iter().map(|&place| text(&items[place]).as_str()).collect();
        vectors.extend(batch.iter().copied().zip(embed(&texts)?));
    }
    vectors.sort_by_key(|(place, _)| *place);
    Ok(vectors.into_iter().map(|(_, vector)| vector).collect())
}
