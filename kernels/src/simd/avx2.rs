#![expect(unsafe_code, reason = "calls the processor's intrinsics")]

use std::arch::x86_64::*;

use super::{LANES, Lanes, Simd};

/// Two 256-bit registers per vector.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Avx2(())
    }
}

/// An intrinsic on registers, inside a method of [`Avx2`].
macro_rules! on_registers {
    ($call:expr) => {
        // SAFETY: the intrinsic needs AVX2, FMA or F16C and touches no memory; an `Avx2` exists only where all are.
        unsafe { $call }
    };
}

/// The same intrinsic on both halves.
macro_rules! on_halves {
    ($call:ident, $($v:expr),+) => {
        on_registers!([$call($($v[0]),+), $call($($v[1]),+)])
    };
}

impl Simd for Avx2 {
    type V = [__m256; 2];

    const ACCUMULATORS: usize = 6;
    const SUMS: (usize, usize) = (3, 2);

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        on_registers!([_mm256_set1_ps(value); 2])
    }

    #[inline(always)]
    fn load(self, values: &Lanes) -> Self::V {
        // SAFETY: AVX2 is present as above; the reference covers the 64 bytes read.
        unsafe {
            [
                _mm256_loadu_ps(values.as_ptr()),
                _mm256_loadu_ps(values.as_ptr().add(8)),
            ]
        }
    }

    #[inline(always)]
    fn store(self, v: Self::V, values: &mut Lanes) {
        // SAFETY: AVX2 is present as above; the reference covers the 64 bytes written.
        unsafe {
            _mm256_storeu_ps(values.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(values.as_mut_ptr().add(8), v[1]);
        }
    }

    #[inline(always)]
    fn load_f16(self, bits: &[u16; LANES]) -> Self::V {
        // SAFETY: F16C is present as above; the reference covers the 32 bytes read.
        unsafe {
            let low = _mm_loadu_si128(bits.as_ptr().cast());
            let high = _mm_loadu_si128(bits.as_ptr().add(8).cast());
            [_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)]
        }
    }

    #[inline(always)]
    fn store_f16(self, v: Self::V, bits: &mut [u16; LANES]) {
        let v = self.max(self.min(v, self.splat(65504.0)), self.splat(-65504.0));
        // SAFETY: F16C is present as above; the reference covers the 32 bytes written.
        unsafe {
            let halves = v.map(|half| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(half));
            _mm_storeu_si128(bits.as_mut_ptr().cast(), halves[0]);
            _mm_storeu_si128(bits.as_mut_ptr().add(8).cast(), halves[1]);
        }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        on_halves!(_mm256_add_ps, a, b)
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        on_halves!(_mm256_sub_ps, a, b)
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        on_halves!(_mm256_mul_ps, a, b)
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        on_halves!(_mm256_div_ps, a, b)
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        on_halves!(_mm256_max_ps, a, b)
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        on_halves!(_mm256_min_ps, a, b)
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        on_halves!(_mm256_fmadd_ps, a, b, c)
    }

    #[inline(always)]
    fn round(self, v: Self::V) -> Self::V {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        on_registers!([_mm256_round_ps::<NEAREST>(v[0]), _mm256_round_ps::<NEAREST>(v[1])])
    }

    #[inline(always)]
    fn times_pow2(self, v: Self::V, n: Self::V) -> Self::V {
        // The exponent field of 2^n; 255, infinity, for n = 128.
        let power = on_registers!(n.map(|half| {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(half), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }));
        self.mul(v, power)
    }

    #[inline(always)]
    fn zero_below(self, v: Self::V, x: Self::V, bound: f32) -> Self::V {
        let bound = self.splat(bound);
        on_registers!([
            _mm256_and_ps(v[0], _mm256_cmp_ps::<_CMP_GE_OQ>(x[0], bound[0])),
            _mm256_and_ps(v[1], _mm256_cmp_ps::<_CMP_GE_OQ>(x[1], bound[1])),
        ])
    }

    #[inline(always)]
    fn first(self, n: usize, v: Self::V, other: Self::V) -> Self::V {
        let lane = self.load(&std::array::from_fn(|i| i as f32));
        let n = self.splat(n as f32);
        on_registers!([
            _mm256_blendv_ps(other[0], v[0], _mm256_cmp_ps::<_CMP_LT_OQ>(lane[0], n[0])),
            _mm256_blendv_ps(other[1], v[1], _mm256_cmp_ps::<_CMP_LT_OQ>(lane[1], n[1])),
        ])
    }

    #[inline(always)]
    fn reduce_max(self, v: Self::V) -> f32 {
        on_registers!({
            let eight = _mm256_max_ps(v[0], v[1]);
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        })
    }

    #[inline(always)]
    fn prefetch<T>(self, values: &[T]) {
        // SAFETY: a prefetch reads nothing the program can observe, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(values.as_ptr().cast()) }
    }
}
