//! From blocks of a file to blocks of a tile.

use half::f16;

use super::layout::{BLOCK, COLUMNS, SUPER, TileKind};
use crate::BlockFormat;
use crate::block::{f16_at, f16_bits_at, fifth_bits, q6_k_quants, six_bit_pairs};

/// The sections of one tile, as in [`super::Tile`].
#[derive(Debug)]
pub(super) struct TileMut<'a> {
    pub(super) quants: &'a mut [u8],
    pub(super) planes: &'a mut [u8],
    pub(super) scales: &'a mut [u8],
    pub(super) minima: &'a mut [u8],
    pub(super) factors: &'a mut [u8],
}

/// 32 weights of one column as a tile stores them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    pub(super) quants: [u8; BLOCK],
    pub(super) factors: Factors,
}

/// What the integers of a column are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Factors {
    /// A scale and, where the kind has one, a minimum.
    Halves(f16, f16),
    /// [`TileKind::Int4Super`]: scale and minimum, and what each is multiplied with.
    Four([u8; 2], [f16; 2]),
    /// [`TileKind::Int6Super`]: the scales of both halves, and what they are multiplied with.
    Six([u8; 2], f16),
}

impl Factors {
    pub(super) fn is_finite(&self) -> bool {
        match self {
            Factors::Halves(scale, minimum) => scale.is_finite() && minimum.is_finite(),
            Factors::Four(_, factors) => factors.iter().all(|factor| factor.is_finite()),
            Factors::Six(_, factor) => factor.is_finite(),
        }
    }
}

impl TileMut<'_> {
    /// Writes 32 weights of one column, over zeroes. Bytes lie as `place` says, four at a time.
    pub(super) fn set(&mut self, kind: TileKind, (block, column): (usize, usize), values: &Column) {
        let quants = &mut self.quants[block * kind.quant_bytes()..][..kind.quant_bytes()];
        let groups = values.quants.as_chunks::<4>().0;
        if kind == TileKind::Int8 {
            for (place, group) in quants.chunks_exact_mut(4 * COLUMNS).zip(groups) {
                place[4 * column..4 * column + 4].copy_from_slice(group);
            }
        } else {
            let (low, high) = groups.split_at(BLOCK / 8);
            for (place, (low, high)) in quants.chunks_exact_mut(4 * COLUMNS).zip(low.iter().zip(high)) {
                let nibbles: [u8; 4] = std::array::from_fn(|at| (low[at] & 15) | (high[at] << 4));
                place[4 * column..4 * column + 4].copy_from_slice(&nibbles);
            }
        }
        if kind == TileKind::Int5 {
            let planes = &mut self.planes[block * kind.plane_bytes()..][..kind.plane_bytes()];
            for (plane, group) in planes.chunks_exact_mut(COLUMNS / 2).zip(groups) {
                let bits = (0..4).fold(0, |bits, at| bits | ((group[at] >> 4) << at));
                let shift = column % 2 * 4;
                plane[column / 2] = (plane[column / 2] & !(15 << shift)) | (bits << shift);
            }
        }
        if kind == TileKind::Int6Super {
            let planes = &mut self.planes[block * kind.plane_bytes()..][..kind.plane_bytes()];
            for (plane, groups) in planes.chunks_exact_mut(4 * COLUMNS).zip(groups.chunks_exact(4)) {
                for (at, pairs) in plane[4 * column..4 * column + 4].iter_mut().enumerate() {
                    *pairs = (0..4).fold(0, |pairs, group| pairs | groups[group][at] >> 4 << (2 * group));
                }
            }
        }
        self.set_factors(kind, (block, column), values.factors);
    }

    fn set_factors(&mut self, kind: TileKind, (block, column): (usize, usize), factors: Factors) {
        let place = block * COLUMNS + column;
        let shared = block / SUPER * (kind.factor_bytes() / 2) + column;
        match factors {
            Factors::Halves(scale, minimum) => {
                put(self.scales, place, scale);
                if kind == TileKind::Int4Min {
                    put(self.minima, place, minimum);
                }
            }
            Factors::Four([scale, minimum], factors) => {
                (self.scales[place], self.minima[place]) = (scale, minimum);
                put(self.factors, shared, factors[0]);
                put(self.factors, shared + COLUMNS, factors[1]);
            }
            Factors::Six(scales, factor) => {
                for (part, scale) in scales.into_iter().enumerate() {
                    self.scales[(2 * block + part) * COLUMNS + column] = scale;
                }
                put(self.factors, shared, factor);
            }
        }
    }
}

/// Writes the half-precision number with this index.
fn put(section: &mut [u8], index: usize, value: f16) {
    section[2 * index..2 * index + 2].copy_from_slice(&value.to_le_bytes());
}

/// The kind of tile a format goes to under each policy without loss where one exists.
pub(super) fn native_kind(format: BlockFormat) -> TileKind {
    match format {
        BlockFormat::Q5_0 => TileKind::Int5,
        BlockFormat::Q4_0 | BlockFormat::Q4_1 => TileKind::Int4Min,
        BlockFormat::Q4K => TileKind::Int4Super,
        BlockFormat::Q6K => TileKind::Int6Super,
        BlockFormat::F32
        | BlockFormat::F16
        | BlockFormat::Bf16
        | BlockFormat::Q5_1
        | BlockFormat::Q8_0
        | BlockFormat::Q5K => TileKind::Int8,
    }
}

