//! Datetimes of Memento: seconds in UTC.
//!
//! HTTP writes them as `Tue, 15 Nov 1994 08:12:31 GMT`, indexes as 14 digits, JSON as ISO 8601.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use jiff::tz::TimeZone;

/// A second in UTC, from the year 0 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datetime(Timestamp);

/// A text that is not a datetime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid datetime `{0}`")]
pub struct InvalidDatetime(pub String);

impl Datetime {
    /// The second of a timestamp; fractions are dropped. `None` before the year 0.
    pub fn new(timestamp: Timestamp) -> Option<Datetime> {
        let second = Timestamp::from_second(timestamp.as_second()).ok()?;
        let year = TimeZone::UTC.to_datetime(second).year();
        (year >= 0).then_some(Datetime(second))
    }

    /// The timestamp.
    pub fn to_jiff(self) -> Timestamp {
        self.0
    }

    /// Parses the one form that `Accept-Datetime` may have: `Tue, 15 Nov 1994 08:12:31 GMT`, to the
    /// letter. Whether the day of the week is that of the date is not checked.
    ///
    /// # Errors
    /// If the text has another form, or is not a date of the calendar.
    pub fn parse_http(text: &str) -> Result<Datetime, InvalidDatetime> {
        http(text.as_bytes()).ok_or_else(|| InvalidDatetime(text.to_owned()))
    }

    /// Parses the timestamp of an index or a URI: 4 to 14 digits, `YYYY[MM[DD[hh[mm[ss]]]]]`. What is
    /// missing is the first month or day, or midnight. More digits, which some tools write for
    /// fractions, are ignored up to 17.
    ///
    /// # Errors
    /// If the text is not made of such digits, or is not a date of the calendar.
    pub fn parse_timestamp(text: &str) -> Result<Datetime, InvalidDatetime> {
        digits(text.as_bytes()).ok_or_else(|| InvalidDatetime(text.to_owned()))
    }

    /// Parses what archives send for a datetime: that of HTTP, also with another zone, wrong day or
    /// without leading zeros; ISO 8601, UTC where it names no zone; a timestamp of digits.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn parse(text: &str) -> Result<Datetime, InvalidDatetime> {
        const LENIENT: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
        let text = text.trim();
        let found = http(text.as_bytes()).or_else(|| digits(text.as_bytes()));
        let found = found.or_else(|| Datetime::new(LENIENT.parse_timestamp(text).ok()?));
        let found = found.or_else(|| Datetime::new(text.parse().ok()?));
        found
            .or_else(|| utc(text.parse().ok()?))
            .ok_or_else(|| InvalidDatetime(text.to_owned()))
    }

    /// As in HTTP: `Tue, 15 Nov 1994 08:12:31 GMT`.
    pub fn http(self) -> String {
        DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self.0)
            .unwrap_or_default()
    }

    /// As in indexes and URIs: `19941115081231`.
    pub fn timestamp(self) -> String {
        let at = TimeZone::UTC.to_datetime(self.0);
        format!(
            "{:04}{:02}{:02}{:02}{:02}{:02}",
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        )
    }

    /// As in JSON: `1994-11-15T08:12:31Z`.
    pub fn iso(self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Datetime {
    /// The form of HTTP.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.http())
    }
}

impl FromStr for Datetime {
    type Err = InvalidDatetime;

    fn from_str(text: &str) -> Result<Datetime, InvalidDatetime> {
        Datetime::parse(text)
    }
}

fn http(text: &[u8]) -> Option<Datetime> {
    const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let separators = [
        (3, b','),
        (4, b' '),
        (7, b' '),
        (11, b' '),
        (16, b' '),
        (19, b':'),
        (22, b':'),
        (25, b' '),
    ];
    if text.len() != 29
        || !DAYS.contains(&&text[..3])
        || !text.ends_with(b"GMT")
        || separators.iter().any(|&(at, byte)| text[at] != byte)
    {
        return None;
    }
    let month = MONTHS.iter().position(|name| *name == &text[8..11])?;
    date(
        number(&text[12..16])?,
        month as i16 + 1,
        number(&text[5..7])?,
        number(&text[17..19])?,
        number(&text[20..22])?,
        number(&text[23..25])?,
    )
}

