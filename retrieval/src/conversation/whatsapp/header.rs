//! The date at the begin of a message: `12/9/20, 11:55 PM - ` (Android) or `[1.1.2019, 12.00.00] ` (iOS), in many spellings.

use jiff::civil::{Date, DateTime, Time};

use crate::DateOrder;

/// A line that begins a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header<'l> {
    /// The three numbers of the date, as they stand there.
    pub(super) numbers: [u16; 3],
    /// Whether the first number is a year of four digits.
    pub(super) year_first: bool,
    /// Between the numbers.
    pub(super) separator: char,
    time: Time,
    /// The date and time as spelt.
    pub(super) raw: &'l str,
    /// What follows.
    pub(super) rest: &'l str,
}

impl Header<'_> {
    /// The day under an order; `None` where there is no such day.
    pub(super) fn date(&self, order: DateOrder) -> Option<Date> {
        let [a, b, c] = self.numbers;
        let (year, month, day) = match order {
            DateOrder::DayMonthYear => (c, b, a),
            DateOrder::MonthDayYear => (c, a, b),
            DateOrder::YearMonthDay => (a, b, c),
        };
        let year = if year < 100 { 2000 + year } else { year };
        Date::new(
            year.try_into().ok()?,
            month.try_into().ok()?,
            day.try_into().ok()?,
        )
        .ok()
    }

    pub(super) fn time(&self, order: DateOrder) -> Option<DateTime> {
        Some(self.date(order)?.to_datetime(self.time))
    }
}

/// Marks of direction, and isolates round mentions; U+200D stays, it joins emoji.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

pub(super) fn strip_marks(text: &str) -> String {
    text.chars().filter(|c| !is_mark(*c)).collect()
}

/// Digits of the scripts in which phones write dates.
fn digit(c: char) -> Option<u16> {
    let zero = match c {
        '0'..='9' => '0',
        '\u{660}'..='\u{669}' => '\u{660}',
        '\u{6f0}'..='\u{6f9}' => '\u{6f0}',
        '\u{966}'..='\u{96f}' => '\u{966}',
        '\u{9e6}'..='\u{9ef}' => '\u{9e6}',
        _ => return None,
    };
    u16::try_from(u32::from(c) - u32::from(zero)).ok()
}

struct Cursor<'l>(&'l str);

impl<'l> Cursor<'l> {
    fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> Option<char> {
        let c = self.peek().filter(|c| accept(*c))?;
        self.0 = &self.0[c.len_utf8()..];
        Some(c)
    }

    /// Skips characters and says how many.
    fn skip(&mut self, accept: impl Fn(char) -> bool) -> usize {
        std::iter::from_fn(|| self.take(&accept)).count()
    }

    fn blanks(&mut self) -> usize {
        self.skip(|c| c.is_whitespace() || is_mark(c))
    }

    /// A number and its count of digits.
    fn number(&mut self, most: usize) -> Option<(u16, usize)> {
        let (mut value, mut digits) = (0, 0);
        while digits < most
            && let Some(next) = self.peek().and_then(digit)
        {
            self.take(|_| true);
            value = value * 10 + next;
            digits += 1;
        }
        (digits > 0 && self.peek().and_then(digit).is_none()).then_some((value, digits))
    }

    fn word(&mut self) -> &'l str {
        let end = self
            .0
            .find(|c: char| !c.is_alphabetic() && c != '.')
            .unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
}

fn half(word: &str) -> Option<Half> {
    let letters: String = word
        .chars()
        .filter(|c| c.is_alphabetic())
        .flat_map(char::to_lowercase)
        .collect();
    match letters.as_str() {
        "am" | "a" | "오전" | "上午" | "午前" | "ص" => Some(Half::Morning),
        "pm" | "p" | "오후" | "下午" | "午後" | "م" => Some(Half::Afternoon),
        _ => None,
    }
}

/// The header of a line, if it has one.
pub(super) fn parse(line: &str) -> Option<Header<'_>> {
    let mut cursor = Cursor(line);
    cursor.skip(is_mark);
    let bracket = cursor.take(|c| c == '[').is_some();
    cursor.skip(is_mark);
    let start = cursor.0;
    let (a, a_digits) = cursor.number(4)?;
    cursor.blanks();
    let separator = cursor.take(|c| matches!(c, '/' | '.' | '-'))?;
    cursor.blanks();
    let (b, b_digits) = cursor.number(2)?;
    cursor.blanks();
    cursor.take(|c| c == separator)?;
    cursor.blanks();
    let (c, c_digits) = cursor.number(4)?;
    let year_first = a_digits == 4;
    let shape_fits = matches!((a_digits, c_digits), (4, 1 | 2) | (1 | 2, 2 | 4));
    if !shape_fits || b_digits > 2 {
        return None;
    }
    let gap = cursor.skip(|c| c.is_whitespace() || is_mark(c) || matches!(c, ',' | '.' | '،' | '、'));
    // "klo", "um", "at", or the half of the day.
    let mut part = None;
    if gap > 0 && cursor.peek().is_some_and(char::is_alphabetic) {
        part = half(cursor.word());
        cursor.blanks();
    }
    let time = clock(&mut cursor, &mut part)?;
    let raw = &start[..start.len() - cursor.0.len()];
    if bracket {
        cursor.take(|c| c == ']')?;
        cursor.take(|c| c == ' ');
    } else {
        (cursor.blanks() > 0).then_some(())?;
        cursor.take(|c| matches!(c, '-' | '–' | '—'))?;
        cursor.take(|c| c == ' ')?;
    }
    Some(Header {
        numbers: [a, b, c],
        year_first,
        separator,
        time,
        raw: raw.trim_end(),
        rest: if cursor.0.starts_with('\u{200e}') {
            &cursor.0[3..]
        } else {
            cursor.0
        },
    })
}

