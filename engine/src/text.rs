//! From token bytes to text, piece by piece: whole characters only, stop texts cut.
//!
//! Knows bytes and stop texts; does not know tokenizers, requests or channels.

use engine_contract::EngineError;

/// The text of one reply while its tokens arrive.
///
/// Bytes that do not yet form a whole character are held back; bytes that never will become U+FFFD,
/// exactly as [`String::from_utf8_lossy`] of the whole reply would give. Text that may be the beginning
/// of a stop text is held back too, so that nothing of a stop text is ever shown.
///
/// The stop text that *ends* first in the reply wins, the longest one among those that end together:
/// the result does not depend on how the text is cut into tokens.
#[derive(Debug)]
pub struct TextStream {
    stops: Vec<String>,
    /// Bytes that are the beginning of a character.
    partial: Vec<u8>,
    /// Everything decoded so far; after a stop, cut before it.
    text: String,
    /// Bytes of `text` already handed out.
    shown: usize,
    /// Bytes of `text` already searched for stop texts.
    searched: usize,
    stopped: bool,
}

impl TextStream {
    /// A stream that ends at any of these texts.
    ///
    /// # Errors
    /// [`EngineError::InvalidRequest`] when a stop text is empty.
    pub fn new(stops: &[String]) -> Result<Self, EngineError> {
        if let Some(index) = stops.iter().position(String::is_empty) {
            return Err(EngineError::InvalidRequest {
                field: "stop",
                received: format!("an empty text at index {index}"),
                expected: "texts of at least one character".into(),
            });
        }
        Ok(Self {
            stops: stops.to_vec(),
            partial: Vec::new(),
            text: String::new(),
            shown: 0,
            searched: 0,
            stopped: false,
        })
    }

    /// Takes the bytes of the next token and returns the text that became certain, often empty. After a stop
    /// text, further bytes are ignored.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        if !self.stopped {
            self.decode(bytes, false);
            self.search();
        }
        self.show(self.certain())
    }

    /// Ends the reply and returns the text held back so far; a cut character becomes U+FFFD.
    pub fn finish(&mut self) -> &str {
        if !self.stopped {
            self.decode(&[], true);
            self.search();
        }
        self.show(self.text.len())
    }

    /// Whether a stop text has been met.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The reply so far, without the stop text; text held back is part of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The reply, without the stop text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    fn show(&mut self, end: usize) -> &str {
        let start = self.shown;
        self.shown = end;
        &self.text[start..end]
    }

    /// Appends whole characters to `text`; at the `end` of the reply the rest becomes U+FFFD.
    fn decode(&mut self, bytes: &[u8], end: bool) {
        self.partial.extend_from_slice(bytes);
        let mut rest = self.partial.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    self.text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(valid));
                    rest = broken;
                    let Some(length) = error.error_len().or(end.then_some(broken.len())) else {
                        break;
                    };
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        let consumed = self.partial.len() - rest.len();
        self.partial.drain(..consumed);
    }

    /// Looks for the stop text that ends first within the unsearched text, and cuts there.
    fn search(&mut self) {
        if self.stops.is_empty() {
            self.searched = self.text.len();
            return;
        }
        for end in self.searched + 1..=self.text.len() {
            let head = &self.text.as_bytes()[..end];
            let stop = self
                .stops
                .iter()
                .filter(|stop| head.ends_with(stop.as_bytes()))
                .map(String::len)
                .max();
            if let Some(length) = stop {
                // A stop text found at `end` begins at or after `shown`: its beginning was held back.
                self.text.truncate(end - length);
                self.stopped = true;
                break;
            }
        }
        self.searched = self.text.len();
    }

    /// Bytes of `text` that no stop text can still claim.
    fn certain(&self) -> usize {
        if self.stopped {
            return self.text.len();
        }
        let text = self.text.as_bytes();
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let earliest = (text.len() + 1).saturating_sub(longest).max(self.shown);
        (earliest..text.len())
            .find(|&start| {
                self.text.is_char_boundary(start)
                    && self
                        .stops
                        .iter()
                        .any(|stop| stop.as_bytes().starts_with(&text[start..]))
            })
            .unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stops(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    fn run(pieces: &[&[u8]], stop: &[&str]) -> (Vec<String>, String, bool) {
        let mut stream = TextStream::new(&stops(stop)).unwrap();
        let mut shown: Vec<String> = pieces.iter().map(|p| stream.push(p).to_owned()).collect();
        shown.push(stream.finish().to_owned());
        let stopped = stream.stopped();
        (shown, stream.into_text(), stopped)
    }

    #[test]
    fn characters_wait_for_their_last_byte() {
        let bytes = "a😀é".as_bytes();
        let (shown, text, _) = run(&[&bytes[..2], &bytes[2..4], &bytes[4..6], &bytes[6..]], &[]);
        assert_eq!(shown, ["a", "", "😀", "é", ""]);
        assert_eq!(text, "a😀é");
    }

    #[test]
    fn a_cut_character_becomes_one_replacement_at_the_end() {
        let (shown, _, _) = run(&[&"😀".as_bytes()[..3]], &[]);
        assert_eq!(shown, ["", "\u{fffd}"]);
    }

    #[test]
    fn a_stop_text_over_token_borders_is_never_shown() {
        let (shown, text, stopped) = run(&[b"one\n", b"\nQu", b"estion: two"], &["\n\nQuestion:"]);
        assert_eq!(shown, ["one", "", "", ""]);
        assert_eq!(text, "one");
        assert!(stopped);
    }

    #[test]
    fn held_text_is_released_when_no_stop_text_follows() {
        let (shown, text, stopped) = run(&[b"one\n", b"\nQu", b"iet"], &["\n\nQuestion:"]);
        assert_eq!(shown, ["one", "", "\n\nQuiet", ""]);
        assert_eq!(text, "one\n\nQuiet");
        assert!(!stopped);
    }

    #[test]
    fn the_stop_text_that_ends_first_wins() {
        let (_, text, _) = run(&[b"xabcd"], &["abcd", "bc"]);
        assert_eq!(text, "xa");
        let (_, text, _) = run(&[b"xabc"], &["c", "abc"]);
        assert_eq!(text, "x");
    }

    #[test]
    fn an_empty_stop_text_is_refused() {
        let error = TextStream::new(&stops(&["a", ""])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: stop is an empty text at index 1, expected texts of at least one character"
        );
    }

    /// The obvious twin: decode everything, then try every end position.
    fn twin(bytes: &[u8], stops: &[String]) -> (String, bool) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let longest = stops
                .iter()
                .filter(|stop| text[..end].ends_with(*stop))
                .map(String::len)
                .max();
            if let Some(length) = longest {
                return (text[..end - length].to_owned(), true);
            }
        }
        (text, false)
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[ab]{0,3}".prop_map(String::into_bytes),
            Just("é".as_bytes().to_vec()),
            Just("漢字".as_bytes().to_vec()),
            Just("😀".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..3),
        ]
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            parts in proptest::collection::vec(piece(), 0..12),
            stops in proptest::collection::vec("[abé😀]{1,4}", 0..3),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = parts.concat();
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut stream = TextStream::new(&stops).unwrap();
            let (mut shown, mut start) = (String::new(), 0);
            for end in ends {
                shown.push_str(stream.push(&bytes[start..end]));
                start = end;
            }
            shown.push_str(stream.finish());
            let (text, stopped) = twin(&bytes, &stops);
            prop_assert_eq!(stream.stopped(), stopped);
            prop_assert_eq!(&shown, &text);
            prop_assert_eq!(stream.into_text(), text);
        }
    }
}