fn digits(text: &[u8]) -> Option<Datetime> {
    let whole = match text.len() {
        4 | 6 | 8 | 10 | 12 | 14 => text,
        15..=17 if text.iter().all(u8::is_ascii_digit) => &text[..14],
        _ => return None,
    };
    let part = |at: usize, missing: i16| match whole.get(at..at + 2) {
        Some(digits) => number(digits),
        None => Some(missing),
    };
    date(
        number(&whole[..4])?,
        part(4, 1)?,
        part(6, 1)?,
        part(8, 0)?,
        part(10, 0)?,
        part(12, 0)?,
    )
}

fn number(digits: &[u8]) -> Option<i16> {
    digits.iter().try_fold(0_i16, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| i16::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

fn date(year: i16, month: i16, day: i16, hour: i16, minute: i16, second: i16) -> Option<Datetime> {
    let byte = |value: i16| i8::try_from(value).ok();
    let at = DateTime::new(
        year,
        byte(month)?,
        byte(day)?,
        byte(hour)?,
        byte(minute)?,
        byte(second)?,
        0,
    );
    utc(at.ok()?)
}

fn utc(at: DateTime) -> Option<Datetime> {
    Datetime::new(TimeZone::UTC.to_timestamp(at).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_datetime_has_one_form() {
        let at = Datetime::parse_http("Tue, 15 Nov 1994 08:12:31 GMT").unwrap();
        assert_eq!(at.timestamp(), "19941115081231");
        assert_eq!(at.iso(), "1994-11-15T08:12:31Z");
        assert_eq!(at.http(), "Tue, 15 Nov 1994 08:12:31 GMT");
        // MemGator accepts a wrong day, and so do we.
        assert_eq!(
            Datetime::parse_http("Mon, 15 Nov 1994 08:12:31 GMT"),
            Ok(at)
        );
        for text in [
            "",
            "20120615",
            "Tue, 15 Nov 1994 08:12:31 +0000",
            "tue, 15 nov 1994 08:12:31 gmt",
            "Tue, 5 Nov 1994 08:12:31 GMT",
            "Tue, 31 Feb 1994 08:12:31 GMT",
            "Tue, 15 Nov 1994 24:12:31 GMT",
            "Tue, 15 Nov 1994 08:12:31 GMT ",
            "Tüe 15 Nov 1994 08:12:31 GMT",
        ] {
            assert!(Datetime::parse_http(text).is_err(), "{text}");
        }
    }

    #[test]
    fn timestamps_may_be_short() {
        for (text, whole) in [
            ("2015", "20150101000000"),
            ("201502", "20150201000000"),
            ("2015022813", "20150228130000"),
            ("20150228131415", "20150228131415"),
            ("20150228131415999", "20150228131415"),
        ] {
            assert_eq!(Datetime::parse_timestamp(text).unwrap().timestamp(), whole);
        }
        for text in [
            "",
            "201",
            "20151",
            "20151301",
            "2015022x",
            "20150228131415x",
            "20150229",
        ] {
            assert!(Datetime::parse_timestamp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn archives_are_read_leniently() {
        let at = Datetime::parse_timestamp("20130103000000").unwrap();
        for text in [
            " 2013-01-03T00:00:00Z",
            "2013-01-03T00:00:00.999Z",
            "2013-01-03T01:00:00+01:00",
            "2013-01-03 00:00:00",
            "2013-01-03",
            "Thu, 03 Jan 2013 00:00:00 +0000",
            "Fri, 3 Jan 2013 00:00:00 GMT",
            "20130103",
        ] {
            assert_eq!(Datetime::parse(text), Ok(at), "{text}");
        }
        assert!(Datetime::parse("Sun").is_err());
        assert!(Datetime::parse("-000001-01-01T00:00:00Z").is_err());
    }
}
