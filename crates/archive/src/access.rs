//! Captures that are not shown because they are too recent.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use waypost_index::timestamp::Time;

/// How old captures must be before they are shown: `6m`, `90d`, `1y`, `12h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embargo {
    count: u32,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Year,
    Month,
    Day,
    Hour,
}

impl Embargo {
    /// The time of the latest capture that is shown at `now`.
    pub fn latest(self, now: Timestamp) -> Time {
        let count = i64::from(self.count);
        let span = match self.unit {
            Unit::Year => Span::new().try_years(count),
            Unit::Month => Span::new().try_months(count),
            Unit::Day => Span::new().try_days(count),
            Unit::Hour => Span::new().try_hours(count),
        };
        let latest = span.and_then(|span| {
            let now = TimeZone::UTC.to_datetime(now);
            now.checked_sub(span)
        });
        // Nothing is old enough for an embargo that starts before the calendar.
        let digits = latest.map(|latest| latest.strftime("%Y%m%d%H%M%S").to_string());
        digits
            .ok()
            .and_then(|digits| Time::first_of(digits.as_bytes()))
            .unwrap_or(Time::MIN)
    }
}

impl FromStr for Embargo {
    type Err = String;

    fn from_str(text: &str) -> Result<Embargo, String> {
        let invalid = || format!("invalid embargo `{text}`: write 6m, 90d, 1y or 12h");
        let (count, unit) = text
            .char_indices()
            .last()
            .map(|(last, unit)| (&text[..last], unit))
            .ok_or_else(invalid)?;
        let unit = match unit {
            'y' => Unit::Year,
            'm' => Unit::Month,
            'd' => Unit::Day,
            'h' => Unit::Hour,
            _ => return Err(invalid()),
        };
        let count = count.parse().map_err(|_| invalid())?;
        Ok(Embargo { count, unit })
    }
}

impl fmt::Display for Embargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Year => 'y',
            Unit::Month => 'm',
            Unit::Day => 'd',
            Unit::Hour => 'h',
        };
        write!(f, "{}{unit}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embargo_counts_back_by_the_calendar() {
        let now: Timestamp = "2026-08-31T12:00:00Z".parse().unwrap();
        for (text, latest) in [
            ("6m", "20260228120000"),
            ("1y", "20250831120000"),
            ("90d", "20260602120000"),
            ("13h", "20260830230000"),
            ("0d", "20260831120000"),
        ] {
            let embargo: Embargo = text.parse().unwrap();
            assert_eq!(
                Some(embargo.latest(now)),
                Time::first_of(latest.as_bytes()),
                "{text}"
            );
            assert_eq!(embargo.to_string(), text);
        }
        let long: Embargo = "4000000000y".parse().unwrap();
        assert_eq!(long.latest(now).year(), 0);
        for bad in ["", "6", "m", "6 m", "-6m", "6w"] {
            assert!(bad.parse::<Embargo>().is_err(), "{bad}");
        }
    }
}
