#![expect(
    unsafe_code,
    reason = "vector loads through pointers into slices whose lengths are asserted; assembly without instructions"
)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::{MAX_PANEL, Sums};
use crate::quantize::{Panel, ROW_WORDS};
use crate::tile::{BLOCK, COLUMNS, SUPER, Tile, TileKind};

/// Repeats a block of code with a name for each number. A loop might stay a loop, depending on what surrounds it, and
/// then the sums leave their registers.
macro_rules! unrolled {
    ($name:ident in [$($number:literal)*] $body:block) => {
        $({
            let $name: usize = $number;
            $body
        })*
    };
}

mod unpack;

pub(super) use unpack::widen;
use unpack::{GROUPS, INT4_MIN, INT4_SUPER, INT5, INT6_SUPER, INT8, kind, nibbles, six_bits};

/// How far the weights are asked for ahead of their use, where that helps (measured, docs/results/kernels.md).
const PREFETCH_BYTES: usize = 4096;

/// Rows from which 8-bit weights are prefetched; for fewer the hardware alone does better.
const PREFETCH_ROWS: usize = 8;

/// Quants as the tile has them.
const PLAIN: u8 = 0;
/// The same, asked for ahead of their use.
const AHEAD: u8 = 1;
/// Unpacked by [`widen`].
const WIDE: u8 = 2;

/// Writes the sums of the panel's rows. `wide` is empty or what [`widen`] wrote.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn multiply(tile: &Tile<'_>, wide: &[u8], panel: Panel<'_>, sums: &mut Sums) {
    assert!((1..=MAX_PANEL).contains(&panel.rows), "rows of a panel");
    assert_eq!(
        panel.words.len(),
        tile.blocks * ROW_WORDS * panel.rows,
        "a panel as long as the tile"
    );
    assert!(tile.is_whole(), "sections as long as the kind says");
    // SAFETY: the lengths have just been checked, those of `wide` below.
    unsafe {
        if !wide.is_empty() {
            assert_eq!(
                wide.len(),
                tile.blocks * COLUMNS * BLOCK,
                "the whole tile, unpacked"
            );
            return match tile.kind {
                TileKind::Int8 => by_rows::<INT8, WIDE>(tile, wide, panel, sums),
                TileKind::Int5 => by_rows::<INT5, WIDE>(tile, wide, panel, sums),
                TileKind::Int4Min => by_rows::<INT4_MIN, WIDE>(tile, wide, panel, sums),
                TileKind::Int4Super => by_rows::<INT4_SUPER, WIDE>(tile, wide, panel, sums),
                TileKind::Int6Super => by_rows::<INT6_SUPER, WIDE>(tile, wide, panel, sums),
            };
        }
        let quants = tile.quants;
        match tile.kind {
            TileKind::Int8 if panel.rows < PREFETCH_ROWS => {
                by_rows::<INT8, PLAIN>(tile, quants, panel, sums);
            }
            TileKind::Int8 => by_rows::<INT8, AHEAD>(tile, quants, panel, sums),
            TileKind::Int5 => by_rows::<INT5, AHEAD>(tile, quants, panel, sums),
            TileKind::Int4Min => by_rows::<INT4_MIN, AHEAD>(tile, quants, panel, sums),
            TileKind::Int4Super => by_rows::<INT4_SUPER, AHEAD>(tile, quants, panel, sums),
            TileKind::Int6Super => by_rows::<INT6_SUPER, AHEAD>(tile, quants, panel, sums),
        }
    }
}

/// # Safety
/// As [`product`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn by_rows<const KIND: u8, const FORM: u8>(
    tile: &Tile<'_>,
    quants: &[u8],
    panel: Panel<'_>,
    sums: &mut Sums,
) {
    let input = (quants, panel.words);
    // SAFETY: the caller's promise, with the row count as the constant.
    unsafe {
        match panel.rows {
            1 => product::<KIND, FORM, 1>(tile, input, sums),
            2 => product::<KIND, FORM, 2>(tile, input, sums),
            3 => product::<KIND, FORM, 3>(tile, input, sums),
            4 => product::<KIND, FORM, 4>(tile, input, sums),
            5 => product::<KIND, FORM, 5>(tile, input, sums),
            6 => product::<KIND, FORM, 6>(tile, input, sums),
            7 => product::<KIND, FORM, 7>(tile, input, sums),
            8 => product::<KIND, FORM, 8>(tile, input, sums),
            9 => product::<KIND, FORM, 9>(tile, input, sums),
            10 => product::<KIND, FORM, 10>(tile, input, sums),
            11 => product::<KIND, FORM, 11>(tile, input, sums),
            _ => product::<KIND, FORM, 12>(tile, input, sums),
        }
    }
}

