//! Timestamps: the digits in an index, and a lenient parser.
//!
//! Indexes contain `2004`, `20040102`, fourteen digits, and seventeen with milliseconds; also month
//! `00` and hour `24`. The raw digits determine the sort order and are written back unchanged.
//! [`Time`] is for comparing and counting: missing parts get the smallest value, and parts out of
//! range the nearest valid one.

use std::borrow::Cow;
use std::fmt;

/// Minimum and maximum number of digits of a timestamp.
const DIGITS: std::ops::RangeInclusive<usize> = 4..=17;

/// Whether these bytes are a timestamp: 4 to 17 digits.
#[inline]
pub fn is_timestamp(raw: &[u8]) -> bool {
    // Nearly all of them: two words that overlap.
    if let (14, Some(start), Some(end)) = (raw.len(), raw.first_chunk(), raw.last_chunk()) {
        return (non_digit_bits(*start) | non_digit_bits(*end)) == 0;
    }
    DIGITS.contains(&raw.len()) && raw.iter().all(u8::is_ascii_digit)
}

#[inline]
pub(crate) fn are_digits(bytes: [u8; 8]) -> bool {
    non_digit_bits(bytes) == 0
}

/// Some bits of bytes that are not digits; 0 if all are.
#[inline(always)]
fn non_digit_bits(bytes: [u8; 8]) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The upper half of a byte is 3, also after adding 6: so its lower half is at most 9. Only a byte that has
    // such bits can carry into the next.
    let word = u64::from_le_bytes(bytes) ^ (0x30 * EACH);
    (word | word.wrapping_add(6 * EACH)) & (0xf0 * EACH)
}

/// A UTC time with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// `YYYYMMDDhhmmssmmm` as a number, which sorts like the time and needs no arithmetic.
    digits: u64,
}

impl Time {
    /// The earliest time.
    pub const MIN: Time = Time {
        digits: 101_000_000_000,
    };
    /// The latest time.
    pub const MAX: Time = Time {
        digits: 99_991_231_235_959_999,
    };

    /// Parses 4 to 17 digits, or an ISO 8601 date such as `2015-09-03T13:27:52Z`.
    pub fn parse(raw: &[u8]) -> Option<Time> {
        if is_timestamp(raw) {
            return Some(Time::from_digits(raw, false));
        }
        let (first, rest) = (raw.first()?, raw.get(4)?);
        if !first.is_ascii_digit() || *rest != b'-' || raw.len() > 40 {
            return None;
        }
        let mut digits = Vec::with_capacity(17);
        for &byte in raw {
            match byte {
                b'0'..=b'9' if digits.len() < 17 => digits.push(byte),
                b'0'..=b'9' | b'-' | b':' | b'T' | b't' | b' ' | b'.' => {}
                b'Z' | b'z' => break,
                _ => return None,
            }
        }
        is_timestamp(&digits).then(|| Time::from_digits(&digits, false))
    }

    /// The start of a time that may be abbreviated: `2004` is the start of 2004. Accepts 4 to 17
    /// digits, or an ISO 8601 date such as `2004-01-31` or `2004-01-31T10:00:00Z`.
    pub fn first_of(text: &[u8]) -> Option<Time> {
        typed_digits(text).map(|digits| Time::from_digits(&digits, false))
    }

    /// The end of a time that may be abbreviated: `2004` is the end of 2004.
    pub fn last_of(text: &[u8]) -> Option<Time> {
        typed_digits(text).map(|digits| Time::from_digits(&digits, true))
    }

    /// Fills missing parts with the smallest or largest values and clamps every part to its range.
    fn from_digits(raw: &[u8], up: bool) -> Time {
        let part = |from: usize, len: usize| -> Option<u64> {
            // An incomplete part (`20041`) is filled digit by digit.
            let digits = raw.get(from..(from + len).min(raw.len()))?;
            if digits.is_empty() {
                return None;
            }
            let filler = if up { 9 } else { 0 };
            Some((0..len).fold(0, |value, i| {
                value * 10
                    + digits
                        .get(i)
                        .map_or(filler, |digit| u64::from(digit - b'0'))
            }))
        };
        let fill = |value: Option<u64>, low: u64, high: u64| match value {
            Some(value) => value.clamp(low, high),
            None if up => high,
            None => low,
        };
        let year = fill(part(0, 4), 0, 9999);
        let month = fill(part(4, 2), 1, 12);
        let day = fill(part(6, 2), 1, days(year, month));
        let hour = fill(part(8, 2), 0, 23);
        let minute = fill(part(10, 2), 0, 59);
        let second = fill(part(12, 2), 0, 59);
        let millisecond = fill(part(14, 3), 0, 999);
        let mut digits = year;
        for (value, scale) in [
            (month, 100),
            (day, 100),
            (hour, 100),
            (minute, 100),
            (second, 100),
            (millisecond, 1000),
        ] {
            digits = digits * scale + value;
        }
        Time { digits }
    }

