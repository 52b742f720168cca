//! The Porter stemmer as NLTK's `PorterStemmer()` runs it by default (mode `NLTK_EXTENSIONS`).
//!
//! Neither Snowball's `porter` nor its `english` (Porter2) agrees with it: NLTK adds a pool of irregular
//! words, keeps `ie` in four-letter words, changes step 1c and runs step 2 twice after `alli`.
//! M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980; NLTK `nltk/stem/porter.py`.

/// Words that NLTK answers from a table.
const IRREGULAR: [(&str, &str); 16] = [
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// What the stem before a suffix must satisfy. `Measure(n)`: Porter's m is at least n.
#[derive(Clone, Copy)]
enum Condition {
    Always,
    Measure(usize),
    /// m is at least 2 and the stem ends in `s` or `t`.
    AfterSOrT,
    /// m of the stem together with the `l` of `logi` is at least 1.
    Logi,
}

type Rule = (&'static str, &'static str, Condition);

const STEP_1A: [Rule; 4] = [
    ("sses", "ss", Condition::Always),
    ("ies", "i", Condition::Always),
    ("ss", "ss", Condition::Always),
    ("s", "", Condition::Always),
];

const STEP_2: [Rule; 22] = [
    ("ational", "ate", Condition::Measure(1)),
    ("tional", "tion", Condition::Measure(1)),
    ("enci", "ence", Condition::Measure(1)),
    ("anci", "ance", Condition::Measure(1)),
    ("izer", "ize", Condition::Measure(1)),
    ("bli", "ble", Condition::Measure(1)),
    ("alli", "al", Condition::Measure(1)),
    ("entli", "ent", Condition::Measure(1)),
    ("eli", "e", Condition::Measure(1)),
    ("ousli", "ous", Condition::Measure(1)),
    ("ization", "ize", Condition::Measure(1)),
    ("ation", "ate", Condition::Measure(1)),
    ("ator", "ate", Condition::Measure(1)),
    ("alism", "al", Condition::Measure(1)),
    ("iveness", "ive", Condition::Measure(1)),
    ("fulness", "ful", Condition::Measure(1)),
    ("ousness", "ous", Condition::Measure(1)),
    ("aliti", "al", Condition::Measure(1)),
    ("iviti", "ive", Condition::Measure(1)),
    ("biliti", "ble", Condition::Measure(1)),
    ("fulli", "ful", Condition::Measure(1)),
    ("logi", "log", Condition::Logi),
];

const STEP_3: [Rule; 7] = [
    ("icate", "ic", Condition::Measure(1)),
    ("ative", "", Condition::Measure(1)),
    ("alize", "al", Condition::Measure(1)),
    ("iciti", "ic", Condition::Measure(1)),
    ("ical", "ic", Condition::Measure(1)),
    ("ful", "", Condition::Measure(1)),
    ("ness", "", Condition::Measure(1)),
];

const STEP_4: [Rule; 19] = [
    ("al", "", Condition::Measure(2)),
    ("ance", "", Condition::Measure(2)),
    ("ence", "", Condition::Measure(2)),
    ("er", "", Condition::Measure(2)),
    ("ic", "", Condition::Measure(2)),
    ("able", "", Condition::Measure(2)),
    ("ible", "", Condition::Measure(2)),
    ("ant", "", Condition::Measure(2)),
    ("ement", "", Condition::Measure(2)),
    ("ment", "", Condition::Measure(2)),
    ("ent", "", Condition::Measure(2)),
    ("ion", "", Condition::AfterSOrT),
    ("ou", "", Condition::Measure(2)),
    ("ism", "", Condition::Measure(2)),
    ("ate", "", Condition::Measure(2)),
    ("iti", "", Condition::Measure(2)),
    ("ous", "", Condition::Measure(2)),
    ("ive", "", Condition::Measure(2)),
    ("ize", "", Condition::Measure(2)),
];

/// The stem of one word; the word is lower-cased first. Words of one or two characters stay as they are.
///
/// Equal to NLTK 3.10's `PorterStemmer().stem(word)` for every word without `*`.
#[must_use]
pub fn porter_stem(word: &str) -> String {
    let lower = word.to_lowercase();
    if let Some((_, stem)) = IRREGULAR.iter().find(|(form, _)| *form == lower) {
        return (*stem).to_owned();
    }
    if word.chars().count() <= 2 {
        return lower;
    }
    let mut stem: Vec<char> = lower.chars().collect();
    step_1a(&mut stem);
    step_1b(&mut stem);
    step_1c(&mut stem);
    step_2(&mut stem);
    apply(&mut stem, &STEP_3);
    apply(&mut stem, &STEP_4);
    step_5a(&mut stem);
    step_5b(&mut stem);
    stem.into_iter().collect()
}

fn step_1a(word: &mut Vec<char>) {
    if word.len() == 4 && ends_with(word, "ies") {
        word.pop();
    } else {
        apply(word, &STEP_1A);
    }
}

fn step_1b(word: &mut Vec<char>) {
    if ends_with(word, "ied") {
        let keep = if word.len() == 4 { 1 } else { 2 };
        word.truncate(word.len() - keep);
        return;
    }
    if ends_with(word, "eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            word.pop();
        }
        return;
    }
    let stem = ["ed", "ing"].iter().find_map(|suffix| {
        let length = word.len().checked_sub(suffix.len())?;
        (ends_with(word, suffix) && contains_vowel(&word[..length])).then_some(length)
    });
    if let Some(length) = stem {
        word.truncate(length);
        restore_ending(word);
    }
}

