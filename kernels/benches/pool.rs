//! What a parallel region costs beside its work.
//!
//! Measured: a region of 16 tasks that take 5 µs each, against 16 * 5 µs over the threads, opened again at once (workers
//! spin), and after pauses of which the longest puts workers to sleep; medians and fastest of 2000. Not measured:
//! memory, contention with other programs (on a busy machine only the fastest says something about the pool).
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
const TASKS: usize = 16;
const TASK: Duration = Duration::from_micros(5);

fn main() {
    let threads = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(2);
    let pool = ThreadPool::new(threads).unwrap();
    let ideal = TASK * u32::try_from(TASKS.div_ceil(threads)).unwrap();
    println!("{threads} threads, {TASKS} tasks of {TASK:?}, ideal {ideal:?}");
    for pause in [0, 5, 20, 1000].map(Duration::from_micros) {
        let mut all: Vec<Duration> = (0..REGIONS).map(|_| region(&pool, pause)).collect();
        all.sort();
        let (median, fastest) = (all[REGIONS / 2], all[0]);
        println!("after {pause:>4.0?} idle: median {median:>7.2?}, fastest {fastest:>7.2?}");
    }
}

fn region(pool: &ThreadPool, pause: Duration) -> Duration {
    if pause >= Duration::from_millis(1) {
        std::thread::sleep(pause)
    } else {
        spin(pause)
    }
    let begun = Instant::now();
    pool.run(TASKS, &|_| spin(TASK));
    begun.elapsed()
}

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