/// Where a block and its panel lie.
#[derive(Clone, Copy)]
struct Block {
    index: usize,
    quants: *const u8,
    planes: *const u8,
    words: *const u32,
}

impl Block {
    /// The same places, hidden from the compiler: else it would keep what both parts of a block read, and run out of
    /// registers.
    fn again(self) -> Block {
        let Block {
            mut quants,
            mut planes,
            mut words,
            ..
        } = self;
        // SAFETY: no instruction at all.
        unsafe {
            asm!(
                "/* {quants} {planes} {words} */",
                quants = inout(reg) quants,
                planes = inout(reg) planes,
                words = inout(reg) words,
                options(nostack, preserves_flags),
            );
        }
        Block {
            quants,
            planes,
            words,
            ..self
        }
    }
}

// What follows is compiled into `by_rows`, with its instructions, whatever its length: a function of its own would keep
// the sums in memory.

/// `R` rows at once: one integer and one float accumulator for each stay in registers. `input` is the quants, packed or
/// not as `FORM` says, and the panel's words.
///
/// # Safety
/// Every section of `tile` and the quants hold `tile.blocks` blocks of its kind, which is the one `KIND` names, and
/// the words as many of `R` rows; the processor has the set.
#[inline(always)]
unsafe fn product<const KIND: u8, const FORM: u8, const R: usize>(
    tile: &Tile<'_>,
    input: (&[u8], &[u32]),
    sums: &mut Sums,
) {
    let quant_bytes = if FORM == WIDE {
        COLUMNS * BLOCK
    } else {
        kind(KIND).quant_bytes()
    };
    // SAFETY: block `index` exists in every section the kind has, by the caller's promise; a row of sums is 16 floats.
    unsafe {
        let mut totals = [_mm512_setzero_ps(); R];
        for index in 0..tile.blocks {
            let block = Block {
                index,
                quants: input.0.as_ptr().add(index * quant_bytes),
                planes: tile.planes.as_ptr().add(index * kind(KIND).plane_bytes()),
                words: input.1.as_ptr().add(index * ROW_WORDS * R),
            };
            add_part::<KIND, FORM, 0, R>(tile, block, &mut totals);
            if kind(KIND).parts() == 2 {
                add_part::<KIND, FORM, 1, R>(tile, block.again(), &mut totals);
            }
            if kind(KIND).minimum_bytes() > 0 {
                let minimum = minimum::<KIND>(tile, index);
                for (row, total) in totals.iter_mut().enumerate() {
                    let sum = _mm512_castsi512_ps(broadcast(block.words.add((GROUPS + 3) * R + row)));
                    *total = _mm512_fnmadd_ps(minimum, sum, *total);
                }
            }
        }
        for (total, sums) in totals.into_iter().zip(sums.iter_mut()) {
            _mm512_storeu_ps(sums.as_mut_ptr(), total);
        }
    }
}

/// Adds the products of a part of a block that has scales of its own.
///
/// # Safety
/// As [`product`], for this block.
#[inline(always)]
unsafe fn add_part<const KIND: u8, const FORM: u8, const PART: usize, const R: usize>(
    tile: &Tile<'_>,
    block: Block,
    totals: &mut [__m512; R],
) {
    let Block {
        quants,
        planes,
        words,
        ..
    } = block;
    // SAFETY: the caller's promise.
    unsafe {
        let mut products = starts::<KIND, PART, R>(words);
        match KIND {
            INT6_SUPER if FORM == WIDE => {
                unrolled!(group in [0 1 2 3] {
                    let group = PART * GROUPS / 2 + group;
                    let weights = _mm512_loadu_si512(quants.add(group * 64).cast());
                    accumulate(weights, words.add(group * R), &mut products);
                });
            }
            INT6_SUPER => {
                if FORM == AHEAD {
                    prefetch(planes, PART * 64, PREFETCH_BYTES / 2);
                }
                unrolled!(group in [0 1 2 3] {
                    if FORM == AHEAD && PART == 0 {
                        prefetch(quants, group * 64, PREFETCH_BYTES);
                    }
                    let weights = six_bits::<PART>((quants, planes), group);
                    accumulate(weights, words.add((PART * GROUPS / 2 + group) * R), &mut products);
                });
            }
            _ if KIND == INT8 || FORM == WIDE => {
                unrolled!(group in [0 1 2 3 4 5 6 7] {
                    if FORM == AHEAD {
                        prefetch(quants, group * 64, PREFETCH_BYTES);
                    }
                    let weights = _mm512_loadu_si512(quants.add(group * 64).cast());
                    accumulate(weights, words.add(group * R), &mut products);
                });
            }
            _ => {
                unrolled!(group in [0 1 2 3] {
                    if FORM == AHEAD {
                        prefetch(quants, group * 64, PREFETCH_BYTES);
                    }
                    let [low, high] = nibbles::<KIND>((quants, planes), group);
                    accumulate(low, words.add(group * R), &mut products);
                    accumulate(high, words.add((group + GROUPS / 2) * R), &mut products);
                });
            }
        }
        let scale = scale::<KIND, PART>(tile, block.index);
        for row in 0..R {
            let scale = _mm512_mul_ps(scale, _mm512_castsi512_ps(broadcast(words.add(GROUPS * R + row))));
            totals[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[row]), scale, totals[row]);
        }
    }
}

