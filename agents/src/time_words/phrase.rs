//! The phrases themselves: from a few lower-case words to a date or to honest words about it.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::long_date;

/// Words of the longest phrase.
pub(super) const LONGEST: usize = 5;

/// A length of time that phrases count in.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Day,
    Week,
    Weekend,
    Month,
    Year,
}

/// Which of several equal periods is meant.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    Last,
    This,
    Next,
}

/// The phrase at the start of `words`: how many words it takes and what it means. `before` is the word in
/// front of it, which tells "the last week" (a span) from "last week".
pub(super) fn resolve(words: &[&str], before: &str, said: Date) -> Option<(usize, String)> {
    named_day(words, said)
        .or_else(|| which_period(words, before, said))
        .or_else(|| ago(words, said))
        .or_else(|| from_now(words, said))
}

fn shift(said: Date, days: i64) -> Option<Date> {
    said.checked_add(days.days()).ok()
}

/// yesterday, tomorrow night, the day before yesterday, this morning, last night, the other day.
fn named_day(words: &[&str], said: Date) -> Option<(usize, String)> {
    let (length, days) = match words {
        ["the", "day", "before", "yesterday", ..] => (4, -2),
        ["day", "before", "yesterday", ..] => (3, -2),
        ["the", "day", "after", "tomorrow", ..] => (4, 2),
        ["day", "after", "tomorrow", ..] => (3, 2),
        ["the", "other", "day" | "night", ..] => {
            return Some((3, format!("a few days before {}", long_date(said))));
        }
        ["last", "night", ..] => (2, -1),
        ["this", "morning" | "afternoon" | "evening", ..] => (2, 0),
        ["today" | "tonight", ..] => (1, 0),
        ["yesterday" | "tomorrow", part @ ..] => {
            let part = usize::from(matches!(
                part,
                ["morning" | "afternoon" | "evening" | "night", ..]
            ));
            (1 + part, if words[0] == "yesterday" { -1 } else { 1 })
        }
        _ => return None,
    };
    Some((length, long_date(shift(said, days)?)))
}

/// last Friday, this past weekend, next month, last August, this summer.
fn which_period(words: &[&str], before: &str, said: Date) -> Option<(usize, String)> {
    let (which, rest, length) = match words {
        ["this", "past", rest @ ..] => (Which::Last, rest, 3),
        ["this", "coming", rest @ ..] => (Which::Next, rest, 3),
        ["last" | "previous", rest @ ..] => (Which::Last, rest, 2),
        ["this", rest @ ..] => (Which::This, rest, 2),
        ["next" | "coming", rest @ ..] => (Which::Next, rest, 2),
        _ => return None,
    };
    let name = *rest.first()?;
    if let Some(day) = weekday(name) {
        let date = match which {
            Which::Last => said.nth_weekday(-1, day).ok()?,
            Which::This if said.weekday() == day => said,
            Which::This | Which::Next => said.nth_weekday(1, day).ok()?,
        };
        return Some((length, date.strftime("%A %-d %B %Y").to_string()));
    }
    if let Some(month) = month(name) {
        return Some((
            length,
            format!("{} {}", MONTHS[month - 1], month_year(which, month, said)),
        ));
    }
    if let Some(year) = summer_or_spring(which, name, said) {
        return Some((length, format!("{name} {year}")));
    }
    // "over the last week" is a span that ends today, not the week before this one.
    let unit = unit(name).filter(|_| !name.ends_with('s') && (which == Which::This || before != "the"))?;
    Some((length, period(which, unit, said)?))
}

fn period(which: Which, unit: Unit, said: Date) -> Option<String> {
    let day = long_date(said);
    Some(match (unit, which) {
        (Unit::Day, _) => return None,
        (Unit::Week, Which::Last) => format!("the week before {day}"),
        (Unit::Week, Which::This) => format!("the week of {day}"),
        (Unit::Week, Which::Next) => format!("the week after {day}"),
        (Unit::Weekend, Which::Last) => format!("the weekend before {day}"),
        (Unit::Weekend, Which::Next) => format!("the weekend after {day}"),
        (Unit::Weekend, Which::This) => {
            let saturday = match said.weekday() {
                // Said on a Monday it may be the one just over.
                Weekday::Monday => return None,
                Weekday::Saturday => said,
                Weekday::Sunday => shift(said, -1)?,
                Weekday::Tuesday | Weekday::Wednesday | Weekday::Thursday | Weekday::Friday => {
                    said.nth_weekday(1, Weekday::Saturday).ok()?
                }
            };
            format!("the weekend of {}", long_date(saturday))
        }
        (Unit::Month, which) => month_name(said.checked_add(step(which).months()).ok()?),
        (Unit::Year, which) => said.checked_add(step(which).years()).ok()?.year().to_string(),
    })
}

fn step(which: Which) -> i64 {
    match which {
        Which::Last => -1,
        Which::This => 0,
        Which::Next => 1,
    }
}

