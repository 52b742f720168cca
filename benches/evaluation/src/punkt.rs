//! Sentence boundaries in lower-cased English text, as NLTK's Punkt model finds them.
//!
//! Lower-cased text never shows a capital, so of Punkt's learned tables only its abbreviations can matter:
//! a full stop ends a sentence unless the word is an abbreviation, or is a number or an initial and the next
//! word begins with a letter. Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary Detection",
//! Computational Linguistics 32(4), 2006; NLTK `nltk/tokenize/punkt.py`.

use std::ops::Range;

use crate::text::{is_digit, is_space, is_word};

/// What Punkt's English model takes for abbreviations, without the final full stop, sorted.
const ABBREVIATIONS: [&str; 155] = [
    "a.a", "a.c", "a.d", "a.g", "a.h", "a.m", "a.m.e", "a.s", "a.t", "adm", "ala", "ariz", "aug", "ave",
    "b.f", "b.v", "bros", "c", "c.i.t", "c.o.m.b", "c.v", "calif", "chg", "cie", "co", "col", "colo", "conn",
    "corp", "cos", "ct", "d", "d.c", "d.h", "d.w", "dec", "dr", "e", "e.f", "e.h", "e.l", "e.m", "f", "f.g",
    "f.j", "feb", "fla", "fri", "ft", "g", "g.d", "g.f", "g.k", "ga", "gen", "h", "h.c", "h.f", "h.m",
    "i.m.s", "ill", "inc", "j.b", "j.c", "j.j", "j.k", "j.p", "j.r", "jan", "jr", "k", "kan", "ky", "l",
    "l.a", "l.f", "l.p", "lt", "ltd", "m", "m.b.a", "m.d.c", "m.j", "maj", "messrs", "mg", "mich", "minn",
    "mr", "mrs", "ms", "n", "n.c", "n.d", "n.h", "n.j", "n.m", "n.v", "n.y", "nev", "nov", "oct", "ok",
    "okla", "ore", "p", "p.a.m", "p.m", "pa", "ph.d", "prof", "r", "r.a", "r.h", "r.i", "r.j", "r.k", "r.t",
    "rep", "reps", "s", "s.a", "s.a.y", "s.c", "s.g", "s.p.a", "s.s", "sen", "sep", "sept", "sr", "st", "sw",
    "t", "t.j", "tenn", "tues", "u.k", "u.n", "u.s", "u.s.a", "u.s.s.r", "v", "va", "vs", "vt", "w", "w.c",
    "w.r", "w.va", "w.w", "wash", "wed", "wis", "yr",
];

/// The only words that Punkt's English model saw at the start of a sentence in lower case and never capitalised.
const LOWER_CASE_STARTERS: [&str; 4] = ["administrators", "b-week", "r-revised", "z-holiday"];

/// Where each sentence of the lower-cased `text` lies, in characters; together they hold all but white space.
pub(crate) fn sentences(text: &[char]) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for end in possible_ends(text) {
        if breaks(&end.context(text)) {
            pieces.push(start..end.mark + 1);
            start = end.next_word.unwrap_or(end.mark + 1);
        }
    }
    let trimmed = text
        .iter()
        .rposition(|&c| !is_space(c))
        .map_or(0, |last| last + 1);
    pieces.push(start..trimmed.max(start));
    realign(text, &pieces)
}

/// A mark that may end a sentence: `.`, `?` or `!` before white space and a word, or before another mark.
struct PossibleEnd {
    /// Where the word before the mark begins.
    word: usize,
    mark: usize,
    /// End of what the decision looks at after the mark.
    after: usize,
    /// Where the next word begins, when white space parts it from the mark.
    next_word: Option<usize>,
}

impl PossibleEnd {
    fn context(&self, text: &[char]) -> Vec<char> {
        text[self.word..self.after].to_vec()
    }
}

fn possible_ends(text: &[char]) -> Vec<PossibleEnd> {
    let mut ends: Vec<PossibleEnd> = Vec::new();
    let (mut word, mut searched) = (0, 0);
    for mark in (0..text.len()).filter(|&at| matches!(text[at], '.' | '?' | '!')) {
        let Some((after, next_word)) = look_after(text, mark) else {
            continue;
        };
        let space = (searched..mark)
            .rev()
            .find(|&at| is_ascii_space(text[at]))
            .filter(|&at| at > searched);
        if let Some(space) = space {
            word = space + 1;
        }
        // Marks of one word ("what?!") count once, the last of them.
        if ends.last().is_some_and(|last| last.mark > word) {
            ends.pop();
        }
        ends.push(PossibleEnd {
            word,
            mark,
            after,
            next_word,
        });
        searched = mark;
    }
    ends
}

/// End of what follows a mark and the start of the next word; `None` when the mark stands inside a word.
fn look_after(text: &[char], mark: usize) -> Option<(usize, Option<usize>)> {
    let next = *text.get(mark + 1)?;
    if is_non_word(next) {
        return Some((mark + 2, None));
    }
    let start = mark + 1 + text[mark + 1..].iter().take_while(|&&c| is_space(c)).count();
    let length = text[start..].iter().take_while(|&&c| !is_space(c)).count();
    (start > mark + 1 && length > 0).then_some((start + length, Some(start)))
}

