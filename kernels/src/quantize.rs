#![expect(
    unsafe_code,
    reason = "threads write disjoint panels, with functions compiled for an instruction set found at run time"
)]

use std::ops::Range;

use crate::activation::Swiglu;
use crate::gemm;
use crate::norm::RmsNorm;
use crate::parallel::{Scratch, SharedSlice};
use crate::tile::BLOCK;
use crate::{Cpu, Isa};

#[cfg(target_arch = "x86_64")]
mod avx512;

/// Words of 32 bits a row takes in a block: eight of four values each, the scale, the sum times -128, the sum of the
/// first 16 values times -32, and the scale times the sum.
pub(crate) const ROW_WORDS: usize = BLOCK / 4 + 4;

/// Values below which one thread is faster than waking another.
const ALONE: usize = 16 << 10;

/// Activations rounded to 8 bits, a scratch to be kept and reused. Each row is cut into blocks of 32 values with a
/// scale of their own: the largest magnitude over 127, so integers lie in -127..=127. A block with an infinite value
/// or NaN makes its row NaN.
///
/// Rows lie in panels, as many in each as the instruction set's kernels take at once, so a `QuantizedRows` is to be
/// used with the [`Cpu`] that filled it.
#[derive(Debug, Default, Clone)]
pub struct QuantizedRows {
    rows: usize,
    k: usize,
    isa: Option<Isa>,
    /// At least as many as the rows need.
    words: Vec<u32>,
}

/// Rows cut as evenly as possible into panels of at most `max`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panels {
    rows: usize,
    pub(crate) count: usize,
}

/// Some rows of activations as a kernel reads them: `[block][word][row]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(crate) rows: usize,
    pub(crate) words: &'a [u32],
}

impl Panels {
    pub(crate) fn new(rows: usize, max: usize) -> Panels {
        Panels {
            rows,
            count: rows.div_ceil(max),
        }
    }

    /// The first row of panel `index`; the number of rows for `index == count`.
    pub(crate) fn start(self, index: usize) -> usize {
        index * self.rows / self.count.max(1)
    }
}

impl QuantizedRows {
    /// An empty scratch.
    #[must_use]
    pub fn new() -> QuantizedRows {
        QuantizedRows::default()
    }

    /// Rows held.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    pub(crate) fn isa(&self) -> Option<Isa> {
        self.isa
    }

    pub(crate) fn panel(&self, panels: Panels, index: usize) -> Panel<'_> {
        let (start, end) = (panels.start(index), panels.start(index + 1));
        let row_words = self.k / BLOCK * ROW_WORDS;
        Panel {
            rows: end - start,
            words: &self.words[start * row_words..end * row_words],
        }
    }
}

impl Cpu {
    /// Rounds `x`, `[rows, k]`, to 8 bits into `out`. The integers and scales of a row are the same on every
    /// instruction set.
    ///
    /// # Panics
    /// When `k` is not a positive multiple of 32 or `x` is not a whole number of rows.
    pub fn quantize_rows(&self, x: &[f32], k: usize, out: &mut QuantizedRows) {
        self.fill_panels((x.len(), k), out, &|rows, words| {
            pack(self.isa(), &x[rows.start * k..rows.end * k], k, words);
        });
    }

    /// [`Cpu::rms_norm`] of `x`, rounded as by [`Cpu::quantize_rows`]: the same bits as those two one after the other.
    ///
    /// # Panics
    /// As those two.
    pub fn rms_norm_quantized(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut QuantizedRows) {
        let k = weight.len();
        self.fill_panels((x.len(), k), out, &|rows, words| {
            let x = &x[rows.start * k..rows.end * k];
            let mut normed = Scratch::Task.take(x.len());
            let out = normed.values();
            self.dispatch(RmsNorm { x, weight, eps, out });
            pack(self.isa(), normed.values(), k, words);
        });
    }

    /// [`Cpu::swiglu`] of `gate_up`, rounded as by [`Cpu::quantize_rows`]: the same bits as those two one after the
    /// other.
    ///
    /// # Panics
    /// As those two.
    pub fn swiglu_quantized(&self, gate_up: &[f32], intermediate: usize, out: &mut QuantizedRows) {
        let k = intermediate;
        assert!(gate_up.len().is_multiple_of(2), "gate and up values");
        self.fill_panels((gate_up.len() / 2, k), out, &|rows, words| {
            let gate_up = &gate_up[2 * rows.start * k..2 * rows.end * k];
            let mut activated = Scratch::Task.take(gate_up.len() / 2);
            self.dispatch(Swiglu {
                gate_up,
                intermediate,
                out: activated.values(),
            });
            pack(self.isa(), activated.values(), k, words);
        });
    }

