//! NLTK's `word_tokenize` on lower-cased text: Punkt sentences, then the Treebank rules inside each.
//!
//! The rules rewrite the text one after another, as NLTK's regular expressions do; the order matters.
//! Source: NLTK `nltk/tokenize/destructive.py`, after Robert MacIntyre's Penn Treebank tokenizer.

use crate::punkt::sentences;
use crate::text::{is_digit, is_letter_or_number, is_space, is_word, split};

/// A contraction that is split in two, and what must follow it.
const CONTRACTIONS: [(&str, &str); 7] = [
    ("can", "not"),
    ("d", "'ye"),
    ("gim", "me"),
    ("gon", "na"),
    ("got", "ta"),
    ("lem", "me"),
    ("more", "'n"),
];

/// The tokens of `text`, which is stripped and lower-cased first.
///
/// Equal to `nltk.word_tokenize(text.strip().lower())` with the English Punkt model.
#[must_use]
pub fn word_tokenize(text: &str) -> Vec<String> {
    let lower: Vec<char> = text.trim_matches(is_space).to_lowercase().chars().collect();
    sentences(&lower)
        .into_iter()
        .flat_map(|range| treebank(&lower[range]))
        .collect()
}

/// Tokens of one sentence of lower-cased text.
fn treebank(sentence: &[char]) -> Vec<String> {
    let mut text = sentence.to_vec();
    starting_quotes(&mut text);
    punctuation(&mut text);
    space_out(&mut text, |c| {
        matches!(c, '[' | ']' | '(' | ')' | '{' | '}' | '<' | '>')
    });
    space_out_pair(&mut text, ['-', '-']);
    text.insert(0, ' ');
    text.push(' ');
    ending_quotes(&mut text);
    contractions(&mut text);
    let spaced: String = text.into_iter().collect();
    split(&spaced).map(str::to_owned).collect()
}

fn starting_quotes(text: &mut Vec<char>) {
    rewrite(text, |text, at| {
        let run = run_length(text, at, |c| c == '`');
        match text[at] {
            '«' | '“' | '‘' | '„' => Some((1, spaced(&[text[at]]))),
            '`' => Some((run, spaced(&text[at..at + run]))),
            _ => None,
        }
    });
    rewrite(text, |text, at| {
        (at == 0 && text[at] == '"').then(|| (1, vec!['`', '`']))
    });
    space_out_pair(text, ['`', '`']);
    rewrite(text, |text, at| {
        let opener = matches!(text[at], ' ' | '(' | '[' | '{' | '<');
        let quote = match text.get(at + 1)? {
            '"' => 1,
            '\'' if text.get(at + 2) == Some(&'\'') => 2,
            _ => return None,
        };
        opener.then(|| (1 + quote, vec![text[at], ' ', '`', '`', ' ']))
    });
    rewrite(text, |text, at| {
        let alone = text[at] == '\'' && !at.checked_sub(1).is_some_and(|before| is_word(text[before]));
        let word = text.get(at + 1).is_some_and(|&c| is_word(c)) && !starts_clitic(&text[at + 1..]);
        (alone && word).then(|| (1, vec!['\'', ' ']))
    });
}

/// Whether a quote before `text` makes a clitic: `re`, `ve`, `ll`, `m`, `t`, `s`, `d` or `n` as a whole word.
fn starts_clitic(text: &[char]) -> bool {
    ["re", "ve", "ll", "m", "t", "s", "d", "n"]
        .iter()
        .any(|clitic| is_at(text, 0, clitic) && ends_word(text, clitic.len()))
}

fn punctuation(text: &mut Vec<char>) {
    final_period(
        text,
        |c| matches!(c, ']' | ')' | '}' | '>' | '"' | '\'' | '»' | '”' | '’' | ' '),
        true,
    );
    rewrite(text, |text, at| {
        let next = *text.get(at + 1)?;
        (matches!(text[at], ':' | ',') && !is_digit(next)).then(|| (2, vec![' ', text[at], ' ', next]))
    });
    rewrite(text, |text, at| {
        let last = at + 1 == text.len() || (at + 2 == text.len() && text[at + 1] == '\n');
        (matches!(text[at], ':' | ',') && last).then(|| (1, spaced(&[text[at]])))
    });
    rewrite(text, |text, at| {
        let run = run_length(text, at, |c| c == '.');
        (run >= 2).then(|| (run, spaced(&text[at..at + run])))
    });
    space_out(text, |c| matches!(c, ';' | '@' | '#' | '$' | '%' | '&'));
    space_out(text, |c| ('\u{2012}'..='\u{2015}').contains(&c));
    final_period(text, |c| matches!(c, ']' | ')' | '}' | '>' | '"' | '\''), false);
    space_out(text, |c| matches!(c, '?' | '!'));
    rewrite(text, |text, at| {
        let follows = is_at(text, at + 1, "' ");
        (text[at] != '\'' && follows).then(|| (3, vec![text[at], ' ', '\'', ' ']))
    });
    space_out(text, |c| c == '*');
}

