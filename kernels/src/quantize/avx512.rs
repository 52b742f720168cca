#![expect(unsafe_code, reason = "vector loads and stores within fixed-size arrays")]

use std::arch::x86_64::*;

use super::{ROW_WORDS, scale_and_inverse};
use crate::tile::BLOCK;

/// The words of one block, as [`super::quantize_block`] gives them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
pub(super) fn quantize_block(x: &[f32; BLOCK]) -> [u32; ROW_WORDS] {
    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    // SAFETY: 16 of the 32 values each.
    let (low, high) = unsafe { (_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16))) };
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    let largest = _mm512_max_epu32(
        _mm512_and_si512(_mm512_castps_si512(low), magnitude),
        _mm512_and_si512(_mm512_castps_si512(high), magnitude),
    );
    let (scale, inverse) = scale_and_inverse(f32::from_bits(_mm512_reduce_max_epu32(largest)));
    let inverse = _mm512_set1_ps(inverse);
    let low = _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_mul_ps(low, inverse));
    let high = _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_mul_ps(high, inverse));
    let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
    let mut words = [0; ROW_WORDS];
    // SAFETY: 16 bytes each, the first eight of the words.
    unsafe {
        _mm_storeu_si128(words.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(low));
        _mm_storeu_si128(words.as_mut_ptr().add(4).cast(), _mm512_cvtepi32_epi8(high));
    }
    words[BLOCK / 4] = scale.to_bits();
    words[BLOCK / 4 + 1] = sum.wrapping_mul(-128).cast_unsigned();
    words[BLOCK / 4 + 2] = sum.wrapping_mul(-16).cast_unsigned();
    words[BLOCK / 4 + 3] = (scale * sum as f32).to_bits();
    words
}

/// As [`super::scalar_pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn pack(x: &[f32], k: usize, words: &mut [u32]) {
    let rows = x.len() / k;
    for (row, x) in x.chunks_exact(k).enumerate() {
        let blocks = words.chunks_exact_mut(ROW_WORDS * rows);
        for (x, words) in x.as_chunks::<BLOCK>().0.iter().zip(blocks) {
            let block = quantize_block(x);
            for (word, place) in block.into_iter().zip(words[row..].iter_mut().step_by(rows)) {
                *place = word;
            }
        }
    }
}
