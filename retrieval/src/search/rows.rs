//! Many unit vectors in little memory, and their cosines with one.
//!
//! Values are kept as whole numbers of at most 16 bits with one scale per row: half the memory of `f32`, and a product
//! of pairs that every CPU multiplies and adds in one step. The cosine's error is below a thousandth.

use super::dot;

/// Unit vectors, row by row.
#[derive(Debug, Default)]
pub(super) struct Rows {
    width: usize,
    values: Vec<i16>,
    scales: Vec<f32>,
}

/// One unit vector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    values: Vec<i16>,
    scale: f32,
}

/// The largest value whose square, summed over the width, fits an `i32`.
fn largest(width: usize) -> f32 {
    let bound = (f64::from(i32::MAX) / width.max(1) as f64).sqrt().floor();
    bound.min(f64::from(i16::MAX)) as f32
}

impl Row {
    /// A vector of any length but 0; a vector of zeros is near to nothing.
    pub(super) fn new(vector: &[f32]) -> Self {
        let norm = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        let greatest = vector.iter().fold(0.0f32, |greatest, v| greatest.max(v.abs()));
        let step = greatest / largest(vector.len());
        if step <= 0.0 || !norm.is_finite() {
            return Self {
                values: vec![0; vector.len()],
                scale: 0.0,
            };
        }
        Self {
            values: vector.iter().map(|v| (v / step).round() as i16).collect(),
            scale: step / norm,
        }
    }
}

impl Rows {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, row: &Row) {
        self.values.extend_from_slice(&row.values);
        self.scales.push(row.scale);
    }

    pub(super) fn get(&self, index: usize) -> Row {
        Row {
            values: self.values[index * self.width..][..self.width].to_vec(),
            scale: self.scales[index],
        }
    }

    /// The cosine of `query` with every row, in order.
    pub(super) fn cosines<'a>(&'a self, query: &'a Row) -> impl Iterator<Item = f32> + 'a {
        let mut products = Vec::with_capacity(self.scales.len());
        dot::products(&self.values, &query.values, &mut products);
        let products = products.into_iter().zip(&self.scales);
        products.map(|(product, scale)| product as f32 * scale * query.scale)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cosines_equal_those_of_the_vectors(
            vectors in (1..80usize).prop_flat_map(|width| prop::collection::vec(prop::collection::vec(-1.0f32..1.0, width), 2..6)),
        ) {
            let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
            prop_assume!(vectors.iter().all(|vector| norm(vector) > 0.01));
            let mut rows = Rows::new(vectors[0].len());
            vectors.iter().for_each(|vector| rows.push(&Row::new(vector)));
            for (index, query) in vectors.iter().enumerate() {
                prop_assert_eq!(rows.get(index), Row::new(query));
                for (cosine, vector) in rows.cosines(&Row::new(query)).zip(&vectors) {
                    let exact = query.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>() / norm(query) / norm(vector);
                    prop_assert!((cosine - exact).abs() < 1e-3, "{} is not {}", cosine, exact);
                }
            }
        }
    }

    #[test]
    fn equal_values_do_not_overflow() {
        for width in [1, 384, 1024, 8192] {
            let row = Row::new(&vec![1.0; width]);
            let mut rows = Rows::new(width);
            rows.push(&row);
            let cosine = rows.cosines(&row).next().unwrap();
            assert!((cosine - 1.0).abs() < 1e-3, "width {width}: {cosine}");
        }
        let zero = Row::new(&[0.0; 4]);
        assert_eq!(zero.scale, 0.0);
    }
}
