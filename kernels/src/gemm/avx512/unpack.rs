//! From packed weights to one integer in a byte.

#![expect(
    unsafe_code,
    reason = "vector loads and stores through pointers into slices whose lengths are asserted"
)]

use std::arch::x86_64::*;

use crate::tile::{BLOCK, COLUMNS, Tile, TileKind};

/// Groups of four values in a block: one `vpdpbusd` each.
pub(super) const GROUPS: usize = BLOCK / 4;

// Kinds of tiles as numbers, which can be parameters of functions.
pub(super) const INT8: u8 = 0;
pub(super) const INT5: u8 = 1;
pub(super) const INT4_MIN: u8 = 2;
pub(super) const INT4_SUPER: u8 = 3;
pub(super) const INT6_SUPER: u8 = 4;

pub(super) const fn kind(code: u8) -> TileKind {
    match code {
        INT8 => TileKind::Int8,
        INT5 => TileKind::Int5,
        INT4_MIN => TileKind::Int4Min,
        INT4_SUPER => TileKind::Int4Super,
        _ => TileKind::Int6Super,
    }
}

/// Unpacks the integers of a tile, one to a byte, in the order of the 8-bit kind.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(in crate::gemm) fn widen(tile: &Tile<'_>, wide: &mut [u8]) {
    assert_eq!(wide.len(), tile.blocks * COLUMNS * BLOCK, "room for the tile");
    assert!(tile.is_whole(), "sections as long as the kind says");
    // SAFETY: the lengths have just been checked.
    unsafe {
        match tile.kind {
            TileKind::Int8 => wide.copy_from_slice(tile.quants),
            TileKind::Int5 => widen_blocks::<INT5>(tile, wide),
            TileKind::Int4Min => widen_blocks::<INT4_MIN>(tile, wide),
            TileKind::Int4Super => widen_blocks::<INT4_SUPER>(tile, wide),
            TileKind::Int6Super => widen_blocks::<INT6_SUPER>(tile, wide),
        }
    }
}

/// # Safety
/// `tile` is of this kind, `wide` holds 512 bytes for each block.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn widen_blocks<const KIND: u8>(tile: &Tile<'_>, wide: &mut [u8]) {
    for (index, wide) in wide.chunks_exact_mut(COLUMNS * BLOCK).enumerate() {
        // SAFETY: block `index` exists, by the caller's promise, and has eight groups of 64 bytes.
        unsafe {
            let sections = (
                tile.quants.as_ptr().add(index * kind(KIND).quant_bytes()),
                tile.planes.as_ptr().add(index * kind(KIND).plane_bytes()),
            );
            let wide = wide.as_mut_ptr();
            unrolled!(group in [0 1 2 3] {
                let [low, high] = if KIND == INT6_SUPER {
                    [six_bits::<0>(sections, group), six_bits::<1>(sections, group)]
                } else {
                    nibbles::<KIND>(sections, group)
                };
                _mm512_storeu_si512(wide.add(group * 64).cast(), low);
                _mm512_storeu_si512(wide.add((group + GROUPS / 2) * 64).cast(), high);
            });
        }
    }
}

/// Two groups of 4-bit weights, `group` and `group + 4`, or of 5-bit weights whose fifth bits are a mask for each group.
///
/// # Safety
/// 256 bytes of nibbles, 64 bytes of masks for 5-bit weights.
#[inline(always)]
pub(super) unsafe fn nibbles<const KIND: u8>(
    (quants, planes): (*const u8, *const u8),
    group: usize,
) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let (low_bits, fifth) = (_mm512_set1_epi8(15), _mm512_set1_epi8(16));
        let both = _mm512_loadu_si512(quants.add(group * 64).cast());
        let mut low = _mm512_and_si512(both, low_bits);
        let mut high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low_bits);
        if KIND == INT5 {
            let mask = |group: usize| planes.cast::<u64>().add(group).read_unaligned();
            low = _mm512_mask_add_epi8(low, mask(group), low, fifth);
            high = _mm512_mask_add_epi8(high, mask(group + GROUPS / 2), high, fifth);
        }
        [low, high]
    }
}

/// A group of 6-bit weights in the first or second part of a block: low nibbles and the first 64 bytes of planes, or
/// high nibbles and the second.
///
/// # Safety
/// 256 bytes of nibbles, 128 bytes of planes.
#[inline(always)]
pub(super) unsafe fn six_bits<const PART: usize>(
    (quants, planes): (*const u8, *const u8),
    group: usize,
) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let (low_bits, high_bits) = (_mm512_set1_epi8(15), _mm512_set1_epi8(48));
        let both = _mm512_loadu_si512(quants.add(group * 64).cast());
        let nibbles = if PART == 0 {
            both
        } else {
            _mm512_srli_epi16::<4>(both)
        };
        let pairs = _mm512_loadu_si512(planes.add(PART * 64).cast());
        let pairs = match group {
            0 => _mm512_slli_epi16::<4>(pairs),
            1 => _mm512_slli_epi16::<2>(pairs),
            2 => pairs,
            _ => _mm512_srli_epi16::<2>(pairs),
        };
        let pairs = _mm512_and_si512(pairs, high_bits);
        // pairs | (nibbles & low_bits)
        _mm512_ternarylogic_epi32::<0xf8>(pairs, nibbles, low_bits)
    }
}
