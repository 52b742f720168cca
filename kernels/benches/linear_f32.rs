//! Layers in single precision, weights of 32 and 16 bits, of all-MiniLM-L6-v2.
//!
//! Measured: `Cpu::linear_f32` in GMAC/s, median and fastest call of 0.3 s, weights warm. Not measured: bias,
//! attention, anything between the layers.
//!
//! Run with `cargo bench -p kernels --bench linear_f32 -- [THREADS]`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot be set up has nothing to report"
)]

use kernels::{BlockFormat, Cpu, F32Matrix, OutMode};

#[path = "support/time.rs"]
mod time;

use time::Clock;

/// `(n, k)`: q, k and v together, attention output, up, down.
const SHAPES: [(usize, usize); 4] = [(1152, 384), (384, 384), (1536, 384), (384, 1536)];
const FORMATS: [BlockFormat; 3] = [BlockFormat::F32, BlockFormat::F16, BlockFormat::Bf16];
const BATCHES: [usize; 5] = [1, 6, 32, 256, 2048];

fn main() {
    let threads = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok());
    let cpu = Cpu::new(threads).unwrap();
    println!("{}, {} threads, processor time", cpu.isa(), cpu.threads());
    let clock = Clock {
        processor_threads: Some(cpu.threads()),
    };
    for (n, k) in SHAPES {
        for (format, rows) in FORMATS
            .iter()
            .flat_map(|format| BATCHES.map(|rows| (*format, rows)))
        {
            let w = F32Matrix::from_blocks(format, n, k, &vec![0; n * format.row_bytes(k).unwrap()]).unwrap();
            let x: Vec<f32> = (0..rows * k).map(|at| (at % 17) as f32 - 8.0).collect();
            let mut out = vec![0.0; rows * n];
            let seconds = clock.time(|| cpu.linear_f32(&w, &x, &mut out, OutMode::Write));
            let [median, fastest] = seconds.map(|seconds| (rows * n * k) as f64 / seconds / 1e9);
            let format = format!("{format:?}");
            println!(
                "{n:>5}x{k:<5} {format:>5} {rows:>5} rows: median {median:>5.1}, fastest {fastest:>5.1} GMAC/s"
            );
        }
    }
}
