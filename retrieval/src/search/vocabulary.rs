//! Words of like meaning, found by the vectors of single words.

use engine_contract::{EmbedKind, Embedder};

use super::config::Vocabulary;
use super::question::QuestionWord;
use super::rows::{Row, Rows};
use crate::RetrievalError;
use crate::store::{Reading, decode_word_vector};
use crate::text::Analyzer;

/// The words of the store with their stems and vectors.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    words: Vec<String>,
    stems: Vec<String>,
    vectors: Rows,
}

impl Lexicon {
    pub(super) fn read(
        reading: &Reading<'_>,
        analyzer: &Analyzer,
        dimension: usize,
    ) -> Result<Self, RetrievalError> {
        let mut lexicon = Self {
            vectors: Rows::new(dimension),
            ..Self::default()
        };
        for word in reading.databases.words.iter(reading.txn)? {
            let (word, bytes) = word?;
            lexicon.stems.push(analyzer.stem(word));
            lexicon.words.push(word.to_owned());
            lexicon
                .vectors
                .push(&Row::new(&decode_word_vector(bytes, dimension)?));
        }
        Ok(lexicon)
    }

    fn vector(&self, word: &str) -> Option<Row> {
        // LMDB gives the words in byte order, which is the order of `str`.
        let place = self
            .words
            .binary_search_by(|known| known.as_str().cmp(word))
            .ok()?;
        Some(self.vectors.get(place))
    }

    /// The vectors of the question's words that have neighbours; unknown words are embedded, all at once.
    pub(super) fn vectors(
        &self,
        words: &[QuestionWord],
        embedder: &dyn Embedder,
    ) -> Result<Vec<Option<Row>>, RetrievalError> {
        let unknown = |word: &&QuestionWord| word.has_synonyms && self.vector(&word.word).is_none();
        let unknown: Vec<&str> = words
            .iter()
            .filter(unknown)
            .map(|word| word.word.as_str())
            .collect();
        let embedded = if unknown.is_empty() {
            Vec::new()
        } else {
            embedder.embed(&unknown, EmbedKind::Passage)?
        };
        let mut embedded = embedded.iter().map(|vector| Row::new(vector));
        let vectors = words.iter().map(|word| match self.vector(&word.word) {
            _ if !word.has_synonyms => None,
            Some(vector) => Some(vector),
            None => embedded.next(),
        });
        Ok(vectors.collect())
    }

    /// The stems that count for a word, itself excluded, with their weights, best first: one entry for each stem.
    pub(super) fn neighbours(
        &self,
        word: &QuestionWord,
        vector: &Row,
        config: Vocabulary,
    ) -> Vec<(&str, f32)> {
        let mut near: Vec<(f32, usize)> = Vec::new();
        for (place, cosine) in self.vectors.cosines(vector).enumerate() {
            if cosine >= config.min_cosine && self.stems[place] != word.stem {
                near.push((cosine.min(1.0), place));
            }
        }
        near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        near.truncate(config.words);
        let mut stems: Vec<(&str, f32)> = Vec::new();
        for (cosine, place) in near {
            let stem = self.stems[place].as_str();
            if stems.iter().all(|(known, _)| *known != stem) {
                let closeness = (cosine - config.min_cosine) / (1.0 - config.min_cosine);
                stems.push((stem, config.weight * (0.5 + 0.5 * closeness)));
            }
        }
        stems
    }
}
