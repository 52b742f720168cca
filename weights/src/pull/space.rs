//! Free space of a disk.

use std::path::Path;

/// Bytes an ordinary user may still write to the disk that holds `folder`; `None` where the system does not
/// tell.
#[cfg(unix)]
pub(super) fn available(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

/// Not asked on this system: a full disk shows itself when writing.
#[cfg(not(unix))]
pub(super) fn available(_: &Path) -> Option<u64> {
    None
}