/// `23:55`, `11.55.03 p. m.`
fn clock(cursor: &mut Cursor<'_>, part: &mut Option<Half>) -> Option<Time> {
    let (hour, _) = cursor.number(2)?;
    let colon = cursor.take(|c| matches!(c, ':' | '.'))?;
    let (minute, 2) = cursor.number(2)? else {
        return None;
    };
    let mut second = 0;
    if cursor.take(|c| c == colon).is_some() {
        (second, _) = cursor.number(2)?;
    }
    let before = cursor.0;
    if cursor.blanks() > 0 && cursor.peek().is_some_and(char::is_alphabetic) {
        let word = cursor.word();
        let mut said = half(word);
        // "p. m." is two words.
        if said.is_some() && word.ends_with('.') && word.chars().count() == 2 {
            let after = cursor.0;
            cursor.blanks();
            if !cursor.word().eq_ignore_ascii_case("m.") {
                cursor.0 = after;
            }
        }
        said = said.or_else(|| {
            cursor.0 = before;
            None
        });
        *part = said.or(*part);
    } else {
        cursor.0 = before;
    }
    let hour = match part {
        Some(Half::Afternoon) if hour < 12 => hour + 12,
        Some(Half::Morning) if hour == 12 => 0,
        _ => hour,
    };
    Time::new(
        hour.try_into().ok()?,
        minute.try_into().ok()?,
        second.try_into().ok()?,
        0,
    )
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DateOrder::{DayMonthYear as Dmy, MonthDayYear as Mdy, YearMonthDay as Ymd};

    /// Line, order, time; what follows the header is always the same.
    const LOCALES: &[(&str, DateOrder, &str)] = &[
        ("12/9/20, 23:55 - Ann: hi", Mdy, "2020-12-09T23:55:00"),
        ("12/9/20, 11:55\u{202f}PM - Ann: hi", Mdy, "2020-12-09T23:55:00"),
        ("9/12/2020, 12:05 a. m. - Ann: hi", Dmy, "2020-12-09T00:05:00"),
        ("9/12/2020, 1:05 p.m. - Ann: hi", Dmy, "2020-12-09T13:05:00"),
        ("09.12.20, 23:55 - Ann: hi", Dmy, "2020-12-09T23:55:00"),
        ("9.12.2020 klo 23.55 - Ann: hi", Dmy, "2020-12-09T23:55:00"),
        ("2020-12-09 23:55 - Ann: hi", Ymd, "2020-12-09T23:55:00"),
        ("2020. 12. 9. 오후 11:55 - Ann: hi", Ymd, "2020-12-09T23:55:00"),
        ("[9.12.2020, 12.00.07] Ann: hi", Dmy, "2020-12-09T12:00:07"),
        (
            "\u{200e}[12/9/20, 11:55:03 PM] Ann: hi",
            Mdy,
            "2020-12-09T23:55:03",
        ),
        ("٩/١٢/٢٠٢٠، ١١:٥٥ م - Ann: hi", Dmy, "2020-12-09T23:55:00"),
    ];

    #[test]
    fn headers_of_many_locales() {
        for (line, order, time) in LOCALES {
            let header = parse(line).unwrap_or_else(|| panic!("no header: {line}"));
            let found = header.time(*order).map(|time| time.to_string());
            assert_eq!(found.as_deref(), Some(*time), "{line}");
            assert_eq!(header.rest, "Ann: hi", "{line}");
        }
        assert_eq!(parse(LOCALES[8].0).unwrap().raw, "9.12.2020, 12.00.07");
        assert_eq!(parse(LOCALES[1].0).unwrap().raw, "12/9/20, 11:55\u{202f}PM");
    }

    #[test]
    fn what_is_no_header() {
        for line in [
            "",
            "hello",
            "12/9/20",
            "12/9/20, 23:55",
            "12/9/20, 23:55 Ann: hi",
            "12/9/20, 25:55 - Ann: hi",
            "12/9.20, 23:55 - Ann: hi",
            "[12/9/20, 23:55 - Ann: hi",
            "1/2/3, 10:00 - Ann: hi",
            "192.168.1.1 - - [x]",
            "{\"a\": 1}",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
