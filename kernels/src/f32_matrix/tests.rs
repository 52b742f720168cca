use super::*;
use crate::samples::{blocks, dequantized, numbers};

fn cpus(threads: usize) -> impl Iterator<Item = Cpu> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.map(move |isa| Cpu::with_isa(isa, Some(threads)).unwrap())
}

fn product(cpu: &Cpu, w: &F32Matrix, x: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len() / w.k() * w.n()];
    cpu.linear_f32(w, x, &mut out, OutMode::Write);
    out
}

#[test]
fn every_set_agrees_with_double_precision() {
    for (n, k) in [(1, 1), (16, 7), (50, 64), (97, 384)] {
        let weights = numbers(1, n * k);
        let w = F32Matrix::new(n, k, &weights).unwrap();
        for rows in [1, 2, 3, 4, 5, 11, 12, 100, 197] {
            let x = numbers(2, rows * k);
            for cpu in cpus(2) {
                let out = product(&cpu, &w, &x);
                for (index, ours) in out.into_iter().enumerate() {
                    let (row, column) = (index / n, index % n);
                    let terms = x[row * k..][..k].iter().zip(&weights[column * k..][..k]);
                    let (exact, size) = terms
                        .map(|(x, w)| f64::from(*x) * f64::from(*w))
                        .fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                    let error = (f64::from(ours) - exact).abs();
                    assert!(
                        error <= 4e-6 * size,
                        "{} {n}x{k} {rows} rows: {error} of {size}",
                        cpu.isa()
                    );
                }
            }
        }
    }
}

#[test]
fn a_row_alone_equals_the_row_in_any_batch() {
    let (n, k) = (70, 96);
    let w = F32Matrix::new(n, k, &numbers(3, n * k)).unwrap();
    for rows in (1..30).chain([95, 96, 97, 250]) {
        let x = numbers(rows as u64, rows * k);
        for cpu in cpus(3) {
            let together = product(&cpu, &w, &x);
            for (x, together) in x.chunks(k).zip(together.chunks(n)) {
                assert_eq!(product(&cpu, &w, x), together, "{} {rows} rows", cpu.isa());
            }
        }
    }
}

#[test]
fn sums_are_added_to_what_is_there() {
    let (n, k, rows) = (33, 40, 9);
    let w = F32Matrix::new(n, k, &numbers(4, n * k)).unwrap();
    let x = numbers(5, rows * k);
    let residual = numbers(6, rows * n);
    for cpu in cpus(2) {
        let mut out = residual.clone();
        cpu.linear_f32(&w, &x, &mut out, OutMode::Add);
        for ((out, residual), sum) in out.into_iter().zip(&residual).zip(product(&cpu, &w, &x)) {
            assert_eq!(out, residual + sum, "{}", cpu.isa());
        }
    }
}

#[test]
fn rows_come_back() {
    let (n, k) = (21, 5);
    let values = numbers(7, n * k);
    let w = F32Matrix::new(n, k, &values).unwrap();
    for (index, values) in values.chunks(k).enumerate() {
        let mut row = vec![0.0; k];
        w.row(index, &mut row);
        assert_eq!(row, values);
    }
    assert!(matches!(
        F32Matrix::new(2, 3, &[0.0; 5]),
        Err(KernelError::Shape {
            expected: 6,
            received: 5,
            ..
        })
    ));
}

#[test]
fn half_precision_weights_give_what_their_values_give() {
    let (n, k, rows) = (40, 64, 13);
    let x = numbers(8, rows * k);
    for format in [
        BlockFormat::F32,
        BlockFormat::F16,
        BlockFormat::Bf16,
        BlockFormat::Q5_0,
    ] {
        let bytes = blocks(format, 9, n * k / format.block_len());
        let kept = F32Matrix::from_blocks(format, n, k, &bytes).unwrap();
        let wide = F32Matrix::new(n, k, &dequantized(format, &bytes)).unwrap();
        let narrow = matches!(format, BlockFormat::F16 | BlockFormat::Bf16);
        assert_eq!(kept.bytes() * if narrow { 2 } else { 1 }, wide.bytes());
        for cpu in cpus(2) {
            assert_eq!(
                product(&cpu, &kept, &x),
                product(&cpu, &wide, &x),
                "{} {format:?}",
                cpu.isa()
            );
        }
        let (mut ours, mut theirs) = (vec![0.0; k], vec![0.0; k]);
        kept.row(n - 1, &mut ours);
        wide.row(n - 1, &mut theirs);
        assert_eq!(ours, theirs);
        let error = F32Matrix::from_blocks(format, n + 1, k, &bytes).unwrap_err();
        assert!(matches!(error, KernelError::Shape { .. }), "{error}");
    }
}
