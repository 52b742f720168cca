//! Bounds-checked little-endian reads over the head of a GGUF file.

use std::ops::Range;

/// A read position in `bytes`; every read checks what is left.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// What a read reports; the caller adds the file's name.
pub(crate) type ReadResult<T> = Result<T, String>;

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Advances over `length` bytes and returns where they lie.
    pub(crate) fn skip(&mut self, length: u64, what: &str) -> ReadResult<Range<usize>> {
        let start = self.position;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| start.checked_add(length));
        match end {
            Some(end) if end <= self.bytes.len() => {
                self.position = end;
                Ok(start..end)
            }
            _ => Err(format!(
                "truncated: {what} at byte {start} needs {length} bytes, {} are left of {}",
                self.remaining(),
                self.bytes.len()
            )),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> ReadResult<[u8; N]> {
        let range = self.skip(N as u64, what)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[range]);
        Ok(out)
    }

    pub(crate) fn u8(&mut self, what: &str) -> ReadResult<u8> {
        self.array::<1>(what).map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self, what: &str) -> ReadResult<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, what: &str) -> ReadResult<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: &str) -> ReadResult<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string: u64 length, then that many bytes of UTF-8. Returns where the bytes lie.
    pub(crate) fn string(&mut self, what: &str) -> ReadResult<Range<usize>> {
        let length = self.u64(what)?;
        let range = self.skip(length, what)?;
        match std::str::from_utf8(&self.bytes[range.clone()]) {
            Ok(_) => Ok(range),
            Err(error) => Err(format!("{what} at byte {} is not UTF-8: {error}", range.start)),
        }
    }

    /// Like [`Self::string`], copied out.
    pub(crate) fn owned_string(&mut self, what: &str) -> ReadResult<String> {
        let range = self.string(what)?;
        Ok(String::from_utf8_lossy(&self.bytes[range]).into_owned())
    }
}
