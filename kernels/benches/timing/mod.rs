//! How the benches of this folder take time: the median and the fastest of repeated calls. On a machine shared with
//! others only the fastest says something about the code.

use std::time::{Duration, Instant};

/// Seconds per call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds {
    pub(crate) median: f64,
    pub(crate) fastest: f64,
}

/// Repeats `call` for at least `span` and 5 times, after one call that does not count. With `--busy` on the command
/// line the time is the calling thread's time on a core (Linux only; use `--threads 1`), which says more than the
/// clock on a machine whose cores are all taken.
pub(crate) fn time(span: Duration, mut call: impl FnMut()) -> Seconds {
    let busy = std::env::args().any(|argument| argument == "--busy");
    let origin = Instant::now();
    let now = || if busy { time_on_core() } else { origin.elapsed() };
    call();
    let begin = now();
    let mut calls = 1_u32;
    call();
    while busy && now() - begin < CLOCK_STEPS {
        call();
        calls += 1;
    }
    let mut seconds = Vec::new();
    let begin = now();
    while now() - begin < span || seconds.len() < 5 {
        let before = now();
        (0..calls).for_each(|_| call());
        seconds.push((now() - before).as_secs_f64() / f64::from(calls));
    }
    seconds.sort_by(f64::total_cmp);
    Seconds {
        median: seconds[seconds.len() / 2],
        fastest: seconds[0],
    }
}

/// The clock of a thread's time on a core moves in steps of some milliseconds: calls are taken together.
const CLOCK_STEPS: Duration = Duration::from_millis(40);

fn time_on_core() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("--busy needs Linux");
    let nanoseconds = stat
        .split_whitespace()
        .next()
        .and_then(|value| value.parse().ok());
    Duration::from_nanos(nanoseconds.expect("schedstat begins with the time on a core"))
}

/// The value after `name` on the command line, such as `2` for `--threads 2`.
pub(crate) fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

/// The processor: `--isa NAME` (as `MNEME_ISA`) and `--threads N`, by default the best and all cores.
pub(crate) fn cpu() -> kernels::Cpu {
    let threads = option("--threads").map(|value| value.parse().expect("--threads takes a number"));
    let isa = match option("--isa") {
        None => kernels::Isa::detect(),
        Some(name) => kernels::Isa::ALL
            .into_iter()
            .find(|isa| isa.name() == name)
            .expect("--isa takes a name"),
    };
    kernels::Cpu::with_isa(isa, threads).expect("the instruction set is available")
}
