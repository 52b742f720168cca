//! Relative time words, resolved by code: small models copy dates well and compute them badly.
//!
//! A turn of 8 May 2023 that says "yesterday" is shown as "yesterday [7 May 2023]". Only prompts carry these
//! notes; what is stored stays as it was said. A phrase that could mean several dates is resolved to words
//! that claim no more than it does ("last week" is "the week before 9 June 2023"), or left alone ("this
//! weekend" said on a Monday, "the last month" which is a span). English only; dates without a year, spans
//! ("for two weeks") and dates relative to another event are left alone too.

mod phrase;
#[cfg(test)]
mod tests;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// One phrase that was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeNote {
    /// The words as they were said.
    pub phrase: String,
    /// What stands beside them in the prompt.
    pub meaning: String,
}

/// A word of a text, in lower case, with its place in bytes.
struct Word {
    start: usize,
    end: usize,
    lower: String,
}

/// `8 May 2023`.
#[must_use]
pub fn long_date(date: Date) -> String {
    date.strftime("%-d %B %Y").to_string()
}

/// Puts the date meant in square brackets behind every relative time phrase of `text`, said on `said`.
///
/// Returns the text and what was resolved, in order. Text without such phrases comes back unchanged.
#[must_use]
pub fn annotate(text: &str, said: Date) -> (String, Vec<TimeNote>) {
    let words = words(text);
    let (mut out, mut notes) = (String::with_capacity(text.len()), Vec::new());
    let (mut copied, mut index) = (0, 0);
    while index < words.len() {
        let reach = joined(text, &words[index..]);
        let before = index.checked_sub(1).map_or("", |i| words[i].lower.as_str());
        let span: Vec<&str> = words[index..index + reach]
            .iter()
            .map(|w| w.lower.as_str())
            .collect();
        let Some((length, meaning)) = phrase::resolve(&span, before, said) else {
            index += 1;
            continue;
        };
        let (start, end) = (words[index].start, words[index + length - 1].end);
        let end = end + possessive(&text[end..]);
        out.push_str(&text[copied..end]);
        out.push_str(&format!(" [{meaning}]"));
        notes.push(TimeNote {
            phrase: text[start..end].to_owned(),
            meaning,
        });
        copied = end;
        index += length;
    }
    out.push_str(&text[copied..]);
    (out, notes)
}

/// Bytes of a possessive ending at the start of `rest`: the note goes behind it.
fn possessive(rest: &str) -> usize {
    ["'s", "\u{2019}s"]
        .into_iter()
        .find(|s| rest.starts_with(s) && !rest[s.len()..].starts_with(char::is_alphanumeric))
        .map_or(0, str::len)
}

fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c.is_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push(Word {
                    start: from,
                    end: at,
                    lower: text[from..at].to_lowercase(),
                });
                start = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    words
}

/// How many of these words, up to the longest phrase, follow each other with nothing but blanks between them.
fn joined(text: &str, words: &[Word]) -> usize {
    let limit = words.len().min(phrase::LONGEST);
    (1..limit)
        .find(|&i| {
            !text[words[i - 1].end..words[i].start]
                .chars()
                .all(|c| c.is_whitespace() || c == '-')
        })
        .unwrap_or(limit)
}
