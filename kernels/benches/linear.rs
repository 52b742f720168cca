//! Linear layers of Qwen2.5 0.5B and 1.5B at several batch sizes.
//!
//! Measured: `Cpu::quantize_rows` in values/s; `Cpu::linear` without it, in GMAC/s and in GB/s of weights, the median and the fastest call
//! of 0.3 s (on a busy machine only the fastest says something about the kernel); beside them the machine's peaks
//! from two probes run the same way. Weights are cycled through 320 MB, so that small batches
//! read memory and not the cache. Not measured: activations other than random ones, bias, other layers.
//!
//! Run with `cargo bench -p kernels --bench linear -- [--threads N] [--isa NAME] [--processor-time] [FILTER]`;
//! FILTER is part of a shape or kind, such as `896x4864` or `Int5`; processor time serves on a busy machine.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot be set up has nothing to report"
)]

use std::sync::Arc;

use kernels::{
    BlockFormat, Cpu, HugeBuffer, Isa, Linear, OutMode, QuantizedRows, SharedBytes, TilePolicy, TiledMatrix,
};

/// `(n, k)`: square, gate and up together, down; of the 0.5B, then of the 1.5B; the 0.5B's head.
const SHAPES: [(usize, usize); 7] = [
    (896, 896),
    (9728, 896),
    (896, 4864),
    (1536, 1536),
    (17920, 1536),
    (1536, 8960),
    (151_936, 896),
];
const BATCHES: [usize; 9] = [1, 2, 4, 8, 12, 16, 32, 128, 512];
const KINDS: [(BlockFormat, TilePolicy); 5] = [
    (BlockFormat::Q5_0, TilePolicy::Int8),
    (BlockFormat::Q5_0, TilePolicy::Native),
    (BlockFormat::Q4_1, TilePolicy::Native),
    (BlockFormat::Q4K, TilePolicy::Native),
    (BlockFormat::Q6K, TilePolicy::Native),
];
const CYCLED_BYTES: usize = 320 << 20;

#[path = "support/peak.rs"]
mod peak;
#[path = "support/time.rs"]
mod time;

use time::Clock;

struct Options {
    threads: Option<usize>,
    isa: Isa,
    processor_time: bool,
    filter: String,
}

fn main() {
    let options = options();
    let cpu = Cpu::with_isa(options.isa, options.threads).unwrap();
    let threads = cpu.threads();
    let clock = Clock {
        processor_threads: options.processor_time.then_some(threads),
    };
    println!("{}, {threads} threads", cpu.isa());
    println!(
        "peaks: {}; {:.1} GB/s of memory",
        peak::products(&cpu, clock),
        peak::memory(&cpu, clock)
    );
    for k in [896, 4864, 8960] {
        for rows in [1, 8, 512] {
            let x = activations(rows * k);
            let mut quantized = QuantizedRows::new();
            let [median, _] = clock.time(|| cpu.quantize_rows(&x, k, &mut quantized));
            println!(
                "quantize_rows {rows:>3} x {k}: {:.2} G values/s",
                x.len() as f64 / median / 1e9
            );
        }
    }
    println!("                                   median        fastest");
    println!("       n x k      kind  rows  GMAC/s   GB/s   GMAC/s   GB/s");
    for (n, k) in SHAPES {
        for (format, policy) in KINDS {
            if !k.is_multiple_of(format.block_len()) {
                continue;
            }
            let matrix = random_matrix(format, (n, k), policy, &cpu);
            if format!("{n}x{k} {:?}", matrix.kind()).contains(&options.filter) {
                shape(&cpu, clock, &matrix);
            }
        }
    }
}

fn options() -> Options {
    let mut options = Options {
        processor_time: false,
        threads: None,
        isa: Isa::from_env().unwrap(),
        filter: String::new(),
    };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => options.threads = Some(arguments.next().unwrap().parse().unwrap()),
            "--isa" => {
                let name = arguments.next().unwrap();
                options.isa = Isa::ALL.into_iter().find(|isa| isa.name() == name).unwrap();
            }
            "--processor-time" => options.processor_time = true,
            _ => options.filter = argument,
        }
    }
    options
}

fn shape(cpu: &Cpu, clock: Clock, matrix: &TiledMatrix) {
    let layers = copies(matrix);
    for rows in BATCHES {
        let x = activations(rows * matrix.k());
        let mut quantized = QuantizedRows::new();
        cpu.quantize_rows(&x, matrix.k(), &mut quantized);
        let mut out = vec![0.0; rows * matrix.n()];
        let mut next = layers.iter().cycle();
        let seconds = clock.time(|| {
            let layer = next.next().unwrap();
            cpu.linear(layer, &quantized, &mut out, OutMode::Write);
        });
        let name = format!("{}x{}", matrix.n(), matrix.k());
        let kind = format!("{:?}", matrix.kind());
        let rate = |amount: usize| seconds.map(|seconds| amount as f64 / seconds / 1e9);
        let [macs, fastest_macs] = rate(rows * matrix.n() * matrix.k());
        let [bytes, fastest_bytes] = rate(matrix.bytes());
        println!(
            "{name:>12} {kind:>9} {rows:>5} {macs:>7.1} {bytes:>6.1} {fastest_macs:>8.1} {fastest_bytes:>6.1}"
        );
    }
}

fn activations(len: usize) -> Vec<f32> {
    (0..len)
        .map(|at| (at * 7919 % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

fn random_matrix(format: BlockFormat, (n, k): (usize, usize), policy: TilePolicy, cpu: &Cpu) -> TiledMatrix {
    let mut bytes = vec![0_u8; n * format.row_bytes(k).unwrap()];
    let mut state = 42_u64;
    for byte in &mut bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    // Scales and minima are half-precision numbers: 0x2cXX is about 0.06 to 0.08.
    let halves: &[usize] = if format == BlockFormat::Q6K {
        &[208]
    } else if matches!(format, BlockFormat::Q4_1 | BlockFormat::Q4K) {
        &[0, 2]
    } else {
        &[0]
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        halves.iter().for_each(|half| block[half + 1] = 0x2c);
    }
    cpu.tile(format, (n, k), &bytes, policy).unwrap()
}

/// The matrix as often as it takes to leave no part of it in a cache when its turn comes again.
fn copies(matrix: &TiledMatrix) -> Vec<Linear> {
    let count = CYCLED_BYTES.div_ceil(matrix.bytes()).max(2);
    let stride = matrix.cached_len();
    let mut buffer = HugeBuffer::zeroed(count * stride).unwrap();
    for mut piece in buffer.chunks_exact_mut(stride) {
        matrix.write_to(&mut piece).unwrap();
    }
    let shared = SharedBytes::new(Arc::new(buffer));
    (0..count)
        .map(|copy| {
            let bytes = shared.slice(copy * stride..(copy + 1) * stride).unwrap();
            Linear::new(vec![TiledMatrix::from_cache(&bytes).unwrap()], None).unwrap()
        })
        .collect()
}
