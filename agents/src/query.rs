//! Queries: when two are the same, and what to search for when the model has no idea.

/// Words that say nothing about what is looked for.
const STOP_WORDS: &str = "\
    a about after all an and any are as at be before been but by can conversation did do does enough \
    evidence excerpt excerpts for from had has have her his how if in information is it its kind many \
    mentioned missing more much no not of on or s specific that the their there they this to type was \
    were what when where which who whom whose why will with would you";

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

fn stop_word(word: &str) -> bool {
    STOP_WORDS.split(' ').any(|stop| stop == word)
}

/// Case, punctuation and blanks do not make another query.
pub(crate) fn normalise(query: &str) -> String {
    words(query).collect::<Vec<_>>().join(" ")
}

/// The telling words of these texts, each once, in order; empty when there are none.
pub(crate) fn keywords(texts: &[&str]) -> String {
    let mut kept: Vec<String> = Vec::new();
    for word in texts.iter().flat_map(|text| words(text)) {
        if !stop_word(&word) && !kept.contains(&word) {
            kept.push(word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_query_in_other_clothes() {
        assert_eq!(normalise("  When did Ann's dog DIE? "), "when did ann s dog die");
        assert_eq!(normalise("...?!"), "");
    }

    #[test]
    fn keywords_drop_what_says_nothing() {
        assert_eq!(
            keywords(&["the date of the trip is missing", "When was Ann's trip?"]),
            "date trip ann"
        );
        assert_eq!(keywords(&["What is it?"]), "");
    }
}
