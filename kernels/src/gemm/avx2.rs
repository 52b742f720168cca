#![expect(
    unsafe_code,
    reason = "vector loads through pointers into slices whose lengths are asserted"
)]

use std::arch::x86_64::*;

use super::Sums;
use crate::quantize::{Panel, ROW_WORDS};
use crate::tile::{BLOCK, COLUMNS, SUPER, Tile, TileKind};

/// Rows of a panel: what 16 registers hold the sums of.
pub(super) const ROWS: usize = 4;

/// Groups of four values in a block.
const GROUPS: usize = BLOCK / 4;

/// Bytes of a vector: 8 columns of a group.
const VECTOR: usize = 32;

/// How far weights are asked for ahead of their use, where that helps.
const PREFETCH_BYTES: usize = 4096;

const INT8: u8 = 0;
const INT5: u8 = 1;
const INT4_MIN: u8 = 2;
const INT4_SUPER: u8 = 3;
const INT6_SUPER: u8 = 4;

/// Where a block and its panel lie.
#[derive(Clone, Copy)]
struct Block {
    quants: *const u8,
    planes: *const u8,
    words: *const u32,
    /// [`GROUPS`], hidden from the compiler: it would unroll the loop over groups, go through it row by row and run
    /// out of registers.
    groups: usize,
}

/// Integer sums of `R` rows and `H` times 8 columns.
type Products<const R: usize, const H: usize> = [[__m256i; H]; R];

/// Writes the sums of the panel's rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    assert!((1..=ROWS).contains(&panel.rows), "rows of a panel");
    assert_eq!(
        panel.words.len(),
        tile.blocks * ROW_WORDS * panel.rows,
        "a panel as long as the tile"
    );
    assert!(tile.is_whole(), "sections as long as the kind says");
    // SAFETY: the lengths have just been checked.
    unsafe {
        match tile.kind {
            TileKind::Int8 => by_rows::<INT8>(tile, panel, sums),
            TileKind::Int5 => by_rows::<INT5>(tile, panel, sums),
            TileKind::Int4Min => by_rows::<INT4_MIN>(tile, panel, sums),
            TileKind::Int4Super => by_rows::<INT4_SUPER>(tile, panel, sums),
            TileKind::Int6Super => by_rows::<INT6_SUPER>(tile, panel, sums),
        }
    }
}

/// One or two rows take all 16 columns at once; more take 8, then the other 8.
///
/// # Safety
/// As [`product`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_rows<const KIND: u8>(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    // SAFETY: the caller's promise, with the row count as the constant.
    unsafe {
        match panel.rows {
            1 => product::<KIND, 1, 2>(tile, panel.words, sums, 0),
            2 => product::<KIND, 2, 2>(tile, panel.words, sums, 0),
            3 => {
                product::<KIND, 3, 1>(tile, panel.words, sums, 0);
                product::<KIND, 3, 1>(tile, panel.words, sums, 1);
            }
            _ => {
                product::<KIND, 4, 1>(tile, panel.words, sums, 0);
                product::<KIND, 4, 1>(tile, panel.words, sums, 1);
            }
        }
    }
}