/// What sums begin at, so that weights count without their offset.
///
/// # Safety
/// A block of `R` rows at `words`.
#[inline(always)]
unsafe fn starts<const KIND: u8, const PART: usize, const R: usize>(words: *const u32) -> [__m512i; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut starts = [_mm512_setzero_si512(); R];
        for (row, start) in starts.iter_mut().enumerate() {
            let whole = broadcast(words.add((GROUPS + 1) * R + row));
            let first = broadcast(words.add((GROUPS + 2) * R + row));
            *start = match (KIND, PART) {
                (INT8, _) => whole,
                (INT5, _) => _mm512_srai_epi32::<3>(whole),
                (INT6_SUPER, 0) => first,
                (INT6_SUPER, _) => _mm512_sub_epi32(_mm512_srai_epi32::<2>(whole), first),
                _ => *start,
            };
        }
        starts
    }
}

/// The scales of a part of a block.
///
/// # Safety
/// `tile` is of this kind and has the block.
#[inline(always)]
unsafe fn scale<const KIND: u8, const PART: usize>(tile: &Tile<'_>, block: usize) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let scales = tile.scales.as_ptr();
        let factors = tile.factors.as_ptr();
        match KIND {
            INT4_SUPER => _mm512_mul_ps(
                integers(scales.add(block * COLUMNS)),
                halves(factors.add(block / SUPER * 4 * COLUMNS)),
            ),
            INT6_SUPER => {
                let scales = _mm_loadu_si128(scales.add((2 * block + PART) * COLUMNS).cast());
                _mm512_mul_ps(
                    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)),
                    halves(factors.add(block / SUPER * 2 * COLUMNS)),
                )
            }
            _ => halves(scales.add(block * 2 * COLUMNS)),
        }
    }
}

/// The minima of a block.
///
/// # Safety
/// As [`scale`].
#[inline(always)]
unsafe fn minimum<const KIND: u8>(tile: &Tile<'_>, block: usize) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        if KIND == INT4_MIN {
            return halves(tile.minima.as_ptr().add(block * 2 * COLUMNS));
        }
        let factors = tile.factors.as_ptr().add((block / SUPER * 4 + 2) * COLUMNS);
        _mm512_mul_ps(
            integers(tile.minima.as_ptr().add(block * COLUMNS)),
            halves(factors),
        )
    }
}

/// Asks for the line at `offset` of a section, `ahead` bytes further on.
#[inline(always)]
fn prefetch(section: *const u8, offset: usize, ahead: usize) {
    // SAFETY: a prefetch may go anywhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(section.wrapping_add(offset + ahead).cast()) };
}

/// Adds four products to each sum of each row.
///
/// # Safety
/// `R` words at `words`.
#[inline(always)]
unsafe fn accumulate<const R: usize>(weights: __m512i, words: *const u32, products: &mut [__m512i; R]) {
    for (row, product) in products.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *product = unsafe { _mm512_dpbusd_epi32(*product, weights, broadcast(words.add(row))) };
    }
}

/// # Safety
/// A word at `word`.
#[inline(always)]
unsafe fn broadcast(word: *const u32) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_set1_epi32((*word).cast_signed()) }
}

/// 16 half-precision numbers.
///
/// # Safety
/// 32 bytes at `halves`.
#[inline(always)]
unsafe fn halves(halves: *const u8) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.cast())) }
}

/// 16 unsigned bytes as numbers.
///
/// # Safety
/// 16 bytes at `bytes`.
#[inline(always)]
unsafe fn integers(bytes: *const u8) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.cast()))) }
}