    /// The year.
    pub fn year(self) -> u16 {
        (self.digits / 10_000_000_000_000) as u16
    }

    /// The month, from 1.
    pub fn month(self) -> u8 {
        (self.digits / 100_000_000_000 % 100) as u8
    }

    /// The day of the month, from 1.
    pub fn day(self) -> u8 {
        (self.digits / 1_000_000_000 % 100) as u8
    }

    /// Seconds since 1970, negative before it.
    pub fn unix(self) -> i64 {
        let (year, month, day) = (
            i64::from(self.year()),
            i64::from(self.month()),
            i64::from(self.day()),
        );
        // Days from civil: years begin in March, so that the leap day is the last one.
        let y = if month <= 2 { year - 1 } else { year };
        let era = y.div_euclid(400);
        let year_of_era = y.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let clock = (self.digits / 1000 % 1_000_000) as i64;
        days * 86_400 + clock / 10_000 * 3600 + clock / 100 % 100 * 60 + clock % 100
    }

    /// The time as fourteen digits.
    pub fn digits14(self) -> u64 {
        self.digits / 1000
    }
}

/// `2004-01-02 03:04:05`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.digits / 1000 % 1_000_000;
        write!(
            f,
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            self.year(),
            self.month(),
            self.day(),
            clock / 10_000,
            clock / 100 % 100,
            clock % 100
        )
    }
}

/// The digits of a time: digits, or `YYYY-MM-DDThh:mm:ss.fffZ`, which may end after any part. Time
/// zones other than UTC are not accepted.
fn typed_digits(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if is_timestamp(text) {
        return Some(Cow::Borrowed(text));
    }
    const PATTERN: &[u8] = b"0000-00-00T00:00:00.000";
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    let fits = |(&byte, &pattern): (&u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        _ => byte == pattern,
    };
    let is_whole = matches!(text.len(), 7 | 10 | 13 | 16 | 19 | 23);
    let digits: Vec<u8> = text.iter().copied().filter(u8::is_ascii_digit).collect();
    (is_whole && text.iter().zip(PATTERN).all(fits)).then_some(Cow::Owned(digits))
}

