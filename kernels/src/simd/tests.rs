use half::f16;
use proptest::prelude::*;

use super::{Kernel, LANES, Lanes, Simd, math};
use crate::{Cpu, Isa, reference};

/// A `Cpu` of one thread for each instruction set this processor has.
fn each_cpu() -> Vec<Cpu> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available
        .map(|isa| Cpu::with_isa(isa, Some(1)).unwrap())
        .collect()
}

/// Every primitive on the same vectors.
struct Primitives {
    a: Lanes,
    b: Lanes,
    n: usize,
}

impl Kernel for Primitives {
    type Output = Vec<Lanes>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<Lanes> {
        let (a, b) = (simd.load(&self.a), simd.load(&self.b));
        let mut bits = [0; LANES];
        simd.store_f16(a, &mut bits);
        let whole = simd.round(simd.max(simd.min(b, simd.splat(100.0)), simd.splat(-100.0)));
        let mut partial = [7.0; LANES];
        simd.store_partial(simd.load_partial(&self.a[..self.n], 3.0), &mut partial[..self.n]);
        [
            simd.add(a, b),
            simd.sub(a, b),
            simd.mul(a, b),
            simd.div(a, b),
            simd.max(a, b),
            simd.min(a, b),
            simd.round(a),
            simd.times_pow2(a, whole),
            simd.zero_below(a, b, 0.5),
            simd.first(self.n, a, b),
            simd.load_f16(&bits),
            simd.splat(simd.reduce_sum(a)),
            simd.splat(simd.reduce_max(a)),
            simd.load(&partial),
        ]
        .map(|v| simd.to_lanes(v))
        .to_vec()
    }
}

fn lanes() -> impl Strategy<Value = Lanes> {
    prop::array::uniform16(prop_oneof![
        -3.0_f32..3.0,
        -1e5_f32..1e5,
        Just(0.0),
        Just(f32::NEG_INFINITY)
    ])
}

proptest! {
    /// All but multiply-add are exact or correctly rounded, so every instruction set gives the same bits.
    #[test]
    fn primitives_agree((a, b, n) in (lanes(), lanes(), 0..=LANES)) {
        let results: Vec<_> = each_cpu().iter().map(|cpu| (cpu.isa(), cpu.dispatch(Primitives { a, b, n }))).collect();
        let bits = |lanes: &Vec<Lanes>| lanes.iter().map(|l| l.map(canonical)).collect::<Vec<_>>();
        for (isa, result) in &results[1..] {
            prop_assert_eq!(bits(result), bits(&results[0].1), "{}", isa);
        }
    }
}

/// Bits, with one pattern for all that is not a number, and one zero: the sets differ in the sign of both.
fn canonical(value: f32) -> u32 {
    if value.is_nan() {
        u32::MAX
    } else {
        (value + 0.0).to_bits()
    }
}

#[test]
fn half_precision_rounds_to_nearest_even() {
    for cpu in each_cpu() {
        let a: Lanes = std::array::from_fn(|i| 1.0 + i as f32 / 2048.0);
        let stored = cpu.dispatch(Primitives {
            a,
            b: [0.0; LANES],
            n: 0,
        })[10];
        assert_eq!(
            stored,
            a.map(|value| f16::from_f32(value).to_f32()),
            "{}",
            cpu.isa()
        );
    }
}

/// Applies one of the functions of `math`.
struct Apply<'a>(Function, &'a [Lanes]);

#[derive(Clone, Copy)]
enum Function {
    Exp2,
    Exp,
    Silu,
    Gelu,
}

impl Kernel for Apply<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<f32> {
        let mut out = Vec::new();
        for x in self.1 {
            let x = simd.load(x);
            let y = match self.0 {
                Function::Exp2 => math::exp2(simd, x),
                Function::Exp => math::exp(simd, x),
                Function::Silu => math::silu(simd, x),
                Function::Gelu => math::gelu(simd, x),
            };
            out.extend(simd.to_lanes(y));
        }
        out
    }
}

/// The largest value of `error(x, y)` over a fine grid of `x` in `low..high`, for each processor.
fn worst(function: Function, (low, high): (f32, f32), error: impl Fn(f64, f64) -> f64) -> Vec<(Isa, f64)> {
    let steps = 1 << 20;
    let x: Vec<f32> = (0..steps)
        .map(|i| low + (high - low) * i as f32 / steps as f32)
        .collect();
    let measure = |cpu: &Cpu| {
        let y = cpu.dispatch(Apply(function, x.as_chunks().0));
        let worst = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| error(f64::from(x), f64::from(y)))
            .fold(0.0, f64::max);
        (cpu.isa(), worst)
    };
    each_cpu().iter().map(measure).collect()
}

#[test]
fn exp2_is_accurate() {
    for (isa, error) in worst(Function::Exp2, (-125.9, 127.4), |x, y| (y / x.exp2() - 1.0).abs()) {
        assert!(error < 1.2e-7, "{isa}: {error:e}");
    }
}

#[test]
fn exp_is_accurate() {
    for (isa, error) in worst(Function::Exp, (-87.0, 88.0), |x, y| {
        (y / x.exp() - 1.0).abs() / (1.0 + x.abs())
    }) {
        assert!(error < 1.5e-7, "{isa}: {error:e}");
    }
    for (isa, error) in worst(Function::Exp, (-87.0, 88.0), |x, y| (y / x.exp() - 1.0).abs()) {
        assert!(error < 1.5e-7 || isa == Isa::Scalar, "{isa}: {error:e}");
    }
}

#[test]
fn silu_is_accurate() {
    let exact = |x: f64| x / (1.0 + (-x).exp());
    for (isa, error) in worst(Function::Silu, (-87.0, 100.0), |x, y| {
        ((y - exact(x)) / exact(x)).abs() / (1.0 + x.abs())
    }) {
        assert!(error < 4e-7, "{isa}: {error:e}");
    }
    for (isa, error) in worst(Function::Silu, (-1e4, -87.0), |x, y| (y - exact(x)).abs()) {
        assert!(error < 1e-36, "{isa}: {error:e}");
    }
}

#[test]
fn gelu_is_accurate() {
    let exact = |x: f64| f64::from(reference::gelu(&[x as f32])[0]);
    for (isa, error) in worst(Function::Gelu, (-30.0, 30.0), |x, y| {
        (y - exact(x)).abs() / x.abs().max(1.0)
    }) {
        assert!(error < 3e-7, "{isa}: {error:e}");
    }
}

#[test]
fn the_ends_of_exp2() {
    let x: Lanes = std::array::from_fn(|i| match i {
        0 => 0.0,
        1 => f32::NEG_INFINITY,
        2 => f32::INFINITY,
        3 => f32::NAN,
        4 => -126.1,
        _ => 1.0,
    });
    for cpu in each_cpu() {
        let y = cpu.dispatch(Apply(Function::Exp2, &[x]));
        assert_eq!(y[..6], [1.0, 0.0, f32::INFINITY, 0.0, 0.0, 2.0], "{}", cpu.isa());
    }
}
