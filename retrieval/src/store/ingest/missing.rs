//! What a part of a conversation would add to the store, and its vectors.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use engine_contract::{EmbedKind, Embedder, EngineError};

use super::{IngestStage, Part};
use crate::store::records::StoredTurn;
use crate::store::{Reading, wordvectors};
use crate::text::Analyzer;
use crate::{ConversationId, RetrievalError, Turn};

/// Texts per call of the embedder; progress is reported between calls.
pub(in crate::store) const EMBED_BATCH: usize = 64;

/// What a turn is embedded and counted as: `Speaker: text [shares caption]`.
fn passage(speaker: &str, text: &str, caption: Option<&str>) -> String {
    match caption {
        Some(caption) => format!("{speaker}: {text} [shares {caption}]"),
        None => format!("{speaker}: {text}"),
    }
}

impl Turn {
    pub(crate) fn passage(&self) -> String {
        passage(&self.speaker, &self.text, self.caption.as_deref())
    }
}

impl StoredTurn {
    pub(in crate::store) fn passage(&self) -> String {
        passage(&self.speaker, &self.text, self.caption.as_deref())
    }

    pub(super) fn same_content(&self, turn: &Turn) -> bool {
        self.speaker == turn.speaker && self.text == turn.text && self.caption == turn.caption
    }
}

/// Numbers and single letters have no neighbours in meaning.
pub(in crate::store) fn is_vocabulary(word: &str) -> bool {
    word.chars().count() > 1 && !word.chars().any(char::is_numeric)
}

pub(super) struct Missing {
    /// Passages of the turns that are new or changed, by turn id.
    passages: BTreeMap<String, String>,
    words: BTreeSet<String>,
    pub(super) turn_vectors: HashMap<String, Vec<f32>>,
    /// As they are stored.
    pub(super) word_vectors: HashMap<String, Vec<u8>>,
}

impl Missing {
    pub(super) fn find(
        reading: &Reading<'_>,
        conversation: &ConversationId,
        part: &Part<'_>,
        analyzer: &Analyzer,
    ) -> Result<Self, RetrievalError> {
        let conversation = reading
            .databases
            .conversation_ids
            .get(reading.txn, conversation.as_str())?;
        let mut missing = Self {
            passages: BTreeMap::new(),
            words: BTreeSet::new(),
            turn_vectors: HashMap::new(),
            word_vectors: HashMap::new(),
        };
        let turns = part
            .iter()
            .flat_map(|(session, turns)| turns.iter().map(move |turn| (*session, turn)));
        for (session, turn) in turns {
            let number = conversation.map(|conversation| reading.turn_number(conversation, &turn.id));
            if let Some(number) = number.transpose()?.flatten()
                && let stored = reading.stored_turn(number)?
                && stored.same_content(turn)
                && reading.session_number(stored.conversation, &session.id)? == Some(stored.session)
            {
                continue;
            }
            let passage = turn.passage();
            for word in analyzer.content_words(&passage) {
                if is_vocabulary(&word) && reading.databases.words.get(reading.txn, &word)?.is_none() {
                    missing.words.insert(word);
                }
            }
            missing.passages.insert(turn.id.to_string(), passage);
        }
        Ok(missing)
    }

    /// Leaves out words that come with an earlier part of the same transaction, and notes its own.
    pub(super) fn leave_out(&mut self, words: &mut HashSet<String>) {
        self.words.retain(|word| words.insert(word.clone()));
    }

    pub(super) fn embed(
        &mut self,
        embedder: &dyn Embedder,
        progress: &mut dyn FnMut(IngestStage, usize, usize),
    ) -> Result<(), RetrievalError> {
        // Texts of like length share a batch without padding.
        let mut passages: Vec<(&String, &String)> = self.passages.iter().collect();
        passages.sort_by_key(|(_, text)| text.len());
        let mut done = 0;
        for batch in passages.chunks(EMBED_BATCH) {
            let vectors = embed(embedder, batch.iter().map(|(_, text)| text.as_str()).collect())?;
            self.turn_vectors
                .extend(batch.iter().map(|(id, _)| (*id).clone()).zip(vectors));
            done += batch.len();
            progress(IngestStage::Turns, done, passages.len());
        }
        let words: Vec<&String> = self.words.iter().collect();
        let mut done = 0;
        for batch in words.chunks(EMBED_BATCH) {
            let vectors = embed(embedder, batch.iter().map(|word| word.as_str()).collect())?;
            let vectors = vectors.iter().map(|vector| wordvectors::encode(vector));
            self.word_vectors
                .extend(batch.iter().map(|word| (*word).clone()).zip(vectors));
            done += batch.len();
            progress(IngestStage::Words, done, words.len());
        }
        Ok(())
    }
}

/// Embeds passages and holds what comes back against the embedder's own description.
pub(in crate::store) fn embed(
    embedder: &dyn Embedder,
    texts: Vec<&str>,
) -> Result<Vec<Vec<f32>>, RetrievalError> {
    let vectors = embedder.embed(&texts, EmbedKind::Passage)?;
    let dimension = embedder.info().dimension;
    let is_wrong = |vector: &&Vec<f32>| vector.len() != dimension || vector.iter().any(|v| !v.is_finite());
    let wrong = vectors.iter().find(is_wrong);
    if vectors.len() == texts.len() && wrong.is_none() {
        return Ok(vectors);
    }
    let of_them = wrong.map_or(String::new(), |wrong| {
        format!(", one of them with {} values", wrong.len())
    });
    Err(RetrievalError::Embedder(EngineError::Backend {
        backend: embedder.info().name.clone(),
        reason: format!(
            "{} texts gave {} vectors{of_them}; expected one vector of {dimension} finite values per text",
            texts.len(),
            vectors.len()
        ),
    }))
}
