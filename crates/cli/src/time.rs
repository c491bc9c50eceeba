//! Times as people type them: digits as in an index (`2004`, `20040131`) or ISO 8601
//! (`2004-01-31`, `2004-01-31T12:00:00Z`).

use anyhow::Context;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use waypost_index::timestamp::Time;

/// The accepted forms, for error messages.
pub(crate) const FORMS: &str = "write 2004, 20040131, 2004-01-31 or 2004-01-31T12:00:00Z";

/// Converts a time to digits, as used in indexes.
pub(crate) fn digits(text: &str) -> Result<String, String> {
    let invalid = || format!("invalid time `{text}`: {FORMS}");
    if text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    if let [year, month] = text.split('-').collect::<Vec<_>>()[..]
        && (year.len(), month.len()) == (4, 2)
        && format!("{text}-01").parse::<Date>().is_ok()
    {
        return Ok(format!("{year}{month}"));
    }
    if let (10, Ok(date)) = (text.len(), text.parse::<Date>()) {
        return Ok(date.strftime("%Y%m%d").to_string());
    }
    let time = match (text.parse::<Timestamp>(), text.parse::<DateTime>()) {
        (Ok(instant), _) => instant.to_zoned(TimeZone::UTC).datetime(),
        // Without an offset, times are UTC, as everywhere in archives.
        (_, Ok(time)) => time,
        _ => return Err(invalid()),
    };
    Ok(time.strftime("%Y%m%d%H%M%S").to_string())
}

/// The first moment of a time: `2004` is 2004-01-01 at midnight.
pub(crate) fn first_of(text: &str) -> Result<Time, String> {
    Time::first_of(digits(text)?.as_bytes())
        .ok_or_else(|| format!("invalid time `{text}`: {FORMS}"))
}

/// The last moment of a time: `2004` is the end of 2004.
pub(crate) fn last_of(text: &str) -> Result<Time, String> {
    Time::last_of(digits(text)?.as_bytes()).ok_or_else(|| format!("invalid time `{text}`: {FORMS}"))
}

/// Refuses a time span that is always empty.
pub(crate) fn check_span(from: Option<Time>, to: Option<Time>) -> anyhow::Result<()> {
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        anyhow::bail!("--from {from} is later than --to {to}: no capture can be selected");
    }
    Ok(())
}

/// The time in `SOURCE_DATE_EPOCH`, if it is set.
pub(crate) fn source_date_epoch() -> anyhow::Result<Option<Time>> {
    let Ok(seconds) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let number: i64 = seconds
        .parse()
        .with_context(|| format!("SOURCE_DATE_EPOCH: invalid number `{seconds}`"))?;
    let time =
        of_unix(number).with_context(|| format!("SOURCE_DATE_EPOCH {number} is out of range"))?;
    Ok(Some(time))
}

/// Converts seconds since 1970 to a time.
fn of_unix(seconds: i64) -> Option<Time> {
    let time = Timestamp::from_second(seconds)
        .ok()?
        .to_zoned(TimeZone::UTC);
    Time::parse(time.strftime("%Y%m%d%H%M%S").to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_8601_and_digits_mean_the_same() {
        for (text, expected) in [
            ("2004", "2004"),
            ("200401", "200401"),
            ("2004-01", "200401"),
            ("2004-01-31", "20040131"),
            ("20040131", "20040131"),
            ("2004-01-31T12:30:00Z", "20040131123000"),
            ("2004-01-31 12:30:00", "20040131123000"),
            ("2004-01-31T00:30:00+01:00", "20040130233000"),
            ("20040131123000", "20040131123000"),
        ] {
            assert_eq!(digits(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "last year",
            "2004-13",
            "2004-02-30",
            "04",
            "2004-1-1",
            "12:30",
        ] {
            assert!(digits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_span_that_ends_before_it_begins_is_refused() {
        let time = |text| first_of(text).unwrap();
        assert!(check_span(Some(time("2024")), Some(last_of("2020").unwrap())).is_err());
        assert!(check_span(Some(time("2020")), Some(last_of("2020").unwrap())).is_ok());
        assert!(check_span(None, Some(time("2020"))).is_ok());
    }

    #[test]
    fn seconds_become_the_time_that_has_them() {
        for seconds in [0, 951_825_600, 1_754_303_609, 4_102_444_799, -2_208_988_800] {
            assert_eq!(of_unix(seconds).unwrap().unix(), seconds);
        }
        assert_eq!(of_unix(i64::MAX), None);
    }
}
