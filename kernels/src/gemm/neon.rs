#![expect(
    unsafe_code,
    reason = "vector loads through pointers into slices whose lengths are asserted"
)]

use std::arch::aarch64::*;
use std::arch::asm;

use super::Sums;
use crate::quantize::{Panel, ROW_WORDS};
use crate::tile::{BLOCK, COLUMNS, SUPER, Tile, TileKind};

/// Rows of a panel: what 32 registers hold the sums of.
pub(super) const ROWS: usize = 4;

/// Groups of four values in a block.
const GROUPS: usize = BLOCK / 4;

/// Columns of a vector of sums.
const LANES: usize = 4;

const INT8: u8 = 0;
const INT5: u8 = 1;
const INT4_MIN: u8 = 2;
const INT4_SUPER: u8 = 3;
const INT6_SUPER: u8 = 4;

/// Writes the sums of the panel's rows, with the instructions for dot products where the processor has them.
#[target_feature(enable = "neon")]
pub(super) fn multiply(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    assert!((1..=ROWS).contains(&panel.rows), "rows of a panel");
    assert_eq!(
        panel.words.len(),
        tile.blocks * ROW_WORDS * panel.rows,
        "a panel as long as the tile"
    );
    assert!(tile.is_whole(), "sections as long as the kind says");
    // SAFETY: the lengths and the instructions have just been checked.
    unsafe {
        if std::arch::is_aarch64_feature_detected!("dotprod") {
            with_dot_products(tile, panel, sums);
        } else {
            by_kind::<false>(tile, panel, sums);
        }
    }
}

/// # Safety
/// As [`product`].
#[target_feature(enable = "neon,dotprod")]
unsafe fn with_dot_products(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    // SAFETY: the caller's promise.
    unsafe { by_kind::<true>(tile, panel, sums) };
}

/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn by_kind<const DOT: bool>(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    // SAFETY: the caller's promise.
    unsafe {
        match tile.kind {
            TileKind::Int8 => by_rows::<DOT, INT8>(tile, panel, sums),
            TileKind::Int5 => by_rows::<DOT, INT5>(tile, panel, sums),
            TileKind::Int4Min => by_rows::<DOT, INT4_MIN>(tile, panel, sums),
            TileKind::Int4Super => by_rows::<DOT, INT4_SUPER>(tile, panel, sums),
            TileKind::Int6Super => by_rows::<DOT, INT6_SUPER>(tile, panel, sums),
        }
    }
}

/// One or two rows take all 16 columns at once; more take 8, then the other 8.
///
/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn by_rows<const DOT: bool, const KIND: u8>(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    // SAFETY: the caller's promise, with the row count as the constant.
    unsafe {
        match panel.rows {
            1 => product::<DOT, KIND, 1, 4>(tile, panel.words, sums, 0),
            2 => product::<DOT, KIND, 2, 4>(tile, panel.words, sums, 0),
            3 => {
                product::<DOT, KIND, 3, 2>(tile, panel.words, sums, 0);
                product::<DOT, KIND, 3, 2>(tile, panel.words, sums, 2);
            }
            _ => {
                product::<DOT, KIND, 4, 2>(tile, panel.words, sums, 0);
                product::<DOT, KIND, 4, 2>(tile, panel.words, sums, 2);
            }
        }
    }
}

/// `R` rows and `Q` times 4 columns at once, from column `4 * first` on.
///
/// # Safety
/// Every section of `tile` holds `tile.blocks` blocks of its kind, `words` as many of `R` rows; `first + Q <= 4`; the
/// processor has Advanced SIMD, with `DOT` also its dot products.
#[inline(always)]
unsafe fn product<const DOT: bool, const KIND: u8, const R: usize, const Q: usize>(
    tile: &Tile<'_>,
    words: &[u32],
    sums: &mut Sums,
    first: usize,
) {
    // SAFETY: all pointers stay within block `block` of their section, by the caller's promise.
    unsafe {
        let mut totals = [[vdupq_n_f32(0.0); Q]; R];
        for block in 0..tile.blocks {
            let quants = tile.quants.as_ptr().add(block * tile.kind.quant_bytes());
            let planes = tile.planes.as_ptr().add(block * tile.kind.plane_bytes());
            let words = words.as_ptr().add(block * ROW_WORDS * R);
            let parts = tile.kind.parts();
            for part in 0..parts {
                let mut products = [[vdupq_n_s32(0); Q]; R];
                for group in part * GROUPS / parts..(part + 1) * GROUPS / parts {
                    for quarter in 0..Q {
                        let weights = signed::<KIND>((quants, planes), group, first + quarter);
                        for (row, products) in products.iter_mut().enumerate() {
                            let x = vreinterpretq_s8_u32(vdupq_n_u32(*words.add(group * R + row)));
                            products[quarter] = dot::<DOT>(products[quarter], weights, x);
                        }
                    }
                }
                for quarter in 0..Q {
                    let scale = scale::<KIND>(tile, (block, part), first + quarter);
                    for row in 0..R {
                        let scale = vmulq_n_f32(scale, f32::from_bits(*words.add(GROUPS * R + row)));
                        let product = vcvtq_f32_s32(products[row][quarter]);
                        totals[row][quarter] = vfmaq_f32(totals[row][quarter], product, scale);
                    }
                }
            }
            if KIND == INT4_MIN || KIND == INT4_SUPER {
                for quarter in 0..Q {
                    let minimum = minimum::<KIND>(tile, block, first + quarter);
                    for (row, total) in totals.iter_mut().enumerate() {
                        let sum = vdupq_n_f32(f32::from_bits(*words.add((GROUPS + 3) * R + row)));
                        total[quarter] = vfmsq_f32(total[quarter], minimum, sum);
                    }
                }
            }
        }
        for (total, sums) in totals.into_iter().zip(sums.iter_mut()) {
            for (quarter, total) in total.into_iter().enumerate() {
                vst1q_f32(sums.as_mut_ptr().add((first + quarter) * LANES), total);
            }
        }
    }
}

