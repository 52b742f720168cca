//! In what order a chat writes day, month and year: what all its dates together allow.

use std::path::Path;

use jiff::civil::Date;

use super::header::Header;
use crate::{DateOrder, RetrievalError};

/// WhatsApp's first year: a date before it was read in the wrong order.
const FIRST_YEAR: i16 = 2009;
/// One order is right when the dates run backwards this much more often under the other.
const CLEARLY: usize = 10;

/// What was seen of a file's dates.
#[derive(Debug, Default)]
pub(super) struct Orders {
    example: Option<String>,
    day_first: Evidence,
    month_first: Evidence,
    year_first: Evidence,
    /// Dates that begin with a year of four digits, dates parted by full stops, dates that differ under the orders, dates.
    four_digits: usize,
    full_stops: usize,
    telling: usize,
    seen: usize,
}

#[derive(Debug, Default)]
struct Evidence {
    impossible: usize,
    backwards: usize,
    last: Option<Date>,
}

impl Evidence {
    fn see(&mut self, date: Option<Date>) {
        match date.filter(|date| date.year() >= FIRST_YEAR) {
            None => self.impossible += 1,
            Some(date) => {
                self.backwards += usize::from(self.last.is_some_and(|last| date < last));
                self.last = Some(date);
            }
        }
    }
}

impl Orders {
    pub(super) fn see(&mut self, header: &Header<'_>) {
        let [day_first, month_first, year_first] = [
            DateOrder::DayMonthYear,
            DateOrder::MonthDayYear,
            DateOrder::YearMonthDay,
        ]
        .map(|order| header.date(order));
        // A message may quote what looks like a date and is none.
        if day_first.or(month_first).or(year_first).is_none() {
            return;
        }
        self.example.get_or_insert_with(|| header.raw.to_owned());
        self.seen += 1;
        self.four_digits += usize::from(header.year_first);
        self.full_stops += usize::from(header.separator == '.');
        self.telling += usize::from(header.numbers[0] != header.numbers[1]);
        self.day_first.see(day_first);
        self.month_first.see(month_first);
        self.year_first.see(year_first);
    }

    /// The order, or [`RetrievalError::AmbiguousDates`].
    pub(super) fn decide(self, path: &Path, asked: Option<DateOrder>) -> Result<DateOrder, RetrievalError> {
        let possible = |evidence: &Evidence| evidence.impossible == 0;
        let why = match asked {
            Some(order) => {
                let evidence = match order {
                    DateOrder::DayMonthYear => &self.day_first,
                    DateOrder::MonthDayYear => &self.month_first,
                    DateOrder::YearMonthDay => &self.year_first,
                };
                if possible(evidence) {
                    return Ok(order);
                }
                "do not all fit the order that was given"
            }
            None if self.four_digits == self.seen => return Ok(DateOrder::YearMonthDay),
            // No locale puts the month first and a full stop between.
            None if self.full_stops == self.seen && possible(&self.day_first) => {
                return Ok(DateOrder::DayMonthYear);
            }
            None => match (possible(&self.day_first), possible(&self.month_first)) {
                (true, false) => return Ok(DateOrder::DayMonthYear),
                (false, true) => return Ok(DateOrder::MonthDayYear),
                (true, true) => {
                    let (day, month) = (self.day_first.backwards, self.month_first.backwards);
                    if self.telling == 0 || day * CLEARLY < month {
                        return Ok(DateOrder::DayMonthYear);
                    }
                    if month * CLEARLY < day {
                        return Ok(DateOrder::MonthDayYear);
                    }
                    "may have the day or the month first"
                }
                (false, false) if possible(&self.year_first) => return Ok(DateOrder::YearMonthDay),
                (false, false) => "fit no one order",
            },
        };
        Err(RetrievalError::AmbiguousDates {
            path: path.to_owned(),
            example: self.example.unwrap_or_default(),
            why,
        })
    }
}
