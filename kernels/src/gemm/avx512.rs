#![expect(
    unsafe_code,
    reason = "vector loads through pointers into slices whose lengths are asserted"
)]

use std::arch::x86_64::*;

use super::{MAX_PANEL, Sums};
use crate::quantize::{Panel, ROW_WORDS};
use crate::tile::{BLOCK, COLUMNS, Tile, TileKind};

/// Groups of four values in a block: one `vpdpbusd` each.
const GROUPS: usize = BLOCK / 4;

/// How far the weights are asked for ahead of their use, where that helps (measured, docs/results/kernels.md).
const PREFETCH_BYTES: usize = 4096;

/// Rows from which 8-bit weights are prefetched; for fewer the hardware alone does better.
const PREFETCH_ROWS: usize = 8;

const INT8: u8 = 0;
const INT5: u8 = 1;
const INT4_MIN: u8 = 2;

/// Writes the sums of the panel's rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn multiply(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    assert!((1..=MAX_PANEL).contains(&panel.rows), "rows of a panel");
    assert_eq!(
        panel.words.len(),
        tile.blocks * ROW_WORDS * panel.rows,
        "a panel as long as the tile"
    );
    assert_eq!(tile.quants.len(), tile.blocks * tile.kind.quant_bytes());
    assert_eq!(tile.planes.len(), tile.blocks * tile.kind.plane_bytes());
    assert_eq!(tile.scales.len(), tile.blocks * tile.kind.scale_bytes());
    assert_eq!(tile.minima.len(), tile.blocks * tile.kind.minimum_bytes());
    // SAFETY: the lengths have just been checked.
    unsafe {
        match tile.kind {
            TileKind::Int8 if panel.rows < PREFETCH_ROWS => by_rows::<INT8, false>(tile, panel, sums),
            TileKind::Int8 => by_rows::<INT8, true>(tile, panel, sums),
            TileKind::Int5 => by_rows::<INT5, true>(tile, panel, sums),
            TileKind::Int4Min => by_rows::<INT4_MIN, true>(tile, panel, sums),
        }
    }
}

/// # Safety
/// As [`product`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn by_rows<const KIND: u8, const AHEAD: bool>(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    // SAFETY: the caller's promise, with the row count as the constant.
    unsafe {
        match panel.rows {
            1 => product::<KIND, AHEAD, 1>(tile, panel.words, sums),
            2 => product::<KIND, AHEAD, 2>(tile, panel.words, sums),
            3 => product::<KIND, AHEAD, 3>(tile, panel.words, sums),
            4 => product::<KIND, AHEAD, 4>(tile, panel.words, sums),
            5 => product::<KIND, AHEAD, 5>(tile, panel.words, sums),
            6 => product::<KIND, AHEAD, 6>(tile, panel.words, sums),
            7 => product::<KIND, AHEAD, 7>(tile, panel.words, sums),
            8 => product::<KIND, AHEAD, 8>(tile, panel.words, sums),
            9 => product::<KIND, AHEAD, 9>(tile, panel.words, sums),
            10 => product::<KIND, AHEAD, 10>(tile, panel.words, sums),
            11 => product::<KIND, AHEAD, 11>(tile, panel.words, sums),
            _ => product::<KIND, AHEAD, 12>(tile, panel.words, sums),
        }
    }
}

