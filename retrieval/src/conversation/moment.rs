//! When something was said, as exactly as the source tells.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whether a time can be placed on the globe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Zone {
    /// The clock of some place; the source does not say which.
    #[default]
    Unknown,
    /// Coordinated universal time.
    Utc,
}

/// A time that the source gives; never the clock of the machine that reads it.
///
/// As JSON it is ISO 8601 text, with a `Z` exactly when the zone is UTC: `"2023-05-08T13:56:00Z"`. Where the source spells
/// it otherwise, it is an object that keeps this spelling: `{"time":"2023-05-08T13:56:00","raw":"1:56 pm on 8 May, 2023"}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    /// In UTC where the zone is known, else as the clock of the source showed.
    pub time: DateTime,
    /// What `time` is relative to.
    pub zone: Zone,
    /// The source's own spelling, where it is not `time`'s ISO 8601.
    pub raw: Option<String>,
}

impl From<DateTime> for Moment {
    /// A time without a zone.
    fn from(time: DateTime) -> Self {
        Self {
            time,
            zone: Zone::Unknown,
            raw: None,
        }
    }
}

impl Moment {
    /// A time without a zone, and how the source spells it.
    pub(super) fn local(time: DateTime, raw: impl Into<String>) -> Self {
        Self {
            time,
            zone: Zone::Unknown,
            raw: Some(raw.into()),
        }
    }

    /// Seconds since 1970 in UTC; `None` outside the years -9999 to 9999.
    pub(super) fn unix(seconds: f64, raw: impl Into<String>) -> Option<Self> {
        // A double holds microseconds of our time; more digits are noise.
        let micros = (seconds * 1e6).round();
        let in_range = micros.abs() < 1e18;
        Self::unix_micros(in_range.then_some(micros as i64)?, raw)
    }

    /// Microseconds since 1970 in UTC; `None` outside the years -9999 to 9999.
    pub(super) fn unix_micros(micros: i64, raw: impl Into<String>) -> Option<Self> {
        let stamp = Timestamp::from_microsecond(micros).ok()?;
        Some(Self {
            time: TimeZone::UTC.to_datetime(stamp),
            zone: Zone::Utc,
            raw: Some(raw.into()),
        })
    }

    /// ISO 8601 text: with `Z` or an offset it becomes UTC, without them the zone is unknown. What is spelt otherwise
    /// than this type prints it is kept.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (time, zone) = match text.parse::<Timestamp>() {
            Ok(stamp) => (TimeZone::UTC.to_datetime(stamp), Zone::Utc),
            Err(_) => (text.parse::<DateTime>().ok()?, Zone::Unknown),
        };
        let mut moment = Self {
            time,
            zone,
            raw: None,
        };
        if moment.to_string() != text {
            moment.raw = Some(text.to_owned());
        }
        Some(moment)
    }
}

impl fmt::Display for Moment {
    /// ISO 8601, with a `Z` exactly when the zone is UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = match self.zone {
            Zone::Unknown => "",
            Zone::Utc => "Z",
        };
        write!(f, "{}{zone}", self.time)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    time: String,
    raw: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(String),
    Spelled(Spelled),
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = self.to_string();
        match &self.raw {
            None => serializer.serialize_str(&time),
            Some(raw) => Spelled {
                time,
                raw: raw.clone(),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (time, raw) = match Written::deserialize(deserializer) {
            Ok(Written::Plain(time)) => (time, None),
            Ok(Written::Spelled(Spelled { time, raw })) => (time, Some(raw)),
            Err(_) => {
                return Err(D::Error::custom(
                    "a time that is neither text nor {\"time\": …, \"raw\": …}",
                ));
            }
        };
        let moment = Self::parse(&time).ok_or_else(|| {
            D::Error::custom(format!(
                "time {time:?}, expected one like \"2023-05-08T13:56:00\" or \"2023-05-08T13:56:00Z\""
            ))
        })?;
        Ok(Self {
            raw: raw.or(moment.raw),
            ..moment
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn a_zone_is_kept_and_never_invented() {
        let local = Moment::parse("2023-05-08T13:56:00").unwrap();
        assert_eq!(local, Moment::from(date(2023, 5, 8).at(13, 56, 0, 0)));
        let utc = Moment::parse("2023-05-08T13:56:00Z").unwrap();
        assert_eq!((utc.zone, utc.raw), (Zone::Utc, None));
        let offset = Moment::parse("2023-05-08T01:56:00.500+02:00").unwrap();
        assert_eq!(offset.to_string(), "2023-05-07T23:56:00.5Z");
        assert_eq!(offset.raw.as_deref(), Some("2023-05-08T01:56:00.500+02:00"));
        assert_eq!(Moment::parse("yesterday"), None);
        let unix = Moment::unix(1_700_000_000.25, "1700000000.25").unwrap();
        assert_eq!(unix.to_string(), "2023-11-14T22:13:20.25Z");
        assert_eq!(Moment::unix(1e300, "1e300"), None);
        assert_eq!(Moment::unix(f64::NAN, "NaN"), None);
    }

    #[test]
    fn json_gives_back_what_was_written() {
        for moment in [
            Moment::from(date(2023, 5, 8).at(13, 56, 0, 0)),
            Moment::local(date(2020, 12, 9).at(23, 55, 0, 0), "12/9/20, 23:55"),
            Moment::unix(-1.5, "-1.5").unwrap(),
            Moment::parse("2023-05-08T01:56:00+02:00").unwrap(),
        ] {
            let text = serde_json::to_string(&moment).unwrap();
            assert_eq!(serde_json::from_str::<Moment>(&text).unwrap(), moment, "{text}");
        }
        let plain = serde_json::to_string(&Moment::from(date(2023, 5, 8).at(13, 56, 0, 0))).unwrap();
        assert_eq!(plain, "\"2023-05-08T13:56:00\"");
        assert!(serde_json::from_str::<Moment>("5").is_err());
        assert!(serde_json::from_str::<Moment>("\"2023-05-08T25:00:00\"").is_err());
    }
}
