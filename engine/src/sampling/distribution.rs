//! Unnormalised probabilities, and one draw from them. Plain arithmetic in a fixed order: the same result
//! on every machine.

/// Values per partial sum.
const BLOCK: usize = 1024;

/// The weight of a logit relative to the best one, in `[0, 1]`: `exp((value - best) / temperature)`.
pub(super) fn weight(value: f32, best: f32, temperature: f32) -> f32 {
    exp((value - best) / temperature)
}

/// `e^x` for `x <= 0`, relative error below 3e-7, `0` below -87 and for NaN. Cephes' `expf` polynomial without fused
/// operations, so that it neither depends on the machine nor on its C library, and vectorises.
fn exp(x: f32) -> f32 {
    /// Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.max(-87.0);
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let rest = (clamped - power * LN_2_HIGH) - power * LN_2_LOW;
    let mut sum = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5] {
        sum = sum * rest + coefficient;
    }
    let mantissa = sum * rest * rest + rest + 1.0;
    // The low mantissa bits of `rounded` are the integer; 127 is the exponent's bias.
    let scale = f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x >= -87.0 { mantissa * scale } else { 0.0 }
}

/// Number of leading weights whose sum reaches `target`, if it does.
pub(super) fn reach(weights: &[(usize, f32)], target: f64) -> Option<usize> {
    let mut sum = 0.0;
    weights
        .iter()
        .position(|&(_, weight)| {
            sum += f64::from(weight);
            sum >= target
        })
        .map(|index| index + 1)
}

/// The index drawn by `unit` in `[0, 1)` from weights in order; there is at least one.
pub(super) fn draw(weights: &[(usize, f32)], unit: f64) -> usize {
    let total: f64 = weights.iter().map(|&(_, weight)| f64::from(weight)).sum();
    let target = total * unit;
    let mut sum = 0.0;
    let mut last = 0;
    for &(index, weight) in weights.iter().filter(|&&(_, weight)| weight > 0.0) {
        sum += f64::from(weight);
        last = index;
        if sum > target {
            break;
        }
    }
    last
}

/// The weights of a whole vocabulary with partial sums per block of 1024.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights {
    values: Vec<f32>,
    sums: Vec<f64>,
}

impl Weights {
    /// Computes the weights of all values.
    pub(super) fn fill(&mut self, values: &[f32], best: f32, temperature: f32) {
        self.values.clear();
        self.values
            .extend(values.iter().map(|&value| weight(value, best, temperature)));
        self.sum();
    }

    /// Zeroes the weights below a share of the best one, whose weight is 1.
    pub(super) fn drop_below(&mut self, share: f32) {
        if share > 0.0 {
            for value in &mut self.values {
                *value = if *value >= share { *value } else { 0.0 };
            }
            self.sum();
        }
    }

    /// The sum of all weights.
    pub(super) fn total(&self) -> f64 {
        self.sums.iter().sum()
    }

    /// The index drawn by `unit` in `[0, 1)`, in index order.
    pub(super) fn draw(&self, unit: f64) -> usize {
        let target = self.total() * unit;
        let mut before = 0.0;
        for (block, &block_sum) in self.sums.iter().enumerate() {
            if before + block_sum > target {
                let mut sum = before;
                let start = block * BLOCK;
                let end = self.values.len().min(start + BLOCK);
                for index in (start..end).filter(|&index| self.values[index] > 0.0) {
                    sum += f64::from(self.values[index]);
                    if sum > target {
                        return index;
                    }
                }
            }
            before += block_sum;
        }
        // Rounding put the target at or past the sum: the last token with a weight.
        self.values.iter().rposition(|&value| value > 0.0).unwrap_or(0)
    }

    fn sum(&mut self) {
        self.sums.clear();
        self.sums.extend(self.values.chunks(BLOCK).map(|block| {
            let mut lanes = [0.0f64; 8];
            let mut chunks = block.chunks_exact(lanes.len());
            for chunk in &mut chunks {
                for (lane, &value) in lanes.iter_mut().zip(chunk) {
                    *lane += f64::from(value);
                }
            }
            let rest: f64 = chunks.remainder().iter().copied().map(f64::from).sum();
            lanes.iter().sum::<f64>() + rest
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_its_stated_error() {
        for step in 0..=870_000 {
            let x = -(step as f32) * 1e-4;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 3e-7, "exp({x}) is off by {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::NAN), 0.0);
    }

    #[test]
    fn draws_follow_the_weights() {
        let mut weights = Weights::default();
        let logits: Vec<f32> = (0..3000)
            .map(|i| if i % 1500 == 7 { 0.0 } else { f32::NEG_INFINITY })
            .collect();
        weights.fill(&logits, 0.0, 1.0);
        assert_eq!(weights.total(), 2.0);
        assert_eq!(weights.draw(0.0), 7);
        assert_eq!(weights.draw(0.499), 7);
        assert_eq!(weights.draw(0.5), 1507);
        assert_eq!(weights.draw(0.999), 1507);
        let list = [(7, 1.0), (9, 0.0), (1507, 1.0)];
        assert_eq!(draw(&list, 0.499), 7);
        assert_eq!(draw(&list, 0.5), 1507);
        assert_eq!(reach(&list, 1.0), Some(1));
        assert_eq!(reach(&list, 1.5), Some(3));
        assert_eq!(reach(&list, 2.5), None);
    }
}
