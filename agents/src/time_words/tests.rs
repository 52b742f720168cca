use jiff::civil::{Date, date};

use super::{TimeNote, annotate};

/// The notes of a text said on a date, as `phrase = meaning`.
fn notes(text: &str, said: Date) -> Vec<String> {
    annotate(text, said)
        .1
        .into_iter()
        .map(|TimeNote { phrase, meaning }| format!("{phrase} = {meaning}"))
        .collect()
}

/// Monday 8 May 2023.
const MAY: Date = date(2023, 5, 8);
/// Saturday 15 July 2023.
const JULY: Date = date(2023, 7, 15);

#[test]
fn note_stands_behind_the_phrase_and_nothing_else_changes() {
    let (text, _) = annotate(
        "I went to a LGBTQ support group yesterday and it was so powerful.",
        MAY,
    );
    assert_eq!(
        text,
        "I went to a LGBTQ support group yesterday [7 May 2023] and it was so powerful."
    );
    let plain = "Nothing here, \u{1F600} naïve 東京 text.";
    assert_eq!(annotate(plain, MAY), (plain.to_owned(), vec![]));
    let (text, _) = annotate("Yesterday's run — last night’s dinner!", MAY);
    assert_eq!(
        text,
        "Yesterday's [7 May 2023] run — last night’s [7 May 2023] dinner!"
    );
}

#[test]
fn days() {
    for (text, note) in [
        ("Tonight we eat", "Tonight = 8 May 2023"),
        ("today", "today = 8 May 2023"),
        ("this morning", "this morning = 8 May 2023"),
        ("Last night", "Last night = 7 May 2023"),
        ("tomorrow evening", "tomorrow evening = 9 May 2023"),
        (
            "the day before yesterday",
            "the day before yesterday = 6 May 2023",
        ),
        ("the day after tomorrow", "the day after tomorrow = 10 May 2023"),
        ("two days ago", "two days ago = 6 May 2023"),
        ("9 days ago", "9 days ago = 29 April 2023"),
        (
            "a couple of days ago",
            "a couple of days ago = a couple of days before 8 May 2023",
        ),
        ("a few days ago", "a few days ago = a few days before 8 May 2023"),
        ("the other day", "the other day = a few days before 8 May 2023"),
        ("in three days", "in three days = 11 May 2023"),
    ] {
        assert_eq!(notes(text, MAY), [note], "{text}");
    }
    assert_eq!(
        notes("yesterday", date(2024, 3, 1)),
        ["yesterday = 29 February 2024"]
    );
    assert_eq!(
        notes("yesterday", date(2023, 1, 1)),
        ["yesterday = 31 December 2022"]
    );
}

#[test]
fn weekdays_are_exact() {
    for (text, note) in [
        ("last Friday", "last Friday = Friday 14 July 2023"),
        ("last fri", "last fri = Friday 14 July 2023"),
        ("last Saturday", "last Saturday = Saturday 8 July 2023"),
        ("this past Sunday", "this past Sunday = Sunday 9 July 2023"),
        ("next Saturday", "next Saturday = Saturday 22 July 2023"),
        ("next Tues", "next Tues = Tuesday 18 July 2023"),
        ("this Saturday", "this Saturday = Saturday 15 July 2023"),
        ("this coming Monday", "this coming Monday = Monday 17 July 2023"),
    ] {
        assert_eq!(notes(text, JULY), [note], "{text}");
    }
}

#[test]
fn weeks_and_weekends_claim_no_more_than_was_said() {
    for (text, said, note) in [
        (
            "last week",
            date(2023, 6, 9),
            "last week = the week before 9 June 2023",
        ),
        (
            "this week",
            date(2023, 6, 9),
            "this week = the week of 9 June 2023",
        ),
        (
            "next week",
            date(2023, 6, 9),
            "next week = the week after 9 June 2023",
        ),
        ("a week ago", MAY, "a week ago = about 1 May 2023"),
        ("two weeks ago", MAY, "two weeks ago = about 24 April 2023"),
        (
            "few weeks ago",
            MAY,
            "few weeks ago = a few weeks before 8 May 2023",
        ),
        (
            "last weekend",
            date(2023, 7, 17),
            "last weekend = the weekend before 17 July 2023",
        ),
        (
            "two weekends ago",
            date(2023, 7, 17),
            "two weekends ago = two weekends before 17 July 2023",
        ),
        (
            "next weekend",
            JULY,
            "next weekend = the weekend after 15 July 2023",
        ),
        ("this weekend", JULY, "this weekend = the weekend of 15 July 2023"),
        (
            "this weekend",
            date(2023, 7, 16),
            "this weekend = the weekend of 15 July 2023",
        ),
        (
            "this weekend",
            date(2023, 7, 12),
            "this weekend = the weekend of 15 July 2023",
        ),
        ("in two weeks", MAY, "in two weeks = about 22 May 2023"),
    ] {
        assert_eq!(notes(text, said), [note], "{text}");
    }
}

#[test]
fn months_seasons_and_years() {
    for (text, said, note) in [
        ("last month", date(2023, 1, 31), "last month = December 2022"),
        ("next month", date(2023, 1, 31), "next month = February 2023"),
        ("this month", MAY, "this month = May 2023"),
        ("three months ago", MAY, "three months ago = February 2023"),
        ("last year", MAY, "last year = 2022"),
        ("next year", MAY, "next year = 2024"),
        ("ten years ago", MAY, "ten years ago = 2013"),
        ("10 years ago", MAY, "10 years ago = 2013"),
        (
            "a few years ago",
            MAY,
            "a few years ago = a few years before 8 May 2023",
        ),
        ("last August", MAY, "last August = August 2022"),
        ("next August", MAY, "next August = August 2023"),
        ("last March", MAY, "last March = March 2023"),
        ("last summer", MAY, "last summer = summer 2022"),
        ("this summer", MAY, "this summer = summer 2023"),
    ] {
        assert_eq!(notes(text, said), [note], "{text}");
    }
}

#[test]
fn unclear_phrases_are_left_alone() {
    for text in [
        "over the last week",
        "in the next month",
        "the last year was hard",
        "two books in a week",
        "I've known her for four years",
        "last time we talked",
        "this photo, next step",
        "this weekend",
        "an hour ago",
        "long ago",
        "12345 years ago",
        "5000 and more days, ago",
        "last, week",
        "last\u{2014}week",
    ] {
        assert_eq!(notes(text, MAY), Vec::<String>::new(), "{text}");
    }
    assert_eq!(notes("last summer", date(2023, 10, 2)), Vec::<String>::new());
    assert_eq!(notes("9999 years ago", date(-5000, 1, 1)), Vec::<String>::new());
}

#[test]
fn several_phrases_in_one_text() {
    let (text, notes) = annotate("Last week I ran; tomorrow I rest, and next month I move.", MAY);
    assert_eq!(
        text,
        "Last week [the week before 8 May 2023] I ran; tomorrow [9 May 2023] I rest, and next month [June 2023] I \
         move."
    );
    assert_eq!(notes.len(), 3);
}
