//! Blocks of 32 values with one scale: values 0..16 in the low nibbles, 16..32 in the high ones.

use super::f16_at;

/// The fifth bits of a Q5_0 or Q5_1 block whose nibbles begin at `at + 4`: bit `i` belongs to value `i`.
pub(crate) fn fifth_bits(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let d = f16_at(block, 0);
    nibbles(&block[2..], out, |_, q| f32::from(q as i8 - 8) * d);
}

pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    nibbles(&block[4..], out, |_, q| f32::from(q) * d + m);
}

pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let (d, high) = (f16_at(block, 0), fifth_bits(block, 2));
    nibbles(&block[6..], out, |at, q| {
        f32::from((q | fifth(high, at)) as i8 - 16) * d
    });
}

pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (d, m, high) = (f16_at(block, 0), f16_at(block, 2), fifth_bits(block, 4));
    nibbles(&block[8..], out, |at, q| f32::from(q | fifth(high, at)) * d + m);
}

pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let d = f16_at(block, 0);
    for (out, &q) in out.iter_mut().zip(&block[2..]) {
        *out = f32::from(q as i8) * d;
    }
}

fn fifth(high: u32, at: usize) -> u8 {
    (((high >> at) & 1) << 4) as u8
}

fn nibbles(quants: &[u8], out: &mut [f32], value: impl Fn(usize, u8) -> f32) {
    let (low, high) = out.split_at_mut(16);
    for (at, &byte) in quants.iter().enumerate() {
        low[at] = value(at, byte & 15);
        high[at] = value(at + 16, byte >> 4);
    }
}
