//! What is known about English: words that carry no meaning by themselves.

/// Articles, conjunctions, prepositions, pronouns, auxiliaries, question words, the ends of contractions, and the
/// words that only shape a question ("what kind of", "how many", "how long ago"). Sorted.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "after",
    "ago",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "been",
    "before",
    "being",
    "between",
    "both",
    "but",
    "by",
    "can",
    "could",
    "d",
    "did",
    "didn",
    "do",
    "does",
    "doesn",
    "doing",
    "don",
    "done",
    "down",
    "during",
    "each",
    "for",
    "from",
    "had",
    "has",
    "have",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "kind",
    "ll",
    "long",
    "m",
    "many",
    "may",
    "me",
    "might",
    "mine",
    "much",
    "must",
    "my",
    "myself",
    "no",
    "nor",
    "not",
    "of",
    "off",
    "on",
    "onto",
    "or",
    "other",
    "our",
    "ours",
    "out",
    "over",
    "re",
    "s",
    "shall",
    "she",
    "should",
    "so",
    "some",
    "such",
    "t",
    "than",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "themselves",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "type",
    "under",
    "up",
    "us",
    "ve",
    "very",
    "was",
    "wasn",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "would",
    "yes",
    "you",
    "your",
    "yours",
    "yourself",
];

/// Words that place something in time relative to another moment, or name a part of the calendar. Sorted.
const TIME_WORDS: &[&str] = &[
    "ago",
    "afternoon",
    "april",
    "august",
    "day",
    "days",
    "december",
    "evening",
    "february",
    "friday",
    "january",
    "july",
    "june",
    "last",
    "march",
    "may",
    "monday",
    "month",
    "months",
    "morning",
    "next",
    "night",
    "november",
    "october",
    "recently",
    "saturday",
    "september",
    "since",
    "summer",
    "sunday",
    "thursday",
    "today",
    "tomorrow",
    "tonight",
    "tuesday",
    "wednesday",
    "week",
    "weekend",
    "weeks",
    "winter",
    "year",
    "years",
    "yesterday",
];

/// Words by which speakers speak of themselves.
pub(super) const FIRST_PERSON: &[&str] = &["i", "me", "my", "our", "we"];

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

pub(super) fn is_time_word(word: &str) -> bool {
    TIME_WORDS.contains(&word)
}

/// "When did ...", "How long ...", "In which year ...".
pub(super) fn asks_when(question: &[String]) -> bool {
    let asks = |pair: &[String]| match pair {
        [first, second] => {
            (first == "how" && second == "long")
                || (matches!(first.as_str(), "which" | "what")
                    && matches!(second.as_str(), "day" | "month" | "year"))
        }
        _ => false,
    };
    question.first().is_some_and(|word| word == "when") || question.windows(2).any(asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_can_be_searched_by_halves() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("what") && is_stop_word("a") && !is_stop_word("dance"));
        assert!(is_time_word("yesterday") && !is_time_word("dance"));
    }

    #[test]
    fn questions_for_a_time() {
        let asks = |question: &str| asks_when(&crate::text::words(question));
        assert!(asks("When did Ann go?") && asks("How long was it?") && asks("In what month did he go?"));
        assert!(!asks("What did she do when he went?") && !asks(""));
    }
}
