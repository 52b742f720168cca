use proptest::prelude::*;

use crate::{Cpu, Isa, reference};

fn each_cpu() -> impl Iterator<Item = Cpu> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.flat_map(|isa| [1, 2].map(|threads| Cpu::with_isa(isa, Some(threads)).unwrap()))
}

proptest! {
    #[test]
    fn activations_agree_with_their_twins(
        (intermediate, x) in (1_usize..300, 0_usize..5).prop_flat_map(|(intermediate, rows)| {
            (Just(intermediate), prop::collection::vec(-20.0_f32..20.0, 2 * intermediate * rows))
        })
    ) {
        for cpu in each_cpu() {
            let tolerance = if cpu.isa() == Isa::Scalar { 2e-5 } else { 1e-6 };
            let mut out = vec![f32::NAN; x.len() / 2];
            cpu.swiglu(&x, intermediate, &mut out);
            for (found, exact) in out.iter().zip(reference::swiglu(&x, intermediate)) {
                prop_assert!((found - exact).abs() <= tolerance * exact.abs(), "{}: {found} for {exact}", cpu.isa());
            }
            let mut out = x.clone();
            cpu.gelu(&mut out);
            for ((found, exact), x) in out.iter().zip(reference::gelu(&x)).zip(&x) {
                prop_assert!((found - exact).abs() <= 3e-7 * x.abs().max(1.0), "{}: {found} for {exact}", cpu.isa());
            }
        }
    }
}

#[test]
fn many_rows_on_several_threads_are_as_on_one() {
    let x: Vec<f32> = (0..600 * 2 * 100)
        .map(|i| (i as f32 * 0.37).sin() * 6.0)
        .collect();
    let run = |threads| {
        let cpu = Cpu::with_isa(Isa::detect(), Some(threads)).unwrap();
        let (mut activated, mut linear) = (vec![f32::NAN; x.len() / 2], x.clone());
        cpu.swiglu(&x, 100, &mut activated);
        cpu.gelu(&mut linear);
        (activated, linear)
    };
    let one = run(1);
    assert!(run(2) == one && run(5) == one);
}
