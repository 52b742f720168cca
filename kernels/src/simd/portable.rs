use half::f16;

use super::{LANES, Lanes, Simd};

/// Plain arrays: whatever the compiler makes of them. Multiply-add rounds twice, because a fused one is a library call
/// on processors that this set is for.
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[inline(always)]
fn map2(a: Lanes, b: Lanes, op: impl Fn(f32, f32) -> f32) -> Lanes {
    std::array::from_fn(|i| op(a[i], b[i]))
}

impl Simd for Portable {
    type V = Lanes;

    const ACCUMULATORS: usize = 2;
    const SUMS: (usize, usize) = (1, 2);

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, values: &Lanes) -> Lanes {
        *values
    }

    #[inline(always)]
    fn store(self, v: Lanes, values: &mut Lanes) {
        *values = v;
    }

    #[inline(always)]
    fn load_f16(self, bits: &[u16; LANES]) -> Lanes {
        bits.map(|bits| f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn store_f16(self, v: Lanes, bits: &mut [u16; LANES]) {
        let limit = f16::MAX.to_f32();
        *bits = v.map(|value| f16::from_f32(value.clamp(-limit, limit)).to_bits());
    }

    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        map2(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        map2(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        map2(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        map2(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        map2(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: Lanes, b: Lanes) -> Lanes {
        map2(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn mul_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn round(self, v: Lanes) -> Lanes {
        // Adding 1.5 * 2^23 leaves no bits for a fraction; the processor rounds.
        const SHIFT: f32 = 12_582_912.0;
        v.map(|value| (value + SHIFT) - SHIFT)
    }

    #[inline(always)]
    fn times_pow2(self, v: Lanes, n: Lanes) -> Lanes {
        // The exponent field of 2^n; 255, infinity, for n = 128.
        map2(v, n, |v, n| {
            v * f32::from_bits(((n as i32 + 127) << 23).cast_unsigned())
        })
    }

    #[inline(always)]
    fn zero_below(self, v: Lanes, x: Lanes, bound: f32) -> Lanes {
        map2(v, x, |v, x| if x >= bound { v } else { 0.0 })
    }

    #[inline(always)]
    fn first(self, n: usize, v: Lanes, other: Lanes) -> Lanes {
        std::array::from_fn(|i| if i < n { v[i] } else { other[i] })
    }

    #[inline(always)]
    fn reduce_max(self, v: Lanes) -> f32 {
        let eight: [f32; 8] = std::array::from_fn(|i| v[i].max(v[i + 8]));
        let four: [f32; 4] = std::array::from_fn(|i| eight[i].max(eight[i + 4]));
        four[0].max(four[2]).max(four[1].max(four[3]))
    }

    #[inline(always)]
    fn prefetch<T>(self, _values: &[T]) {}
}