/// The scales of a part of a block, four columns from `4 * quarter` on.
///
/// # Safety
/// `tile` is of this kind and has the block; `quarter` is below 4; the processor has Advanced SIMD.
#[inline(always)]
unsafe fn scale<const KIND: u8>(
    tile: &Tile<'_>,
    (block, part): (usize, usize),
    quarter: usize,
) -> float32x4_t {
    let column = quarter * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let scales = tile.scales.as_ptr();
        let factors = tile.factors.as_ptr();
        match KIND {
            INT4_SUPER => vmulq_f32(
                four_integers(scales.add(block * COLUMNS + column)),
                four_halves(factors.add(block / SUPER * 4 * COLUMNS + 2 * column)),
            ),
            INT6_SUPER => {
                let scales = scales.add((2 * block + part) * COLUMNS + column);
                let scales = std::array::from_fn(|at| f32::from((*scales.add(at)).cast_signed()));
                let scales: [f32; LANES] = scales;
                let factors = factors.add((block / SUPER * COLUMNS + column) * 2);
                vmulq_f32(vld1q_f32(scales.as_ptr()), four_halves(factors))
            }
            _ => four_halves(scales.add((block * COLUMNS + column) * 2)),
        }
    }
}

/// The minima of a block.
///
/// # Safety
/// As [`scale`].
#[inline(always)]
unsafe fn minimum<const KIND: u8>(tile: &Tile<'_>, block: usize, quarter: usize) -> float32x4_t {
    let place = block * COLUMNS + quarter * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let minima = tile.minima.as_ptr();
        if KIND == INT4_MIN {
            return four_halves(minima.add(2 * place));
        }
        let factors = tile.factors.as_ptr();
        let factors = factors.add((block / SUPER * 4 + 2) * COLUMNS + quarter * 2 * LANES);
        vmulq_f32(four_integers(minima.add(place)), four_halves(factors))
    }
}

/// Four unsigned bytes as numbers.
///
/// # Safety
/// 4 bytes at `bytes`; the processor has Advanced SIMD.
#[inline(always)]
unsafe fn four_integers(bytes: *const u8) -> float32x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        let numbers: [f32; LANES] = std::array::from_fn(|at| f32::from(*bytes.add(at)));
        vld1q_f32(numbers.as_ptr())
    }
}

/// Weights of four columns and four values each, without their offset.
///
/// # Safety
/// A block of the kind at both pointers, as far as it has sections.
#[inline(always)]
unsafe fn signed<const KIND: u8>(
    (quants, planes): (*const u8, *const u8),
    group: usize,
    quarter: usize,
) -> int8x16_t {
    // SAFETY: the caller's promise.
    unsafe {
        let stored = vld1q_u8(quants.add(if KIND == INT8 { group } else { group % 4 } * 64 + quarter * 16));
        if KIND == INT8 {
            return vreinterpretq_s8_u8(veorq_u8(stored, vdupq_n_u8(128)));
        }
        let nibbles = if group < 4 {
            vandq_u8(stored, vdupq_n_u8(15))
        } else {
            vshrq_n_u8::<4>(stored)
        };
        if KIND == INT4_MIN || KIND == INT4_SUPER {
            return vreinterpretq_s8_u8(nibbles);
        }
        if KIND == INT6_SUPER {
            let pairs = vld1q_u8(planes.add(group / 4 * 64 + quarter * 16));
            // A negative count shifts to the right.
            let pairs = vshlq_u8(pairs, vdupq_n_s8(4 - 2 * (group % 4) as i8));
            let weights = vorrq_u8(nibbles, vandq_u8(pairs, vdupq_n_u8(48)));
            return vsubq_s8(vreinterpretq_s8_u8(weights), vdupq_n_s8(32));
        }
        let bits = planes.add(group * 8 + quarter * 2);
        let spread = vcombine_u8(vdup_n_u8(*bits), vdup_n_u8(*bits.add(1)));
        let each = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
        let fifth = vandq_u8(vtstq_u8(spread, each), vdupq_n_u8(16));
        vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(nibbles, fifth)), vdupq_n_s8(16))
    }
}

/// Adds to each sum four products. Without the instruction for it, two products are added in 16 bits: at most
/// 2 * 128 * 127 = 32512.
///
/// # Safety
/// The processor has Advanced SIMD, with `DOT` also its dot products.
#[inline(always)]
unsafe fn dot<const DOT: bool>(sum: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: registers only; the caller answers for the instructions.
    unsafe {
        if DOT {
            // The intrinsic `vdotq_s32` is not stable yet.
            let mut sum = sum;
            asm!(
                ".arch_extension dotprod",
                "sdot {sum:v}.4s, {weights:v}.16b, {x:v}.16b",
                sum = inout(vreg) sum,
                weights = in(vreg) weights,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags),
            );
            return sum;
        }
        let low = vmull_s8(vget_low_s8(weights), vget_low_s8(x));
        let high = vmull_high_s8(weights, x);
        vpadalq_s16(sum, vpaddq_s16(low, high))
    }
}

/// Four half-precision numbers.
///
/// # Safety
/// 8 bytes at `halves`.
#[inline(always)]
unsafe fn four_halves(halves: *const u8) -> float32x4_t {
    // SAFETY: the caller's promise.
    unsafe { vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves))) }
}
