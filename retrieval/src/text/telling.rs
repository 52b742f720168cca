//! Whether a turn tells facts: its speaker speaks of themself, or names somebody or something.

use serde::{Deserialize, Serialize};

use super::words;

/// One such word in so many tokens is as much as counts.
const TOKENS: u32 = 40;

/// How much of a turn is in the first person, and how much of it names; each from 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Telling(u8, u8);

impl Telling {
    /// `tokens` is the length of the turn.
    pub(super) fn new(text: &str, tokens: u32, (pronouns, names): (&[&str], bool)) -> Self {
        let first_person = words(text)
            .iter()
            .filter(|word| pronouns.contains(&word.as_str()))
            .count();
        let named = if names { named(text) } else { 0 };
        Self(share(first_person, tokens), share(named, tokens))
    }

    /// In `[0, 1]`.
    pub(crate) fn first_person(self) -> f32 {
        f32::from(self.0) / 255.0
    }

    /// In `[0, 1]`.
    pub(crate) fn names(self) -> f32 {
        f32::from(self.1) / 255.0
    }
}

fn share(count: usize, tokens: u32) -> u8 {
    let share = count as f64 * f64::from(TOKENS) / f64::from(tokens.max(TOKENS));
    (share.min(1.0) * 255.0).round() as u8
}

/// Words with a capital that neither begin a sentence nor address somebody ("Thanks, Ann!").
fn named(text: &str) -> usize {
    const GREETINGS: [&str; 9] = [
        "hey", "hi", "hello", "thanks", "yeah", "wow", "congrats", "oh", "dear",
    ];
    let mut count = 0;
    let mut begins = true;
    let mut before = "";
    for chunk in text.split_whitespace() {
        let core = chunk.trim_matches(|c: char| !c.is_alphanumeric());
        if core.is_empty() {
            begins |= chunk.ends_with(['.', '!', '?', ':']);
            continue;
        }
        let is_pronoun = core == "I" || core.starts_with("I'") || core.starts_with("I’");
        let is_capital = core.starts_with(char::is_uppercase) && core.chars().nth(1).is_some() && !is_pronoun;
        let greeted = before.ends_with(',')
            || GREETINGS.contains(
                &before
                    .trim_matches(|c: char| !c.is_alphanumeric())
                    .to_lowercase()
                    .as_str(),
            );
        let is_address = greeted && chunk.ends_with(['.', ',', '!', '?', ':', ';']);
        count += usize::from(is_capital && !begins && !is_address);
        begins = chunk.ends_with(['.', '!', '?', ':']);
        before = chunk;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_within_sentences_and_are_not_spoken_to() {
        assert_eq!(
            named("We went to Paris with Aunt Mary. She liked it. It was May."),
            4
        );
        assert_eq!(named("Thanks, Ann! Hey Ben, great. Good, I'm glad. - Yes"), 0);
        assert_eq!(named("She said: Hello. The BBC, I think"), 1);
        assert_eq!(named("我 went 去"), 0);
    }

    #[test]
    fn long_turns_need_more_to_count_the_same() {
        let of = |text: &str, tokens| Telling::new(text, tokens, (&["i", "my"], true));
        assert_eq!(of("I lost my keys", 4).first_person(), 1.0);
        assert_eq!(of("You lost them", 4).first_person(), 0.0);
        assert_eq!(of("I see", 400), Telling(26, 0));
        assert_eq!(of("he met Ben Smith there", 160).names(), Telling(0, 128).names());
    }
}
