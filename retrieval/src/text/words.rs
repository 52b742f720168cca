//! Cutting text into words, whatever the script.

use std::borrow::Cow;

use unicode_normalization::char::decompose_canonical;
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Approximate model tokens of a text: a quarter of its characters.
pub(crate) fn token_estimate(text: &str) -> u32 {
    u32::try_from(text.chars().count() / 4).unwrap_or(u32::MAX)
}

/// Whether most of a text is questions: of its letters and digits, more stand in sentences that end in a question mark
/// than in others.
pub(crate) fn asks(text: &str) -> bool {
    let (mut asked, mut told, mut sentence) = (0usize, 0usize, 0usize);
    for c in text.chars() {
        match c {
            '?' | '？' | '؟' => asked += std::mem::take(&mut sentence),
            '.' | '!' | '。' | '！' | '\n' => told += std::mem::take(&mut sentence),
            c => sentence += usize::from(c.is_alphanumeric()),
        }
    }
    asked > told + sentence
}

/// Scripts written without spaces, and Hangul, whose words carry endings: indexed by pairs of characters.
fn is_paired(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF      // Thai, Lao
        | 0x1000..=0x109F    // Burmese
        | 0x1100..=0x11FF    // Hangul Jamo
        | 0x1780..=0x17FF    // Khmer
        | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF // kana
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF // Han
        | 0xAC00..=0xD7AF    // Hangul syllables
        | 0x20000..=0x3FFFF) // Han extensions
}

/// Combining marks that no composed letter holds are dropped.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F)
}

/// Pictures that are words by themselves. What only colours or joins them (skin tones, selectors, joiners) is none.
fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x2600..=0x27BF | 0x1F300..=0x1F3FA | 0x1F400..=0x1FAFF)
}

/// The words of a text in order: lower-case runs of letters and digits; runs of scripts without spaces as
/// overlapping pairs of characters, a lone character by itself; each emoji by itself. Of a web address its host and
/// path count, not its scheme, `www`, query or fragment.
pub(crate) fn words(text: &str) -> Vec<String> {
    let text: Cow<'_, str> = if is_nfc(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    };
    let mut words = Words::default();
    let mut rest = &*text;
    while let Some((before, address, after)) = split_address(rest) {
        words.take(before);
        words.take(address);
        rest = after;
    }
    words.take(rest);
    words.found
}

/// Splits at the first web address: what stands before it, its host and path, what follows.
fn split_address(text: &str) -> Option<(&str, &str, &str)> {
    let scheme = text.find("://").map(|at| {
        let start = text[..at]
            .trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '+')
            .len();
        (start, at + 3)
    });
    let bare = text.find("www.").map(|at| (at, at));
    let (start, host) = match (scheme, bare) {
        (Some(scheme), Some(bare)) => scheme.min(bare),
        (scheme, bare) => scheme.or(bare)?,
    };
    let address = &text[host..];
    let end = host + address.find(char::is_whitespace).unwrap_or(address.len());
    let host = host + if address.starts_with("www.") { 4 } else { 0 };
    let address = &text[host..end];
    let path = address.find(['?', '#']).unwrap_or(address.len());
    Some((&text[..start], &address[..path], &text[end..]))
}

#[derive(Default)]
struct Words {
    found: Vec<String>,
    word: String,
    run: Vec<char>,
}

impl Words {
    fn take(&mut self, text: &str) {
        for c in text.chars() {
            if is_paired(c) && c.is_alphanumeric() {
                self.end_word();
                self.run.push(c);
            } else if c.is_alphanumeric() {
                self.end_run();
                self.word.extend(c.to_lowercase().filter(|c| !is_mark(*c)));
            } else if !is_mark(c) {
                self.end_word();
                self.end_run();
                if is_emoji(c) {
                    self.found.push(c.to_string());
                }
            }
        }
        self.end_word();
        self.end_run();
    }

    fn end_word(&mut self) {
        if !self.word.is_empty() {
            self.found.push(std::mem::take(&mut self.word));
        }
    }

    fn end_run(&mut self) {
        if let [lone] = self.run[..] {
            self.found.push(lone.to_string());
        }
        let pairs = self.run.windows(2).map(|pair| pair.iter().collect::<String>());
        self.found.extend(pairs);
        self.run.clear();
    }
}

/// A word without the accents of its Latin and Greek letters: `café` and `cafe` are one. Letters of other scripts
/// stay as they are: in Russian й is no и.
pub(crate) fn fold(word: &mut String) {
    let has_accent = |c: char| matches!(u32::from(c), 0xC0..=0x24F | 0x370..=0x3FF | 0x1E00..=0x1FFF);
    if word.chars().any(has_accent) {
        let mut folded = String::with_capacity(word.len());
        for c in word.chars() {
            if has_accent(c) {
                decompose_canonical(c, |part| folded.extend(Some(part).filter(|part| !is_mark(*part))));
            } else {
                folded.push(c);
            }
        }
        *word = folded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_told_from_statements_that_end_in_one() {
        assert!(asks("What colour?") && asks("Oh! Which of them did you like best?") && asks("本当ですか？"));
        assert!(!asks(
            "I went to the zoo with the kids, it was great fun. And you?"
        ));
        assert!(!asks("") && !asks("?!") && !asks("Fine."));
    }

    #[test]
    fn words_of_many_scripts() {
        assert_eq!(
            words("Caroline's LGBTQ-group, 2023!"),
            ["caroline", "s", "lgbtq", "group", "2023"]
        );
        assert_eq!(words("私は黒猫 x"), ["私は", "は黒", "黒猫", "x"]);
        assert_eq!(words("猫"), ["猫"]);
        assert_eq!(words("Привет, мир"), ["привет", "мир"]);
        assert_eq!(words("ABC中文def"), ["abc", "中文", "def"]);
        assert!(words(" \u{200e}…").is_empty());
    }

    #[test]
    fn accents_are_one_however_they_are_written() {
        assert_eq!(words("cafe\u{301} au"), words("caf\u{e9} au"));
        assert_eq!(words("и\u{306}ог x\u{301}"), ["йог", "x"]);
        let folded = |word: &str| {
            let mut word = word.to_owned();
            fold(&mut word);
            word
        };
        let pairs = [("café", "cafe"), ("ångström", "angstrom"), ("phở", "pho")];
        for (word, expected) in pairs {
            assert_eq!(folded(word), expected);
        }
        assert_eq!(folded("τίποτα"), "τιποτα");
        assert_eq!(folded("йога"), "йога");
    }

    #[test]
    fn emoji_are_words() {
        assert_eq!(words("Happy birthday🎂🎂!"), ["happy", "birthday", "🎂", "🎂"]);
        assert_eq!(words("👍🏽 ❤\u{fe0f} 👩\u{200d}🔬"), ["👍", "❤", "👩", "🔬"]);
    }

    #[test]
    fn addresses_are_their_host_and_path() {
        assert_eq!(
            words("See https://www.example.com/cake-recipes/42?utm=x#top, it is good"),
            [
                "see", "example", "com", "cake", "recipes", "42", "it", "is", "good"
            ]
        );
        assert_eq!(
            words("www.mneme.org and ftp://a.b"),
            ["mneme", "org", "and", "a", "b"]
        );
        assert_eq!(words("1://"), Vec::<String>::new());
        assert_eq!(words("ratio 3://4 www."), ["ratio", "4"]);
    }
}
