use proptest::prelude::*;

use super::PIECE;
use crate::{Cpu, Isa};

fn each_cpu() -> impl Iterator<Item = Cpu> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.flat_map(|isa| [1, 2].map(|threads| Cpu::with_isa(isa, Some(threads)).unwrap()))
}

/// Logits with many equals, some of them minus infinity or not a number.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    (1_usize..3 * PIECE, any::<u64>(), 1_u64..2000).prop_map(|(len, seed, values)| {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut logit = || match next() % 50 {
            0 => f32::NEG_INFINITY,
            1 => f32::NAN,
            _ => (next() % values) as f32 / 50.0 - 20.0,
        };
        (0..len).map(|_| logit()).collect()
    })
}

/// Indices and values by falling value, then rising index; not-a-number last among minus infinities.
fn sorted(logits: &[f32]) -> Vec<(u32, f32)> {
    let mut pairs: Vec<_> = (0..).zip(logits.iter().copied()).collect();
    let known = |value: f32| if value.is_nan() { f32::NEG_INFINITY } else { value };
    pairs.sort_by(|a, b| known(b.1).total_cmp(&known(a.1)));
    pairs
}

fn bits(pairs: &[(u32, f32)]) -> Vec<(u32, u32)> {
    pairs
        .iter()
        .map(|&(index, value)| (index, if value.is_nan() { 1 } else { value.to_bits() }))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn choices_agree_with_a_sort(logits in logits(), k in prop_oneof![0_usize..100, 0_usize..50_000]) {
        let exact = sorted(&logits);
        for cpu in each_cpu() {
            prop_assert_eq!(bits(&cpu.top_k(&logits, k)), bits(&exact[..k.min(exact.len())]), "{}", cpu.isa());
            if exact[0].1 > f32::NEG_INFINITY {
                prop_assert_eq!(cpu.argmax(&logits), exact[0].0, "{}", cpu.isa());
            }
        }
    }

    #[test]
    fn log_sum_exp_agrees_with_its_twin(logits in logits()) {
        let logits: Vec<f32> = logits.into_iter().filter(|value| !value.is_nan()).collect();
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&value| (f64::from(value) - f64::from(max)).exp()).sum();
        let exact = f64::from(max) + sum.ln();
        for cpu in each_cpu() {
            let found = f64::from(cpu.log_sum_exp(&logits));
            prop_assert!(max == f32::NEG_INFINITY || (found - exact).abs() < 2e-5, "{}: {found} for {exact}", cpu.isa());
        }
    }

    #[test]
    fn masked_logits_are_those_not_allowed(len in 1_usize..300, words in prop::collection::vec(any::<u32>(), 0..12)) {
        let cpu = Cpu::with_isa(Isa::detect(), Some(1)).unwrap();
        let words: Vec<u32> = words.into_iter().map(|word| match word % 4 { 0 => 0, 1 => u32::MAX, _ => word }).collect();
        let mut logits = vec![1.5; len];
        cpu.mask_logits(&mut logits, &words);
        for (index, logit) in logits.iter().enumerate() {
            let allowed = words.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 == 1);
            prop_assert_eq!(*logit, if allowed { 1.5 } else { f32::NEG_INFINITY });
        }
    }
}

#[test]
fn edges() {
    for cpu in each_cpu() {
        assert_eq!(cpu.argmax(&[f32::NAN, f32::NAN]), 0);
        assert_eq!(cpu.argmax(&[f32::NAN, f32::NEG_INFINITY, 3.0, 3.0]), 2);
        assert_eq!(cpu.log_sum_exp(&[f32::NEG_INFINITY; 40]), f32::NEG_INFINITY);
        assert_eq!(cpu.log_sum_exp(&[5.0]), 5.0);
        assert_eq!(cpu.log_sum_exp(&[]), f32::NEG_INFINITY);
        assert!(cpu.top_k(&[], 3).is_empty());
    }
}