/// Mends the stem that `ed` or `ing` left: `conflat` to `conflate`, `hopp` to `hop`, `fil` to `file`.
fn restore_ending(stem: &mut Vec<char>) {
    if ["at", "bl", "iz"].iter().any(|ending| ends_with(stem, ending)) {
        stem.push('e');
    } else if ends_double_consonant(stem) {
        if !matches!(stem.last(), Some('l' | 's' | 'z')) {
            stem.pop();
        }
    } else if measure(stem) == 1 && ends_consonant_vowel_consonant(stem) {
        stem.push('e');
    }
}

fn step_1c(word: &mut [char]) {
    if let [stem @ .., last @ 'y'] = word
        && stem.len() > 1
        && consonants(stem).last() == Some(&true)
    {
        *last = 'i';
    }
}

fn step_2(word: &mut Vec<char>) {
    if ends_with(word, "alli") && measure(&word[..word.len() - 4]) > 0 {
        word.truncate(word.len() - 2);
    }
    apply(word, &STEP_2);
}

fn step_5a(word: &mut Vec<char>) {
    if let [stem @ .., 'e'] = word.as_slice() {
        let measure = measure(stem);
        if measure > 1 || (measure == 1 && !ends_consonant_vowel_consonant(stem)) {
            word.pop();
        }
    }
}

fn step_5b(word: &mut Vec<char>) {
    if ends_with(word, "ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
}

/// Applies the first rule whose suffix the word has; when its condition fails no other rule is tried.
fn apply(word: &mut Vec<char>, rules: &[Rule]) {
    let Some((suffix, replacement, condition)) = rules.iter().find(|(suffix, ..)| ends_with(word, suffix))
    else {
        return;
    };
    let length = word.len() - suffix.len();
    let stem = &word[..length];
    let holds = match condition {
        Condition::Always => true,
        Condition::Measure(least) => measure(stem) >= *least,
        Condition::AfterSOrT => measure(stem) >= 2 && matches!(stem.last(), Some('s' | 't')),
        Condition::Logi => measure(&word[..length + 1]) >= 1,
    };
    if holds {
        word.truncate(length);
        word.extend(replacement.chars());
    }
}

/// Suffixes are ASCII, so that their bytes are their characters.
fn ends_with(word: &[char], suffix: &str) -> bool {
    word.len() >= suffix.len()
        && word[word.len() - suffix.len()..]
            .iter()
            .copied()
            .eq(suffix.chars())
}

/// For each letter whether it is a consonant; `y` is one at the start and after a vowel.
fn consonants(word: &[char]) -> Vec<bool> {
    let mut flags = Vec::with_capacity(word.len());
    for letter in word {
        let flag = match letter {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => !flags.last().copied().unwrap_or(false),
            _ => true,
        };
        flags.push(flag);
    }
    flags
}

/// Porter's m: how often a vowel is followed by a consonant.
fn measure(stem: &[char]) -> usize {
    consonants(stem)
        .windows(2)
        .filter(|pair| !pair[0] && pair[1])
        .count()
}

fn contains_vowel(stem: &[char]) -> bool {
    consonants(stem).contains(&false)
}

fn ends_double_consonant(word: &[char]) -> bool {
    matches!(word, [.., a, b] if a == b) && consonants(word).last() == Some(&true)
}

/// Porter's *o: ends consonant, vowel, consonant, the last not `w`, `x` or `y`; NLTK adds two-letter words
/// of a vowel and a consonant.
fn ends_consonant_vowel_consonant(word: &[char]) -> bool {
    match consonants(word).as_slice() {
        [.., true, false, true] => !matches!(word.last(), Some('w' | 'x' | 'y')),
        [false, true] => true,
        _ => false,
    }
}