fn month_name(date: Date) -> String {
    date.strftime("%B %Y").to_string()
}

/// The year of "last June" and "next June": the nearest one before or after the month in which it is said.
fn month_year(which: Which, month: usize, said: Date) -> i16 {
    let now = usize::from(said.month().unsigned_abs());
    match which {
        Which::Last => said.year() - i16::from(month >= now),
        Which::This => said.year(),
        Which::Next => said.year() + i16::from(month <= now),
    }
}

/// "last summer" in spring is clear; in October it may be either, and winters belong to two years.
fn summer_or_spring(which: Which, name: &str, said: Date) -> Option<i16> {
    let (first, last) = match name {
        "spring" => (3, 5),
        "summer" => (6, 8),
        _ => return None,
    };
    match which {
        Which::This => Some(said.year()),
        Which::Last => (said.month() <= last).then(|| said.year() - 1),
        Which::Next => (said.month() >= first).then(|| said.year() + 1),
    }
}

/// How many: a number, or a vague word that stays as it is.
enum Count {
    Exact(i64),
    Vague(&'static str),
}

fn count(words: &[&str]) -> Option<(usize, Count)> {
    match words {
        ["a", "couple", "of", ..] => Some((3, Count::Vague("a couple of"))),
        ["a", "couple", ..] | ["couple", "of", ..] => Some((2, Count::Vague("a couple of"))),
        ["couple", ..] => Some((1, Count::Vague("a couple of"))),
        ["a", "few", ..] => Some((2, Count::Vague("a few"))),
        ["few", ..] => Some((1, Count::Vague("a few"))),
        ["several", ..] => Some((1, Count::Vague("several"))),
        [word, ..] => number(word).map(|n| (1, Count::Exact(n))),
        [] => None,
    }
}

/// two days ago, a week ago, 10 years ago, a few weeks ago, two weekends ago.
fn ago(words: &[&str], said: Date) -> Option<(usize, String)> {
    let (length, count) = count(words)?;
    let [name, "ago", ..] = words.get(length..)? else {
        return None;
    };
    let (unit, day) = (unit(name)?, long_date(said));
    let meaning = match count {
        Count::Vague(word) => format!("{word} {name} before {day}"),
        Count::Exact(n) => match unit {
            Unit::Day => long_date(shift(said, -n)?),
            Unit::Week => format!("about {}", long_date(shift(said, -7 * n)?)),
            Unit::Weekend if n == 1 => format!("the weekend before {day}"),
            Unit::Weekend => format!("{} weekends before {day}", words[..length].join(" ")),
            Unit::Month => month_name(said.checked_sub(n.months()).ok()?),
            Unit::Year => said.checked_sub(n.years()).ok()?.year().to_string(),
        },
    };
    Some((length + 2, meaning))
}

/// in two weeks, three days from now. "in a week" is as often a rate or a span, so it is left alone.
fn from_now(words: &[&str], said: Date) -> Option<(usize, String)> {
    let (start, suffix) = match words {
        ["in", ..] => (1, 0),
        _ => (0, 2),
    };
    let (taken, Count::Exact(n)) = count(&words[start..])? else {
        return None;
    };
    let name = words.get(start + taken)?;
    let tail = words.get(start + taken + 1..)?;
    let clear = if suffix == 0 {
        n >= 2
    } else {
        matches!(tail, ["from", "now" | "today", ..])
    };
    if !clear {
        return None;
    }
    let meaning = match unit(name)? {
        Unit::Day => long_date(shift(said, n)?),
        Unit::Week => format!("about {}", long_date(shift(said, 7 * n)?)),
        Unit::Weekend => return None,
        Unit::Month => month_name(said.checked_add(n.months()).ok()?),
        Unit::Year => said.checked_add(n.years()).ok()?.year().to_string(),
    };
    Some((start + taken + 1 + suffix, meaning))
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "day" | "days" => Unit::Day,
        "week" | "weeks" => Unit::Week,
        "weekend" | "weekends" => Unit::Weekend,
        "month" | "months" => Unit::Month,
        "year" | "years" | "yr" | "yrs" => Unit::Year,
        _ => return None,
    })
}

fn number(word: &str) -> Option<i64> {
    const NAMES: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    if word == "a" || word == "an" {
        return Some(1);
    }
    let named = NAMES.iter().position(|name| *name == word);
    // Ten thousand years is past every calendar date; larger numbers are not times.
    named
        .map(|n| n as i64)
        .or_else(|| word.parse().ok().filter(|n| (1..=9_999).contains(n)))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn month(word: &str) -> Option<usize> {
    MONTHS
        .iter()
        .position(|name| name.eq_ignore_ascii_case(word))
        .map(|index| index + 1)
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tues" | "tue" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thurs" | "thur" | "thu" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" | "sat" => Weekday::Saturday,
        "sunday" | "sun" => Weekday::Sunday,
        _ => return None,
    })
}
