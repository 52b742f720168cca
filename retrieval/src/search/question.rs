//! What a question says about where its answer may stand.

use crate::text::{Analyzer, AskedDate, fold};

use super::snapshot::Snapshot;

/// A word of the question that is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuestionWord {
    pub(super) word: String,
    pub(super) stem: String,
    /// Names and numbers stand for themselves alone.
    pub(super) has_synonyms: bool,
}

/// A question, taken apart.
#[derive(Debug)]
pub(super) struct Question {
    /// Distinct by stem, in order.
    pub(super) words: Vec<QuestionWord>,
    /// The question without the names of speakers; the whole question where nothing else is left.
    pub(super) without_names: String,
    /// The only speaker named, as an index in the snapshot's speakers.
    pub(super) speaker: Option<u32>,
    pub(super) dates: Vec<AskedDate>,
    pub(super) asks_when: bool,
}

/// Shortest form of a name that counts: `Mel` for `Melanie`.
const SHORT_NAME: usize = 3;

impl Question {
    pub(super) fn new(text: &str, snapshot: &Snapshot, analyzer: &Analyzer) -> Self {
        let names = Names::new(&snapshot.speakers, analyzer);
        let named = names.of(text);
        let mut speakers: Vec<u32> = named
            .iter()
            .flat_map(|(_, speakers)| speakers.iter().copied())
            .collect();
        speakers.sort_unstable();
        speakers.dedup();
        let mut question_words: Vec<QuestionWord> = Vec::new();
        for word in analyzer.content_words(text) {
            let stem = analyzer.stem(&word);
            if question_words.iter().all(|known| known.stem != stem) {
                let is_name = is_named(&named, &word);
                let has_synonyms = !is_name && !word.chars().any(char::is_numeric);
                question_words.push(QuestionWord {
                    word,
                    stem,
                    has_synonyms,
                });
            }
        }
        Self {
            words: question_words,
            without_names: cut_names(text, &named),
            speaker: if let [one] = speakers[..] { Some(one) } else { None },
            dates: analyzer.asked_dates(text),
            asks_when: analyzer.asks_when(text),
        }
    }
}

/// The words by which speakers are named.
struct Names<'a> {
    /// Lower-case part of a name, and the speaker.
    parts: Vec<(String, u32)>,
    analyzer: &'a Analyzer,
}

impl<'a> Names<'a> {
    fn new(speakers: &[String], analyzer: &'a Analyzer) -> Self {
        let parts = speakers.iter().zip(0..).flat_map(|(name, speaker)| {
            analyzer
                .words(name)
                .into_iter()
                .filter(|part| part.chars().count() > 1)
                .map(move |part| (part, speaker))
        });
        Self {
            parts: parts.collect(),
            analyzer,
        }
    }

    /// The words of a text that name speakers, with the speakers; by short forms only where no full name is used.
    fn of(&self, text: &str) -> Vec<(String, Vec<u32>)> {
        let candidates: Vec<String> = self
            .analyzer
            .words(text)
            .into_iter()
            .filter(|word| !self.analyzer.is_stop_word(word))
            .collect();
        let matching = |is_name: &dyn Fn(&str, &str) -> bool| -> Vec<(String, Vec<u32>)> {
            let speakers = |word: &String| -> Vec<u32> {
                self.parts
                    .iter()
                    .filter(|(part, _)| is_name(part, word))
                    .map(|(_, speaker)| *speaker)
                    .collect()
            };
            let named = candidates.iter().map(|word| (word.clone(), speakers(word)));
            named.filter(|(_, speakers)| !speakers.is_empty()).collect()
        };
        let full = matching(&|part, word| part == word);
        if !full.is_empty() {
            return full;
        }
        matching(&|part, word| word.chars().count() >= SHORT_NAME && part.starts_with(word))
    }
}

/// Whether a lower-case word is one of the names, with or without its accents.
fn is_named(named: &[(String, Vec<u32>)], word: &str) -> bool {
    let mut word = word.to_owned();
    fold(&mut word);
    named.iter().any(|(name, _)| *name == word)
}

/// The text without the named words and their possessive endings.
fn cut_names(text: &str, named: &[(String, Vec<u32>)]) -> String {
    let mut kept = String::with_capacity(text.len());
    for chunk in text.split_whitespace() {
        let bare = chunk.trim_matches(|c: char| !c.is_alphanumeric());
        let bare = bare
            .strip_suffix("'s")
            .or_else(|| bare.strip_suffix("’s"))
            .unwrap_or(bare);
        let chunk = if is_named(named, &bare.to_lowercase()) {
            // Punctuation after the name stays: "Did she see Ann?" becomes "Did she see?".
            let tail = chunk.trim_end_matches(|c: char| !c.is_alphanumeric()).len();
            kept.truncate(kept.trim_end().len());
            &chunk[tail..]
        } else {
            chunk
        };
        kept.push_str(chunk);
        kept.push(' ');
    }
    let kept = kept.trim();
    if kept.chars().any(char::is_alphanumeric) {
        kept.to_owned()
    } else {
        text.trim().to_owned()
    }
}
