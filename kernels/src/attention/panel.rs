use std::ops::Range;

use super::CHUNK;
use crate::simd::{LANES, Lanes, Simd, math};

/// Queries whose scores are computed together, at most.
pub(super) const MAX_PANEL: usize = 12;

/// Scores, then weights, of a panel's queries over one chunk.
type Scores = [[f32; CHUNK]; MAX_PANEL];

/// The reduction of some positions for the queries of a panel.
pub(super) struct PanelState<'a> {
    /// Largest score of each query, in powers of two.
    pub(super) max: &'a mut Lanes,
    /// Sum of the weights of each query, in sixteen parts.
    pub(super) sums: &'a mut [Lanes],
    /// Weighted sums of the values, `[queries][head_dim / 16]`.
    pub(super) values: &'a mut [Lanes],
}

/// The queries of a panel at one chunk.
pub(super) struct PanelQueries<'a> {
    /// `[head_dim][queries]`, scaled by `log2 e / sqrt(head_dim)`.
    pub(super) packed: &'a [f32],
    pub(super) count: usize,
    /// Positions of this chunk that each query attends to.
    pub(super) limits: &'a [usize; MAX_PANEL],
}

/// Sixteen values as they are kept.
pub(super) trait Stored {
    /// Whether they come from memory.
    const FAR: bool;

    fn widen<S: Simd>(&self, simd: S) -> S::V;
}

impl Stored for Lanes {
    const FAR: bool = false;

    #[inline(always)]
    fn widen<S: Simd>(&self, simd: S) -> S::V {
        simd.load(self)
    }
}

impl Stored for [u16; LANES] {
    const FAR: bool = true;

    #[inline(always)]
    fn widen<S: Simd>(&self, simd: S) -> S::V {
        simd.load_f16(self)
    }
}

/// Keys and values of some tiles of a chunk, 16 positions each.
pub(super) struct Tiles<'a, E> {
    /// `[tiles][head_dim]`, each one component of 16 positions.
    pub(super) keys: &'a [E],
    /// `[16 * tiles][head_dim / 16]`.
    pub(super) values: &'a [E],
    /// Memory that will be read next, to be asked for meanwhile.
    pub(super) ahead: &'a [E],
}

impl PanelState<'_> {
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.max.fill(f32::NEG_INFINITY);
        self.sums.as_flattened_mut().fill(0.0);
        self.values.as_flattened_mut().fill(0.0);
    }

    /// Adds the positions of one chunk, whose tiles lie in one or several parts.
    #[inline(always)]
    pub(super) fn update<S: Simd, E: Stored>(
        &mut self,
        simd: S,
        input: &PanelQueries<'_>,
        parts: &[Tiles<'_, E>],
    ) {
        let limits = &input.limits[..input.count];
        let longest = limits.iter().copied().max().unwrap_or(0);
        let masked = limits
            .iter()
            .any(|&limit| limit < longest.next_multiple_of(LANES));
        let tiles = longest.div_ceil(LANES);
        let mut scores: Scores = [[0.0; CHUNK]; MAX_PANEL];
        let mut rescale = [0.0; LANES];
        let head_dim = input.packed.len() / input.count;
        let mut first = 0;
        for part in parts {
            let end = tiles.min(first + part.keys.len() / head_dim);
            score(simd, input, part, (first..end, &mut scores));
            first = end;
        }
        for (scores, &limit) in scores.iter_mut().zip(limits).filter(|_| masked) {
            mask(simd, limit, &mut scores.as_chunks_mut().0[..tiles]);
        }
        self.weigh(simd, &mut scores[..input.count], tiles, &mut rescale);
        let mut first = 0;
        for part in parts {
            let end = longest.min(first + part.values.len() * LANES / head_dim);
            self.add_values(simd, part.values, first..end, (&scores[..input.count], &rescale));
            rescale = [1.0; LANES];
            first = end;
        }
    }

    /// Turns scores into weights relative to the new maximum, and adds them up.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, simd: S, scores: &mut [[f32; CHUNK]], tiles: usize, rescale: &mut Lanes) {
        let old = *self.max;
        for (max, scores) in self.max.iter_mut().zip(scores.iter()) {
            let mut lanes = simd.splat(*max);
            for scores in &scores.as_chunks().0[..tiles] {
                lanes = simd.max(simd.load(scores), lanes);
            }
            *max = simd.reduce_max(lanes);
        }
        let factor = math::exp2(simd, simd.sub(simd.load(&old), simd.load(self.max)));
        simd.store(factor, rescale);
        for (index, (scores, sums)) in scores.iter_mut().zip(self.sums.iter_mut()).enumerate() {
            let max = simd.splat(self.max[index]);
            let mut sum = simd.mul(simd.load(sums), simd.splat(rescale[index]));
            for scores in &mut scores.as_chunks_mut().0[..tiles] {
                let weight = math::exp2(simd, simd.sub(simd.load(scores), max));
                sum = simd.add(sum, weight);
                simd.store(weight, scores);
            }
            simd.store(sum, sums);
        }
    }

    /// Adds the weighted values of some positions of the chunk.
    #[inline(always)]
    fn add_values<S: Simd, E: Stored>(
        &mut self,
        simd: S,
        values: &[E],
        positions: Range<usize>,
        (weights, rescale): (&[[f32; CHUNK]], &Lanes),
    ) {
        let count = weights.len();
        let columns = self.values.len() / count;
        let (rows_at_once, columns_at_once) = S::SUMS;
        let mut row = 0;
        while row < count {
            let rows = rows_at_once.min(count - row);
            let mut column = 0;
            while column < columns {
                let wide = columns_at_once.min(columns - column);
                let sums = Sums {
                    weights: &weights[row..row + rows],
                    rescale: &rescale[row..row + rows],
                    values,
                    columns,
                    column,
                    positions: positions.clone(),
                    out: &mut self.values[row * columns..(row + rows) * columns],
                };
                column += match wide {
                    4.. => sums.add_rows::<S, 4>(simd),
                    2.. => sums.add_rows::<S, 2>(simd),
                    _ => sums.add_rows::<S, 1>(simd),
                };
            }
            row += rows;
        }
    }
}

