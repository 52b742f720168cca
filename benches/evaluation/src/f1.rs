//! Token F1 in the two forms the field uses; they are different metrics and must not be mixed.

use std::collections::{BTreeSet, HashMap};

use crate::porter::porter_stem;
use crate::question::Category;
use crate::text::{is_word, split};

/// F1 as LoCoMo's own scorer computes it, from 0 to 1, with the rule of the question's category.
///
/// `gold` is the answer as the data set spells it, before any rule. Source: `task_eval/evaluation.py` of
/// snap-research/locomo.
///
/// * multi-hop: prediction and gold are split at `,`; mean over the gold parts of the best F1 of any
///   predicted part;
/// * open-domain: only the gold text before the first `;` counts;
/// * unanswerable: 1 when the prediction says `no information available` or `not mentioned`, else 0;
/// * temporal and single-hop: [`f1_tokens`].
#[must_use]
pub fn f1_locomo(prediction: &str, gold: &str, category: Category) -> f64 {
    match category {
        Category::MultiHop => f1_parts(prediction, gold),
        Category::OpenDomain => f1_tokens(prediction, gold.split(';').next().unwrap_or(gold)),
        Category::Temporal | Category::SingleHop => f1_tokens(prediction, gold),
        Category::Unanswerable => {
            let lower = prediction.to_lowercase();
            let declined = ["no information available", "not mentioned"]
                .iter()
                .any(|words| lower.contains(words));
            f64::from(u8::from(declined))
        }
    }
}

/// F1 over the multisets of stemmed tokens of the normalised texts, from 0 to 1; 0 without a common token.
///
/// Normalised: commas deleted, lower-cased, ASCII punctuation deleted, the words `a`, `an`, `the` and `and`
/// replaced by a space. Stems: [`porter_stem`].
#[must_use]
pub fn f1_tokens(prediction: &str, gold: &str) -> f64 {
    let (predicted, golden) = (stems(prediction), stems(gold));
    let mut unmatched: HashMap<&str, usize> = HashMap::new();
    for token in &golden {
        *unmatched.entry(token).or_default() += 1;
    }
    let mut same = 0;
    for token in &predicted {
        if let Some(left) = unmatched.get_mut(token.as_str()).filter(|left| **left > 0) {
            *left -= 1;
            same += 1;
        }
    }
    harmonic(same, predicted.len(), golden.len())
}

/// F1 over the sets of lower-cased tokens, from 0 to 1, as A-Mem, Mem0, Nemori and CompassMem report it.
///
/// `.`, `,`, `!` and `?` become spaces; no stemming, no category rules. An empty text scores 0. Those projects
/// leave unanswerable questions out. Source: `evaluation/metrics/utils.py` of mem0ai/mem0.
#[must_use]
pub fn f1_set(prediction: &str, gold: &str) -> f64 {
    let (predicted, golden) = (plain_tokens(prediction), plain_tokens(gold));
    let same = predicted.intersection(&golden).count();
    harmonic(same, predicted.len(), golden.len())
}

fn f1_parts(prediction: &str, gold: &str) -> f64 {
    let scores: Vec<f64> = gold
        .split(',')
        .map(|part| {
            prediction
                .split(',')
                .map(|predicted| f1_tokens(predicted, part))
                .fold(0.0, f64::max)
        })
        .collect();
    scores.iter().sum::<f64>() / count(scores.len())
}

fn stems(text: &str) -> Vec<String> {
    let plain: String = text
        .to_lowercase()
        .chars()
        .filter(|c| !c.is_ascii_punctuation())
        .collect();
    split(&without_articles(&plain)).map(porter_stem).collect()
}

fn without_articles(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        kept.push_str(if matches!(word, "a" | "an" | "the" | "and") {
            " "
        } else {
            word
        });
        let gap = after.find(is_word).unwrap_or(after.len());
        kept.push_str(&after[..gap]);
        rest = &after[gap..];
    }
    kept
}

fn plain_tokens(text: &str) -> BTreeSet<String> {
    let spaced = text.to_lowercase().replace(['.', ',', '!', '?'], " ");
    split(&spaced).map(str::to_owned).collect()
}

/// 2PR/(P+R) with P = same/predicted and R = same/golden.
fn harmonic(same: usize, predicted: usize, golden: usize) -> f64 {
    if same == 0 {
        return 0.0;
    }
    let (precision, recall) = (count(same) / count(predicted), count(same) / count(golden));
    2.0 * precision * recall / (precision + recall)
}

/// Exact: token and question counts are far below 2^52.
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}