const fn days(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// Whether every part is in range: no month 00, no hour 24.
#[inline]
pub fn is_plausible(raw: &[u8]) -> bool {
    match is_timestamp(raw) {
        true => is_plausible_timestamp(raw),
        false => is_exact(raw),
    }
}

/// The same for what [is a timestamp](is_timestamp).
#[inline]
pub(crate) fn is_plausible_timestamp(digits: &[u8]) -> bool {
    debug_assert!(is_timestamp(digits));
    // Nearly all of them: two words that overlap.
    if let (14, Some(date), Some(clock)) = (digits.len(), digits.first_chunk(), digits.last_chunk())
    {
        let (date, clock) = (pairs(*date), pairs(*clock));
        let (month, day) = (date >> 32 & 127, date >> 48);
        // Not the leap day, which takes more than this.
        let in_month = day.wrapping_sub(1) < u64::from(DAYS[month as usize]);
        // 24, 60 and 60 set the highest bit of their bytes, as do larger numbers.
        let too_large = (clock + 0x0044_0044_0068_0000) & 0x0080_0080_0080_0000;
        if in_month & (too_large == 0) {
            return true;
        }
    }
    is_exact(digits)
}

/// The days of each month in any year, and 0 for numbers that are not months.
static DAYS: [u8; 128] = {
    let mut all = [0; 128];
    let mut month = 1;
    while month <= 12 {
        all[month] = if month == 2 {
            28
        } else {
            days(1, month as u64) as u8
        };
        month += 1;
    }
    all
};

/// Four numbers of two digits each, in two bytes each.
#[inline(always)]
fn pairs(digits: [u8; 8]) -> u64 {
    let digits = u64::from_le_bytes(digits) & 0x0f0f_0f0f_0f0f_0f0f;
    // The first digit of a pair is its lower byte.
    (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff
}

/// Whether the lenient parser changes nothing.
fn is_exact(raw: &[u8]) -> bool {
    // Only complete parts are checked.
    let whole = match raw.len() {
        17.. => 17,
        14..=16 => 14,
        len => len / 2 * 2,
    };
    let Some(time) = Time::first_of(raw) else {
        return false;
    };
    let own = raw[..whole]
        .iter()
        .fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    time.digits / 10u64.pow(17 - whole as u32) == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fourteen_bytes_are_a_timestamp_only_if_all_are_digits() {
        let digits = b"20190817203056";
        assert!(is_timestamp(digits));
        for at in 0..14 {
            for byte in 0..=255u8 {
                let mut raw = *digits;
                raw[at] = byte;
                assert_eq!(is_timestamp(&raw), byte.is_ascii_digit(), "{at} {byte}");
            }
        }
    }
    use proptest::prelude::*;

    fn show(raw: &str) -> String {
        Time::parse(raw.as_bytes()).map_or("none".to_owned(), |time| time.to_string())
    }

    #[test]
    fn any_number_of_digits_is_read_and_parts_out_of_range_are_forced_into_it() {
        assert_eq!(show("2004"), "2004-01-01 00:00:00");
        assert_eq!(show("20040102030405"), "2004-01-02 03:04:05");
        assert_eq!(show("20220106150849300"), "2022-01-06 15:08:49");
        assert_eq!(show("20000012170449"), "2000-01-12 17:04:49");
        assert_eq!(show("20000800241623"), "2000-08-01 23:16:23");
        assert_eq!(show("20210231000000"), "2021-02-28 00:00:00");
        assert_eq!(show("201018122054100"), "2010-12-12 20:54:10");
        assert_eq!(show("2015-09-03T13:27:52Z"), "2015-09-03 13:27:52");
        for bad in ["", "-", "200", "123456789012345678", "2004x", "2004-x"] {
            assert_eq!(show(bad), "none", "{bad}");
        }
    }

    #[test]
    fn a_short_timestamp_means_a_range() {
        assert_eq!(
            Time::last_of(b"2004").unwrap().to_string(),
            "2004-12-31 23:59:59"
        );
        assert_eq!(
            Time::last_of(b"200402").unwrap().to_string(),
            "2004-02-29 23:59:59"
        );
        assert_eq!(
            Time::first_of(b"200402").unwrap().to_string(),
            "2004-02-01 00:00:00"
        );
    }

    #[test]
    fn dates_of_iso_8601_mean_what_their_digits_mean() {
        for (iso, digits) in [
            ("2004-02", "200402"),
            ("2004-01-31", "20040131"),
            ("2004-01-31T10", "2004013110"),
            ("2004-01-31 10:20", "200401311020"),
            ("2004-01-31T10:20:30Z", "20040131102030"),
            ("2004-01-31T10:20:30.456Z", "20040131102030456"),
        ] {
            let (iso, digits) = (iso.as_bytes(), digits.as_bytes());
            assert!(Time::first_of(iso).is_some());
            assert_eq!(Time::first_of(iso), Time::first_of(digits));
            assert_eq!(Time::last_of(iso), Time::last_of(digits));
        }
        for bad in [
            "2004-1-31",
            "2004-01-31T10:20:30+01:00",
            "2004-",
            "2004-01-3",
            "2004/01/31",
            "31-01-2004",
            "2004-01-31T",
            "Z",
            "",
        ] {
            assert_eq!(Time::first_of(bad.as_bytes()), None, "{bad}");
            assert_eq!(Time::last_of(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn seconds_since_1970_are_those_of_other_tools() {
        for (raw, seconds) in [
            ("19700101000000", 0),
            ("19691231235959", -1),
            ("20000229120000", 951_825_600),
            ("20250804103329", 1_754_303_609),
            ("1900", -2_208_988_800),
        ] {
            assert_eq!(
                Time::parse(raw.as_bytes()).unwrap().unix(),
                seconds,
                "{raw}"
            );
        }
    }

    #[test]
    fn implausible_parts_are_told_from_missing_ones() {
        for good in [
            "2004",
            "20041",
            "20040102",
            "20040102030405",
            "20220106150849300",
        ] {
            assert!(is_plausible(good.as_bytes()), "{good}");
        }
        for bad in ["20000012170449", "20000800241623", "20210231", "200413"] {
            assert!(!is_plausible(bad.as_bytes()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_digits_are_read_without_fault(raw in "[0-9]{4,17}") {
            let first = Time::first_of(raw.as_bytes()).unwrap();
            let last = Time::last_of(raw.as_bytes()).unwrap();
            prop_assert!(first <= last);
            prop_assert!(first.unix() <= last.unix());
            prop_assert_eq!(is_plausible(raw.as_bytes()), is_exact(raw.as_bytes()));
        }
    }
}
