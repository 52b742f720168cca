//! What depends on the language: stems and stop words.

use std::fmt;

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};

use super::words::{fold, words};
use super::{AskedDate, Telling, dates, english};

/// The language whose stems and stop words an index uses; a store has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the languages' names")]
pub enum Language {
    Arabic,
    Danish,
    Dutch,
    #[default]
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    /// Words are indexed as they are, without stems or stop words.
    Other,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
}

impl Language {
    fn algorithm(self) -> Option<Algorithm> {
        Some(match self {
            Self::Arabic => Algorithm::Arabic,
            Self::Danish => Algorithm::Danish,
            Self::Dutch => Algorithm::Dutch,
            Self::English => Algorithm::English,
            Self::Finnish => Algorithm::Finnish,
            Self::French => Algorithm::French,
            Self::German => Algorithm::German,
            Self::Greek => Algorithm::Greek,
            Self::Hungarian => Algorithm::Hungarian,
            Self::Italian => Algorithm::Italian,
            Self::Norwegian => Algorithm::Norwegian,
            Self::Other => return None,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Romanian => Algorithm::Romanian,
            Self::Russian => Algorithm::Russian,
            Self::Spanish => Algorithm::Spanish,
            Self::Swedish => Algorithm::Swedish,
            Self::Tamil => Algorithm::Tamil,
            Self::Turkish => Algorithm::Turkish,
        })
    }
}

/// Turns text into index terms.
pub(crate) struct Analyzer {
    language: Language,
    stemmer: Option<Stemmer>,
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analyzer")
            .field("language", &self.language)
            .finish_non_exhaustive()
    }
}

/// Longer words are cut: they are no words, and LMDB keys are bounded.
const MAX_WORD_CHARS: usize = 64;

impl Analyzer {
    pub(crate) fn new(language: Language) -> Self {
        Self {
            language,
            stemmer: language.algorithm().map(Stemmer::create),
        }
    }

    /// The words of a text, without accents, in order.
    pub(crate) fn words(&self, text: &str) -> Vec<String> {
        let mut words = words(text);
        words.iter_mut().for_each(fold);
        words
    }

    /// The words of a text that carry meaning, in order; with accents where the language's stemmer needs them.
    pub(crate) fn content_words(&self, text: &str) -> Vec<String> {
        let mut words = words(text);
        if matches!(self.language, Language::English | Language::Other) {
            words.iter_mut().for_each(fold);
        }
        words.retain(|word| !self.is_stop_word(word));
        words.iter_mut().for_each(cut);
        words
    }

    /// The index term of a word, without accents.
    pub(crate) fn stem(&self, word: &str) -> String {
        let mut stem = match &self.stemmer {
            Some(stemmer) => stemmer.stem(word).into_owned(),
            None => word.to_owned(),
        };
        fold(&mut stem);
        stem
    }

    /// How much a turn of so many tokens tells: the first person is known for English only, names for languages that
    /// write them, and not every noun, with a capital.
    pub(crate) fn telling(&self, text: &str, tokens: u32) -> Telling {
        let pronouns: &[&str] = if self.language == Language::English {
            english::FIRST_PERSON
        } else {
            &[]
        };
        Telling::new(text, tokens, (pronouns, self.language != Language::German))
    }

    /// Whether a word of the text places something in time; known for English only.
    pub(crate) fn has_time_word(&self, text: &str) -> bool {
        self.language == Language::English && words(text).iter().any(|word| english::is_time_word(word))
    }

    /// The dates that a question names; known for English only.
    pub(crate) fn asked_dates(&self, question: &str) -> Vec<AskedDate> {
        if self.language == Language::English {
            dates::asked_dates(question)
        } else {
            Vec::new()
        }
    }

    /// Whether a question asks for a time; known for English only.
    pub(crate) fn asks_when(&self, question: &str) -> bool {
        self.language == Language::English && english::asks_when(&words(question))
    }

    pub(crate) fn is_stop_word(&self, word: &str) -> bool {
        self.language == Language::English && english::is_stop_word(word)
    }
}

fn cut(word: &mut String) {
    if let Some((end, _)) = word.char_indices().nth(MAX_WORD_CHARS) {
        word.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_term_with_and_without_accents_in_every_language() {
        for (language, word, bare) in [
            (Language::English, "Résumé", "resume"),
            (Language::Other, "Žluťoučký", "zlutoucky"),
            (Language::German, "Müller", "Muller"),
            (Language::Spanish, "canción", "cancion"),
            (Language::Italian, "città", "citta"),
        ] {
            let analyzer = Analyzer::new(language);
            let term = |text: &str| analyzer.stem(&analyzer.content_words(text)[0]);
            assert_eq!(term(word), term(bare), "{language:?}");
        }
    }

    #[test]
    fn stems_follow_the_language() {
        let terms = |language, text: &str| -> Vec<String> {
            let analyzer = Analyzer::new(language);
            analyzer
                .content_words(text)
                .iter()
                .map(|word| analyzer.stem(word))
                .collect()
        };
        assert_eq!(
            terms(Language::English, "The kids were painting"),
            ["kid", "paint"]
        );
        assert_eq!(terms(Language::Russian, "кошки кошка"), ["кошк", "кошк"]);
        assert_eq!(terms(Language::French, "chevaux cheval"), ["cheval", "cheval"]);
        assert_eq!(terms(Language::Other, "painting"), ["painting"]);
    }
}