    /// Makes `out` hold `values` values in rows of `k`, and calls `fill` with the rows and the words of each panel.
    fn fill_panels(
        &self,
        (values, k): (usize, usize),
        out: &mut QuantizedRows,
        fill: &(dyn Fn(Range<usize>, &mut [u32]) + Sync),
    ) {
        assert!(
            k > 0 && k.is_multiple_of(BLOCK),
            "k is {k}; expected a positive multiple of {BLOCK}"
        );
        assert!(
            values.is_multiple_of(k),
            "{values} values are no whole number of rows of {k}"
        );
        out.rows = values / k;
        out.k = k;
        out.isa = Some(self.isa());
        let row_words = k / BLOCK * ROW_WORDS;
        if out.words.len() < out.rows * row_words {
            out.words.resize(out.rows * row_words, 0);
        }
        let panels = Panels::new(out.rows, gemm::panel_rows(self.isa()));
        let words = SharedSlice::new(&mut out.words);
        let run = |index: usize| {
            let (start, end) = (panels.start(index), panels.start(index + 1));
            // SAFETY: panels do not overlap, and each is filled once.
            fill(start..end, unsafe {
                words.part(start * row_words..end * row_words)
            });
        };
        if values <= ALONE {
            (0..panels.count).for_each(run);
        } else {
            self.pool().run(panels.count, &run);
        }
    }
}

