//! K-quants: blocks of 256 values, scaled in groups of 32 (Q4_K, Q5_K) or 16 (Q6_K).

use super::f16_at;

/// The eight pairs of scale and minimum of a Q4_K or Q5_K block, before they are multiplied with its two factors.
pub(crate) fn six_bit_pairs(block: &[u8]) -> [[u8; 2]; 8] {
    let packed = &block[4..16];
    std::array::from_fn(|group| {
        if group < 4 {
            [packed[group] & 63, packed[group + 4] & 63]
        } else {
            [
                (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4),
                (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4),
            ]
        }
    })
}

/// The eight (scale, minimum) pairs of a Q4_K or Q5_K block: value = scale * q - minimum.
fn scales_and_minima(block: &[u8]) -> [(f32, f32); 8] {
    let (d, d_min) = (f16_at(block, 0), f16_at(block, 2));
    six_bit_pairs(block).map(|[scale, minimum]| (d * f32::from(scale), d_min * f32::from(minimum)))
}

/// 32 values of a Q6_K block as integers of 0..64, and the two signed scales of 16 values each as bytes.
pub(crate) fn q6_k_quants(block: &[u8], group: usize) -> ([u8; 32], [u8; 2]) {
    let (half, quarter) = (group / 4, group % 4);
    let low = &block[half * 64 + quarter % 2 * 32..][..32];
    let high = &block[128 + half * 32..][..32];
    let nibble = quarter / 2 * 4;
    let quants =
        std::array::from_fn(|at| ((low[at] >> nibble) & 15) | (((high[at] >> (2 * quarter)) & 3) << 4));
    let scales = 192 + half * 8 + 2 * quarter;
    (quants, [block[scales], block[scales + 1]])
}

pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    let pairs = scales_and_minima(block);
    for (pair, (quants, out)) in block[16..]
        .chunks_exact(32)
        .zip(out.chunks_exact_mut(64))
        .enumerate()
    {
        let (low, high) = out.split_at_mut(32);
        let ((d0, m0), (d1, m1)) = (pairs[2 * pair], pairs[2 * pair + 1]);
        for at in 0..32 {
            low[at] = d0 * f32::from(quants[at] & 15) - m0;
            high[at] = d1 * f32::from(quants[at] >> 4) - m1;
        }
    }
}

pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    let pairs = scales_and_minima(block);
    let bits = &block[16..48];
    for (pair, (quants, out)) in block[48..]
        .chunks_exact(32)
        .zip(out.chunks_exact_mut(64))
        .enumerate()
    {
        let (low, high) = out.split_at_mut(32);
        let ((d0, m0), (d1, m1)) = (pairs[2 * pair], pairs[2 * pair + 1]);
        for at in 0..32 {
            let fifth = bits[at] >> (2 * pair);
            low[at] = d0 * f32::from((quants[at] & 15) | ((fifth & 1) << 4)) - m0;
            high[at] = d1 * f32::from((quants[at] >> 4) | ((fifth & 2) << 3)) - m1;
        }
    }
}

pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let d = f16_at(block, 208);
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (quants, scales) = q6_k_quants(block, group);
        for (at, out) in out.iter_mut().enumerate() {
            let scale = scales[at / 16].cast_signed();
            *out = d * f32::from(scale) * f32::from(quants[at].cast_signed() - 32);
        }
    }
}
