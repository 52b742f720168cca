use crate::simd::{LANES, Lanes, Simd, math};

/// The reduction of one or more whole segments for some queries: sums of weights are single numbers here.
pub(super) struct Total<'a> {
    pub(super) max: &'a mut Lanes,
    pub(super) sum: &'a mut Lanes,
    /// `[queries][head_dim / 16]`.
    pub(super) values: &'a mut [Lanes],
}

/// One more segment.
pub(super) struct Segment<'a> {
    pub(super) max: &'a Lanes,
    pub(super) sum: &'a Lanes,
    pub(super) values: &'a [Lanes],
}

impl Total<'_> {
    #[inline(always)]
    pub(super) fn begin(&mut self, segment: &Segment<'_>) {
        *self.max = *segment.max;
        *self.sum = *segment.sum;
        self.values.copy_from_slice(segment.values);
    }

    /// Adds a segment that follows. Lane `i` of the maxima and sums is that of query `i`, whose values are `columns`
    /// vectors.
    #[inline(always)]
    pub(super) fn merge<S: Simd>(&mut self, simd: S, segment: &Segment<'_>, columns: usize) {
        let (old, new) = (simd.load(self.max), simd.load(segment.max));
        let max = simd.max(old, new);
        let (of_old, of_new) = (
            math::exp2(simd, simd.sub(old, max)),
            math::exp2(simd, simd.sub(new, max)),
        );
        let sum = simd.mul_add(
            simd.load(segment.sum),
            of_new,
            simd.mul(simd.load(self.sum), of_old),
        );
        simd.store(max, self.max);
        simd.store(sum, self.sum);
        let factors = simd.to_lanes(of_old).into_iter().zip(simd.to_lanes(of_new));
        let rows = self
            .values
            .chunks_exact_mut(columns)
            .zip(segment.values.chunks_exact(columns));
        for ((of_old, of_new), (values, added)) in factors.zip(rows) {
            let (of_old, of_new) = (simd.splat(of_old), simd.splat(of_new));
            for (value, added) in values.iter_mut().zip(added) {
                let scaled = simd.mul(simd.load(value), of_old);
                simd.store(simd.mul_add(simd.load(added), of_new, scaled), value);
            }
        }
    }
}

/// Values of one partial result in memory: the query's weighted sums, its maximum and its sum of weights.
pub(super) fn record_len(head_dim: usize) -> usize {
    head_dim + LANES
}

/// Divides weighted sums by the sum of the weights.
#[inline(always)]
pub(super) fn write_normalised<S: Simd>(simd: S, values: &[Lanes], sum: f32, out: &mut [f32]) {
    let inverse = simd.splat(1.0 / sum);
    for (values, out) in values.iter().zip(out.as_chunks_mut().0) {
        simd.store(simd.mul(simd.load(values), inverse), out);
    }
}
