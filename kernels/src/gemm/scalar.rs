use super::Sums;
use crate::quantize::{Panel, ROW_WORDS};
use crate::tile::{BLOCK, COLUMNS, Tile};

/// The reference: for each block, an exact integer product, scaled and added in order.
pub(super) fn multiply(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    sums[..panel.rows].fill([0.0; COLUMNS]);
    for (block, words) in panel.words.chunks_exact(ROW_WORDS * panel.rows).enumerate() {
        for column in 0..COLUMNS {
            let weights: [i32; BLOCK] = std::array::from_fn(|at| {
                i32::from(tile.quant(block, column, at)) - i32::from(tile.kind.offset())
            });
            let (scale, minimum) = (tile.scale(block, column), tile.minimum(block, column));
            for (row, sums) in sums[..panel.rows].iter_mut().enumerate() {
                let word = |at: usize| words[at * panel.rows + row];
                let product: i32 = (0..BLOCK)
                    .map(|at| weights[at] * i32::from((word(at / 4) >> (at % 4 * 8)) as i8))
                    .sum();
                sums[column] += product as f32 * (scale * f32::from_bits(word(BLOCK / 4)));
                sums[column] -= minimum * f32::from_bits(word(BLOCK / 4 + 3));
            }
        }
    }
}
