use crate::gemm;
use crate::tile::BLOCK;
use crate::{Cpu, Isa};

/// Words of 32 bits a row takes in a block: eight of four values each, the scale, the sum times -128, the sum times
/// -16, and the scale times the sum.
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
        assert!(
            k > 0 && k.is_multiple_of(BLOCK),
            "k is {k}; expected a positive multiple of {BLOCK}"
        );
        assert!(
            x.len().is_multiple_of(k),
            "{} values are no whole number of rows of {k}",
            x.len()
        );
        out.rows = x.len() / k;
        out.k = k;
        out.isa = Some(self.isa());
        let row_words = k / BLOCK * ROW_WORDS;
        out.words.resize(out.rows * row_words, 0);
        let panels = Panels::new(out.rows, gemm::panel_rows(self.isa()));
        let mut rest = &mut out.words[..];
        let mut pieces: Vec<(&[f32], &mut [u32])> = Vec::with_capacity(panels.count);
        for index in 0..panels.count {
            let (start, end) = (panels.start(index), panels.start(index + 1));
            let (words, left) = std::mem::take(&mut rest).split_at_mut((end - start) * row_words);
            rest = left;
            pieces.push((&x[start * k..end * k], words));
        }
        if x.len() <= ALONE {
            pieces
                .iter_mut()
                .for_each(|(x, words)| pack(self.isa(), x, k, words));
        } else {
            self.pool().run_pieces(&mut pieces, 1, &|_, piece| {
                piece
                    .iter_mut()
                    .for_each(|(x, words)| pack(self.isa(), x, k, words));
            });
        }
    }
}

/// Quantises the rows of one panel.
fn pack(_isa: Isa, x: &[f32], k: usize, words: &mut [u32]) {
    let rows = x.len() / k;
    for (row, x) in x.chunks_exact(k).enumerate() {
        for (block, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
            let words = &mut words[block * ROW_WORDS * rows..][..ROW_WORDS * rows];
            for (at, word) in quantize_block(x).into_iter().enumerate() {
                words[at * rows + row] = word;
            }
        }
    }
}

/// A magnitude below which a block counts as zero: its reciprocal would overflow.
const TINY: f32 = 1e-30;

fn quantize_block(x: &[f32; BLOCK]) -> [u32; ROW_WORDS] {
    // Magnitudes compare as their bits do, and NaN is above all: it must not be lost.
    let largest = f32::from_bits(
        x.iter()
            .map(|value| value.to_bits() & 0x7fff_ffff)
            .max()
            .unwrap_or(0),
    );
    let (scale, inverse) = match largest {
        ordinary if (TINY..=f32::MAX).contains(&ordinary) => (ordinary / 127.0, 127.0 / ordinary),
        tiny if tiny < TINY => (0.0, 0.0),
        _ => (f32::NAN, 0.0),
    };
    let mut words = [0; ROW_WORDS];
    let mut sum = 0_i32;
    for (at, &value) in x.iter().enumerate() {
        let quant = (value * inverse).round_ties_even() as i8;
        sum += i32::from(quant);
        words[at / 4] |= u32::from(quant as u8) << (at % 4 * 8);
    }
    words[BLOCK / 4] = scale.to_bits();
    words[BLOCK / 4 + 1] = (-128 * sum) as u32;
    words[BLOCK / 4 + 2] = (-16 * sum) as u32;
    words[BLOCK / 4 + 3] = (scale * sum as f32).to_bits();
    words
}
