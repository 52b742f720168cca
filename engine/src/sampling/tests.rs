use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn cpu() -> Cpu {
    Cpu::new(Some(1)).unwrap()
}

fn tokens(sampling: &Sampling, logits: &[f32], mask: Option<&TokenMask>, count: usize) -> Vec<u32> {
    let (cpu, mut sampler) = (cpu(), Sampler::new(sampling).unwrap());
    let mut generated = Vec::new();
    for _ in 0..count {
        let sampled = sampler
            .sample(&cpu, &mut logits.to_vec(), mask, &generated)
            .unwrap();
        generated.push(sampled.token);
    }
    generated
}

#[test]
fn greedy_takes_the_lowest_id_among_equals() {
    let logits = [0.0, 3.0, 1.0, 3.0];
    assert_eq!(tokens(&Sampling::greedy(), &logits, None, 1), [1]);
    let mask = TokenMask::from_ids(4, &[2, 3]);
    assert_eq!(tokens(&Sampling::greedy(), &logits, Some(&mask), 1), [3]);
}

#[test]
fn equal_seeds_give_these_tokens_in_every_version() {
    let logits: Vec<f32> = (0..1000).map(|i| ((i * 37) % 101) as f32 / 20.0).collect();
    let plain = Sampling::seeded(1.0, 7);
    let narrow = Sampling {
        top_k: 50,
        top_p: 0.9,
        min_p: 0.05,
        ..Sampling::seeded(0.7, 7)
    };
    // Both lists come from the same definitions written in Python with exact doubles.
    assert_eq!(tokens(&plain, &logits, None, 6), [57, 171, 722, 431, 966, 464]);
    assert_eq!(tokens(&narrow, &logits, None, 6), [49, 150, 696, 393, 969, 434]);
}

#[test]
fn the_penalty_divides_positive_and_multiplies_negative_logits_once_per_token() {
    let sampling = Sampling {
        repetition_penalty: 2.0,
        ..Sampling::greedy()
    };
    // 4 / 2 = 2 < 2.5, although the token occurs twice.
    let sampled = |logits: &[f32], generated: &[u32]| {
        let mut sampler = Sampler::new(&sampling).unwrap();
        sampler
            .sample(&cpu(), &mut logits.to_vec(), None, generated)
            .unwrap()
            .token
    };
    assert_eq!(sampled(&[4.0, 2.5, -1.0], &[0, 0]), 1);
    assert_eq!(sampled(&[5.5, 2.5, -1.0], &[0, 0]), 0);
    assert_eq!(sampled(&[-1.0, -1.5, -1.8], &[0]), 1);
}

#[test]
fn logprobs_are_natural_and_before_penalty_temperature_and_mask() {
    let sampling = Sampling {
        repetition_penalty: 3.0,
        ..Sampling::seeded(0.01, 1)
    };
    let mut logits = [4.0f32.ln(), 3.0f32.ln(), 2.0f32.ln(), 1.0f32.ln()];
    let mask = TokenMask::from_ids(4, &[0, 2, 3]);
    let mut sampler = Sampler::new(&sampling).unwrap().with_logprobs(Some(2));
    let sampled = sampler.sample(&cpu(), &mut logits, Some(&mask), &[0]).unwrap();
    assert_eq!(sampled.token, 2);
    let logprob = sampled.logprob.unwrap();
    let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-5, "{a} is not {b}");
    close(logprob.logprob, 0.2f32.ln());
    assert_eq!(logprob.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1]);
    close(logprob.top[0].1, 0.4f32.ln());
    close(logprob.top[1].1, 0.3f32.ln());
}

#[test]
fn wrong_parameters_are_named() {
    let refused = |sampling: Sampling| Sampler::new(&sampling).unwrap_err().to_string();
    let greedy = Sampling::greedy();
    assert_eq!(
        refused(Sampling {
            temperature: -1.0,
            ..greedy.clone()
        }),
        "invalid request: temperature is -1, expected a finite number of at least 0"
    );
    for (field, sampling) in [
        (
            "temperature",
            Sampling {
                temperature: f32::NAN,
                ..greedy.clone()
            },
        ),
        (
            "top_p",
            Sampling {
                top_p: 0.0,
                ..greedy.clone()
            },
        ),
        (
            "top_p",
            Sampling {
                top_p: 1.5,
                ..greedy.clone()
            },
        ),
        (
            "min_p",
            Sampling {
                min_p: 1.0,
                ..greedy.clone()
            },
        ),
        (
            "repetition_penalty",
            Sampling {
                repetition_penalty: 0.0,
                ..greedy.clone()
            },
        ),
        (
            "repetition_penalty",
            Sampling {
                repetition_penalty: f32::INFINITY,
                ..greedy
            },
        ),
    ] {
        assert!(refused(sampling).contains(field));
    }
}

