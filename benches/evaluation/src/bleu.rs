//! BLEU-1 as NLTK computes it.

use std::collections::HashMap;

use crate::f1::count;
use crate::treebank::word_tokenize;

/// BLEU-1 of `prediction` against one reference, from 0 to 1.
///
/// Both are stripped, lower-cased and split by [`word_tokenize`], so that punctuation is a token. Equals NLTK's
/// `sentence_bleu` with weights (1, 0, 0, 0) and `SmoothingFunction().method1`, which does nothing here.
/// Source: `evaluation/metrics/utils.py` of mem0ai/mem0; Papineni et al., ACL 2002.
#[must_use]
pub fn bleu1(prediction: &str, reference: &str) -> f64 {
    bleu1_tokens(&word_tokenize(prediction), &word_tokenize(reference))
}

/// BLEU-1 of tokens that are already split: min(1, exp(1 - r/c)) times the clipped unigram precision.
///
/// r and c are the numbers of tokens of reference and prediction; an empty side scores 0.
#[must_use]
pub fn bleu1_tokens(prediction: &[String], reference: &[String]) -> f64 {
    let mut available: HashMap<&str, usize> = HashMap::new();
    for token in reference {
        *available.entry(token).or_default() += 1;
    }
    let mut clipped = 0;
    for token in prediction {
        if let Some(left) = available.get_mut(token.as_str()).filter(|left| **left > 0) {
            *left -= 1;
            clipped += 1;
        }
    }
    if clipped == 0 {
        return 0.0;
    }
    let (r, c) = (count(reference.len()), count(prediction.len()));
    let brevity = if c > r { 1.0 } else { (1.0 - r / c).exp() };
    brevity * count(clipped) / c
}
