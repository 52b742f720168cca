//! Re-tiling of weights when a model is loaded.
//!
//! Measured: `Cpu::tile` of one 4864 x 896 (or 4864 x 1024 for super-blocks) matrix that lies in memory, in millions
//! of weights and gigabytes of source per second, medians over 0.3 s. Not measured: reading the file.
//!
//! Run with `cargo bench -p kernels --bench tile -- [THREADS]`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot be set up has nothing to report"
)]

use kernels::{BlockFormat, Cpu, TilePolicy};

#[path = "support/time.rs"]
mod time;

use time::Clock;

const N: usize = 4864;

fn main() {
    let threads = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok());
    let cpu = Cpu::new(threads).unwrap();
    println!("{}, {} threads", cpu.isa(), cpu.threads());
    let clock = Clock {
        processor_threads: Some(cpu.threads()),
    };
    for format in BlockFormat::ALL {
        let k = if format.block_len() == 256 { 1024 } else { 896 };
        // Zeroes cost what other weights cost, and are finite in every format.
        let bytes = vec![0_u8; N * format.row_bytes(k).unwrap()];
        for policy in [TilePolicy::Int8, TilePolicy::Native] {
            let [seconds, _] = clock.time(|| {
                std::hint::black_box(cpu.tile(format, (N, k), &bytes, policy).unwrap());
            });
            let weights = (N * k) as f64 / seconds / 1e6;
            let gigabytes = bytes.len() as f64 / seconds / 1e9;
            println!(
                "{:>5} {policy:?}: {weights:.0} M weights/s, {gigabytes:.2} GB/s",
                format!("{format:?}")
            );
        }
    }
}