/// Quantises the rows of one panel.
fn pack(isa: Isa, x: &[f32], k: usize, words: &mut [u32]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Cpu` of this set exists only where the processor has it.
        Isa::Avx512Vnni => unsafe { avx512::pack(x, k, words) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2_pack(x, k, words) },
        _ => scalar_pack(x, k, words),
    }
}

/// The reference, left to the compiler to vectorise.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_pack(x: &[f32], k: usize, words: &mut [u32]) {
    scalar_pack(x, k, words);
}

#[inline(always)]
fn scalar_pack(x: &[f32], k: usize, words: &mut [u32]) {
    let rows = x.len() / k;
    for (row, x) in x.chunks_exact(k).enumerate() {
        let blocks = words.chunks_exact_mut(ROW_WORDS * rows);
        for (x, words) in x.as_chunks::<BLOCK>().0.iter().zip(blocks) {
            for (at, word) in quantize_block(x).into_iter().enumerate() {
                words[at * rows + row] = word;
            }
        }
    }
}

/// A magnitude below which a block counts as zero: its reciprocal would overflow.
const TINY: f32 = 1e-30;

/// What an integer of a block stands for, and what a value is multiplied with to become one.
#[inline]
fn scale_and_inverse(largest: f32) -> (f32, f32) {
    match largest {
        ordinary if (TINY..=f32::MAX).contains(&ordinary) => (ordinary / 127.0, 127.0 / ordinary),
        tiny if tiny < TINY => (0.0, 0.0),
        _ => (f32::NAN, 0.0),
    }
}

#[inline(always)]
fn quantize_block(x: &[f32; BLOCK]) -> [u32; ROW_WORDS] {
    // Magnitudes compare as their bits do, and NaN is above all: it must not be lost.
    let largest = f32::from_bits(
        x.iter()
            .map(|value| value.to_bits() & 0x7fff_ffff)
            .max()
            .unwrap_or(0),
    );
    let (scale, inverse) = scale_and_inverse(largest);
    let mut words = [0; ROW_WORDS];
    let mut sums = [0_i32; 2];
    for (at, &value) in x.iter().enumerate() {
        let quant = (value * inverse).round_ties_even() as i8;
        sums[at / (BLOCK / 2)] += i32::from(quant);
        words[at / 4] |= u32::from(quant as u8) << (at % 4 * 8);
    }
    let sum = sums[0] + sums[1];
    words[BLOCK / 4] = scale.to_bits();
    words[BLOCK / 4 + 1] = (-128 * sum) as u32;
    words[BLOCK / 4 + 2] = (-32 * sums[0]) as u32;
    words[BLOCK / 4 + 3] = (scale * sum as f32).to_bits();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::numbers;

    fn cpus() -> impl Iterator<Item = Cpu> {
        Isa::ALL
            .into_iter()
            .filter(|isa| isa.is_available())
            .map(|isa| Cpu::with_isa(isa, Some(2)).unwrap())
    }

    /// The words of one row, block by block.
    fn words(cpu: &Cpu, x: &[f32], k: usize, row: usize) -> Vec<u32> {
        let mut rows = QuantizedRows::new();
        cpu.quantize_rows(x, k, &mut rows);
        let panels = Panels::new(rows.rows(), gemm::panel_rows(cpu.isa()));
        let index = (0..panels.count)
            .find(|index| panels.start(index + 1) > row)
            .unwrap();
        let panel = rows.panel(panels, index);
        let within = row - panels.start(index);
        panel
            .words
            .iter()
            .skip(within)
            .step_by(panel.rows)
            .copied()
            .collect()
    }

    #[test]
    fn panels_are_even_and_cover_all_rows() {
        let sizes = |rows, max| {
            let panels = Panels::new(rows, max);
            (0..panels.count)
                .map(|index| panels.start(index + 1) - panels.start(index))
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(32, 12), [10, 11, 11]);
        assert_eq!(sizes(13, 12), [6, 7]);
        assert_eq!(sizes(12, 12), [12]);
        assert_eq!(sizes(0, 12), [0; 0]);
        for rows in 1..200 {
            let sizes = sizes(rows, 12);
            assert_eq!(sizes.iter().sum::<usize>(), rows);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn every_set_gives_the_words_of_the_reference() {
        for k in [32, 96, 896] {
            for rows in [1, 3, 13, 30] {
                let mut x = numbers(k as u64, rows * k);
                x[0] = 1e-20;
                x[k - 1] = 3e8;
                x[rows * k - 32..].fill(0.0);
                x[(rows - 1) * k..(rows - 1) * k + 32].fill(1e-35);
                for cpu in cpus() {
                    for (row, values) in x.chunks(k).enumerate() {
                        let reference: Vec<u32> = values
                            .as_chunks::<BLOCK>()
                            .0
                            .iter()
                            .flat_map(quantize_block)
                            .collect();
                        assert_eq!(
                            words(&cpu, &x, k, row),
                            reference,
                            "{} row {row} of {rows}",
                            cpu.isa()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn fused_steps_give_the_bits_of_separate_ones() {
        let k = 96;
        let weight = numbers(4, k);
        for rows in [1, 2, 13, 200] {
            let x = numbers(rows as u64, rows * 2 * k);
            for cpu in cpus() {
                let (mut fused, mut separate) = (QuantizedRows::new(), QuantizedRows::new());
                let mut between = vec![0.0; x.len()];
                cpu.rms_norm(&x, &weight, 1e-6, &mut between);
                cpu.quantize_rows(&between, k, &mut separate);
                cpu.rms_norm_quantized(&x, &weight, 1e-6, &mut fused);
                assert_eq!(fused.words, separate.words, "norm of {rows} rows, {}", cpu.isa());
                let mut between = vec![0.0; x.len() / 2];
                cpu.swiglu(&x, k, &mut between);
                cpu.quantize_rows(&between, k, &mut separate);
                cpu.swiglu_quantized(&x, k, &mut fused);
                assert_eq!((fused.rows(), fused.k()), (rows, k));
                assert_eq!(
                    fused.words,
                    separate.words,
                    "swiglu of {rows} rows, {}",
                    cpu.isa()
                );
            }
        }
    }

    #[test]
    fn a_block_is_its_integers_scale_and_sums() {
        let mut x = [0.0; BLOCK];
        (x[0], x[1], x[2], x[5], x[16]) = (2.0, -2.0, 0.5 / 63.5, 1.0, -1.0);
        let words = quantize_block(&x);
        assert_eq!(words[0], 0x0000_817f, "127, -127, and half a step to even");
        assert_eq!(words[1], 0x0000_4000, "63.5 to even");
        assert_eq!(f32::from_bits(words[8]), 2.0 / 127.0);
        assert_eq!(words[4], 0x0000_00c0, "-63.5 to even");
        assert_eq!((words[9] as i32, words[10] as i32), (0, -32 * 64));
        x[17] = 2.0;
        assert_eq!(
            f32::from_bits(quantize_block(&x)[11]),
            2.0 / 127.0 * 127.0,
            "scale times sum"
        );
    }
}
