#![expect(unsafe_code, reason = "calls the processor's intrinsics")]

use std::arch::aarch64::*;

use half::f16;

use super::{LANES, Lanes, Simd};

/// Four 128-bit registers per vector.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

impl Neon {
    /// # Safety
    /// The processor has Advanced SIMD.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Neon(())
    }
}

/// An intrinsic on registers, inside a method of [`Neon`].
macro_rules! on_registers {
    ($call:expr) => {
        // SAFETY: the intrinsic needs Advanced SIMD and touches no memory; a `Neon` exists only where that is.
        unsafe { $call }
    };
}

/// The same intrinsic on all quarters.
macro_rules! on_quarters {
    ($call:ident, $($v:expr),+) => {
        std::array::from_fn(|i| on_registers!($call($($v[i]),+)))
    };
}

impl Simd for Neon {
    type V = [float32x4_t; 4];

    const ACCUMULATORS: usize = 6;
    const SUMS: (usize, usize) = (2, 2);

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        on_registers!([vdupq_n_f32(value); 4])
    }

    #[inline(always)]
    fn load(self, values: &Lanes) -> Self::V {
        // SAFETY: the reference covers the 16 values; each quarter reads 4 of them.
        std::array::from_fn(|i| unsafe { vld1q_f32(values.as_ptr().add(4 * i)) })
    }

    #[inline(always)]
    fn store(self, v: Self::V, values: &mut Lanes) {
        for (i, quarter) in v.into_iter().enumerate() {
            // SAFETY: the reference covers the 16 values; each quarter writes 4 of them.
            unsafe { vst1q_f32(values.as_mut_ptr().add(4 * i), quarter) }
        }
    }

    #[inline(always)]
    fn load_f16(self, bits: &[u16; LANES]) -> Self::V {
        self.load(&bits.map(|bits| f16::from_bits(bits).to_f32()))
    }

    #[inline(always)]
    fn store_f16(self, v: Self::V, bits: &mut [u16; LANES]) {
        let limit = f16::MAX.to_f32();
        *bits = self
            .to_lanes(v)
            .map(|value| f16::from_f32(value.clamp(-limit, limit)).to_bits());
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        on_quarters!(vaddq_f32, a, b)
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        on_quarters!(vsubq_f32, a, b)
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        on_quarters!(vmulq_f32, a, b)
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        on_quarters!(vdivq_f32, a, b)
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| on_registers!(vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i])))
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| on_registers!(vbslq_f32(vcltq_f32(a[i], b[i]), a[i], b[i])))
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        on_quarters!(vfmaq_f32, c, a, b)
    }

    #[inline(always)]
    fn round(self, v: Self::V) -> Self::V {
        on_quarters!(vrndnq_f32, v)
    }

    #[inline(always)]
    fn times_pow2(self, v: Self::V, n: Self::V) -> Self::V {
        // The exponent field of 2^n; 255, infinity, for n = 128.
        std::array::from_fn(|i| {
            on_registers!({
                let biased = vaddq_s32(vcvtq_s32_f32(n[i]), vdupq_n_s32(127));
                vmulq_f32(v[i], vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
            })
        })
    }

    #[inline(always)]
    fn zero_below(self, v: Self::V, x: Self::V, bound: f32) -> Self::V {
        std::array::from_fn(|i| {
            on_registers!({
                let keep = vcgeq_f32(x[i], vdupq_n_f32(bound));
                vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v[i]), keep))
            })
        })
    }

    #[inline(always)]
    fn first(self, n: usize, v: Self::V, other: Self::V) -> Self::V {
        let lane = self.load(&std::array::from_fn(|i| i as f32));
        let n = n as f32;
        std::array::from_fn(|i| on_registers!(vbslq_f32(vcltq_f32(lane[i], vdupq_n_f32(n)), v[i], other[i])))
    }

    #[inline(always)]
    fn reduce_max(self, v: Self::V) -> f32 {
        on_registers!(vmaxvq_f32(vmaxq_f32(
            vmaxq_f32(v[0], v[1]),
            vmaxq_f32(v[2], v[3])
        )))
    }

    #[inline(always)]
    fn prefetch<T>(self, _values: &[T]) {}
}
