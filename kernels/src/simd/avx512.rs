#![expect(unsafe_code, reason = "calls the processor's intrinsics")]

use std::arch::x86_64::*;

use super::{LANES, Lanes, Simd};

/// One 512-bit register per vector.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor has AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Avx512(())
    }
}

/// An intrinsic on registers, inside a method of [`Avx512`].
macro_rules! on_registers {
    ($call:expr) => {
        // SAFETY: the intrinsic needs AVX-512 and touches no memory; an `Avx512` exists only where AVX-512 does.
        unsafe { $call }
    };
}

impl Simd for Avx512 {
    type V = __m512;

    const ACCUMULATORS: usize = 12;
    const SUMS: (usize, usize) = (6, 4);

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        on_registers!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    fn load(self, values: &Lanes) -> __m512 {
        // SAFETY: AVX-512 is present as above; the reference covers the 64 bytes read.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m512, values: &mut Lanes) {
        // SAFETY: AVX-512 is present as above; the reference covers the 64 bytes written.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn load_f16(self, bits: &[u16; LANES]) -> __m512 {
        // SAFETY: AVX-512 is present as above; the reference covers the 32 bytes read.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store_f16(self, v: __m512, bits: &mut [u16; LANES]) {
        let v = self.max(self.min(v, self.splat(65504.0)), self.splat(-65504.0));
        // SAFETY: AVX-512 is present as above; the reference covers the 32 bytes written.
        unsafe {
            _mm256_storeu_si256(
                bits.as_mut_ptr().cast(),
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v),
            )
        }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        on_registers!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        on_registers!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        on_registers!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        on_registers!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        on_registers!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        on_registers!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        on_registers!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn round(self, v: __m512) -> __m512 {
        on_registers!(_mm512_roundscale_ps::<
            { _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC },
        >(v))
    }

    #[inline(always)]
    fn times_pow2(self, v: __m512, n: __m512) -> __m512 {
        on_registers!(_mm512_scalef_ps(v, n))
    }

    #[inline(always)]
    fn zero_below(self, v: __m512, x: __m512, bound: f32) -> __m512 {
        let bound = self.splat(bound);
        on_registers!(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, bound), v))
    }

    #[inline(always)]
    fn first(self, n: usize, v: __m512, other: __m512) -> __m512 {
        let mask = if n >= LANES { u16::MAX } else { (1_u16 << n) - 1 };
        on_registers!(_mm512_mask_blend_ps(mask, other, v))
    }

    #[inline(always)]
    fn reduce_max(self, v: __m512) -> f32 {
        on_registers!(_mm512_reduce_max_ps(v))
    }

    #[inline(always)]
    fn prefetch<T>(self, values: &[T]) {
        // SAFETY: a prefetch reads nothing the program can observe, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(values.as_ptr().cast()) }
    }
}