/// `R` rows and `H` times 8 columns at once, from column `8 * first` on.
///
/// # Safety
/// Every section of `tile` holds `tile.blocks` blocks of its kind, `words` as many of `R` rows; `first + H <= 2`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn product<const KIND: u8, const R: usize, const H: usize>(
    tile: &Tile<'_>,
    words: &[u32],
    sums: &mut Sums,
    first: usize,
) {
    let groups = std::hint::black_box(GROUPS);
    let mut totals = [[_mm256_setzero_ps(); H]; R];
    for block in 0..tile.blocks {
        // SAFETY: block `block` exists in every section the kind has, by the caller's promise.
        unsafe {
            let at = Block {
                quants: tile
                    .quants
                    .as_ptr()
                    .add(block * tile.kind.quant_bytes() + first * VECTOR),
                planes: tile
                    .planes
                    .as_ptr()
                    .add(block * tile.kind.plane_bytes() + first * plane_bytes::<KIND>()),
                words: words.as_ptr().add(block * ROW_WORDS * R),
                groups,
            };
            for part in 0..tile.kind.parts() {
                let products = match KIND {
                    INT8 => bytes::<R, H>(at),
                    INT5 => nibbles::<R, H, true>(at),
                    INT6_SUPER => six_bits::<R, H>(at, part),
                    _ => nibbles::<R, H, false>(at),
                };
                for half in 0..H {
                    let scale = scale::<KIND>(tile, (block, part), first + half);
                    for row in 0..R {
                        let scale = _mm256_mul_ps(scale, broadcast_f32(at.words.add(GROUPS * R + row)));
                        let product = _mm256_cvtepi32_ps(products[row][half]);
                        totals[row][half] = _mm256_fmadd_ps(product, scale, totals[row][half]);
                    }
                }
            }
            if KIND == INT4_MIN || KIND == INT4_SUPER {
                for half in 0..H {
                    let minimum = minimum::<KIND>(tile, block, first + half);
                    for (row, total) in totals.iter_mut().enumerate() {
                        let sum = broadcast_f32(at.words.add((GROUPS + 3) * R + row));
                        total[half] = _mm256_fnmadd_ps(minimum, sum, total[half]);
                    }
                }
            }
        }
    }
    for (total, sums) in totals.into_iter().zip(sums.iter_mut()) {
        for (half, total) in total.into_iter().enumerate() {
            // SAFETY: a row of sums is twice 8 floats.
            unsafe { _mm256_storeu_ps(sums.as_mut_ptr().add((first + half) * 8), total) };
        }
    }
}

