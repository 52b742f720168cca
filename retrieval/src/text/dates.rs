//! Dates as English questions spell them: `7 May 2023`, `in June`, `on August 3rd`, `2023-05-07`.

use jiff::civil::Date;

/// A date of which the month is known, and perhaps the day and the year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedDate {
    pub(crate) year: Option<i16>,
    pub(crate) month: i8,
    pub(crate) day: Option<i8>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// A run of letters, digits and hyphens.
struct Token<'a> {
    text: &'a str,
    starts_sentence: bool,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut starts_sentence = true;
    for chunk in text.split_whitespace() {
        let parts = chunk
            .split(|c: char| !c.is_alphanumeric() && c != '-')
            .filter(|part| !part.is_empty());
        for text in parts {
            tokens.push(Token {
                text,
                starts_sentence,
            });
            starts_sentence = false;
        }
        starts_sentence |= chunk.ends_with(['.', '?', '!', ':']);
    }
    tokens
}

/// The dates of a question, in order.
pub(super) fn asked_dates(question: &str) -> Vec<AskedDate> {
    let tokens = tokens(question);
    let text = |index: Option<usize>| index.and_then(|index| tokens.get(index)).map(|token| token.text);
    let mut dates = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if let Ok(date) = token.text.parse::<Date>() {
            dates.push(AskedDate {
                year: Some(date.year()),
                month: date.month(),
                day: Some(date.day()),
            });
        } else if let Some(month) = month(token.text) {
            let before = text(index.checked_sub(1));
            // "the 7th of May"
            let before = if before == Some("of") {
                text(index.checked_sub(2))
            } else {
                before
            };
            let after = [text(Some(index + 1)), text(Some(index + 2))];
            let date = AskedDate {
                day: before.and_then(day).or_else(|| after[0].and_then(day)),
                year: after.into_iter().flatten().find_map(year),
                month,
            };
            let is_capital = token.text.starts_with(char::is_uppercase) && !token.starts_sentence;
            let may_be_verb = matches!(month, 3 | 5) && !is_capital;
            if !may_be_verb || date.day.is_some() || date.year.is_some() {
                dates.push(date);
            }
        }
    }
    dates
}

fn month(token: &str) -> Option<i8> {
    let token = token.to_lowercase();
    let is_month = |month: &str| {
        month == token
            || (token.len() == 3 && month.starts_with(&token))
            || (token == "sept" && month == "september")
    };
    let place = MONTHS.iter().position(|month| is_month(month))?;
    i8::try_from(place + 1).ok()
}

fn day(token: &str) -> Option<i8> {
    let digits = token.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &token[digits.len()..];
    let is_day = matches!(suffix, "" | "st" | "nd" | "rd" | "th");
    digits.parse().ok().filter(|day| is_day && (1..=31).contains(day))
}

fn year(token: &str) -> Option<i16> {
    token.parse().ok().filter(|year| (1900..2200).contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(question: &str, expected: &[(Option<i16>, i8, Option<i8>)]) {
        let found: Vec<_> = asked_dates(question)
            .iter()
            .map(|d| (d.year, d.month, d.day))
            .collect();
        assert_eq!(found, expected, "{question}");
    }

    #[test]
    fn dates_in_questions() {
        check("What did Ann do on 7 May, 2023?", &[(Some(2023), 5, Some(7))]);
        check(
            "What happened on August 3rd 2022 and in June?",
            &[(Some(2022), 8, Some(3)), (None, 6, None)],
        );
        check("Where was he on the 21st of May?", &[(None, 5, Some(21))]);
        check("What about 2023-05-07?", &[(Some(2023), 5, Some(7))]);
        check("What did she paint in October 2023?", &[(Some(2023), 10, None)]);
        check("What may Ann do? May she march?", &[]);
        check("May 2023: where was she?", &[(Some(2023), 5, None)]);
        check("Who mayored in Sept?", &[(None, 9, None)]);
        check("How many of the 12 decorations?", &[]);
    }
}