/// Moves closing quotes and brackets from the start of a sentence to the end of the one before.
fn realign(text: &[char], pieces: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut aligned = Vec::with_capacity(pieces.len());
    let mut skip = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let start = piece.start + skip;
        let closing = pieces
            .get(index + 1)
            .and_then(|next| closing_marks(&text[next.clone()]).map(|c| (next, c)));
        if let Some((next, (marks, end))) = closing {
            aligned.push(start..next.start + marks);
            skip = end;
        } else {
            skip = 0;
            if start < piece.end {
                aligned.push(start..piece.end);
            }
        }
    }
    aligned
}

/// Length of the closing marks that begin `text`, and the same with the white space after them.
fn closing_marks(text: &[char]) -> Option<(usize, usize)> {
    let closers = text.iter().take_while(|c| is_closer(**c)).count();
    (1..=closers).find_map(|marks| {
        let rest = &text[marks..];
        let spaces = rest.iter().take_while(|&&c| is_space(c)).count();
        let ends = spaces > 0 || rest.starts_with(&['-', '-']) || rest.is_empty();
        ends.then_some((marks, marks + spaces))
    })
}

fn is_closer(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | ')' | ']' | '}' | '‘' | '’' | '“' | '”' | '«' | '»'
    )
}

/// Whether the word of a possible end really ends a sentence: a break before the last token of the context.
fn breaks(context: &[char]) -> bool {
    let tokens: Vec<String> = context.split(|&c| c == '\n').flat_map(words).collect();
    tokens.windows(2).any(|pair| ends_sentence(&pair[0], &pair[1]))
}

fn ends_sentence(token: &str, next: &str) -> bool {
    if matches!(token, "." | "?" | "!") {
        return true;
    }
    let Some(word) = token.strip_suffix('.').filter(|word| !word.ends_with('.')) else {
        return false;
    };
    if (is_initial(word) || is_number(word)) && not_a_starter(next) {
        return false;
    }
    let last_part = word.rsplit('-').next().unwrap_or(word);
    !is_abbreviation(word) && !is_abbreviation(last_part)
}

fn is_abbreviation(word: &str) -> bool {
    ABBREVIATIONS.binary_search(&word).is_ok()
}

fn is_initial(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| is_word(c) && !is_digit(c)) && letters.next().is_none()
}

/// Digits with `,`, `.` and `-` among them, after an optional sign and an optional `.` or `,`.
fn is_number(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let digits = unsigned.strip_prefix(['.', ',']).unwrap_or(unsigned);
    digits.starts_with(is_digit)
        && digits
            .chars()
            .all(|c| is_digit(c) || matches!(c, ',' | '.' | '-'))
}

/// Whether a sentence cannot begin with `next`: punctuation, or a word in lower case.
fn not_a_starter(next: &str) -> bool {
    if matches!(next, ";" | ":" | "," | "." | "!" | "?") {
        return true;
    }
    let word = next.strip_suffix('.').unwrap_or(next);
    next.starts_with(char::is_lowercase) && !LOWER_CASE_STARTERS.contains(&word)
}

/// Punkt's own tokens of one line: words with their full stops, runs of dots or hyphens, single marks.
fn words(line: &[char]) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < line.len() {
        if is_space(line[at]) {
            at += 1;
            continue;
        }
        let length = match multi_mark(line, at) {
            0 if starts_word(line[at]) => {
                let end = (at + 1..line.len())
                    .find(|&end| ends_token(line, end))
                    .unwrap_or(line.len());
                end - at
            }
            0 => 1,
            marks => marks,
        };
        tokens.push(line[at..at + length].iter().collect());
        at += length;
    }
    tokens
}

/// Length of `--`, `..` or `. . .` (and longer ones) at `at`; 0 when there is none.
fn multi_mark(line: &[char], at: usize) -> usize {
    let run = |mark| line[at..].iter().take_while(|c| **c == mark).count();
    let (hyphens, dots) = (run('-'), run('.'));
    if hyphens >= 2 {
        return hyphens;
    }
    if dots >= 2 {
        return dots;
    }
    let pairs = line[at..]
        .chunks_exact(2)
        .take_while(|pair| pair[0] == '.' && is_space(pair[1]))
        .count();
    // The run must end in a dot; what is left over after giving one pair back still counts from two pairs on.
    (2..=pairs)
        .rev()
        .find(|pairs| line.get(at + 2 * pairs) == Some(&'.'))
        .map_or(0, |pairs| 2 * pairs + 1)
}

fn starts_word(c: char) -> bool {
    !matches!(
        c,
        '(' | '"' | '`' | '{' | '[' | ':' | ';' | '&' | '#' | '*' | '@' | ')' | '}' | ']' | '-' | ','
    )
}

fn ends_token(line: &[char], end: usize) -> bool {
    let c = line[end];
    let hard =
        |at: usize| line.get(at).is_none_or(|&c| is_space(c) || is_non_word(c)) || multi_mark(line, at) > 0;
    hard(end) || (c == ',' && hard(end + 1))
}

/// Characters that cannot stand inside a word.
fn is_non_word(c: char) -> bool {
    matches!(
        c,
        ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[' | '?' | '!'
    ) || matches!(c, '‘' | '’' | '“' | '”' | '«' | '»')
}

fn is_ascii_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}
