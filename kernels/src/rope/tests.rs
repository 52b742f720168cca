use proptest::prelude::*;

use super::{RopeHeads, RopeTable};
use crate::{Cpu, Isa, reference};

proptest! {
    #[test]
    fn rope_agrees_with_its_twin(
        (half, count, rows) in (1_usize..70, 1_usize..5, 0_usize..5),
        (offset, rest) in (0_usize..9, 0_usize..9),
        seed in any::<u32>(),
    ) {
        let heads = RopeHeads { stride: offset + count * 2 * half + rest, offset, count, head_dim: 2 * half };
        let value = |i: usize| ((i as f64 + f64::from(seed % 1000)) * 0.7).sin() as f32 * 3.0;
        let x: Vec<f32> = (0..rows * heads.stride).map(value).collect();
        let positions: Vec<u32> = (0..rows).map(|row| seed.rotate_left(row as u32) % 4096).collect();
        let table = RopeTable::new(2 * half, 1e6, 4096);
        let mut exact = x.clone();
        reference::rope(&mut exact, heads, &positions, 1e6);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let mut found = x.clone();
            Cpu::with_isa(isa, Some(2)).unwrap().rope(&mut found, heads, &positions, &table);
            for (found, exact) in found.iter().zip(&exact) {
                prop_assert!((found - exact).abs() <= 3e-7 * 4.3, "{isa}: {found} for {exact}");
            }
        }
    }
}

#[test]
fn position_zero_changes_nothing_and_lengths_stay() {
    let cpu = Cpu::with_isa(Isa::detect(), Some(1)).unwrap();
    let table = RopeTable::new(64, 1e4, 100);
    assert_eq!(table.positions(), 100);
    let heads = RopeHeads {
        stride: 64,
        offset: 0,
        count: 1,
        head_dim: 64,
    };
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let mut turned = x.clone();
    cpu.rope(&mut turned, heads, &[0], &table);
    assert_eq!(turned, x);
    cpu.rope(&mut turned, heads, &[99], &table);
    let length = |x: &[f32]| x.iter().map(|v| v * v).sum::<f32>();
    assert!(turned != x && (length(&turned) / length(&x) - 1.0).abs() < 1e-5);
}

#[test]
fn scaled_frequencies_scale_positions() {
    let frequencies: Vec<f64> = (0..8)
        .map(|d| 1e4_f64.powf(-2.0 * f64::from(d) / 16.0) / 4.0)
        .collect();
    let (scaled, plain) = (
        RopeTable::from_frequencies(&frequencies, 17),
        RopeTable::new(16, 1e4, 5),
    );
    assert_eq!(scaled.row(16), plain.row(4));
}

#[test]
#[should_panic(expected = "position 100 of a rotary table of 100")]
fn a_position_beyond_the_table_panics() {
    let cpu = Cpu::with_isa(Isa::Scalar, Some(1)).unwrap();
    let heads = RopeHeads {
        stride: 64,
        offset: 0,
        count: 1,
        head_dim: 64,
    };
    cpu.rope(&mut [0.0; 64], heads, &[100], &RopeTable::new(64, 1e4, 100));
}
