#![expect(
    unsafe_code,
    reason = "vector loads and stores at places computed from asserted lengths"
)]

use std::arch::x86_64::*;

use super::{ROW_WORDS, TINY};
use crate::tile::BLOCK;

/// Four blocks of 32 values, rounded at once. Lane `i` of a vector of four belongs to block `i`.
struct Rounded {
    quants: [__m256i; 4],
    scales: __m128,
    sums: __m128i,
    /// Of the first 16 values.
    first_sums: __m128i,
}

/// As [`super::scalar_pack`]: four rows at a time, or four blocks where there is one row.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn pack(x: &[f32], k: usize, words: &mut [u32]) {
    let (rows, blocks) = (x.len() / k, k / BLOCK);
    assert!(
        x.len() == rows * k && k == blocks * BLOCK && rows > 0,
        "whole rows of whole blocks"
    );
    assert_eq!(words.len(), rows * blocks * ROW_WORDS, "words for all rows");
    // SAFETY: rows, blocks and words below stay below their counts, which the assertions tie to the slices.
    unsafe {
        if rows == 1 {
            for block in (0..blocks).step_by(4) {
                let count = (blocks - block).min(4);
                // The last group repeats a block in place of those it lacks.
                let four = round(std::array::from_fn(|at| {
                    x.as_ptr().add((block + at.min(count - 1)) * BLOCK)
                }));
                store_blocks(&four, words.as_mut_ptr().add(block * ROW_WORDS), count);
            }
            return;
        }
        for row in (0..rows).step_by(4) {
            let count = (rows - row).min(4);
            for block in 0..blocks {
                let start = |at: usize| x.as_ptr().add((row + at.min(count - 1)) * k + block * BLOCK);
                let four = round(std::array::from_fn(start));
                store_rows(
                    &four,
                    words.as_mut_ptr().add(block * ROW_WORDS * rows + row),
                    rows,
                    count,
                );
            }
        }
    }
}

/// # Safety
/// 32 values at each pointer.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn round(x: [*const f32; 4]) -> Rounded {
    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    let zero = _mm512_setzero_ps();
    let (mut low, mut high) = ([zero; 4], [zero; 4]);
    let mut largest = [_mm_setzero_si128(); 4];
    for at in 0..4 {
        // SAFETY: the caller's promise.
        (low[at], high[at]) = unsafe { (_mm512_loadu_ps(x[at]), _mm512_loadu_ps(x[at].add(16))) };
        largest[at] = largest_magnitude(low[at], high[at]);
    }
    let largest = transposed(largest);
    let largest = _mm_max_epu32(
        _mm_max_epu32(largest[0], largest[1]),
        _mm_max_epu32(largest[2], largest[3]),
    );
    let (scales, inverses) = scales_and_inverses(_mm_castsi128_ps(largest));
    let mut quants = [_mm256_setzero_si256(); 4];
    let mut sums = [[_mm_setzero_si128(); 4]; 2];
    for at in 0..4 {
        let place = _mm512_set1_epi32(at as i32);
        let inverse = _mm512_permutexvar_ps(place, _mm512_castps128_ps512(inverses));
        let low = _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_mul_ps(low[at], inverse));
        let high = _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_mul_ps(high[at], inverse));
        quants[at] = _mm256_set_m128i(_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low));
        let eight = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), quants[at]);
        sums[0][at] = _mm256_castsi256_si128(eight);
        sums[1][at] = _mm256_extracti128_si256::<1>(eight);
    }
    let [first_sums, second_sums] = sums.map(|sums| totals(sums));
    Rounded {
        quants,
        scales,
        sums: _mm_add_epi32(first_sums, second_sums),
        first_sums,
    }
}

/// The sum of each vector's lanes.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn totals(v: [__m128i; 4]) -> __m128i {
    let lines = transposed(v);
    _mm_add_epi32(
        _mm_add_epi32(lines[0], lines[1]),
        _mm_add_epi32(lines[2], lines[3]),
    )
}

