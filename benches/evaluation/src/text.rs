//! Python's notions of white space, digits and word characters, on which the official scorers rest.

/// The first of each run of ten decimal digits in Unicode 14 (category Nd), beside the ASCII ones.
const DIGIT_RUNS: [u32; 65] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0,
    0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50,
    0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140,
    0x1e2f0, 0x1e950, 0x1fbf0,
];

/// `\s` and `str.isspace`: Unicode white space and the four ASCII separators 1C to 1F.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `\d`: a decimal digit of any script.
pub(crate) fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
        || (!c.is_ascii()
            && DIGIT_RUNS
                .iter()
                .any(|&run| (run..run + 10).contains(&u32::from(c))))
}

/// `\w` of Python's `regex`, which LoCoMo's scorer and NLTK use: letters, decimal digits, marks, connectors like `_`.
///
/// Marks are those of the general combining blocks and of any alphabet; a virama of an Indic script is none here.
pub(crate) fn is_word(c: char) -> bool {
    let is_mark = matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20f0}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{e0100}'..='\u{e01ef}');
    let is_connector = matches!(c, '_' | '\u{203f}' | '\u{2040}' | '\u{2054}' | '\u{ff3f}');
    let is_joiner = matches!(c, '\u{200c}' | '\u{200d}');
    c.is_alphabetic() || is_digit(c) || is_mark || is_connector || is_joiner
}

/// `\w` of Python's own `re`, which NLTK uses for contractions: letters and numbers of every kind, and `_`.
pub(crate) fn is_letter_or_number(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `str.split()`: the pieces between runs of white space, none of them empty.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|piece| !piece.is_empty())
}
