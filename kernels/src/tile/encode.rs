//! From blocks of a file to blocks of a tile.

use half::f16;

use super::layout::{BLOCK, COLUMNS, TileKind, place};
use crate::BlockFormat;
use crate::block::{f16_at, f16_bits_at, fifth_bits, scales_and_minima};

/// The sections of one tile, all `[block]`.
#[derive(Debug)]
pub(super) struct TileMut<'a> {
    pub(super) quants: &'a mut [u8],
    pub(super) planes: &'a mut [u8],
    pub(super) scales: &'a mut [u8],
    pub(super) minima: &'a mut [u8],
}

/// 32 weights of one column as a tile stores them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    pub(super) quants: [u8; BLOCK],
    pub(super) scale: f16,
    pub(super) minimum: f16,
}

impl TileMut<'_> {
    pub(super) fn set(&mut self, kind: TileKind, (block, column): (usize, usize), values: &Column) {
        let quants = &mut self.quants[block * kind.quant_bytes()..][..kind.quant_bytes()];
        for (at, &quant) in values.quants.iter().enumerate() {
            let place = place(column, at);
            match kind {
                TileKind::Int8 => quants[place] = quant,
                TileKind::Int5 | TileKind::Int4Min => {
                    let half = place / kind.quant_bytes();
                    quants[place % kind.quant_bytes()] |= (quant & 15) << (4 * half);
                }
            }
            if kind == TileKind::Int5 {
                self.planes[block * kind.plane_bytes() + place / 8] |= (quant >> 4) << (place % 8);
            }
        }
        let scale = (block * COLUMNS + column) * 2;
        self.scales[scale..scale + 2].copy_from_slice(&values.scale.to_le_bytes());
        if kind == TileKind::Int4Min {
            self.minima[scale..scale + 2].copy_from_slice(&values.minimum.to_le_bytes());
        }
    }
}

/// The kind of tile a format goes to under each policy without loss where one exists.
pub(super) fn native_kind(format: BlockFormat) -> TileKind {
    match format {
        BlockFormat::Q5_0 => TileKind::Int5,
        BlockFormat::Q4_0 | BlockFormat::Q4_1 | BlockFormat::Q4K => TileKind::Int4Min,
        BlockFormat::F32
        | BlockFormat::F16
        | BlockFormat::Bf16
        | BlockFormat::Q5_1
        | BlockFormat::Q8_0
        | BlockFormat::Q5K
        | BlockFormat::Q6K => TileKind::Int8,
    }
}

/// Whether the tile keeps the file's integers and scales (Q4_K's 6-bit scales are multiplied out and rounded to
/// half precision, an error below 2^-11 of the scale).
pub(super) fn keeps_integers(format: BlockFormat, kind: TileKind) -> bool {
    match kind {
        TileKind::Int8 => matches!(format, BlockFormat::Q4_0 | BlockFormat::Q5_0 | BlockFormat::Q8_0),
        TileKind::Int5 => format == BlockFormat::Q5_0,
        TileKind::Int4Min => matches!(format, BlockFormat::Q4_0 | BlockFormat::Q4_1 | BlockFormat::Q4K),
    }
}

/// Calls `emit` with the columns of one row of `bytes`, block by block. The pair must [`keeps_integers`].
pub(super) fn keep(format: BlockFormat, kind: TileKind, bytes: &[u8], mut emit: impl FnMut(usize, &Column)) {
    if format == BlockFormat::Q4K {
        for (index, block) in bytes.chunks_exact(format.block_bytes()).enumerate() {
            let pairs = scales_and_minima(block);
            for (group, (scale, minimum)) in pairs.into_iter().enumerate() {
                let quants = q4_k_group(block, group);
                let column = Column {
                    quants,
                    scale: f16::from_f32(scale),
                    minimum: f16::from_f32(minimum),
                };
                emit(index * pairs.len() + group, &column);
            }
        }
        return;
    }
    for (index, block) in bytes.chunks_exact(format.block_bytes()).enumerate() {
        let scale = f16::from_bits(f16_bits_at(block, 0));
        let minimum = match format {
            BlockFormat::Q4_0 => f16::from_f32(8.0 * scale.to_f32()),
            BlockFormat::Q4_1 => f16::from_f32(-f16_at(block, 2)),
            _ => f16::ZERO,
        };
        emit(
            index,
            &Column {
                quants: legacy_quants(format, kind, block),
                scale,
                minimum,
            },
        );
    }
}

fn legacy_quants(format: BlockFormat, kind: TileKind, block: &[u8]) -> [u8; BLOCK] {
    let shift = kind.offset();
    let nibble = |quants: &[u8], at: usize| (quants[at % 16] >> (at / 16 * 4)) & 15;
    std::array::from_fn(|at| match format {
        BlockFormat::Q8_0 => block[2 + at].wrapping_add(shift),
        BlockFormat::Q5_0 => {
            let fifth = (((fifth_bits(block, 2) >> at) & 1) << 4) as u8;
            (nibble(&block[6..], at) | fifth) + (shift - 16)
        }
        BlockFormat::Q4_0 if kind == TileKind::Int8 => nibble(&block[2..], at) + (shift - 8),
        BlockFormat::Q4_0 => nibble(&block[2..], at),
        _ => nibble(&block[4..], at),
    })
}

fn q4_k_group(block: &[u8], group: usize) -> [u8; BLOCK] {
    let quants = &block[16 + group / 2 * BLOCK..][..BLOCK];
    std::array::from_fn(|at| (quants[at] >> (group % 2 * 4)) & 15)
}

/// 32 values as 8-bit integers: the scale is the largest magnitude over 127, rounded up to half precision, so that
/// no integer exceeds 127. `gain` is the matrix's power of two. `None` when a value is not finite.
pub(super) fn round_to_int8(values: &[f32; BLOCK], gain: f32) -> Option<Column> {
    let largest = values
        .iter()
        .fold(0_u32, |largest, value| largest.max(value.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest) / gain;
    if !largest.is_finite() {
        return None;
    }
    let scale = round_up(largest / 127.0);
    if !scale.is_finite() {
        return None;
    }
    let inverse = if scale == f16::ZERO {
        0.0
    } else {
        1.0 / (scale.to_f32() * gain)
    };
    let quants = values.map(|value| ((value * inverse).round_ties_even() as i8 as u8).wrapping_add(128));
    Some(Column {
        quants,
        scale,
        minimum: f16::ZERO,
    })
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