/// A format whose integers and scales some tile keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Q4_0,
    /// Q4_0 with its offset as a minimum of 8 times the scale.
    Q4_0Min,
    Q4_1,
    Q5_0,
    Q8_0,
    Q4K,
    Q6K,
}

/// How the tile keeps the file's integers and scales; `None` where values must be rounded.
pub(super) fn kept(format: BlockFormat, kind: TileKind) -> Option<Kept> {
    match (format, kind) {
        (BlockFormat::Q4_0, TileKind::Int8) => Some(Kept::Q4_0),
        (BlockFormat::Q4_0, TileKind::Int4Min) => Some(Kept::Q4_0Min),
        (BlockFormat::Q4_1, TileKind::Int4Min) => Some(Kept::Q4_1),
        (BlockFormat::Q5_0, TileKind::Int8 | TileKind::Int5) => Some(Kept::Q5_0),
        (BlockFormat::Q8_0, TileKind::Int8) => Some(Kept::Q8_0),
        (BlockFormat::Q4K, TileKind::Int4Super) => Some(Kept::Q4K),
        (BlockFormat::Q6K, TileKind::Int6Super) => Some(Kept::Q6K),
        _ => None,
    }
}

impl Kept {
    /// Calls `emit` with each 32 weights of a block of the format, for a tile whose weights have this offset.
    pub(super) fn columns(self, offset: u8, block: &[u8], mut emit: impl FnMut(Column)) {
        let half = |at: usize| f16::from_bits(f16_bits_at(block, at));
        let scale = half(0);
        let mut plain = |quants, minimum| {
            emit(Column {
                quants,
                factors: Factors::Halves(scale, minimum),
            });
        };
        let nibbles = |quants: usize, shift: u8| -> [u8; BLOCK] {
            std::array::from_fn(|at| ((block[quants + at % 16] >> (at / 16 * 4)) & 15) + shift)
        };
        match self {
            Kept::Q8_0 => {
                let quants = std::array::from_fn(|at| block[2 + at].wrapping_add(offset));
                plain(quants, f16::ZERO);
            }
            Kept::Q5_0 => {
                let (low, high) = (nibbles(6, 0), fifth_bits(block, 2));
                let fifth = |at: usize| (((high >> at) & 1) << 4) as u8;
                let quants = std::array::from_fn(|at| (low[at] | fifth(at)) + (offset - 16));
                plain(quants, f16::ZERO);
            }
            Kept::Q4_0 => plain(nibbles(2, offset - 8), f16::ZERO),
            Kept::Q4_0Min => plain(nibbles(2, 0), f16::from_f32(8.0 * scale.to_f32())),
            Kept::Q4_1 => plain(nibbles(4, 0), f16::from_f32(-f16_at(block, 2))),
            Kept::Q4K => {
                for (group, pair) in six_bit_pairs(block).into_iter().enumerate() {
                    emit(Column {
                        quants: q4_k_group(block, group),
                        factors: Factors::Four(pair, [scale, half(2)]),
                    });
                }
            }
            Kept::Q6K => {
                for group in 0..SUPER {
                    let (quants, scales) = q6_k_quants(block, group);
                    emit(Column {
                        quants,
                        factors: Factors::Six(scales, half(208)),
                    });
                }
            }
        }
    }
}

fn q4_k_group(block: &[u8], group: usize) -> [u8; BLOCK] {
    let quants = &block[16 + group / 2 * BLOCK..][..BLOCK];
    std::array::from_fn(|at| (quants[at] >> (group % 2 * 4)) & 15)
}

/// 32 values as 8-bit integers, and their largest magnitude. The scale is that magnitude over 127, rounded up to half
/// precision, so that no integer exceeds 127; `gain` is the matrix's power of two. `None` when a value is not finite;
/// where the scale is too large for half precision, integers are 0, and a larger gain is needed.
pub(super) fn round_to_int8(values: &[f32; BLOCK], gain: f32) -> Option<(Column, f32)> {
    let largest = values
        .iter()
        .fold(0_u32, |largest, value| largest.max(value.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest);
    if !largest.is_finite() {
        return None;
    }
    let scale = round_up(largest / gain / 127.0);
    let inverse = if scale == f16::ZERO {
        0.0
    } else {
        1.0 / (scale.to_f32() * gain)
    };
    // Beside 1.5 * 2^23 single precision keeps no fraction: the sum is rounded to even and its low byte is the integer.
    const ROUND: f32 = 12_582_912.0;
    let quants = values.map(|value| ((value * inverse + ROUND).to_bits() as u8).wrapping_add(128));
    Some((
        Column {
            quants,
            factors: Factors::Halves(scale, f16::ZERO),
        },
        largest,
    ))
}

/// The power of two by which a matrix with this largest magnitude is divided before its scales are rounded to half
/// precision: 1 for ordinary weights, else what brings the largest near 1, so that scales are neither subnormal nor
/// infinite.
pub(super) fn gain_for(largest: f32) -> f32 {
    const ORDINARY: std::ops::RangeInclusive<f32> = 0.05..=4096.0;
    if largest == 0.0 || !largest.is_finite() || ORDINARY.contains(&largest) {
        return 1.0;
    }
    f32::exp2(largest.log2().ceil().clamp(-100.0, 100.0))
}

fn round_up(value: f32) -> f16 {
    let nearest = f16::from_f32(value);
    if nearest.to_f32() < value {
        f16::from_bits(nearest.to_bits() + 1)
    } else {
        nearest
    }
}
