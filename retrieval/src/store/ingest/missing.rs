//! What a part of a conversation would add to the store, and its vectors.

use std::collections::{BTreeSet, HashMap, HashSet};

use engine_contract::{EmbedKind, Embedder, EngineError, TextVectors};

use super::{IngestStage, Part};
use crate::store::passages::PassageVectors;
use crate::store::records::StoredTurn;
use crate::store::{Memory, Reading, tokens, wordvectors};
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
    /// Distinct passages of the turns that are new or changed, without those that are embedded already.
    passages: BTreeSet<String>,
    words: BTreeSet<String>,
    /// By passage.
    pub(super) vectors: HashMap<String, PassageVectors>,
    /// As they are stored.
    pub(super) word_vectors: HashMap<String, Vec<u8>>,
}

impl Missing {
    /// A passage that any turn of the store has or had is not embedded again: its vectors are taken from there.
    pub(super) fn find(
        reading: &Reading<'_>,
        conversation: &ConversationId,
        part: &Part<'_>,
        memory: &Memory,
    ) -> Result<Self, RetrievalError> {
        let conversation = reading
            .databases
            .conversation_ids
            .get(reading.txn, conversation.as_str())?;
        let dimension = memory.embedder().map(|info| info.dimension);
        let mut missing = Self {
            passages: BTreeSet::new(),
            words: BTreeSet::new(),
            vectors: HashMap::new(),
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
            if missing.passages.contains(&passage) || missing.vectors.contains_key(&passage) {
                continue;
            }
            let known = dimension.map(|dimension| reading.passage_vectors(&passage, dimension));
            if let Some(vectors) = known.transpose()?.flatten() {
                missing.vectors.insert(passage, vectors);
                continue;
            }
            for word in memory.analyzer().content_words(&passage) {
                if is_vocabulary(&word) && reading.databases.words.get(reading.txn, &word)?.is_none() {
                    missing.words.insert(word);
                }
            }
            missing.passages.insert(passage);
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
        let centre = if self.passages.is_empty() {
            Vec::new()
        } else {
            tokens::centre(embedder)?
        };
        // Texts of like length share a batch without padding.
        let mut passages: Vec<&String> = self.passages.iter().collect();
        passages.sort_by_key(|text| text.len());
        let mut done = 0;
        for batch in passages.chunks(EMBED_BATCH) {
            let vectors = embed_passages(
                embedder,
                &batch.iter().map(|text| text.as_str()).collect::<Vec<_>>(),
            )?;
            let vectors = vectors
                .into_iter()
                .map(|vectors| PassageVectors::new(vectors, &centre));
            self.vectors
                .extend(batch.iter().map(|text| (*text).clone()).zip(vectors));
            done += batch.len();
            progress(IngestStage::Turns, done, passages.len());
        }
        let words: Vec<&String> = self.words.iter().collect();
        let mut done = 0;
        for batch in words.chunks(EMBED_BATCH) {
            let vectors = embed_words(
                embedder,
                &batch.iter().map(|word| word.as_str()).collect::<Vec<_>>(),
            )?;
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
pub(in crate::store) fn embed_passages(
    embedder: &dyn Embedder,
    texts: &[&str],
) -> Result<Vec<TextVectors>, RetrievalError> {
    let vectors = embedder.embed_tokens(texts, EmbedKind::Passage)?;
    let dimension = embedder.info().dimension;
    if let Some(wrong) = vectors.iter().find(|v| v.tokens.len() % dimension != 0) {
        return Err(unexpected(
            embedder,
            &format!("a text gave {} values for its tokens", wrong.tokens.len()),
        ));
    }
    check(embedder, vectors.iter().map(|vectors| &vectors.text), texts.len())?;
    Ok(vectors)
}

pub(in crate::store) fn embed_words(
    embedder: &dyn Embedder,
    texts: &[&str],
) -> Result<Vec<Vec<f32>>, RetrievalError> {
    let vectors = embedder.embed(texts, EmbedKind::Passage)?;
    check(embedder, vectors.iter(), texts.len())?;
    Ok(vectors)
}

fn check<'a>(
    embedder: &dyn Embedder,
    vectors: impl ExactSizeIterator<Item = &'a Vec<f32>> + Clone,
    texts: usize,
) -> Result<(), RetrievalError> {
    let dimension = embedder.info().dimension;
    let count = vectors.len();
    let is_wrong = |vector: &&Vec<f32>| vector.len() != dimension || vector.iter().any(|v| !v.is_finite());
    let wrong = vectors.clone().find(is_wrong);
    if count == texts && wrong.is_none() {
        return Ok(());
    }
    let of_them = wrong.map_or(String::new(), |wrong| {
        format!(", one of them with {} values", wrong.len())
    });
    Err(unexpected(
        embedder,
        &format!("{texts} texts gave {count} vectors{of_them}"),
    ))
}

fn unexpected(embedder: &dyn Embedder, received: &str) -> RetrievalError {
    RetrievalError::Embedder(EngineError::Backend {
        backend: embedder.info().name.clone(),
        reason: format!(
            "{received}; expected one vector of {} finite values per text",
            embedder.info().dimension
        ),
    })
}
