use super::Sums;
use crate::quantize::{Panel, ROW_WORDS};
use crate::tile::{BLOCK, COLUMNS, Tile};

/// The reference: for each block, or each part of it with a scale of its own, an exact integer product, then one fused
/// multiply-add with the product of both scales (and one with the minimum), in order. The other sets do the same and
/// give the same bits.
pub(super) fn multiply(tile: &Tile<'_>, panel: Panel<'_>, sums: &mut Sums) {
    let rows = panel.rows;
    sums[..rows].fill([0.0; COLUMNS]);
    for (block, words) in panel.words.chunks_exact(ROW_WORDS * rows).enumerate() {
        let weights: [[i16; BLOCK]; COLUMNS] = std::array::from_fn(|column| signed(tile, block, column));
        let part = BLOCK / tile.kind.parts();
        for (row, sums) in sums[..rows].iter_mut().enumerate() {
            let word = |at: usize| words[at * rows + row];
            let x: [i16; BLOCK] = std::array::from_fn(|at| i16::from((word(at / 4) >> (at % 4 * 8)) as i8));
            for (column, sum) in sums.iter_mut().enumerate() {
                for start in (0..BLOCK).step_by(part) {
                    let weights = &weights[column][start..start + part];
                    let terms = weights
                        .iter()
                        .zip(&x[start..])
                        .map(|(w, x)| i32::from(*w) * i32::from(*x));
                    let product = terms.sum::<i32>() as f32;
                    let scale = tile.scale((block, start), column);
                    *sum = product.mul_add(scale * f32::from_bits(word(BLOCK / 4)), *sum);
                }
                if tile.kind.minimum_bytes() > 0 {
                    let minimum = tile.minimum(block, column);
                    *sum = f32::from_bits(word(BLOCK / 4 + 3)).mul_add(-minimum, *sum);
                }
            }
        }
    }
}

fn signed(tile: &Tile<'_>, block: usize, column: usize) -> [i16; BLOCK] {
    let offset = i16::from(tile.kind.offset());
    std::array::from_fn(|at| i16::from(tile.quant(block, column, at)) - offset)
}
