//! The form of a tiled matrix on disk: a header of 64 bytes, then its bytes as they lie in memory.

use std::io::{self, Write};

use super::TiledMatrix;
use super::layout::{Layout, TileKind};
use crate::KernelError;
use crate::memory::{LINE, SharedBytes};

const MAGIC: [u8; 8] = *b"mnemetil";
/// Raised whenever the layout of tiles changes, or the kind a format becomes.
const VERSION: u32 = 2;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "tiles are read and cached as little-endian"
);

impl TiledMatrix {
    /// Bytes that [`TiledMatrix::write_to`] writes: a multiple of 64.
    #[must_use]
    pub fn cached_len(&self) -> usize {
        LINE + self.layout.bytes()
    }

    /// Writes the matrix in the form [`TiledMatrix::from_cache`] reads, header first, without padding around it.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        let mut header = Vec::with_capacity(LINE);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(code(self.layout.kind).to_le_bytes());
        header.extend((self.n as u64).to_le_bytes());
        header.extend((self.k as u64).to_le_bytes());
        header.extend(self.gain.to_le_bytes());
        header.resize(LINE, 0);
        writer.write_all(&header)?;
        writer.write_all(&self.bytes)
    }

    /// The matrix that begins at the first byte of `bytes`, which may go on with other data; nothing is copied. The
    /// caller answers for the content (a checksum of the file): only the header is checked here.
    ///
    /// # Errors
    /// [`KernelError::Cache`] when the bytes begin with something else, were written by another version, end too
    /// early, or do not begin at a multiple of 64 in memory.
    pub fn from_cache(bytes: &SharedBytes) -> Result<TiledMatrix, KernelError> {
        let refuse = |reason: String| Err(KernelError::Cache { reason });
        let Some((header, _)) = bytes.split_first_chunk::<LINE>() else {
            return refuse(format!(
                "expected a header of {LINE} bytes, received {}",
                bytes.len()
            ));
        };
        if header[..8] != MAGIC {
            return refuse("it does not begin with tiles".to_owned());
        }
        if word(header, 8) != VERSION {
            return refuse(format!(
                "expected version {VERSION}, received {}",
                word(header, 8)
            ));
        }
        if !bytes.as_ptr().addr().is_multiple_of(LINE) {
            return refuse(format!("it does not begin at a multiple of {LINE} bytes"));
        }
        let Some(kind) = TileKind::ALL
            .into_iter()
            .find(|kind| code(*kind) == word(header, 12))
        else {
            return refuse(format!("unknown kind of tile {}", word(header, 12)));
        };
        let (n, k, gain) = (
            long(header, 16),
            long(header, 24),
            f32::from_bits(word(header, 32)),
        );
        let cells = n
            .checked_next_multiple_of(super::COLUMNS)
            .and_then(|n| n.checked_mul(k));
        if cells.is_none_or(|cells| cells > isize::MAX as usize / 4) || !k.is_multiple_of(kind.unit()) {
            return refuse(format!("{n} x {k} is no shape of tiles"));
        }
        let layout = Layout::new(kind, n, k);
        let end = LINE + layout.bytes();
        if bytes.len() < end {
            return refuse(format!("expected {end} bytes, received {}", bytes.len()));
        }
        Ok(TiledMatrix {
            n,
            k,
            layout,
            gain,
            bytes: bytes.slice(LINE..end)?,
        })
    }
}

fn code(kind: TileKind) -> u32 {
    match kind {
        TileKind::Int8 => 1,
        TileKind::Int5 => 2,
        TileKind::Int4Min => 3,
        TileKind::Int4Super => 4,
        TileKind::Int6Super => 5,
    }
}

fn word(header: &[u8; LINE], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn long(header: &[u8; LINE], at: usize) -> usize {
    let long = u64::from(word(header, at)) | u64::from(word(header, at + 4)) << 32;
    usize::try_from(long).unwrap_or(usize::MAX)
}
