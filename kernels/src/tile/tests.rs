use std::sync::Arc;

use super::*;
use crate::HugeBuffer;
use crate::samples::{blocks, dequantized, numbers};

/// Not a multiple of 16 rows, so that the last tile is padded.
const N: usize = 37;
const K: usize = 512;

fn tiled(format: BlockFormat, policy: TilePolicy) -> (TiledMatrix, Vec<f32>) {
    let bytes = blocks(format, 11, N * K / format.block_len());
    (
        TiledMatrix::from_blocks(format, N, K, &bytes, policy).unwrap(),
        dequantized(format, &bytes),
    )
}

fn rows(matrix: &TiledMatrix) -> Vec<f32> {
    let mut values = vec![0.0; matrix.n() * matrix.k()];
    values
        .chunks_exact_mut(matrix.k())
        .enumerate()
        .for_each(|(index, out)| matrix.row(index, out));
    values
}

#[test]
fn formats_with_a_scale_of_their_own_are_kept_exactly() {
    let cases = [
        (BlockFormat::Q8_0, TilePolicy::Int8, TileKind::Int8),
        (BlockFormat::Q5_0, TilePolicy::Int8, TileKind::Int8),
        (BlockFormat::Q5_0, TilePolicy::Native, TileKind::Int5),
        (BlockFormat::Q4_0, TilePolicy::Int8, TileKind::Int8),
        (BlockFormat::Q4K, TilePolicy::Native, TileKind::Int4Super),
        (BlockFormat::Q6K, TilePolicy::Native, TileKind::Int6Super),
    ];
    for (format, policy, kind) in cases {
        let (matrix, values) = tiled(format, policy);
        assert_eq!(matrix.kind(), kind);
        assert_eq!(rows(&matrix), values, "{format:?} {policy:?}");
    }
}

#[test]
fn four_bits_with_a_minimum_lose_only_the_rounding_of_their_scales() {
    for format in [BlockFormat::Q4_0, BlockFormat::Q4_1] {
        let (matrix, values) = tiled(format, TilePolicy::Native);
        assert_eq!(matrix.kind(), TileKind::Int4Min);
        for (index, (ours, theirs)) in rows(&matrix).into_iter().zip(values).enumerate() {
            let (row, at) = (index / K, index % K);
            let tile = matrix.tile(row / COLUMNS);
            let (block, column) = (at / BLOCK, row % COLUMNS);
            // 2^-11 of the scaled integer and of the minimum, and half a subnormal step of each.
            let scale = tile.scale((block, 0), column).abs() * 15.0 + tile.minimum(block, column).abs();
            let bound = scale / 2048.0 + 16.0 * 2.0_f32.powi(-25);
            assert!(
                (ours - theirs).abs() <= bound,
                "{format:?} row {row} value {at}: {ours} {theirs}"
            );
        }
    }
}

#[test]
fn other_formats_are_rounded_to_half_a_step() {
    let formats = [
        BlockFormat::F32,
        BlockFormat::F16,
        BlockFormat::Bf16,
        BlockFormat::Q4_1,
        BlockFormat::Q5_1,
    ];
    let formats = formats
        .into_iter()
        .chain([BlockFormat::Q4K, BlockFormat::Q5K, BlockFormat::Q6K]);
    for format in formats {
        let (matrix, values) = tiled(format, TilePolicy::Int8);
        let ours = rows(&matrix);
        for (ours, theirs) in ours.chunks_exact(BLOCK).zip(values.chunks_exact(BLOCK)) {
            let largest = theirs
                .iter()
                .fold(0.0_f32, |largest, value| largest.max(value.abs()));
            // The scale is rounded up to half precision: by 2^-10, or by a subnormal step.
            let step = largest / 127.0 * (1.0 + 1.0 / 1024.0) + 2.0_f32.powi(-24);
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert!(
                    (ours - theirs).abs() <= 0.501 * step,
                    "{format:?}: {ours} {theirs} step {step}"
                );
            }
        }
    }
}