/// `R` rows at once: one integer and one float accumulator for each stay in registers.
///
/// # Safety
/// Every section of `tile` holds `tile.blocks` blocks of its kind, and `words` as many of `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn product<const KIND: u8, const AHEAD: bool, const R: usize>(
    tile: &Tile<'_>,
    words: &[u32],
    sums: &mut Sums,
) {
    let mut totals = [_mm512_setzero_ps(); R];
    let (mut quants, mut words) = (tile.quants.as_ptr(), words.as_ptr());
    let (mut planes, mut scales, mut minima) =
        (tile.planes.as_ptr(), tile.scales.as_ptr(), tile.minima.as_ptr());
    for _ in 0..tile.blocks {
        let mut products = [_mm512_setzero_si512(); R];
        // SAFETY: each pointer is at a block that exists, by the caller's promise; prefetches may go anywhere.
        unsafe {
            if KIND != INT4_MIN {
                let start = words.add((if KIND == INT8 { GROUPS + 1 } else { GROUPS + 2 }) * R);
                for (row, product) in products.iter_mut().enumerate() {
                    *product = broadcast(start.add(row));
                }
            }
            if KIND == INT8 {
                bytes::<AHEAD, R>(quants, words, &mut products);
            } else {
                nibbles::<KIND, AHEAD, R>((quants, planes), words, &mut products);
            }
            let scale = halves(scales);
            for row in 0..R {
                let scale = _mm512_mul_ps(scale, _mm512_castsi512_ps(broadcast(words.add(GROUPS * R + row))));
                totals[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[row]), scale, totals[row]);
            }
            if KIND == INT4_MIN {
                let minimum = halves(minima);
                for (row, total) in totals.iter_mut().enumerate() {
                    let sum = _mm512_castsi512_ps(broadcast(words.add((GROUPS + 3) * R + row)));
                    *total = _mm512_fnmadd_ps(minimum, sum, *total);
                }
            }
        }
        quants = quants.wrapping_add(if KIND == INT8 { 8 * 64 } else { 4 * 64 });
        words = words.wrapping_add(ROW_WORDS * R);
        planes = planes.wrapping_add(if KIND == INT5 { GROUPS * 8 } else { 0 });
        scales = scales.wrapping_add(2 * COLUMNS);
        minima = minima.wrapping_add(if KIND == INT4_MIN { 2 * COLUMNS } else { 0 });
    }
    for (total, sums) in totals.into_iter().zip(sums.iter_mut()) {
        // SAFETY: a row of sums is 16 floats.
        unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), total) };
    }
}

/// A block of 8-bit weights.
///
/// # Safety
/// 512 bytes at `quants`, 8 times `R` words at `words`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn bytes<const AHEAD: bool, const R: usize>(
    quants: *const u8,
    words: *const u32,
    products: &mut [__m512i; R],
) {
    for group in 0..GROUPS {
        // SAFETY: the caller's promise.
        unsafe {
            let weights = _mm512_loadu_si512(quants.add(group * 64).cast());
            if AHEAD {
                _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(group * 64 + PREFETCH_BYTES).cast());
            }
            accumulate(weights, words.add(group * R), products);
        }
    }
}

/// A block of 4-bit weights, or of 5-bit weights whose fifth bits are a mask for each group.
///
/// # Safety
/// 256 bytes of nibbles, 64 bytes of masks for 5-bit weights, 8 times `R` words at `words`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn nibbles<const KIND: u8, const AHEAD: bool, const R: usize>(
    (quants, planes): (*const u8, *const u8),
    words: *const u32,
    products: &mut [__m512i; R],
) {
    let (low_bits, fifth) = (_mm512_set1_epi8(15), _mm512_set1_epi8(16));
    for group in 0..GROUPS / 2 {
        // SAFETY: the caller's promise.
        unsafe {
            let both = _mm512_loadu_si512(quants.add(group * 64).cast());
            if AHEAD {
                _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(group * 64 + PREFETCH_BYTES).cast());
            }
            let mut low = _mm512_and_si512(both, low_bits);
            let mut high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low_bits);
            if KIND == INT5 {
                let mask = |group: usize| planes.cast::<u64>().add(group).read_unaligned();
                low = _mm512_mask_add_epi8(low, mask(group), low, fifth);
                high = _mm512_mask_add_epi8(high, mask(group + GROUPS / 2), high, fifth);
            }
            accumulate(low, words.add(group * R), products);
            accumulate(high, words.add((group + GROUPS / 2) * R), products);
        }
    }
}

/// Adds four products to each sum of each row.
///
/// # Safety
/// `R` words at `words`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn accumulate<const R: usize>(weights: __m512i, words: *const u32, products: &mut [__m512i; R]) {
    for (row, product) in products.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *product = _mm512_dpbusd_epi32(*product, weights, unsafe { broadcast(words.add(row)) });
    }
}

/// # Safety
/// A word at `word`.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn broadcast(word: *const u32) -> __m512i {
    // SAFETY: the caller's promise.
    _mm512_set1_epi32(unsafe { *word }.cast_signed())
}

/// 16 half-precision numbers.
///
/// # Safety
/// 32 bytes at `halves`.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn halves(halves: *const u8) -> __m512 {
    // SAFETY: the caller's promise.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(halves.cast()) })
}
