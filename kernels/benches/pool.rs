//! What a parallel region costs beside its work.
//!
//! Measured: an empty region of one task per thread, opened again at once (workers spin) and after a pause that puts
//! them to sleep; medians and fastest of 2000. Not measured: contention with other programs.
//!
//! Run with `cargo bench -p kernels --bench pool -- [THREADS]`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot be set up has nothing to report"
)]

use std::time::{Duration, Instant};

use kernels::ThreadPool;

const REGIONS: usize = 2000;

fn main() {
    let threads = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(2);
    let pool = ThreadPool::new(threads).unwrap();
    println!("{threads} threads");
    for pause in [0, 5, 20, 50, 1000].map(Duration::from_micros) {
        let mut all: Vec<Duration> = (0..REGIONS).map(|_| region(&pool, pause)).collect();
        all.sort();
        println!(
            "after {pause:>6.0?} idle: median {:.2?}, fastest {:.2?}, slowest 1 % {:.2?}",
            all[REGIONS / 2],
            all[0],
            all[REGIONS * 99 / 100]
        );
    }
}

fn region(pool: &ThreadPool, pause: Duration) -> Duration {
    if pause >= Duration::from_millis(1) {
        std::thread::sleep(pause);
    } else {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            std::hint::spin_loop();
        }
    }
    let begun = Instant::now();
    pool.run(pool.threads(), &|task| {
        std::hint::black_box(task);
    });
    begun.elapsed()
}