#[test]
fn very_small_and_very_large_weights_keep_their_precision() {
    for exponent in [-60, -30, -12, 0, 13, 30, 60] {
        let unit = numbers(3, N * K);
        let values: Vec<f32> = unit
            .iter()
            .map(|value| value * f32::powi(2.0, exponent))
            .collect();
        let matrix = TiledMatrix::from_f32(N, K, &values).unwrap();
        for (ours, theirs) in rows(&matrix).into_iter().zip(values) {
            let error = (ours - theirs).abs() / f32::powi(2.0, exponent);
            assert!(error <= 0.51 / 126.0, "2^{exponent}: {ours} {theirs}");
        }
    }
}

#[test]
fn an_integer_of_minus_128_is_kept() {
    let mut block = vec![0x80_u8; BlockFormat::Q8_0.block_bytes()];
    block[..2].copy_from_slice(&f16::ONE.to_le_bytes());
    let matrix = TiledMatrix::from_blocks(BlockFormat::Q8_0, 1, 32, &block, TilePolicy::Int8).unwrap();
    assert_eq!(rows(&matrix), vec![-128.0; 32]);
}

#[test]
fn smaller_tiles_take_fewer_bytes() {
    let bits = |policy, format| tiled(format, policy).0.bytes() as f32 * 8.0 / (48 * K) as f32;
    assert_eq!(bits(TilePolicy::Int8, BlockFormat::Q5_0), 8.5);
    assert_eq!(bits(TilePolicy::Native, BlockFormat::Q5_0), 5.5);
    assert_eq!(bits(TilePolicy::Native, BlockFormat::Q4_1), 5.0);
    assert_eq!(bits(TilePolicy::Native, BlockFormat::Q4K), 4.625);
    assert_eq!(bits(TilePolicy::Native, BlockFormat::Q6K), 6.5625);
}

#[test]
fn all_threads_tile_as_one_does() {
    let bytes = blocks(BlockFormat::Q6K, 5, N * K / 256);
    let one = TiledMatrix::from_blocks(BlockFormat::Q6K, N, K, &bytes, TilePolicy::Int8).unwrap();
    let cpu = crate::Cpu::new(Some(3)).unwrap();
    let three = cpu
        .tile(BlockFormat::Q6K, (N, K), &bytes, TilePolicy::Int8)
        .unwrap();
    assert_eq!(one.bytes[..], three.bytes[..]);
}

#[test]
fn shapes_and_damaged_weights_are_refused() {
    let refused = |format, n, k, bytes: &[u8]| {
        TiledMatrix::from_blocks(format, n, k, bytes, TilePolicy::Native).unwrap_err()
    };
    let error = refused(BlockFormat::F32, 1, 33, &[0; 132]);
    assert!(
        matches!(error, KernelError::PartialBlock { k: 33, block_len: 32 }),
        "{error}"
    );
    let error = refused(BlockFormat::Q4K, 1, 896, &[0; 504]);
    assert!(
        matches!(
            error,
            KernelError::PartialBlock {
                k: 896,
                block_len: 256
            }
        ),
        "{error}"
    );
    let error = refused(BlockFormat::Q5_0, 2, 32, &[0; 22]);
    assert!(
        matches!(
            error,
            KernelError::Shape {
                expected: 44,
                received: 22,
                ..
            }
        ),
        "{error}"
    );
    for (format, at) in [
        (BlockFormat::Q5_0, 22),
        (BlockFormat::Q8_0, 34),
        (BlockFormat::F32, 128),
    ] {
        let mut bytes = vec![0; 2 * format.row_bytes(32).unwrap()];
        bytes[at..at + 4].copy_from_slice(&[0xff; 4]);
        let error = refused(format, 2, 32, &bytes);
        assert!(
            matches!(error, KernelError::NotFinite { row: 1, .. }),
            "{format:?}: {error}"
        );
    }
}

