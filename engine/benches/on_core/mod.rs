//! A clock for machines whose cores are all taken: the calling thread's time on a core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Bencher;

/// Measures `call` by the wall clock, or by the thread's time on a core when `MNEME_BENCH_ON_CORE` is set (Linux only;
/// says nothing of work on other threads).
pub(crate) fn measure<T>(bencher: &mut Bencher<'_>, mut call: impl FnMut() -> T) {
    let on_core = std::env::var_os("MNEME_BENCH_ON_CORE").is_some();
    let origin = Instant::now();
    let now = || if on_core { time_on_core() } else { origin.elapsed() };
    bencher.iter_custom(|iterations| {
        let before = now();
        (0..iterations).for_each(|_| drop(black_box(call())));
        now() - before
    });
}

/// Moves in steps of some milliseconds, so samples must be longer.
fn time_on_core() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat
        .split_whitespace()
        .next()
        .and_then(|value| value.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_else(|| panic!("MNEME_BENCH_ON_CORE needs Linux")))
}
