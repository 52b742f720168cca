//! Choosing the next token from the logits, one sampler per request.
//!
//! The order of the steps: repetition penalty, mask, temperature, top-k, top-p (over what top-k left), min-p,
//! one draw. The draw walks the kept tokens by ascending id with a xoshiro256++ stream seeded by SplitMix64
//! (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", 2021), and the exponential is our
//! own plain arithmetic, so that equal logits and seeds give equal tokens on every machine and version.
//!
//! Knows logits; does not know models, texts or requests.

mod distribution;
#[cfg(test)]
mod tests;

use engine_contract::{EngineError, Sampling, TokenLogprob};
use kernels::Cpu;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use crate::constraint::TokenMask;
use distribution::{Weights, draw, reach, weight};

/// Masks with at most this many tokens are sampled from a gathered copy instead of the whole vocabulary.
const SPARSE_TOKENS: usize = 2048;

/// Lengths of the sorted head that top-p tries before it sorts the whole vocabulary.
const TOP_P_HEADS: [usize; 2] = [64, 1024];

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The token's id.
    pub token: u32,
    /// Its probability and the best alternatives, where asked for.
    pub logprob: Option<TokenLogprob>,
}

/// The sampling state of one request: parameters and random stream.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    logprobs: Option<usize>,
    random: Xoshiro256PlusPlus,
    /// Distinct generated tokens, for the penalty.
    distinct: Vec<u32>,
    /// Ids and logits of a sparse mask's tokens.
    gathered: (Vec<u32>, Vec<f32>),
    weights: Weights,
}

impl Sampler {
    /// A sampler at the start of its random stream.
    ///
    /// # Errors
    /// [`EngineError::InvalidRequest`] names the parameter that is out of range.
    pub fn new(sampling: &Sampling) -> Result<Self, EngineError> {
        validate(sampling)?;
        Ok(Self {
            random: Xoshiro256PlusPlus::seed_from_u64(sampling.seed),
            sampling: sampling.clone(),
            logprobs: None,
            distinct: Vec::new(),
            gathered: (Vec::new(), Vec::new()),
            weights: Weights::default(),
        })
    }

    /// Reports the probability of every chosen token and this many alternatives; `None` reports nothing.
    #[must_use]
    pub fn with_logprobs(mut self, alternatives: Option<usize>) -> Self {
        self.logprobs = alternatives;
        self
    }

    /// Chooses a token. `logits` `[vocabulary]` are overwritten; `generated` are the tokens chosen so far;
    /// tokens outside the mask are never chosen.
    ///
    /// # Errors
    /// [`EngineError::Forward`] when no allowed logit is finite, [`EngineError::InvalidConstraint`] when the mask
    /// allows nothing.
    pub fn sample(
        &mut self,
        cpu: &Cpu,
        logits: &mut [f32],
        mask: Option<&TokenMask>,
        generated: &[u32],
    ) -> Result<Sampled, EngineError> {
        let report = self.logprobs.map(|count| Report::new(cpu, logits, count));
        let penalised = self.penalise(logits, generated);
        let token = self.choose(cpu, logits, mask)?;
        let logprob = report.map(|report| {
            let penalised = penalised
                .iter()
                .find(|(id, _)| *id == token)
                .map(|(_, logit)| *logit);
            report.of(token, penalised.unwrap_or(logits[token as usize]))
        });
        Ok(Sampled { token, logprob })
    }

    /// Applies the repetition penalty and returns the logits it replaced.
    fn penalise(&mut self, logits: &mut [f32], generated: &[u32]) -> Vec<(u32, f32)> {
        let penalty = self.sampling.repetition_penalty;
        if penalty == 1.0 {
            return Vec::new();
        }
        self.distinct.clear();
        self.distinct.extend_from_slice(generated);
        self.distinct.sort_unstable();
        self.distinct.dedup();
        let mut replaced = Vec::new();
        for &id in &self.distinct {
            if let Some(logit) = logits.get_mut(id as usize) {
                replaced.push((id, *logit));
                *logit = if *logit > 0.0 {
                    *logit / penalty
                } else {
                    *logit * penalty
                };
            }
        }
        replaced
    }

    fn choose(
        &mut self,
        cpu: &Cpu,
        logits: &mut [f32],
        mask: Option<&TokenMask>,
    ) -> Result<u32, EngineError> {
        let Some(mask) = mask else {
            return Ok(self.pick(cpu, logits)? as u32);
        };
        if mask.count() == 0 {
            return Err(EngineError::InvalidConstraint {
                reason: "no token may follow here".into(),
            });
        }
        if mask.count() > SPARSE_TOKENS {
            cpu.mask_logits(logits, mask.words());
            return Ok(self.pick(cpu, logits)? as u32);
        }
        let (mut ids, mut values) = std::mem::take(&mut self.gathered);
        ids.clear();
        ids.extend(mask.ids().take_while(|&id| (id as usize) < logits.len()));
        values.clear();
        values.extend(ids.iter().map(|&id| logits[id as usize]));
        let picked = self.pick(cpu, &values);
        let token = picked.map(|index| ids[index]);
        self.gathered = (ids, values);
        token
    }