/// Scores of all queries of a panel against some tiles of the chunk, the first ones of `part`.
#[inline(always)]
fn score<S: Simd, E: Stored>(
    simd: S,
    input: &PanelQueries<'_>,
    part: &Tiles<'_, E>,
    scores: (Range<usize>, &mut Scores),
) {
    match input.count {
        1 => score_rows::<S, E, 1>(simd, input, part, scores),
        2 => score_rows::<S, E, 2>(simd, input, part, scores),
        3 => score_rows::<S, E, 3>(simd, input, part, scores),
        4 => score_rows::<S, E, 4>(simd, input, part, scores),
        5 => score_rows::<S, E, 5>(simd, input, part, scores),
        6 => score_rows::<S, E, 6>(simd, input, part, scores),
        7 => score_rows::<S, E, 7>(simd, input, part, scores),
        8 => score_rows::<S, E, 8>(simd, input, part, scores),
        9 => score_rows::<S, E, 9>(simd, input, part, scores),
        10 => score_rows::<S, E, 10>(simd, input, part, scores),
        11 => score_rows::<S, E, 11>(simd, input, part, scores),
        12 => score_rows::<S, E, 12>(simd, input, part, scores),
        _ => unreachable!("a panel holds 1 to 12 queries"),
    }
}

#[inline(always)]
fn score_rows<S: Simd, E: Stored, const R: usize>(
    simd: S,
    input: &PanelQueries<'_>,
    part: &Tiles<'_, E>,
    (range, scores): (Range<usize>, &mut Scores),
) {
    if R > S::ACCUMULATORS {
        unreachable!("panels are cut to the accumulators");
    }
    let tiles = range.len();
    let mut tile = 0;
    // Few rows leave registers free for several tiles, whose sums then do not wait for each other.
    while 4 * R <= S::ACCUMULATORS && tile + 4 <= tiles {
        score_tiles::<S, E, R, 4>(simd, input, part, (tile, range.start + tile, scores));
        tile += 4;
    }
    while 2 * R <= S::ACCUMULATORS && tile + 2 <= tiles {
        score_tiles::<S, E, R, 2>(simd, input, part, (tile, range.start + tile, scores));
        tile += 2;
    }
    while tile < tiles {
        score_tiles::<S, E, R, 1>(simd, input, part, (tile, range.start + tile, scores));
        tile += 1;
    }
}

