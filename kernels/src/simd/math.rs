use super::Simd;

/// `2^x`: relative error at most 1.2e-7 (2e-9 of the polynomial, the rest rounding); exactly 1 at 0; 0 below -126;
/// infinity from 127.5.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(simd: S, x: S::V) -> S::V {
    let n = whole(simd, x);
    let fraction = simd.sub(clamp(simd, x), n);
    finish(simd, x, (fraction, n))
}

/// `e^x`: relative error at most 1.5e-7 where multiply-add is fused, else 1.5e-7 * (1 + |x|); 0 below -87.3;
/// infinity from 88.4.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::V) -> S::V {
    /// `log2 e` in two parts.
    const HIGH: f32 = std::f32::consts::LOG2_E;
    const LOW: f32 = (std::f64::consts::LOG2_E - HIGH as f64) as f32;
    let scaled = simd.mul(x, simd.splat(HIGH));
    let n = whole(simd, scaled);
    // Where `n` is clamped the fraction is wrong, and the result is 0 or infinity all the same.
    let fraction = simd.mul_add(x, simd.splat(HIGH), simd.sub(simd.zero(), n));
    let fraction = simd.mul_add(x, simd.splat(LOW), fraction);
    let fraction = simd.max(simd.min(fraction, simd.splat(1.0)), simd.splat(-1.0));
    finish(simd, scaled, (fraction, n))
}

/// `x / 2 * erfc(-x / sqrt 2)`, the Gaussian error linear unit: absolute error at most 3e-7 * max(1, |x|).
#[inline(always)]
pub(crate) fn gelu<S: Simd>(simd: S, x: S::V) -> S::V {
    /// `erfc(z) * e^(z^2)` for `z` in 0..=10 as a polynomial in `1 / (1 + 0.4 z)`: minimax, relative error 3e-8.
    const ERFCX: [f32; 10] = [
        2.640_294_7e-5,
        0.225_082_62,
        0.231_354_69,
        0.177_418_65,
        0.268_630_37,
        -0.068_552_26,
        0.275_769_66,
        -0.063_671_574,
        -0.074_755_56,
        0.028_697_013,
    ];
    let magnitude = simd.max(x, simd.sub(simd.zero(), x));
    let z = simd.mul(magnitude, simd.splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = simd.div(simd.splat(1.0), simd.mul_add(z, simd.splat(0.4), simd.splat(1.0)));
    let square = simd.mul(simd.mul(x, x), simd.splat(-0.5));
    let half_tail = simd.mul(
        simd.mul(polynomial(simd, t, &ERFCX), exp(simd, square)),
        simd.splat(0.5),
    );
    // x * Q(|x|) for negative x, x - x * Q(x) for positive: max(x, 0) - |x| * Q(|x|) is both.
    simd.sub(simd.max(x, simd.zero()), simd.mul(magnitude, half_tail))
}

/// `x / (1 + e^-x)`: relative error at most 4e-7 for `x > -87`; below, 0 to within 1e-36.
#[inline(always)]
pub(crate) fn silu<S: Simd>(simd: S, x: S::V) -> S::V {
    let denominator = simd.add(simd.splat(1.0), exp(simd, simd.sub(simd.zero(), x)));
    simd.div(x, denominator)
}

#[inline(always)]
fn clamp<S: Simd>(simd: S, x: S::V) -> S::V {
    simd.max(simd.min(x, simd.splat(128.0)), simd.splat(-126.0))
}

#[inline(always)]
fn whole<S: Simd>(simd: S, x: S::V) -> S::V {
    simd.round(clamp(simd, x))
}

/// `2^(fraction + n)`, 0 where `x < -126`.
#[inline(always)]
fn finish<S: Simd>(simd: S, x: S::V, (fraction, n): (S::V, S::V)) -> S::V {
    /// `2^f` for `f` in -0.5..=0.5 with `p(0) = 1`: minimax, relative error 2e-9.
    const EXP2: [f32; 7] = [
        1.0,
        std::f32::consts::LN_2,
        0.240_226_48,
        0.055_503_324,
        0.009_618_437,
        0.001_339_888_7,
        0.000_153_534_74,
    ];
    simd.zero_below(simd.times_pow2(polynomial(simd, fraction, &EXP2), n), x, -126.0)
}

/// Horner's scheme, lowest coefficient first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::V, coefficients: &[f32; N]) -> S::V {
    let mut value = simd.splat(coefficients[N - 1]);
    for &coefficient in coefficients[..N - 1].iter().rev() {
        value = simd.mul_add(value, x, simd.splat(coefficient));
    }
    value
}
