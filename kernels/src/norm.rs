use crate::Cpu;
use crate::simd::{Kernel, LANES, Simd};

impl Cpu {
    /// Root-mean-square normalisation (Zhang and Sennrich 2019, eq. 4): each row of `weight.len()` values in `x` is
    /// divided by the root of its mean square plus `eps`, and multiplied by `weight`. `out` has the shape of `x`.
    ///
    /// Within 1e-6 of [`reference::rms_norm`](crate::reference::rms_norm), relative to the row's largest value.
    ///
    /// # Panics
    /// When `x` is not whole rows or `out` has another length.
    pub fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        assert_eq!(x.len(), out.len(), "values to normalise and their place");
        let width = weight.len();
        self.for_row_runs(out, width, &|first, out| {
            let x = &x[first * width..][..out.len()];
            self.dispatch(RmsNorm { x, weight, eps, out });
        });
    }

    /// Layer normalisation (Ba et al. 2016, eq. 4): each row of `weight.len()` values in `x` is shifted to mean 0,
    /// divided by the root of its variance plus `eps`, multiplied by `weight`, and `bias` is added. `out` has the
    /// shape of `x`.
    ///
    /// Within 1e-6 of [`reference::layer_norm`](crate::reference::layer_norm), relative to the row's largest result.
    ///
    /// # Panics
    /// When `x` is not whole rows, or `bias` or `out` has another length than it should.
    pub fn layer_norm(&self, x: &[f32], affine: Affine<'_>, eps: f32, out: &mut [f32]) {
        assert_eq!(x.len(), out.len(), "values to normalise and their place");
        let width = affine.weight.len();
        assert_eq!(affine.bias.len(), width, "bias beside {width} weights");
        self.for_row_runs(out, width, &|first, out| {
            let x = &x[first * width..][..out.len()];
            self.dispatch(LayerNorm { x, affine, eps, out });
        });
    }
}

/// Weight and bias of a layer normalisation, of equal length.
#[derive(Debug, Clone, Copy)]
pub struct Affine<'a> {
    /// Factor of each component.
    pub weight: &'a [f32],
    /// Summand of each component.
    pub bias: &'a [f32],
}

pub(crate) struct RmsNorm<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) weight: &'a [f32],
    pub(crate) eps: f32,
    pub(crate) out: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            let mean = sum_of_squares(simd, x, 0.0) / width as f32;
            let scale = simd.splat(1.0 / (mean + self.eps).sqrt());
            let pieces = x
                .chunks(LANES)
                .zip(self.weight.chunks(LANES))
                .zip(out.chunks_mut(LANES));
            for ((x, weight), out) in pieces {
                let normal = simd.mul(simd.load_partial(x, 0.0), scale);
                simd.store_partial(simd.mul(normal, simd.load_partial(weight, 0.0)), out);
            }
        }
    }
}

struct LayerNorm<'a> {
    x: &'a [f32],
    affine: Affine<'a>,
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Affine { weight, bias } = self.affine;
        let width = weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            let mean = sum(simd, x) / width as f32;
            let variance = sum_of_squares(simd, x, mean) / width as f32;
            let scale = simd.splat(1.0 / (variance + self.eps).sqrt());
            let parameters = weight.chunks(LANES).zip(bias.chunks(LANES));
            for ((x, (weight, bias)), out) in x.chunks(LANES).zip(parameters).zip(out.chunks_mut(LANES)) {
                let normal = simd.mul(simd.sub(simd.load_partial(x, 0.0), simd.splat(mean)), scale);
                let scaled = simd.mul_add(
                    normal,
                    simd.load_partial(weight, 0.0),
                    simd.load_partial(bias, 0.0),
                );
                simd.store_partial(scaled, out);
            }
        }
    }
}

#[inline(always)]
fn sum<S: Simd>(simd: S, x: &[f32]) -> f32 {
    fold(simd, x, 0.0, |sum, x| simd.add(sum, x))
}

/// The sum of `(x - center)^2`.
#[inline(always)]
fn sum_of_squares<S: Simd>(simd: S, x: &[f32], center: f32) -> f32 {
    fold(simd, x, center, |sum, x| {
        let distance = simd.sub(x, simd.splat(center));
        simd.mul_add(distance, distance, sum)
    })
}

/// Folds a row into four vectors of sums in turn, then adds those: a fixed order for a given width. Lanes beyond the
/// row's end count as `fill`.
#[inline(always)]
fn fold<S: Simd>(simd: S, x: &[f32], fill: f32, step: impl Fn(S::V, S::V) -> S::V) -> f32 {
    let mut sums = [simd.zero(); 4];
    let mut groups = x.chunks_exact(4 * LANES);
    for group in &mut groups {
        for (sum, lanes) in sums.iter_mut().zip(group.as_chunks().0) {
            *sum = step(*sum, simd.load(lanes));
        }
    }
    for (sum, rest) in sums.iter_mut().zip(groups.remainder().chunks(LANES)) {
        *sum = step(*sum, simd.load_partial(rest, fill));
    }
    simd.reduce_sum(simd.add(simd.add(sums[0], sums[2]), simd.add(sums[1], sums[3])))
}

#[cfg(test)]
mod tests;
