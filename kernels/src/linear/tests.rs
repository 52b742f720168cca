use proptest::prelude::*;

use super::*;
use crate::samples::{blocks, numbers};
use crate::{Isa, TileKind};

const FORMATS: [(BlockFormat, TilePolicy); 7] = [
    (BlockFormat::Q8_0, TilePolicy::Int8),
    (BlockFormat::Q5_0, TilePolicy::Int8),
    (BlockFormat::Q5_0, TilePolicy::Native),
    (BlockFormat::Q4_1, TilePolicy::Native),
    (BlockFormat::F32, TilePolicy::Int8),
    (BlockFormat::Q4K, TilePolicy::Native),
    (BlockFormat::Q6K, TilePolicy::Native),
];

/// The next number of values that is whole blocks.
fn whole((format, _): (BlockFormat, TilePolicy), k: usize) -> usize {
    k.next_multiple_of(format.block_len())
}

fn cpus() -> impl Iterator<Item = Cpu> {
    Isa::ALL
        .into_iter()
        .filter(|isa| isa.is_available())
        .map(|isa| Cpu::with_isa(isa, Some(2)).unwrap())
}

fn matrix((format, policy): (BlockFormat, TilePolicy), n: usize, k: usize) -> TiledMatrix {
    let bytes = blocks(format, 17, n * k / format.block_len());
    TiledMatrix::from_blocks(format, n, k, &bytes, policy).unwrap()
}

fn product(cpu: &Cpu, w: &Linear, x: &[f32]) -> Vec<f32> {
    let mut rows = QuantizedRows::new();
    cpu.quantize_rows(x, w.k(), &mut rows);
    let mut out = vec![f32::NAN; rows.rows() * w.n()];
    cpu.linear(w, &rows, &mut out, OutMode::Write);
    out
}

/// The values that `quantize_rows` stands for.
fn rounded(x: &[f32]) -> Vec<f64> {
    let block = |x: &[f32]| {
        let largest = x.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let (scale, inverse) = if largest == 0.0 {
            (0.0, 0.0)
        } else {
            (largest / 127.0, 127.0 / largest)
        };
        let values = x
            .iter()
            .map(|value| f64::from((value * inverse).round_ties_even()) * f64::from(scale));
        values.collect::<Vec<_>>()
    };
    x.chunks(32).flat_map(block).collect()
}

/// The product in double precision of the values both sides stand for, and the sum of its terms' magnitudes.
fn exact(w: &Linear, x: &[f32]) -> Vec<(f64, f64)> {
    let x = rounded(x);
    let mut weights = vec![0.0_f32; w.k()];
    let mut columns = Vec::new();
    for part in w.parts() {
        for index in 0..part.n() {
            part.row(index, &mut weights);
            let dot = |x: &[f64]| {
                let terms = weights.iter().zip(x).map(|(w, x)| f64::from(*w) * x);
                terms.fold((0.0, 0.0), |(sum, size), term: f64| {
                    (sum + term, size + term.abs())
                })
            };
            columns.push(x.chunks(w.k()).map(dot).collect::<Vec<_>>());
        }
    }
    (0..x.len() / w.k())
        .flat_map(|row| columns.iter().map(move |column| column[row]))
        .collect()
}

