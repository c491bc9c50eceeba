//! Days and dates of POSIX times.

/// Seconds of a day.
pub const DAY: i64 = 86_400;

/// A date of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The year.
    pub year: i32,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

impl Date {
    /// The date of a POSIX time, in UTC.
    pub fn of_unix(seconds: i64) -> Date {
        Date::of_day(seconds.div_euclid(DAY))
    }

    /// The date of a day, counted from 1970-01-01.
    pub fn of_day(day: i64) -> Date {
        // Years start in March here, so that the leap day is the last one.
        let day = day + 719_468;
        let era = day.div_euclid(146_097);
        let of_era = day.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let date = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        Date {
            year: year as i32,
            month: month as u8,
            day: date as u8,
        }
    }

    /// The day, counted from 1970-01-01.
    pub fn day_number(self) -> i64 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let year = i64::from(self.year) - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// Whether there is such a date.
    pub fn is_valid(self) -> bool {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days = match self.month {
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            1..=12 => 31,
            _ => return false,
        };
        (1..=days).contains(&self.day)
    }

    /// The day of the week: 0 is Monday.
    pub fn weekday(self) -> u8 {
        (self.day_number() + 3).rem_euclid(7) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_a_date_and_back() {
        let mut before = Date::of_day(-800_000);
        for day in -799_999..3_000_000 {
            let date = Date::of_day(day);
            assert!(date > before && date.is_valid());
            assert_eq!(date.day_number(), day);
            before = date;
        }
        let date = Date::of_unix(1_114_316_977);
        assert_eq!((date.year, date.month, date.day), (2005, 4, 24));
        assert_eq!(date.weekday(), 6);
    }
}