/// A block of 8-bit weights. `vpmaddubsw` adds two products in 16 bits, saturating, and takes one unsigned operand:
/// |w| times a with the sign of w stays within 2 * 128 * 127 = 32512.
///
/// # Safety
/// A block of `H` times 8 columns at `at`, as far as the kind has sections.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn bytes<const R: usize, const H: usize>(at: Block) -> Products<R, H> {
    let (flip, ones) = (_mm256_set1_epi8(-128), _mm256_set1_epi16(1));
    let mut products = [[_mm256_setzero_si256(); H]; R];
    for group in 0..at.groups {
        for half in 0..H {
            // SAFETY: the caller's promise.
            let stored = unsafe { load(at.quants.add(group * 2 * VECTOR + half * VECTOR)) };
            if R > 2 {
                let ahead = at.quants.wrapping_add(group * 2 * VECTOR + PREFETCH_BYTES);
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
            }
            let weights = _mm256_xor_si256(stored, flip);
            let magnitudes = _mm256_abs_epi8(weights);
            for (row, products) in products.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                let x = unsafe { broadcast(at.words.add(group * R + row)) };
                let pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(x, weights));
                products[half] = _mm256_add_epi32(products[half], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    products
}

/// A block of 4-bit weights, or with `FIFTH` of 5-bit ones. Unsigned weights need no detour over magnitudes, and
/// several groups fit 16 bits: four of 2 * 31 * 127 = 7874, or eight of 2 * 15 * 127 = 3810.
///
/// # Safety
/// As [`bytes`].
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn nibbles<const R: usize, const H: usize, const FIFTH: bool>(at: Block) -> Products<R, H> {
    let (low_bits, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
    let mut low_pairs = [[_mm256_setzero_si256(); H]; R];
    let mut high_pairs = low_pairs;
    for group in 0..at.groups / 2 {
        for half in 0..H {
            let place = group * 2 * VECTOR + half * VECTOR;
            // SAFETY: the caller's promise; a prefetch may go anywhere.
            let both = unsafe { load(at.quants.add(place)) };
            _mm_prefetch::<_MM_HINT_T0>(at.quants.wrapping_add(place + PREFETCH_BYTES).cast());
            let mut low = _mm256_and_si256(both, low_bits);
            let mut high = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low_bits);
            if FIFTH {
                // SAFETY: eight bytes of plane for each group, four for each half.
                let bits = |group: usize| unsafe {
                    at.planes.add(group * 8 + half * 4).cast::<i32>().read_unaligned()
                };
                low = _mm256_or_si256(low, fifth_bits(bits(group)));
                high = _mm256_or_si256(high, fifth_bits(bits(group + GROUPS / 2)));
            }
            for row in 0..R {
                // SAFETY: the caller's promise.
                let x = |group: usize| unsafe { broadcast(at.words.add(group * R + row)) };
                let pairs = _mm256_maddubs_epi16(low, x(group));
                low_pairs[row][half] = _mm256_add_epi16(low_pairs[row][half], pairs);
                let pairs = _mm256_maddubs_epi16(high, x(group + GROUPS / 2));
                high_pairs[row][half] = _mm256_add_epi16(high_pairs[row][half], pairs);
            }
        }
    }
    let mut products = [[_mm256_setzero_si256(); H]; R];
    for row in 0..R {
        for half in 0..H {
            let low = _mm256_madd_epi16(low_pairs[row][half], ones);
            let mut sum = _mm256_add_epi32(low, _mm256_madd_epi16(high_pairs[row][half], ones));
            if FIFTH {
                // SAFETY: the caller's promise.
                let start = unsafe { broadcast(at.words.add((GROUPS + 1) * R + row)) };
                sum = _mm256_add_epi32(sum, _mm256_srai_epi32::<3>(start));
            }
            products[row][half] = sum;
        }
    }
    products
}

/// Half a block of 6-bit weights: two groups fit 16 bits, 2 * 2 * 63 * 127 = 32004.
///
/// # Safety
/// As [`bytes`]; `part` is 0 or 1.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn six_bits<const R: usize, const H: usize>(at: Block, part: usize) -> Products<R, H> {
    let (low_bits, high_bits) = (_mm256_set1_epi8(15), _mm256_set1_epi8(48));
    let ones = _mm256_set1_epi16(1);
    let nibble = _mm_cvtsi32_si128(part as i32 * 4);
    let mut products = [[_mm256_setzero_si256(); H]; R];
    for half in 0..H {
        // SAFETY: the caller's promise.
        let pairs = unsafe { load(at.planes.add((part * 2 + half) * VECTOR)) };
        let pairs = [
            _mm256_slli_epi16::<4>(pairs),
            _mm256_slli_epi16::<2>(pairs),
            pairs,
            _mm256_srli_epi16::<2>(pairs),
        ];
        for two in 0..at.groups / 4 {
            let weights = |group: usize| {
                let place = group * 2 * VECTOR + half * VECTOR;
                // SAFETY: the caller's promise; a prefetch may go anywhere.
                let both = unsafe { load(at.quants.add(place)) };
                _mm_prefetch::<_MM_HINT_T0>(at.quants.wrapping_add(place + PREFETCH_BYTES).cast());
                let low = _mm256_and_si256(_mm256_srl_epi16(both, nibble), low_bits);
                _mm256_or_si256(low, _mm256_and_si256(pairs[group], high_bits))
            };
            let (even, odd) = (weights(2 * two), weights(2 * two + 1));
            for (row, products) in products.iter_mut().enumerate() {
                let group = part * GROUPS / 2 + 2 * two;
                // SAFETY: the caller's promise.
                let x = |group: usize| unsafe { broadcast(at.words.add(group * R + row)) };
                let pairs = _mm256_add_epi16(
                    _mm256_maddubs_epi16(even, x(group)),
                    _mm256_maddubs_epi16(odd, x(group + 1)),
                );
                products[half] = _mm256_add_epi32(products[half], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    for (row, products) in products.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let start = |word: usize| unsafe { broadcast(at.words.add((GROUPS + word) * R + row)) };
        let start = if part == 0 {
            start(2)
        } else {
            _mm256_sub_epi32(_mm256_srai_epi32::<2>(start(1)), start(2))
        };
        for product in products {
            *product = _mm256_add_epi32(*product, start);
        }
    }
    products
}

/// Bytes of planes of 8 columns.
const fn plane_bytes<const KIND: u8>() -> usize {
    if KIND == INT6_SUPER { VECTOR } else { VECTOR / 8 }
}

/// The scales of a part of a block, eight columns from `8 * half` on.
///
/// # Safety
/// `tile` is of this kind and has the block; `half` is 0 or 1.
#[target_feature(enable = "avx2,f16c")]
#[inline]
unsafe fn scale<const KIND: u8>(tile: &Tile<'_>, (block, part): (usize, usize), half: usize) -> __m256 {
    let column = half * 8;
    // SAFETY: the caller's promise.
    unsafe {
        let scales = tile.scales.as_ptr();
        let factors = tile.factors.as_ptr();
        match KIND {
            INT4_SUPER => _mm256_mul_ps(
                eight_integers(scales.add(block * COLUMNS + column)),
                eight_halves(factors.add(block / SUPER * 4 * COLUMNS + 2 * column)),
            ),
            INT6_SUPER => {
                let scales = scales.add((2 * block + part) * COLUMNS + column);
                let scales = _mm256_cvtepi8_epi32(_mm_loadl_epi64(scales.cast()));
                let factors = factors.add((block / SUPER * COLUMNS + column) * 2);
                _mm256_mul_ps(_mm256_cvtepi32_ps(scales), eight_halves(factors))
            }
            _ => eight_halves(scales.add((block * COLUMNS + column) * 2)),
        }
    }
}

/// The minima of a block.
///
/// # Safety
/// As [`scale`].
#[target_feature(enable = "avx2,f16c")]
#[inline]
unsafe fn minimum<const KIND: u8>(tile: &Tile<'_>, block: usize, half: usize) -> __m256 {
    let place = block * COLUMNS + half * 8;
    // SAFETY: the caller's promise.
    unsafe {
        let minima = tile.minima.as_ptr();
        if KIND == INT4_MIN {
            return eight_halves(minima.add(2 * place));
        }
        let factors = tile.factors.as_ptr();
        let factors = factors.add((block / SUPER * 4 + 2) * COLUMNS + half * 16);
        _mm256_mul_ps(eight_integers(minima.add(place)), eight_halves(factors))
    }
}

/// 8 unsigned bytes as numbers.
///
/// # Safety
/// 8 bytes at `bytes`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn eight_integers(bytes: *const u8) -> __m256 {
    // SAFETY: the caller's promise.
    _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(bytes.cast()) }))
}

/// 16 in each byte whose bit is set.
#[target_feature(enable = "avx2")]
#[inline]
fn fifth_bits(bits: i32) -> __m256i {
    let spread = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
    );
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let bytes = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread), bit);
    _mm256_and_si256(_mm256_cmpeq_epi8(bytes, bit), _mm256_set1_epi8(16))
}

/// # Safety
/// 32 bytes at `bytes`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load(bytes: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(bytes.cast()) }
}

/// # Safety
/// A word at `word`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn broadcast(word: *const u32) -> __m256i {
    // SAFETY: the caller's promise.
    _mm256_set1_epi32(unsafe { *word }.cast_signed())
}

/// # Safety
/// A word at `word`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn broadcast_f32(word: *const u32) -> __m256 {
    // SAFETY: the caller's promise.
    _mm256_castsi256_ps(unsafe { broadcast(word) })
}

/// 8 half-precision numbers.
///
/// # Safety
/// 16 bytes at `halves`.
#[target_feature(enable = "avx2,f16c")]
#[inline]
unsafe fn eight_halves(halves: *const u8) -> __m256 {
    // SAFETY: the caller's promise.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(halves.cast()) })
}