/// Scores of `R` queries against `T` tiles of a part, which are tiles `to..to + T` of the chunk: for each component in
/// order, one multiply-add per query and tile.
#[inline(always)]
fn score_tiles<S: Simd, E: Stored, const R: usize, const T: usize>(
    simd: S,
    input: &PanelQueries<'_>,
    part: &Tiles<'_, E>,
    (from, to, scores): (usize, usize, &mut Scores),
) {
    let queries = input.packed.as_chunks::<R>().0;
    let head_dim = queries.len();
    let tiles = &part.keys[from * head_dim..][..T * head_dim];
    let mut sums = [[simd.zero(); T]; R];
    for (d, query) in queries.iter().enumerate() {
        let mut keys = [simd.zero(); T];
        for (t, key) in keys.iter_mut().enumerate() {
            *key = tiles[t * head_dim + d].widen(simd);
        }
        // Keys and values of a tile are two vectors for each component.
        if E::FAR
            && let Some(ahead) = part.ahead.get(2 * d..)
        {
            simd.prefetch(ahead);
        }
        for (sums, &query) in sums.iter_mut().zip(query) {
            let query = simd.splat(query);
            for (sum, &key) in sums.iter_mut().zip(&keys) {
                *sum = simd.mul_add(query, key, *sum);
            }
        }
    }
    for (scores, sums) in scores.iter_mut().zip(&sums) {
        for (scores, &sum) in scores.as_chunks_mut().0[to..].iter_mut().zip(sums) {
            simd.store(sum, scores);
        }
    }
}

/// Takes the positions from `limit` on out of the softmax.
#[inline(always)]
fn mask<S: Simd>(simd: S, limit: usize, scores: &mut [Lanes]) {
    let masked = simd.splat(f32::NEG_INFINITY);
    for (tile, scores) in scores.iter_mut().enumerate() {
        let kept = limit.saturating_sub(tile * LANES);
        let v = simd.first(kept.min(LANES), simd.load(scores), masked);
        simd.store(v, scores);
    }
}

/// `out = out * rescale + weights * values` for some queries and some columns.
struct Sums<'a, E> {
    weights: &'a [[f32; CHUNK]],
    rescale: &'a [f32],
    /// `[positions][columns]`, at least.
    values: &'a [E],
    columns: usize,
    column: usize,
    /// Of the chunk.
    positions: Range<usize>,
    /// `[queries][columns]`.
    out: &'a mut [Lanes],
}

impl<E: Stored> Sums<'_, E> {
    /// Returns the columns done.
    #[inline(always)]
    fn add_rows<S: Simd, const C: usize>(self, simd: S) -> usize {
        match self.weights.len() {
            1 => self.add::<S, 1, C>(simd),
            2 => self.add::<S, 2, C>(simd),
            3 => self.add::<S, 3, C>(simd),
            4 => self.add::<S, 4, C>(simd),
            5 => self.add::<S, 5, C>(simd),
            6 => self.add::<S, 6, C>(simd),
            _ => unreachable!("1 to 6 queries at once"),
        }
        C
    }

    #[inline(always)]
    fn add<S: Simd, const R: usize, const C: usize>(self, simd: S) {
        let Sums {
            weights,
            rescale,
            values,
            columns,
            column,
            positions,
            out,
        } = self;
        if R > S::SUMS.0 || C > S::SUMS.1 {
            unreachable!("cut to the registers");
        }
        let mut sums = [[simd.zero(); C]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            let factor = simd.splat(rescale[r]);
            for (sum, out) in sums.iter_mut().zip(&out[r * columns + column..][..C]) {
                *sum = simd.mul(simd.load(out), factor);
            }
        }
        for (position, values) in positions.zip(values.chunks_exact(columns)) {
            let mut row = [simd.zero(); C];
            for (value, stored) in row.iter_mut().zip(&values[column..column + C]) {
                *value = stored.widen(simd);
            }
            for (sums, weights) in sums.iter_mut().zip(weights) {
                let weight = simd.splat(weights[position]);
                for (sum, &value) in sums.iter_mut().zip(&row) {
                    *sum = simd.mul_add(weight, value, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (&sum, out) in sums.iter().zip(&mut out[r * columns + column..][..C]) {
                simd.store(sum, out);
            }
        }
    }
}