/// Parts the full stop that ends the text, and the closing marks after it, from the word before.
fn final_period(text: &mut Vec<char>, closing: impl Fn(char) -> bool, part_closing: bool) {
    rewrite(text, |text, at| {
        if text[at] == '.' || text.get(at + 1) != Some(&'.') {
            return None;
        }
        let marks = run_length(text, at + 2, &closing);
        let after = at + 2 + marks;
        if !text[after..].iter().all(|&c| is_space(c)) {
            return None;
        }
        let mut parted = vec![text[at], ' ', '.'];
        if part_closing {
            parted.push(' ');
        }
        parted.extend_from_slice(&text[at + 2..after]);
        parted.push(' ');
        Some((text.len() - at, parted))
    });
}

fn ending_quotes(text: &mut Vec<char>) {
    space_out(text, |c| matches!(c, '»' | '”' | '’'));
    space_out_pair(text, ['\'', '\'']);
    rewrite(text, |text, at| {
        (text[at] == '"').then(|| (1, spaced(&['\'', '\''])))
    });
    rewrite(text, |text, at| {
        let run = run_length(text, at, is_space);
        (run > 0).then(|| (run, vec![' ']))
    });
    part_clitics(text, &["'s", "'m", "'d", "'"]);
    part_clitics(text, &["'ll", "'re", "'ve", "n't"]);
}

/// Parts a clitic that a space follows from the word before it.
fn part_clitics(text: &mut Vec<char>, clitics: &[&str]) {
    rewrite(text, |text, at| {
        if matches!(text[at], '\'' | ' ') {
            return None;
        }
        let clitic = clitics
            .iter()
            .find(|clitic| is_at(text, at + 1, clitic) && text.get(at + 1 + clitic.len()) == Some(&' '))?;
        let mut parted = vec![text[at], ' '];
        parted.extend(clitic.chars());
        parted.push(' ');
        Some((clitic.len() + 2, parted))
    });
}

fn contractions(text: &mut Vec<char>) {
    for (first, second) in CONTRACTIONS {
        part_contraction(text, first, second, ends_contraction);
    }
    part_contraction(text, "wan", "na", |text, end| {
        text.get(end).copied().is_some_and(is_space)
    });
    for second in ["is", "was"] {
        rewrite(text, |text, at| {
            let whole = is_at(text, at, " 't") && is_at(text, at + 3, second);
            (whole && ends_contraction(text, at + 3 + second.len()))
                .then(|| (3 + second.len(), two(" 't", second)))
        });
    }
}

fn part_contraction(text: &mut Vec<char>, first: &str, second: &str, ends: impl Fn(&[char], usize) -> bool) {
    rewrite(text, |text, at| {
        let begins = !at
            .checked_sub(1)
            .is_some_and(|before| is_letter_or_number(text[before]));
        let whole = is_at(text, at, first) && is_at(text, at + first.len(), second);
        let length = first.len() + second.len();
        (begins && whole && ends(text, at + length)).then(|| (length, two(first, second)))
    });
}

fn ends_contraction(text: &[char], end: usize) -> bool {
    !text.get(end).copied().is_some_and(is_letter_or_number)
}

fn two(first: &str, second: &str) -> Vec<char> {
    format!(" {first} {second} ").chars().collect()
}

/// Scans once from the left; where `rule` matches it says how many characters go and what stands for them.
fn rewrite(text: &mut Vec<char>, rule: impl Fn(&[char], usize) -> Option<(usize, Vec<char>)>) {
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut at = 0;
    while at < text.len() {
        if let Some((length, replacement)) = rule(text, at) {
            out.extend(replacement);
            at += length;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    *text = out;
}

fn space_out(text: &mut Vec<char>, marks: impl Fn(char) -> bool) {
    rewrite(text, |text, at| marks(text[at]).then(|| (1, spaced(&[text[at]]))));
}

fn space_out_pair(text: &mut Vec<char>, pair: [char; 2]) {
    rewrite(text, |text, at| {
        text[at..].starts_with(&pair).then(|| (2, spaced(&pair)))
    });
}

fn spaced(marks: &[char]) -> Vec<char> {
    let mut out = vec![' '];
    out.extend_from_slice(marks);
    out.push(' ');
    out
}

fn run_length(text: &[char], at: usize, member: impl Fn(char) -> bool) -> usize {
    text.get(at..)
        .map_or(0, |rest| rest.iter().take_while(|&&c| member(c)).count())
}

/// Whether the ASCII `word` stands at `at`.
fn is_at(text: &[char], at: usize, word: &str) -> bool {
    text.get(at..at + word.len())
        .is_some_and(|part| part.iter().copied().eq(word.chars()))
}

/// Whether no word character follows at `end`, given that one stands before it.
fn ends_word(text: &[char], end: usize) -> bool {
    !text.get(end).copied().is_some_and(is_word)
}