#[test]
fn nothing_to_choose_from_is_an_error() {
    let mut sampler = Sampler::new(&Sampling::greedy()).unwrap();
    let mut logits = [f32::NEG_INFINITY, 1.0];
    let empty = TokenMask::from_ids(2, &[]);
    let error = sampler
        .sample(&cpu(), &mut logits, Some(&empty), &[])
        .unwrap_err();
    assert!(matches!(error, EngineError::InvalidConstraint { .. }));
    let barred = TokenMask::from_ids(2, &[0]);
    let error = sampler
        .sample(&cpu(), &mut logits, Some(&barred), &[])
        .unwrap_err();
    assert!(matches!(error, EngineError::Forward { .. }));
}

#[test]
fn frequencies_follow_the_probabilities() {
    let logits = [0.1f32.ln(), 0.2f32.ln(), 0.3f32.ln(), 0.4f32.ln()];
    let mut counts = [0usize; 4];
    for token in tokens(&Sampling::seeded(1.0, 3), &logits, None, 20_000) {
        counts[token as usize] += 1;
    }
    for (count, share) in counts.into_iter().zip([0.1, 0.2, 0.3, 0.4]) {
        // Four standard deviations of a binomial share at 20,000 draws are below 0.014.
        assert!((count as f64 / 20_000.0 - share).abs() < 0.014, "{counts:?}");
    }
}

/// The obvious twin: sort everything, use the standard library's exponential, cut step by step.
fn twin(
    sampling: &Sampling,
    logits: &[f32],
    allowed: &dyn Fn(u32) -> bool,
    generated: &[u32],
    unit: f64,
) -> u32 {
    let seen: HashSet<u32> = generated.iter().copied().collect();
    let mut list: Vec<(u32, f64)> = (0..logits.len() as u32)
        .filter(|&id| allowed(id))
        .map(|id| {
            let (logit, penalty) = (logits[id as usize], sampling.repetition_penalty);
            let penalised = if logit > 0.0 {
                logit / penalty
            } else {
                logit * penalty
            };
            (id, f64::from(if seen.contains(&id) { penalised } else { logit }))
        })
        .collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if sampling.temperature == 0.0 {
        return list[0].0;
    }
    let best = list[0].1;
    for (_, logit) in &mut list {
        *logit = ((*logit - best) / f64::from(sampling.temperature)).exp();
    }
    if sampling.top_k > 0 {
        list.truncate(sampling.top_k);
    }
    if sampling.top_p < 1.0 {
        let target: f64 = list.iter().map(|(_, weight)| weight).sum::<f64>() * f64::from(sampling.top_p);
        let mut sum = 0.0;
        let reached = list.iter().position(|(_, weight)| {
            sum += weight;
            sum >= target
        });
        list.truncate(reached.map_or(list.len(), |index| index + 1));
    }
    list.retain(|(_, weight)| *weight >= f64::from(sampling.min_p));
    list.sort_by_key(|(id, _)| *id);
    let target: f64 = list.iter().map(|(_, weight)| weight).sum::<f64>() * unit;
    let mut sum = 0.0;
    let drawn = list.iter().find(|(_, weight)| {
        sum += weight;
        sum > target
    });
    drawn.or(list.last()).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn agrees_with_a_full_sort(
        logits in proptest::collection::vec(-8.0f32..8.0, 1..3000),
        temperature in prop_oneof![Just(0.0f32), 0.1f32..3.0],
        top_k in prop_oneof![Just(0usize), 1usize..100],
        top_p in prop_oneof![Just(1.0f32), 0.05f32..0.999],
        min_p in prop_oneof![Just(0.0f32), 0.001f32..0.5],
        repetition_penalty in prop_oneof![Just(1.0f32), 0.5f32..2.0],
        seed in any::<u64>(),
        masked in prop_oneof![Just(None), (1u32..6).prop_map(Some)],
    ) {
        let sampling = Sampling { temperature, top_k, top_p, min_p, repetition_penalty, seed };
        let allowed = |id: u32| masked.is_none_or(|step| id.is_multiple_of(step));
        let ids: Vec<u32> = (0..logits.len() as u32).filter(|&id| allowed(id)).collect();
        let mask = masked.map(|_| TokenMask::from_ids(logits.len(), &ids));
        let cpu = cpu();
        let mut sampler = Sampler::new(&sampling).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut generated = Vec::new();
        for _ in 0..4 {
            let sampled = sampler.sample(&cpu, &mut logits.clone(), mask.as_ref(), &generated).unwrap();
            let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            prop_assert_eq!(sampled.token, twin(&sampling, &logits, &allowed, &generated, unit));
            generated.push(sampled.token);
        }
    }
}
