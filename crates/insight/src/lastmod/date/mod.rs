//! A lenient parser for the dates that servers send as Last-Modified.
//!
//! HTTP has three forms of dates: that of RFC 1123, `Sun, 06 Nov 1994 08:49:37 GMT`, that of RFC 850,
//! and that of C's `asctime`. Servers also send others, which are accepted where they can mean only one
//! time. The result says what was odd, so that callers can count it.

mod names;
mod reader;
mod tokens;

use crate::calendar::{DAY, Date};
use reader::Reader;

/// The form of a date, by the order of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `06 Nov 1994`
    Rfc1123,
    /// `06-Nov-94`
    Rfc850,
    /// `Nov  6 08:49:37 1994`, or `November 6, 1994`
    Asctime,
    /// `1994-11-06`
    Iso8601,
    /// `06.11.1994` or `11/26/1994`
    Numeric,
    /// Seconds or milliseconds since 1970.
    Seconds,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 6] = [
        Form::Rfc1123,
        Form::Rfc850,
        Form::Asctime,
        Form::Iso8601,
        Form::Numeric,
        Form::Seconds,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Form::Rfc1123 => "RFC 1123",
            Form::Rfc850 => "RFC 850",
            Form::Asctime => "asctime",
            Form::Iso8601 => "ISO 8601",
            Form::Numeric => "numeric",
            Form::Seconds => "seconds",
        }
    }
}

/// What is odd about a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Oddity {
    /// There is no weekday.
    NoWeekday,
    /// The weekday is not that of the date.
    WrongWeekday,
    /// The weekday is not an English name.
    ForeignWeekday,
    /// The month is not an English name.
    ForeignMonth,
    /// There is no zone; UTC is assumed.
    NoZone,
    /// The zone stands somewhere else than at the end.
    MisplacedZone,
    /// The zone is a number, such as `+0200`.
    NumericZone,
    /// The zone is a name other than GMT.
    NamedZone,
    /// The year has two digits, in a form in which it should have four.
    TwoDigitYear,
    /// The year was counted from 1900: `119` or `19119` is 2019.
    YearSince1900,
    /// There is no time; midnight is assumed.
    NoTime,
    /// There are no seconds.
    NoSeconds,
    /// There is a fraction of a second, which is dropped.
    Fraction,
    /// Hours are counted to twelve, with AM or PM.
    TwelveHours,
    /// The second is 60, or the hour 24.
    Overflow,
    /// Spaces, commas, letter case or leading zeros differ from the form, or there is more text.
    Spelling,
}

impl Oddity {
    /// All of them.
    pub const ALL: [Oddity; 16] = [
        Oddity::NoWeekday,
        Oddity::WrongWeekday,
        Oddity::ForeignWeekday,
        Oddity::ForeignMonth,
        Oddity::NoZone,
        Oddity::MisplacedZone,
        Oddity::NumericZone,
        Oddity::NamedZone,
        Oddity::TwoDigitYear,
        Oddity::YearSince1900,
        Oddity::NoTime,
        Oddity::NoSeconds,
        Oddity::Fraction,
        Oddity::TwelveHours,
        Oddity::Overflow,
        Oddity::Spelling,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Oddity::NoWeekday => "no weekday",
            Oddity::WrongWeekday => "wrong weekday",
            Oddity::ForeignWeekday => "foreign weekday",
            Oddity::ForeignMonth => "foreign month",
            Oddity::NoZone => "no zone",
            Oddity::MisplacedZone => "misplaced zone",
            Oddity::NumericZone => "numeric zone",
            Oddity::NamedZone => "named zone",
            Oddity::TwoDigitYear => "two-digit year",
            Oddity::YearSince1900 => "year since 1900",
            Oddity::NoTime => "no time",
            Oddity::NoSeconds => "no seconds",
            Oddity::Fraction => "fraction",
            Oddity::TwelveHours => "AM or PM",
            Oddity::Overflow => "second 60 or hour 24",
            Oddity::Spelling => "spelling",
        }
    }
}

/// A set of oddities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Oddities(u16);

impl Oddities {
    fn add(&mut self, oddity: Oddity) {
        self.0 |= 1 << oddity as u8;
    }

    /// Whether one is in the set.
    pub fn contains(self, oddity: Oddity) -> bool {
        self.0 & (1 << oddity as u8) != 0
    }

    /// Whether the date has exactly one of the three forms of HTTP.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in the set.
    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL
            .into_iter()
            .filter(move |oddity| self.contains(*oddity))
    }
}

/// A date that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The POSIX time.
    pub time: i64,
    /// The form.
    pub form: Form,
    /// What is odd about it.
    pub oddities: Oddities,
}

/// Why a date is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Rejection {
    /// There is nothing.
    Empty,
    /// It is not a date.
    Unreadable,
    /// It could mean several dates: `01/02/2019`.
    Ambiguous,
    /// There is no such day or time.
    NoSuchDate,
    /// The zone is unknown, or has several meanings.
    UnknownZone,
    /// It is before 1990.
    TooEarly,
    /// It is later than the capture.
    Future,
}