#[test]
fn every_set_agrees_with_double_precision() {
    for format in FORMATS {
        for (n, k) in [(16, 32), (37, 96), (64, 896)] {
            let k = whole(format, k);
            let w = Linear::new(vec![matrix(format, n, k)], None).unwrap();
            for rows in [1, 2, 3, 5, 11, 12, 13, 26] {
                let x = numbers(rows as u64, rows * k);
                let exact = exact(&w, &x);
                for cpu in cpus() {
                    for (ours, (sum, size)) in product(&cpu, &w, &x).into_iter().zip(&exact) {
                        // 4-bit tiles subtract the minimum's share, which may exceed the sum of the terms.
                        let error = (f64::from(ours) - sum).abs();
                        let size = if format.1 == TilePolicy::Native {
                            size * 4.0
                        } else {
                            *size
                        };
                        assert!(
                            error <= 2e-6 * size,
                            "{} {format:?} {n}x{k}, {rows} rows: {error}",
                            cpu.isa()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_set_gives_the_same_bits() {
    for format in FORMATS {
        let k = whole(format, 160);
        let w = Linear::new(vec![matrix(format, 37, k)], Some(numbers(2, 37))).unwrap();
        for rows in (1..30).chain([37, 61]) {
            let x = numbers(rows as u64, rows * k);
            let mut results = cpus().map(|cpu| (cpu.isa(), product(&cpu, &w, &x)));
            let (_, reference) = results.next().unwrap();
            for (isa, result) in results {
                assert_eq!(result, reference, "{isa} {format:?}, {rows} rows");
            }
        }
    }
}

#[test]
fn extremes_do_not_saturate() {
    let k = 64;
    let mut lowest = vec![0x80_u8; 2 * 34];
    let mut highest = vec![0x7f_u8; 2 * 34];
    for block in lowest.chunks_exact_mut(34).chain(highest.chunks_exact_mut(34)) {
        block[..2].copy_from_slice(&half::f16::ONE.to_le_bytes());
    }
    let bytes = [lowest, highest].concat();
    let int8 = TiledMatrix::from_blocks(BlockFormat::Q8_0, 2, k, &bytes, TilePolicy::Int8).unwrap();
    let w = Linear::new(vec![int8], None).unwrap();
    for cpu in cpus() {
        let largest = vec![127.0; k];
        let smallest = vec![-127.0; k];
        let out = product(&cpu, &w, &[largest, smallest].concat());
        let (low, high) = ((k * 128 * 127) as f32, (k * 127 * 127) as f32);
        assert_eq!(out, [-low, high, low, -high], "{}", cpu.isa());
    }
}

#[test]
fn the_largest_small_integers_do_not_saturate() {
    let k = 64;
    for (format, shift) in [(BlockFormat::Q5_0, 16.0), (BlockFormat::Q4_0, 8.0)] {
        let mut bytes = vec![0xff_u8; 2 * format.block_bytes()];
        for block in bytes.chunks_exact_mut(format.block_bytes()) {
            block[..2].copy_from_slice(&half::f16::ONE.to_le_bytes());
        }
        let w = TiledMatrix::from_blocks(format, 1, k, &bytes, TilePolicy::Native).unwrap();
        assert_ne!(w.kind(), TileKind::Int8);
        let w = Linear::new(vec![w], None).unwrap();
        for cpu in cpus() {
            let expected = k as f32 * (shift - 1.0) * 127.0;
            let out = product(&cpu, &w, &[vec![127.0; k], vec![-127.0; k]].concat());
            assert_eq!(out, [expected, -expected], "{} {format:?}", cpu.isa());
        }
    }
}

/// Integers of both ends of each K-quant: weights of 15 * 63 less 63, and of 31 * 127 or -32 * -128.
#[test]
fn the_largest_scaled_integers_do_not_saturate() {
    let k = 256;
    let mut four = vec![0xff_u8; 144];
    let mut six = [vec![0xff_u8; 210], vec![0_u8; 210]];
    let one = half::f16::ONE.to_le_bytes();
    four[..2].copy_from_slice(&one);
    four[2..4].copy_from_slice(&one);
    for (block, scale) in six.iter_mut().zip([127, 0x80]) {
        block[192..208].fill(scale);
        block[208..].copy_from_slice(&one);
    }
    for (format, bytes, weights) in [
        (BlockFormat::Q4K, four, vec![15.0 * 63.0 - 63.0]),
        (BlockFormat::Q6K, six.concat(), vec![31.0 * 127.0, 32.0 * 128.0]),
    ] {
        let n = weights.len();
        let w = TiledMatrix::from_blocks(format, n, k, &bytes, TilePolicy::Native).unwrap();
        let w = Linear::new(vec![w], None).unwrap();
        for cpu in cpus() {
            let out = product(&cpu, &w, &[vec![127.0; k], vec![-127.0; k]].concat());
            let expected = |sign: f32| weights.iter().map(move |weight| sign * 127.0 * 256.0 * weight);
            assert!(
                out.iter().copied().eq(expected(1.0).chain(expected(-1.0))),
                "{} {format:?}: {out:?}",
                cpu.isa()
            );
        }
    }
}

#[test]
fn parts_stand_side_by_side_with_their_bias() {
    let k = 96;
    let parts: Vec<TiledMatrix> = [(20, FORMATS[0]), (5, FORMATS[2]), (33, FORMATS[3])]
        .into_iter()
        .map(|(n, format)| matrix(format, n, k))
        .collect();
    let bias = numbers(8, 58);
    let joined = Linear::new(parts.clone(), Some(bias.clone())).unwrap();
    let x = numbers(9, 14 * k);
    for cpu in cpus() {
        let out = product(&cpu, &joined, &x);
        let mut column = 0;
        for part in &parts {
            let single = Linear::new(vec![part.clone()], None).unwrap();
            for (row, single) in product(&cpu, &single, &x).chunks(part.n()).enumerate() {
                for (at, value) in single.iter().enumerate() {
                    assert_eq!(out[row * 58 + column + at], value + bias[column + at]);
                }
            }
            column += part.n();
        }
        let mut rows = QuantizedRows::new();
        cpu.quantize_rows(&x, k, &mut rows);
        let residual = numbers(10, out.len());
        let mut added = residual.clone();
        cpu.linear(&joined, &rows, &mut added, OutMode::Add);
        for ((added, residual), out) in added.into_iter().zip(residual).zip(out) {
            assert_eq!(added, residual + out);
        }
    }
}

#[test]
fn a_row_with_nan_or_infinity_is_nan_and_its_neighbours_are_not() {
    let w = Linear::new(vec![matrix(FORMATS[1], 16, 64)], None).unwrap();
    for cpu in cpus() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = numbers(1, 3 * 64);
            x[64 + 40] = bad;
            let out = product(&cpu, &w, &x);
            assert!(out[16..32].iter().all(|value| value.is_nan()), "{}", cpu.isa());
            assert!(out[..16].iter().chain(&out[32..]).all(|value| value.is_finite()));
        }
    }
}

#[test]
fn mismatched_parts_and_bias_are_refused() {
    assert!(Linear::new(Vec::new(), None).is_err());
    let parts = vec![matrix(FORMATS[0], 16, 64), matrix(FORMATS[0], 16, 32)];
    assert!(matches!(
        Linear::new(parts, None),
        Err(KernelError::Shape {
            expected: 64,
            received: 32,
            ..
        })
    ));
    let bias = Linear::new(vec![matrix(FORMATS[0], 16, 64)], Some(vec![0.0; 15]));
    assert!(matches!(
        bias,
        Err(KernelError::Shape {
            expected: 16,
            received: 15,
            ..
        })
    ));
}

#[test]
fn no_rows_give_no_output() {
    let w = Linear::new(vec![matrix(FORMATS[0], 16, 64)], None).unwrap();
    for cpu in cpus() {
        assert!(product(&cpu, &w, &[]).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The engine's exactness rests on this.
    #[test]
    fn a_row_alone_equals_the_row_in_any_batch(
        format in 0..FORMATS.len(),
        n in 1_usize..70,
        blocks in 1_usize..12,
        rows in 1_usize..40,
        threads in 1_usize..4,
        seed: u64,
    ) {
        let k = whole(FORMATS[format], blocks * 32);
        let w = Linear::new(vec![matrix(FORMATS[format], n, k)], Some(numbers(seed ^ 1, n))).unwrap();
        let x = numbers(seed, rows * k);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let batch = product(&Cpu::with_isa(isa, Some(threads)).unwrap(), &w, &x);
            let alone = Cpu::with_isa(isa, Some(1)).unwrap();
            for (x, together) in x.chunks(k).zip(batch.chunks(n)) {
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&product(&alone, &w, x)), bits(together), "{}", isa);
            }
        }
    }
}
