//! The GPT-2 byte alphabet: how byte-level vocabularies write bytes as printable characters
//! (`bytes_to_unicode` in OpenAI's GPT-2 `encoder.py`).

/// Raw bytes of every token, in one buffer.
#[derive(Debug)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    /// Token `id` is `bytes[starts[id]..starts[id + 1]]`.
    starts: Vec<u32>,
}

impl TokenBytes {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            starts: vec![0],
        }
    }

    /// Appends the next token. Fails when all tokens together pass 4 GiB.
    pub(super) fn push(&mut self, token: impl IntoIterator<Item = u8>) -> Result<(), String> {
        self.bytes.extend(token);
        let end = u32::try_from(self.bytes.len()).map_err(|_| "vocabulary larger than 4 GiB".to_owned())?;
        self.starts.push(end);
        Ok(())
    }

    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = usize::try_from(id).ok()?;
        let (start, end) = (*self.starts.get(id)?, *self.starts.get(id + 1)?);
        self.bytes.get(start as usize..end as usize)
    }
}

/// The byte a character of the alphabet stands for; `None` for characters outside of it.
///
/// Printable Latin-1 characters stand for themselves; the other 68 bytes, in order, are U+0100 and up.
pub(super) fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x143 => {
            let index = u8::try_from(code - 0x100).ok()?;
            Some(match index {
                0..=0x20 => index,
                0x21..=0x42 => index - 0x21 + 0x7F,
                _ => 0xAD,
            })
        }
        _ => None,
    }
}

/// Bytes of a token written in the alphabet; `None` when a character is outside of it.
pub(super) fn decode(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_a_bijection_and_matches_gpt2() {
        let mut seen = [false; 256];
        for character in (0..0x200).filter_map(char::from_u32) {
            if let Some(byte) = byte_of(character) {
                assert!(
                    !std::mem::replace(&mut seen[usize::from(byte)], true),
                    "{byte} twice"
                );
            }
        }
        assert!(seen.iter().all(|&seen| seen));
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of('ł'), Some(0xA0));
        assert_eq!(byte_of('Ń'), Some(0xAD));
        assert_eq!(decode("ä½ł"), Some("你".as_bytes().to_vec()));
        assert_eq!(decode("中"), None);
    }

    #[test]
    fn token_bytes_are_found_by_id() {
        let mut table = TokenBytes::new();
        table.push(*b"ab").unwrap();
        table.push([]).unwrap();
        table.push(*b"c").unwrap();
        assert_eq!(table.get(0), Some(&b"ab"[..]));
        assert_eq!(table.get(1), Some(&b""[..]));
        assert_eq!(table.get(2), Some(&b"c"[..]));
        assert_eq!(table.get(3), None);
    }
}
