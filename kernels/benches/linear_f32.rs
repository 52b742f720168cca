//! Single-precision layers of all-MiniLM-L6-v2.
//!
//! Measured: `Cpu::linear_f32` in GMAC/s, median and fastest call of 0.3 s, weights warm. Not measured: bias,
//! attention, anything between the layers.
//!
//! Run with `cargo bench -p kernels --bench linear_f32 -- [THREADS]`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to report")]

use kernels::{Cpu, F32Matrix, OutMode};

#[path = "support/time.rs"]
mod time;

use time::Clock;

/// `(n, k)`: q, k and v together, attention output, up, down.
const SHAPES: [(usize, usize); 4] = [(1152, 384), (384, 384), (1536, 384), (384, 1536)];
const BATCHES: [usize; 5] = [1, 6, 32, 256, 2048];

fn main() {
    let threads = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let cpu = Cpu::new(threads).unwrap();
    println!("{}, {} threads, processor time", cpu.isa(), cpu.threads());
    let clock = Clock { processor_threads: Some(cpu.threads()) };
    for (n, k) in SHAPES {
        let values: Vec<f32> = (0..n * k).map(|at| (at % 31) as f32 - 15.0).collect();
        let w = F32Matrix::new(n, k, &values).unwrap();
        for rows in BATCHES {
            let x: Vec<f32> = (0..rows * k).map(|at| (at % 17) as f32 - 8.0).collect();
            let mut out = vec![0.0; rows * n];
            let seconds = clock.time(|| cpu.linear_f32(&w, &x, &mut out, OutMode::Write));
            let [median, fastest] = seconds.map(|seconds| (rows * n * k) as f64 / seconds / 1e9);
            println!("{n:>5}x{k:<5} {rows:>5} rows: median {median:>5.1}, fastest {fastest:>5.1} GMAC/s");
        }
    }
}
