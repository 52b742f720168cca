use proptest::prelude::*;

use super::Affine;
use crate::{Cpu, Isa, reference};

fn each_cpu() -> impl Iterator<Item = Cpu> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.flat_map(|isa| [1, 2].map(|threads| Cpu::with_isa(isa, Some(threads)).unwrap()))
}

fn close(found: &[f32], exact: &[f32], width: usize) -> bool {
    found
        .chunks(width)
        .zip(exact.chunks(width))
        .all(|(found, exact)| {
            let largest = exact
                .iter()
                .fold(1e-6, |largest: f32, value| largest.max(value.abs()));
            found
                .iter()
                .zip(exact)
                .all(|(found, exact)| (found - exact).abs() <= 1e-6 * largest)
        })
}

/// Rows of one width, a weight and a bias.
fn input() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, Vec<f32>)> {
    (1_usize..1200, 0_usize..6).prop_flat_map(|(width, rows)| {
        let values = |len, range: std::ops::Range<f32>| prop::collection::vec(range, len);
        (
            values(width * rows, -8.0..8.0),
            values(width, -2.0..2.0),
            values(width, -1.0..1.0),
        )
    })
}

proptest! {
    #[test]
    fn norms_agree_with_their_twins((x, weight, bias) in input()) {
        let width = weight.len();
        let affine = Affine { weight: &weight, bias: &bias };
        let exact = (reference::rms_norm(&x, &weight, 1e-6), reference::layer_norm(&x, &weight, &bias, 1e-5));
        for cpu in each_cpu() {
            let mut out = vec![f32::NAN; x.len()];
            cpu.rms_norm(&x, &weight, 1e-6, &mut out);
            prop_assert!(close(&out, &exact.0, width), "rms_norm, {}", cpu.isa());
            for (row, together) in x.chunks(width).zip(out.chunks(width)) {
                let mut alone = vec![f32::NAN; width];
                cpu.rms_norm(row, &weight, 1e-6, &mut alone);
                prop_assert_eq!(&alone[..], together, "a row alone, {}", cpu.isa());
            }
            cpu.layer_norm(&x, affine, 1e-5, &mut out);
            // A single value has no variance: its distance from the mean is rounding.
            prop_assert!(width == 1 || close(&out, &exact.1, width), "layer_norm, {}", cpu.isa());
        }
    }
}

#[test]
fn many_rows_on_several_threads_are_as_on_one() {
    let x: Vec<f32> = (0..900 * 257).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let weight: Vec<f32> = (0..257).map(|i| 1.0 + i as f32 / 257.0).collect();
    let run = |threads| {
        let mut out = vec![f32::NAN; x.len()];
        Cpu::with_isa(Isa::detect(), Some(threads))
            .unwrap()
            .rms_norm(&x, &weight, 1e-6, &mut out);
        out
    };
    let one = run(1);
    assert!(run(2) == one && run(5) == one);
    assert!(close(&one, &reference::rms_norm(&x, &weight, 1e-6), 257));
}
