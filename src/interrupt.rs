//! Ctrl-C: the first ends the work in good order, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The flag that the first Ctrl-C sets. Listens from the first call on.
pub(crate) fn flag() -> Result<&'static AtomicBool> {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::Relaxed) {
        return Ok(&INTERRUPTED);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot listen for Ctrl-C")?;
    std::thread::spawn(move || {
        while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        }
    });
    Ok(&INTERRUPTED)
}