/// The largest magnitude of each lane's values, as bits: they compare as magnitudes do, NaN above all.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
fn largest_magnitude(low: __m512, high: __m512) -> __m128i {
    let bits = _mm512_set1_epi32(0x7fff_ffff);
    let low = _mm512_and_si512(_mm512_castps_si512(low), bits);
    let high = _mm512_and_si512(_mm512_castps_si512(high), bits);
    let sixteen = _mm512_max_epu32(low, high);
    let eight = _mm256_max_epu32(
        _mm512_castsi512_si256(sixteen),
        _mm512_extracti64x4_epi64::<1>(sixteen),
    );
    _mm_max_epu32(
        _mm256_castsi256_si128(eight),
        _mm256_extracti128_si256::<1>(eight),
    )
}

/// As [`super::scale_and_inverse`], four times.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn scales_and_inverses(largest: __m128) -> (__m128, __m128) {
    let full = _mm_set1_ps(127.0);
    let finite = _mm_cmp_ps_mask::<_CMP_LE_OQ>(largest, _mm_set1_ps(f32::MAX));
    let ordinary = finite & _mm_cmp_ps_mask::<_CMP_GE_OQ>(largest, _mm_set1_ps(TINY));
    let scales = _mm_maskz_div_ps(ordinary, largest, full);
    let scales = _mm_mask_mov_ps(_mm_set1_ps(f32::NAN), finite, scales);
    (scales, _mm_maskz_div_ps(ordinary, full, largest))
}

/// The words after the quants: scale, sum times -128, first sum times -32, scale times sum.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn factors(four: &Rounded) -> [__m128i; 4] {
    let less = |sums| _mm_sub_epi32(_mm_setzero_si128(), sums);
    let product = _mm_mul_ps(four.scales, _mm_cvtepi32_ps(four.sums));
    [
        _mm_castps_si128(four.scales),
        _mm_slli_epi32::<7>(less(four.sums)),
        _mm_slli_epi32::<5>(less(four.first_sums)),
        _mm_castps_si128(product),
    ]
}

/// Four vectors of four words, lines for columns.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn transposed(v: [__m128i; 4]) -> [__m128i; 4] {
    let (a, b) = (_mm_unpacklo_epi32(v[0], v[1]), _mm_unpackhi_epi32(v[0], v[1]));
    let (c, d) = (_mm_unpacklo_epi32(v[2], v[3]), _mm_unpackhi_epi32(v[2], v[3]));
    [
        _mm_unpacklo_epi64(a, c),
        _mm_unpackhi_epi64(a, c),
        _mm_unpacklo_epi64(b, d),
        _mm_unpackhi_epi64(b, d),
    ]
}

/// Blocks of one row: their words follow each other.
///
/// # Safety
/// `count` times [`ROW_WORDS`] words at `words`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn store_blocks(four: &Rounded, words: *mut u32, count: usize) {
    let factors = transposed(factors(four));
    for (at, (quants, factors)) in four.quants.into_iter().zip(factors).take(count).enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let words = words.add(at * ROW_WORDS);
            _mm256_storeu_si256(words.cast(), quants);
            _mm_storeu_si128(words.add(BLOCK / 4).cast(), factors);
        }
    }
}

/// The same block of `count` rows: their words lie side by side, `rows` to a line.
///
/// # Safety
/// [`ROW_WORDS`] lines of `rows` words at `words`, `count` of each to be written, at most four.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn store_rows(four: &Rounded, words: *mut u32, rows: usize, count: usize) {
    let (mut low, mut high) = ([_mm_setzero_si128(); 4], [_mm_setzero_si128(); 4]);
    for at in 0..4 {
        low[at] = _mm256_castsi256_si128(four.quants[at]);
        high[at] = _mm256_extracti128_si256::<1>(four.quants[at]);
    }
    let lines = [transposed(low), transposed(high), factors(four)];
    let mask = (1_u8 << count) - 1;
    for (at, line) in lines.into_iter().flatten().enumerate() {
        // SAFETY: the caller's promise; the mask leaves the other lanes alone.
        unsafe { _mm_mask_storeu_epi32(words.add(at * rows).cast(), mask, line) };
    }
}