    /// Index of the chosen value.
    fn pick(&mut self, cpu: &Cpu, values: &[f32]) -> Result<usize, EngineError> {
        let best = if values.is_empty() {
            None
        } else {
            Some(cpu.argmax(values) as usize)
        };
        let Some(best) = best.filter(|&index| values[index].is_finite()) else {
            return Err(EngineError::Forward {
                reason: "no allowed token has a finite logit".into(),
            });
        };
        let Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            ..
        } = self.sampling;
        if temperature == 0.0 {
            return Ok(best);
        }
        let unit = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if top_k == 0 && top_p == 1.0 {
            self.weights.fill(values, values[best], temperature);
            self.weights.drop_below(min_p);
            return Ok(self.weights.draw(unit));
        }
        let mut kept = self.shortlist(cpu, values, values[best]);
        kept.retain(|&(_, weight)| weight >= min_p);
        kept.sort_unstable_by_key(|&(index, _)| index);
        Ok(draw(&kept, unit))
    }

    /// What top-k and top-p keep, with weights relative to the best, best first.
    fn shortlist(&mut self, cpu: &Cpu, values: &[f32], best: f32) -> Vec<(usize, f32)> {
        let Sampling {
            temperature,
            top_k,
            top_p,
            ..
        } = self.sampling;
        let head = |length: usize| -> Vec<(usize, f32)> {
            let top = cpu.top_k(values, length);
            top.into_iter()
                .map(|(index, value)| (index as usize, weight(value, best, temperature)))
                .collect()
        };
        if top_k > 0 {
            let mut kept = head(top_k.min(values.len()));
            let total: f64 = kept.iter().map(|&(_, weight)| f64::from(weight)).sum();
            kept.truncate(reach(&kept, total * f64::from(top_p)).unwrap_or(kept.len()));
            return kept;
        }
        self.weights.fill(values, best, temperature);
        let target = self.weights.total() * f64::from(top_p);
        for length in TOP_P_HEADS.into_iter().filter(|&length| length < values.len()) {
            let mut kept = head(length);
            if let Some(count) = reach(&kept, target) {
                kept.truncate(count);
                return kept;
            }
        }
        let mut kept = head(values.len());
        kept.truncate(reach(&kept, target).unwrap_or(kept.len()));
        kept
    }
}

/// The probability of one token and of the best alternatives, natural logarithms, from untouched logits
/// `[vocabulary]`. For tokens that were not sampled, such as forced ones.
#[must_use]
pub fn token_logprob(cpu: &Cpu, logits: &[f32], token: u32, alternatives: usize) -> TokenLogprob {
    Report::new(cpu, logits, alternatives).of(token, logits[token as usize])
}

/// What a [`TokenLogprob`] needs before the logits are overwritten.
struct Report {
    log_sum: f32,
    top: Vec<(u32, f32)>,
}

impl Report {
    fn new(cpu: &Cpu, logits: &[f32], count: usize) -> Self {
        let log_sum = cpu.log_sum_exp(logits);
        let top = if count == 0 {
            Vec::new()
        } else {
            cpu.top_k(logits, count.min(logits.len()))
        };
        Self {
            log_sum,
            top: top.into_iter().map(|(id, logit)| (id, logit - log_sum)).collect(),
        }
    }

    fn of(self, token: u32, logit: f32) -> TokenLogprob {
        TokenLogprob {
            token,
            logprob: logit - self.log_sum,
            top: self.top,
        }
    }
}

fn validate(sampling: &Sampling) -> Result<(), EngineError> {
    let Sampling {
        temperature,
        top_p,
        min_p,
        repetition_penalty,
        ..
    } = *sampling;
    let checks = [
        (
            "temperature",
            temperature,
            temperature >= 0.0,
            "a finite number of at least 0",
        ),
        (
            "top_p",
            top_p,
            top_p > 0.0 && top_p <= 1.0,
            "a number above 0 and at most 1",
        ),
        (
            "min_p",
            min_p,
            (0.0..1.0).contains(&min_p),
            "a number of at least 0 and below 1",
        ),
        (
            "repetition_penalty",
            repetition_penalty,
            repetition_penalty > 0.0,
            "a finite number above 0",
        ),
    ];
    for (field, received, valid, expected) in checks {
        if !(valid && received.is_finite()) {
            return Err(EngineError::InvalidRequest {
                field,
                received: received.to_string(),
                expected: expected.into(),
            });
        }
    }
    Ok(())
}