impl Rejection {
    /// The number of them.
    pub const COUNT: usize = 7;
    /// All of them.
    pub const ALL: [Rejection; Rejection::COUNT] = [
        Rejection::Empty,
        Rejection::Unreadable,
        Rejection::Ambiguous,
        Rejection::NoSuchDate,
        Rejection::UnknownZone,
        Rejection::TooEarly,
        Rejection::Future,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Rejection::Empty => "empty",
            Rejection::Unreadable => "unreadable",
            Rejection::Ambiguous => "ambiguous",
            Rejection::NoSuchDate => "no such date",
            Rejection::UnknownZone => "unknown zone",
            Rejection::TooEarly => "before 1990",
            Rejection::Future => "in the future of the capture",
        }
    }
}

/// 1990-01-01: the Web is not older.
pub const EARLIEST: i64 = 631_152_000;

/// How much later than the capture a date may be, in seconds, by default: servers that send their local
/// time without a zone are up to 14 hours ahead.
pub const LATEST: i64 = DAY;

/// Parses a date and checks that it is credible for a capture at `captured`: not before 1990 and at
/// most `late` seconds later.
///
/// # Errors
/// If it is not a date, or not credible.
pub fn credible(value: &[u8], captured: i64, late: i64) -> Result<Parsed, Rejection> {
    let parsed = parse(value)?;
    if parsed.time < EARLIEST {
        return Err(Rejection::TooEarly);
    }
    if parsed.time > captured.saturating_add(late) {
        return Err(Rejection::Future);
    }
    Ok(parsed)
}

/// Parses a date of the years 1 to 9999.
///
/// # Errors
/// If it is not a date.
pub fn parse(value: &[u8]) -> Result<Parsed, Rejection> {
    if let Some(parsed) = exact(value) {
        return Ok(parsed);
    }
    let Some(text) = tokens::text(value) else {
        return Err(Rejection::Unreadable);
    };
    let trimmed = text
        .trim()
        .trim_matches(['"', '\'', '<', '>', '=', '\0'])
        .trim();
    if trimmed.is_empty() {
        return Err(Rejection::Empty);
    }
    Reader::new(tokens::tokens(trimmed))
        .read()
        .map(|mut parsed| {
            if !is_exact(&text, &parsed) {
                parsed.oddities.add(Oddity::Spelling);
            }
            parsed
        })
}

/// The form that HTTP requires, at once: nearly all dates have it.
fn exact(value: &[u8]) -> Option<Parsed> {
    let value: &[u8; 29] = value.try_into().ok()?;
    let marks = [
        (3, b','),
        (4, b' '),
        (7, b' '),
        (11, b' '),
        (16, b' '),
        (19, b':'),
        (22, b':'),
    ];
    if marks.iter().any(|&(at, mark)| value[at] != mark) || &value[25..] != b" GMT" {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        value[range].iter().try_fold(0i64, |sum, byte| {
            byte.is_ascii_digit()
                .then(|| sum * 10 + i64::from(byte - b'0'))
        })
    };
    let month = MONTHS
        .iter()
        .position(|name| name.as_bytes() == &value[8..11])? as u8
        + 1;
    let weekday = WEEKDAYS
        .iter()
        .position(|name| name.as_bytes()[..3] == value[..3])?;
    let (year, day) = (number(12..16)?, number(5..7)?);
    let date = Date {
        year: year as i32,
        month,
        day: day as u8,
    };
    let (hour, minute, second) = (number(17..19)?, number(20..22)?, number(23..25)?);
    if year == 0 || !date.is_valid() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    (usize::from(date.weekday()) == weekday).then(|| Parsed {
        time: date.day_number() * DAY + hour * 3600 + minute * 60 + second,
        form: Form::Rfc1123,
        oddities: Oddities::default(),
    })
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The text of a time in one of the three forms of HTTP, or in ISO 8601.
pub fn format(time: i64, form: Form) -> Option<String> {
    let (date, clock) = (Date::of_unix(time), time.rem_euclid(DAY));
    let Date { year, month, day } = date;
    let weekday = WEEKDAYS[usize::from(date.weekday())];
    let name = MONTHS[usize::from(month) - 1];
    let clock = format!(
        "{:02}:{:02}:{:02}",
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    );
    Some(match form {
        Form::Rfc1123 => format!("{}, {day:02} {name} {year:04} {clock} GMT", &weekday[..3]),
        Form::Rfc850 => format!("{weekday}, {day:02}-{name}-{:02} {clock} GMT", year % 100),
        Form::Asctime => format!("{} {name} {day:2} {clock} {year:04}", &weekday[..3]),
        Form::Iso8601 => format!("{year:04}-{month:02}-{day:02}T{clock}Z"),
        Form::Numeric | Form::Seconds => return None,
    })
}

/// Whether a text has one of the forms of HTTP to the letter, or has oddities that say what differs.
fn is_exact(text: &str, parsed: &Parsed) -> bool {
    !parsed.oddities.is_empty()
        || format(parsed.time, parsed.form).is_some_and(|exact| exact == text)
}