#[test]
fn a_cached_matrix_is_the_same_and_shares_the_bytes() {
    for (format, policy) in [
        (BlockFormat::Q8_0, TilePolicy::Int8),
        (BlockFormat::Q5_0, TilePolicy::Native),
        (BlockFormat::Q4_1, TilePolicy::Native),
        (BlockFormat::Q4K, TilePolicy::Native),
        (BlockFormat::Q6K, TilePolicy::Native),
    ] {
        let (matrix, _) = tiled(format, policy);
        let mut file = HugeBuffer::zeroed(128 + matrix.cached_len() + 64).unwrap();
        let mut rest = &mut file[128..];
        matrix.write_to(&mut rest).unwrap();
        assert_eq!(rest.len(), 64, "exactly cached_len bytes");
        let file = SharedBytes::new(Arc::new(file));
        let cached = TiledMatrix::from_cache(&file.slice(128..file.len()).unwrap()).unwrap();
        assert_eq!(rows(&cached), rows(&matrix));
        assert_eq!(
            (cached.n(), cached.k(), cached.kind()),
            (matrix.n(), matrix.k(), matrix.kind())
        );
        assert_eq!(cached.bytes.as_ptr(), file[128 + 64..].as_ptr());
    }
}

#[test]
fn a_foreign_or_damaged_cache_is_refused() {
    let (matrix, _) = tiled(BlockFormat::Q8_0, TilePolicy::Int8);
    let mut bytes = Vec::new();
    matrix.write_to(&mut bytes).unwrap();
    let load = |at: usize, change: &dyn Fn(&mut [u8])| {
        let mut file = HugeBuffer::zeroed(at + bytes.len()).unwrap();
        file[at..].copy_from_slice(&bytes);
        change(&mut file[at..]);
        let file = SharedBytes::new(Arc::new(file));
        TiledMatrix::from_cache(&file.slice(at..file.len()).unwrap())
    };
    assert!(load(0, &|_| {}).is_ok());
    assert!(
        load(8, &|_| {})
            .unwrap_err()
            .to_string()
            .contains("multiple of 64")
    );
    assert!(
        load(0, &|file| file[0] = 0)
            .unwrap_err()
            .to_string()
            .contains("begin with tiles")
    );
    assert!(
        load(0, &|file| file[8] = 99)
            .unwrap_err()
            .to_string()
            .contains("received 99")
    );
    assert!(
        load(0, &|file| file[12] = 9)
            .unwrap_err()
            .to_string()
            .contains("kind of tile 9")
    );
    assert!(
        load(0, &|file| file[24] += 1)
            .unwrap_err()
            .to_string()
            .contains("no shape")
    );
    assert!(
        load(0, &|file| file[16..32].fill(0xff))
            .unwrap_err()
            .to_string()
            .contains("no shape")
    );
    assert!(
        load(0, &|file| file[16] += 17)
            .unwrap_err()
            .to_string()
            .contains("expected")
    );
    let short = SharedBytes::new(Arc::new(vec![0_u8; 10]));
    assert!(
        TiledMatrix::from_cache(&short)
            .unwrap_err()
            .to_string()
            .contains("received 10")
    );
}

#[test]
fn a_cache_of_partial_super_blocks_is_refused() {
    let mut bytes = Vec::new();
    let (matrix, _) = tiled(BlockFormat::Q4K, TilePolicy::Native);
    matrix.write_to(&mut bytes).unwrap();
    let mut file = HugeBuffer::zeroed(bytes.len()).unwrap();
    file.copy_from_slice(&bytes);
    // 544 values of a row in place of 512.
    file[24] += 32;
    let error = TiledMatrix::from_cache(&SharedBytes::new(Arc::new(file))).unwrap_err();
    assert!(error.to_string().contains("no shape"), "{error}");
}
