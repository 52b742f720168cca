//! What the machine can do at best, measured beside the kernels.

#![expect(unsafe_code, reason = "vector instructions found at run time")]

use kernels::{Cpu, HugeBuffer};

use crate::time::Clock;

const BUFFER_BYTES: usize = 320 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// 8-bit products per second on all threads, from registers alone.
pub(crate) fn products(cpu: &Cpu, clock: Clock) -> String {
    #[cfg(target_arch = "x86_64")]
    if cpu.isa() == kernels::Isa::Avx512Vnni {
        const ROUNDS: usize = 100_000;
        let pieces = 4 * cpu.threads();
        // SAFETY: a `Cpu` of this set exists only where the processor has it.
        let call = || cpu.pool().run(pieces, &|_| unsafe { dot_products(ROUNDS) });
        let [_, seconds] = clock.time(call);
        let macs = (pieces * ROUNDS * CHAINS * 64) as f64;
        return format!("{:.0} GMAC/s of 8-bit products", macs / seconds / 1e9);
    }
    format!("8-bit products of {} not probed", cpu.isa())
}

/// Chains of dependent instructions, enough to hide their latency.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot_products(rounds: usize) {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi32};

    let (a, b) = std::hint::black_box((_mm512_set1_epi32(0x0102_0304), _mm512_set1_epi32(0x0101_0101)));
    let mut sums = [_mm512_set1_epi32(0); CHAINS];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    std::hint::black_box(sums);
}

/// Gigabytes per second that all threads read together from memory.
pub(crate) fn memory(cpu: &Cpu, clock: Clock) -> f64 {
    let mut buffer = HugeBuffer::zeroed(BUFFER_BYTES).unwrap();
    buffer.fill(1);
    let [_, seconds] = clock.time(|| {
        cpu.pool().run(BUFFER_BYTES / PIECE_BYTES, &|index| {
            let piece = &buffer[index * PIECE_BYTES..(index + 1) * PIECE_BYTES];
            let mut sums = [0_u64; 16];
            for line in piece.as_chunks::<128>().0 {
                for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                    *sum ^= u64::from_ne_bytes(*word);
                }
            }
            std::hint::black_box(sums);
        });
    });
    BUFFER_BYTES as f64 / seconds / 1e9
}
