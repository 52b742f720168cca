//! Sixteen `f32` lanes, whatever the processor calls them. A kernel is written once, generic over [`Simd`], and
//! compiled for every instruction set; each lane's arithmetic is the same wherever fused multiply-add exists, so AVX2,
//! AVX-512 and NEON give the same bits. It does not know what is computed.

#![expect(
    unsafe_code,
    reason = "enters code compiled for an instruction set that was detected at run time"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use crate::{Cpu, Isa};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Values of one vector in memory.
pub(crate) type Lanes = [f32; LANES];

/// An instruction set, as proof that the processor has it. Everything is inlined into the function that was compiled
/// for the set: implementations, and all code generic over this trait, carry `#[inline(always)]`.
pub(crate) trait Simd: Copy {
    /// Sixteen lanes.
    type V: Copy;

    /// Vectors of sums that fit the registers beside one vector of data and one of a repeated value; at most 12.
    const ACCUMULATORS: usize;
    /// Rows and columns, in vectors, of sums that fit beside one row of data.
    const SUMS: (usize, usize);

    fn splat(self, value: f32) -> Self::V;
    fn load(self, values: &Lanes) -> Self::V;
    fn store(self, v: Self::V, values: &mut Lanes);
    /// Half-precision bit patterns, widened.
    fn load_f16(self, bits: &[u16; LANES]) -> Self::V;
    /// Rounds to nearest even; values beyond ±65504 become ±65504.
    fn store_f16(self, v: Self::V, bits: &mut [u16; LANES]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger; `b` where either is not a number.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` where either is not a number.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the processor can.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The nearest integer, even at ties, for `|v| < 2^22`.
    fn round(self, v: Self::V) -> Self::V;
    /// `v * 2^n` for whole `n` from -126 to 128.
    fn times_pow2(self, v: Self::V, n: Self::V) -> Self::V;
    /// `v` where `x >= bound`, 0 elsewhere.
    fn zero_below(self, v: Self::V, x: Self::V, bound: f32) -> Self::V;
    /// Lanes below `n` of `v`, the others of `other`.
    fn first(self, n: usize, v: Self::V, other: Self::V) -> Self::V;
    fn reduce_max(self, v: Self::V) -> f32;
    /// Asks for the line at the begin of `values` to be brought to the second-level cache.
    fn prefetch<T>(self, values: &[T]);

    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(0.0)
    }

    #[inline(always)]
    fn to_lanes(self, v: Self::V) -> Lanes {
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        lanes
    }

    /// The sum of the lanes, by halves: the same order for every instruction set.
    #[inline(always)]
    fn reduce_sum(self, v: Self::V) -> f32 {
        let lanes = self.to_lanes(v);
        let eight: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
        let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    }

    /// At most sixteen values, `fill` in the lanes beyond.
    #[inline(always)]
    fn load_partial(self, values: &[f32], fill: f32) -> Self::V {
        match values.first_chunk() {
            Some(lanes) => self.load(lanes),
            None => {
                let mut lanes = [fill; LANES];
                lanes[..values.len()].copy_from_slice(values);
                self.load(&lanes)
            }
        }
    }

    /// Writes as many lanes as there are values, at most sixteen.
    #[inline(always)]
    fn store_partial(self, v: Self::V, values: &mut [f32]) {
        match values.first_chunk_mut() {
            Some(lanes) => self.store(v, lanes),
            None => {
                let len = values.len();
                values.copy_from_slice(&self.to_lanes(v)[..len]);
            }
        }
    }
}

/// A computation that can be compiled for any instruction set. Implementations mark `run` `#[inline(always)]`.
pub(crate) trait Kernel {
    type Output;

    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Cpu {
    /// Runs a kernel in the version for this processor, on the caller's thread.
    #[inline]
    pub(crate) fn dispatch<K: Kernel>(&self, kernel: K) -> K::Output {
        match self.isa() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Cpu` is made only with an instruction set that was detected.
            Isa::Avx512Vnni => unsafe { run_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { run_avx2(kernel) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Isa::Neon => unsafe { run_neon(kernel) },
            _ => kernel.run(portable::Portable),
        }
    }
}

/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller's obligation is the same.
    kernel.run(unsafe { avx512::Avx512::new() })
}

/// # Safety
/// The processor has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller's obligation is the same.
    kernel.run(unsafe { avx2::Avx2::new() })
}

/// # Safety
/// The processor has Advanced SIMD.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn run_neon<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller's obligation is the same.
    kernel.run(unsafe { neon::Neon::new() })
}

#[cfg(test)]
mod tests;
