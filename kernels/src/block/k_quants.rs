//! K-quants: blocks of 256 values, scaled in groups of 32 (Q4_K, Q5_K) or 16 (Q6_K).

use super::f16_at;

/// The eight (scale, minimum) pairs of a Q4_K or Q5_K block: value = scale * q - minimum.
pub(crate) fn scales_and_minima(block: &[u8]) -> [(f32, f32); 8] {
    let (d, d_min) = (f16_at(block, 0), f16_at(block, 2));
    let packed = &block[4..16];
    std::array::from_fn(|group| {
        let (scale, minimum) = if group < 4 {
            (packed[group] & 63, packed[group + 4] & 63)
        } else {
            (
                (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4),
                (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4),
            )
        };
        (d * f32::from(scale), d_min * f32::from(minimum))
    })
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
    for (half, out) in out.chunks_exact_mut(128).enumerate() {
        let low = &block[half * 64..half * 64 + 64];
        let high = &block[128 + half * 32..128 + half * 32 + 32];
        let scales = &block[192 + half * 8..192 + half * 8 + 8];
        for quarter in 0..4 {
            let nibbles = &low[quarter % 2 * 32..quarter % 2 * 32 + 32];
            for at in 0..32 {
                let nibble = if quarter < 2 {
                    nibbles[at] & 15
                } else {
                    nibbles[at] >> 4
                };
                let q = (nibble | (((high[at] >> (2 * quarter)) & 3) << 4)) as i8 - 32;
                let scale = scales[2 * quarter + at / 16] as i8;
                out[quarter * 32 + at] = d * f32::from(scale) * f32::from(q);
            }
        }
    }
}
