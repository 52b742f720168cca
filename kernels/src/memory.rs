#![expect(
    unsafe_code,
    reason = "reserves page-aligned memory and asks the kernel for huge pages"
)]

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::KernelError;

/// A huge page of x86-64 and of most ARM systems. Weights begin on one.
const HUGE_PAGE: usize = 2 << 20;

/// A cache line; sections of tiles begin on one.
pub(crate) const LINE: usize = 64;

/// Zeroed bytes, aligned to 64 bytes, and to 2 MiB with huge pages asked for when that large. Pages are touched by
/// whoever writes them first.
pub struct HugeBuffer {
    start: NonNull<u8>,
    len: usize,
    mapping: Mapping,
}

/// What to give back on drop.
enum Mapping {
    Nothing,
    #[cfg(target_os = "linux")]
    Pages {
        start: NonNull<u8>,
        len: usize,
    },
    Heap(std::alloc::Layout),
}

// SAFETY: the buffer owns its memory and has no interior mutability.
unsafe impl Send for HugeBuffer {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for HugeBuffer {}

impl HugeBuffer {
    /// `len` bytes of zeroes.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`] when the system refuses.
    pub fn zeroed(len: usize) -> Result<HugeBuffer, KernelError> {
        if len == 0 {
            return Ok(HugeBuffer {
                start: NonNull::dangling(),
                len,
                mapping: Mapping::Nothing,
            });
        }
        #[cfg(target_os = "linux")]
        if len >= HUGE_PAGE {
            return map_pages(len);
        }
        let out_of_memory = KernelError::OutOfMemory { bytes: len };
        let align = if len >= HUGE_PAGE { HUGE_PAGE } else { LINE };
        let Ok(layout) = std::alloc::Layout::from_size_align(len, align) else {
            return Err(out_of_memory);
        };
        // SAFETY: `len` is not 0.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(out_of_memory)?;
        Ok(HugeBuffer {
            start,
            len,
            mapping: Mapping::Heap(layout),
        })
    }
}

#[cfg(target_os = "linux")]
fn map_pages(len: usize) -> Result<HugeBuffer, KernelError> {
    let out_of_memory = KernelError::OutOfMemory { bytes: len };
    let Some(mapped) = len
        .checked_add(2 * HUGE_PAGE)
        .map(|bytes| bytes & !(HUGE_PAGE - 1))
    else {
        return Err(out_of_memory);
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(out_of_memory);
    }
    let whole = NonNull::new(address.cast::<u8>()).ok_or(out_of_memory)?;
    let skip = whole.as_ptr().align_offset(HUGE_PAGE);
    // SAFETY: `skip` is below one huge page and the mapping is at least that much longer than `len`.
    let start = unsafe { whole.add(skip) };
    // SAFETY: the range lies within the mapping. A refusal leaves ordinary pages, which is only slower.
    unsafe { libc::madvise(start.as_ptr().cast(), mapped - HUGE_PAGE, libc::MADV_HUGEPAGE) };
    Ok(HugeBuffer {
        start,
        len,
        mapping: Mapping::Pages {
            start: whole,
            len: mapped,
        },
    })
}

impl Drop for HugeBuffer {
    fn drop(&mut self) {
        match self.mapping {
            Mapping::Nothing => {}
            #[cfg(target_os = "linux")]
            // SAFETY: exactly what `mmap` returned, and nothing refers to it any more.
            Mapping::Pages { start, len } => unsafe {
                libc::munmap(start.as_ptr().cast(), len);
            },
            // SAFETY: allocated with this layout.
            Mapping::Heap(layout) => unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) },
        }
    }
}

impl Deref for HugeBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised (zeroed) bytes for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for HugeBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for HugeBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for HugeBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HugeBuffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A range of bytes somebody else owns (a mapped file, a buffer), kept alive by reference counting.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedBytes {
    /// All of `owner`'s bytes. The owner must return the same bytes each time it is asked.
    #[must_use]
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> SharedBytes {
        let range = 0..(*owner).as_ref().len();
        SharedBytes { owner, range }
    }

    /// The bytes of `range`, counted from the start of these bytes, with the same owner.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when the range ends beyond them or before it begins.
    pub fn slice(&self, range: Range<usize>) -> Result<SharedBytes, KernelError> {
        if range.end > self.range.len() || range.start > range.end {
            let what = "end of a range of shared bytes";
            return Err(KernelError::Shape {
                what,
                expected: self.range.len(),
                received: range.end,
            });
        }
        let range = self.range.start + range.start..self.range.start + range.end;
        Ok(SharedBytes {
            owner: Arc::clone(&self.owner),
            range,
        })
    }
}

impl From<HugeBuffer> for SharedBytes {
    fn from(buffer: HugeBuffer) -> SharedBytes {
        SharedBytes::new(Arc::new(buffer))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SharedBytes")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_aligned_and_writable() {
        for len in [0, 1, 4097, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5] {
            let mut buffer = HugeBuffer::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|byte| *byte == 0));
            let align = if len >= HUGE_PAGE { HUGE_PAGE } else { LINE };
            assert!(
                len == 0 || buffer.as_ptr().addr().is_multiple_of(align),
                "{len} bytes"
            );
            buffer.fill(7);
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        for bytes in [usize::MAX, usize::MAX / 2] {
            assert!(matches!(
                HugeBuffer::zeroed(bytes),
                Err(KernelError::OutOfMemory { .. })
            ));
        }
    }

    #[test]
    fn shared_bytes_are_cut_within_bounds() {
        let shared = SharedBytes::new(Arc::new((0..10).collect::<Vec<u8>>()));
        let middle = shared.slice(2..8).unwrap();
        assert_eq!(&middle[..], &[2, 3, 4, 5, 6, 7]);
        assert_eq!(&middle.slice(1..3).unwrap()[..], &[3, 4]);
        assert!(middle.slice(3..7).is_err());
        #[expect(clippy::reversed_empty_ranges, reason = "the case under test")]
        let reversed = middle.slice(4..3);
        assert!(reversed.is_err());
    }
}
