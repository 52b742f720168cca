//! Plain checks of short answers: the same words, the words inside, and whether an answer declines.

use crate::text::split;

/// A gold answer of more words than this is not checked word for word.
const SHORT: usize = 6;

/// Phrases by which answers decline. The first two are LoCoMo's own; the third is this product's.
const DECLINING: [&str; 8] = [
    "no information available",
    "not mentioned",
    "not in the conversation",
    "no answer in the conversation",
    "cannot be answered",
    "does not say",
    "do not know",
    "don't know",
];

/// The words of a text: lower case, punctuation deleted, without a, an and the.
fn words(text: &str) -> Vec<String> {
    let plain: String = text
        .to_lowercase()
        .chars()
        .filter(|c| !c.is_ascii_punctuation() && !matches!(c, '’' | '‘' | '“' | '”'))
        .collect();
    split(&plain)
        .filter(|word| !matches!(*word, "a" | "an" | "the"))
        .map(str::to_owned)
        .collect()
}

/// 1 when prediction and gold have the same words in the same order, else 0; case, punctuation and articles do not
/// matter. `None` for a gold answer of more than six words.
#[must_use]
pub fn exact_match(prediction: &str, gold: &str) -> Option<f64> {
    let gold = words(gold);
    (1..=SHORT)
        .contains(&gold.len())
        .then(|| f64::from(u8::from(words(prediction) == gold)))
}

/// 1 when the words of the gold answer stand in the prediction one after another, else 0. `None` as for
/// [`exact_match`].
#[must_use]
pub fn contains_gold(prediction: &str, gold: &str) -> Option<f64> {
    let gold = words(gold);
    (1..=SHORT).contains(&gold.len()).then(|| {
        let inside = words(prediction).windows(gold.len()).any(|part| part == gold);
        f64::from(u8::from(inside))
    })
}

/// Whether an answer says that the conversation does not hold one.
#[must_use]
pub fn declines(prediction: &str) -> bool {
    let lower = prediction.to_lowercase().replace('’', "'");
    DECLINING.iter().any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_answers_are_compared_by_words() {
        assert_eq!(exact_match("The Oslo Opera.", "oslo opera"), Some(1.0));
        assert_eq!(exact_match("in Oslo", "Oslo"), Some(0.0));
        assert_eq!(contains_gold("It was in Oslo, in May.", "Oslo"), Some(1.0));
        assert_eq!(contains_gold("May 2023, on the 7th", "7 May 2023"), Some(0.0));
        assert_eq!(contains_gold("oslo operas", "oslo opera"), Some(0.0));
        assert_eq!(exact_match("x", "one two three four five six seven"), None);
        assert_eq!(contains_gold("", ""), None);
    }

    #[test]
    fn declining_is_recognised_in_either_wording() {
        assert!(declines("Not mentioned in the conversation."));
        assert!(declines("I don’t know"));
        assert!(!declines("She knows it"));
    }
}
