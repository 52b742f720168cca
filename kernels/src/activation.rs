use crate::Cpu;
use crate::simd::{Kernel, LANES, Simd, math};

impl Cpu {
    /// `silu(gate) * up` (Shazeer 2020): `gate_up` is `[rows, 2 * intermediate]`, each row `[gate | up]`; `out` is
    /// `[rows, intermediate]`.
    ///
    /// Within 1e-6 of [`reference::swiglu`](crate::reference::swiglu), relative to each value; the scalar set within
    /// 2e-5.
    ///
    /// # Panics
    /// When a length is not whole rows or the two differ in rows.
    pub fn swiglu(&self, gate_up: &[f32], intermediate: usize, out: &mut [f32]) {
        assert_eq!(gate_up.len(), 2 * out.len(), "gate and up values for each output");
        self.for_row_runs(out, intermediate, &|first, out| {
            let gate_up = &gate_up[2 * first * intermediate..][..2 * out.len()];
            self.dispatch(Swiglu {
                gate_up,
                intermediate,
                out,
            });
        });
    }

    /// The Gaussian error linear unit in its exact form, `x/2 * (1 + erf(x / sqrt 2))` (Hendrycks and Gimpel 2016),
    /// in place.
    ///
    /// Within 3e-7 * max(1, |x|) of [`reference::gelu`](crate::reference::gelu).
    pub fn gelu(&self, x: &mut [f32]) {
        let (whole, rest) = x.split_at_mut(x.len() / LANES * LANES);
        self.for_row_runs(whole, LANES, &|_, x| self.dispatch(Gelu { x }));
        self.dispatch(Gelu { x: rest });
    }
}

pub(crate) struct Swiglu<'a> {
    pub(crate) gate_up: &'a [f32],
    pub(crate) intermediate: usize,
    pub(crate) out: &'a mut [f32],
}

impl Kernel for Swiglu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let rows = self.gate_up.chunks_exact(2 * self.intermediate);
        for (row, out) in rows.zip(self.out.chunks_exact_mut(self.intermediate)) {
            let (gate, up) = row.split_at(self.intermediate);
            for ((gate, up), out) in gate
                .chunks(LANES)
                .zip(up.chunks(LANES))
                .zip(out.chunks_mut(LANES))
            {
                let activated = math::silu(simd, simd.load_partial(gate, 0.0));
                simd.store_partial(simd.mul(activated, simd.load_partial(up, 0.0)), out);
            }
        }
    }
}

struct Gelu<'a> {
    x: &'a mut [f32],
}

impl Kernel for Gelu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for x in self.x.chunks_mut(LANES) {
            simd.store_partial(math::gelu(simd, simd.load_partial(x, 0.0)), x);
        }
    }
}

#[cfg(test)]
mod tests;
