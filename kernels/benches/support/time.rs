//! How long a call takes.

#![expect(unsafe_code, reason = "asks the system for the time this process has had")]

use std::time::{Duration, Instant};

const TIME_PER_CASE: Duration = Duration::from_millis(300);

/// Which clock runs: the one on the wall, or the processor time of this process over the pool's threads, which says on
/// a busy machine what the wall would say on an idle one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Threads of the pool, for processor time.
    pub(crate) processor_threads: Option<usize>,
}

impl Clock {
    fn seconds(self) -> f64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let clock = match self.processor_threads {
            Some(_) => libc::CLOCK_PROCESS_CPUTIME_ID,
            None => libc::CLOCK_MONOTONIC,
        };
        // SAFETY: `time` is a timespec to be written.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        (time.tv_sec as f64 + time.tv_nsec as f64 / 1e9) / self.processor_threads.unwrap_or(1) as f64
    }

    /// Seconds a call takes: the median and the least of as many as fit 0.3 s, at least five.
    pub(crate) fn time(self, mut call: impl FnMut()) -> [f64; 2] {
        let mut seconds = Vec::new();
        let begun = Instant::now();
        call();
        while begun.elapsed() < TIME_PER_CASE || seconds.len() < 5 {
            let start = self.seconds();
            call();
            seconds.push(self.seconds() - start);
        }
        seconds.sort_by(f64::total_cmp);
        [seconds[seconds.len() / 2], seconds[0]]
    }
}
