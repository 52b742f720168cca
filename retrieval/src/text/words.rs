//! Cutting text into words, whatever the script.

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

/// Marks that belong to the letter before them and are dropped: `e` + U+0301 is `e`.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F)
}

/// The words of a text in order: lower-case runs of letters and digits; runs of scripts without spaces as
/// overlapping pairs of characters, a lone character by itself.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut run: Vec<char> = Vec::new();
    for c in text.chars() {
        if is_paired(c) && c.is_alphanumeric() {
            flush_word(&mut word, &mut words);
            run.push(c);
        } else if c.is_alphanumeric() {
            flush_run(&mut run, &mut words);
            word.extend(c.to_lowercase().filter(|c| !is_mark(*c)));
        } else if !is_mark(c) {
            flush_word(&mut word, &mut words);
            flush_run(&mut run, &mut words);
        }
    }
    flush_word(&mut word, &mut words);
    flush_run(&mut run, &mut words);
    words
}

fn flush_word(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

fn flush_run(run: &mut Vec<char>, words: &mut Vec<String>) {
    if let [lone] = run[..] {
        words.push(lone.to_string());
    }
    words.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
    run.clear();
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
        assert_eq!(words("Привет, мир 🙂"), ["привет", "мир"]);
        assert_eq!(words("cafe\u{301} au"), ["cafe", "au"]);
        assert_eq!(words("ABC中文def"), ["abc", "中文", "def"]);
        assert!(words(" \u{200e}…🙂 ").is_empty());
    }
}
