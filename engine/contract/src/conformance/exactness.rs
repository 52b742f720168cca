//! Checks that a reply does not depend on caches, batches or what came before.

use super::suite::{Outcome, Suite, ensure, same};
use crate::{Generation, GenerationRequest, Sampling};

/// KV rows that a cache may round down by.
const BLOCK: usize = 16;

fn outcomes(generations: &[Generation]) -> Vec<Outcome> {
    generations.iter().map(Outcome::from).collect()
}

/// Prompts of very different lengths.
fn ragged(suite: &Suite<'_>) -> Vec<Vec<u32>> {
    (0..suite.options.batch)
        .map(|index| suite.tokens(1 + index * suite.options.stem_tokens / 3))
        .collect()
}

pub(super) fn batch_equals_alone(suite: &Suite<'_>) -> Result<(), String> {
    let prompts = ragged(suite);
    let alone = prompts
        .iter()
        .map(|prompt| suite.fresh_outcome(prompt))
        .collect::<Result<Vec<_>, _>>()?;
    let requests = prompts
        .iter()
        .map(|prompt| suite.request(suite.fresh(), prompt))
        .collect();
    let together = suite.together(requests)?;
    same("replies", &alone, &outcomes(&together))
}

pub(super) fn cached_equals_fresh(suite: &Suite<'_>) -> Result<(), String> {
    for length in [
        suite.options.stem_tokens,
        suite.options.stem_tokens / BLOCK * BLOCK,
    ] {
        let (namespace, prompt) = (suite.fresh(), suite.tokens(length));
        let first = suite.run(namespace, &prompt)?;
        let second = suite.run(namespace, &prompt)?;
        same("reply", &Outcome::from(&first), &Outcome::from(&second))?;
        same(
            "cached tokens of a fresh prompt",
            &Some(0),
            &first.usage.cached_tokens.or(Some(0)),
        )?;
        if let Some(cached) = second.usage.cached_tokens {
            ensure(cached + BLOCK >= length && cached < length, || {
                format!("{cached} of {length} tokens cached")
            })?;
        }
    }
    Ok(())
}

pub(super) fn forked_equals_fresh(suite: &Suite<'_>) -> Result<(), String> {
    let (namespace, stem) = (suite.fresh(), suite.tokens(suite.options.stem_tokens));
    for tail in [1, 5, BLOCK, 40] {
        let mut prompt = stem.clone();
        prompt.extend(suite.tokens(tail));
        let forked = suite.run(namespace, &prompt)?;
        same("reply", &suite.fresh_outcome(&prompt)?, &Outcome::from(&forked))?;
    }
    Ok(())
}

pub(super) fn continued_equals_fresh(suite: &Suite<'_>) -> Result<(), String> {
    let namespace = suite.fresh();
    let mut dialogue = suite.tokens(suite.options.stem_tokens / 2);
    for _ in 0..3 {
        let before = dialogue.len();
        let reply = suite.run(namespace, &dialogue)?;
        same("reply", &suite.fresh_outcome(&dialogue)?, &Outcome::from(&reply))?;
        if let Some(cached) = reply.usage.cached_tokens {
            ensure(cached < before, || {
                format!("{cached} of {before} tokens cached: no row was left to compute")
            })?;
        }
        dialogue.extend(&reply.tokens);
        dialogue.extend(suite.tokens(7));
    }
    Ok(())
}

pub(super) fn evicted_equals_fresh(suite: &Suite<'_>) -> Result<(), String> {
    let (namespace, prompt) = (suite.fresh(), suite.tokens(suite.options.stem_tokens));
    let first = suite.run(namespace, &prompt)?;
    let evicted = suite.model.stats().evicted_blocks;
    let mut gone = suite.options.flood == 0;
    for _ in 0..suite.options.flood {
        suite.run(suite.fresh(), &suite.tokens(suite.options.stem_tokens * 2))?;
        // The prompt is among the least recently used once as many blocks as it has were evicted since.
        let blocks = (suite.options.stem_tokens / BLOCK + 2) as u64;
        if suite.model.stats().evicted_blocks > evicted + 4 * blocks {
            gone = true;
            break;
        }
    }
    ensure(gone, || {
        format!("{} prompts did not fill the cache", suite.options.flood)
    })?;
    let again = suite.run(namespace, &prompt)?;
    same("reply", &Outcome::from(&first), &Outcome::from(&again))
}

pub(super) fn siblings_share(suite: &Suite<'_>) -> Result<(), String> {
    let (namespace, stem) = (suite.fresh(), suite.tokens(suite.options.stem_tokens));
    let prompts: Vec<Vec<u32>> = (0..suite.options.batch)
        .map(|index| [stem.clone(), suite.tokens(1 + index * 3)].concat())
        .collect();
    let requests = prompts
        .iter()
        .map(|prompt| suite.request(namespace, prompt))
        .collect();
    let together = suite.together(requests)?;
    let fresh = prompts
        .iter()
        .map(|prompt| suite.fresh_outcome(prompt))
        .collect::<Result<Vec<_>, _>>()?;
    same("replies", &fresh, &outcomes(&together))?;
    let computed: Option<usize> = together.iter().map(|reply| reply.usage.computed_tokens).sum();
    let own: usize = prompts
        .iter()
        .map(|prompt| prompt.len() - stem.len() + BLOCK)
        .sum();
    match computed {
        Some(computed) => ensure(computed <= stem.len() + own, || {
            format!(
                "{computed} tokens computed, expected at most {} + {own}",
                stem.len()
            )
        }),
        None => Ok(()),
    }
}

pub(super) fn seeds_repeat(suite: &Suite<'_>) -> Result<(), String> {
    let prompt = suite.tokens(suite.options.stem_tokens / 2);
    let request = |seed| GenerationRequest {
        sampling: Sampling::seeded(0.9, seed),
        ..suite.request(suite.fresh(), &prompt)
    };
    let seeds = 0..suite.options.batch as u64;
    let alone = seeds
        .clone()
        .map(|seed| suite.generate(&request(seed)))
        .collect::<Result<Vec<_>, _>>()?;
    let together = suite.together(seeds.map(request).collect())?;
    let alone = outcomes(&alone);
    same("replies", &alone, &outcomes(&together))?;
    let first = &alone[0];
    ensure(alone.iter().any(|other| other.tokens != first.tokens), || {
        "all seeds gave the same reply".into()
    })
}
