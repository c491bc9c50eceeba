//! Reads the parts of a date, wherever they stand.

use super::tokens::{Placed, Token};
use super::{Form, Oddities, Oddity, Parsed, Rejection, names};
use crate::calendar::{DAY, Date};

/// The time of day.
struct Clock {
    seconds: i64,
}

/// Reads the parts of a date, wherever they stand. What has been understood is taken out.
pub(super) struct Reader {
    tokens: Vec<Placed>,
    oddities: Oddities,
}

type Read<T> = Result<T, Rejection>;

impl Reader {
    pub(super) fn new(tokens: Vec<Placed>) -> Reader {
        Reader {
            tokens,
            oddities: Oddities::default(),
        }
    }

    pub(super) fn read(mut self) -> Read<Parsed> {
        if let Some(time) = self.seconds()? {
            let (form, oddities) = (Form::Seconds, self.oddities);
            return Ok(Parsed {
                time,
                form,
                oddities,
            });
        }
        self.split_digits();
        let (clock, at) = self.clock()?;
        let offset = self.zone(at)?;
        let (date, form) = self.date()?;
        if !date.is_valid() || !(1..=9999).contains(&date.year) {
            return Err(Rejection::NoSuchDate);
        }
        let time = date.day_number() * DAY + clock.seconds - i64::from(offset) * 60;
        let year = Date::of_unix(time).year;
        if !(1..=9999).contains(&year) {
            return Err(Rejection::NoSuchDate);
        }
        Ok(Parsed {
            time,
            form,
            oddities: self.oddities,
        })
    }

    /// A number alone: seconds or milliseconds.
    fn seconds(&mut self) -> Read<Option<i64>> {
        let (value, digits) = match &self.tokens[..] {
            [only] => match only.number() {
                Some(number) => number,
                None => return Ok(None),
            },
            // With a fraction.
            [first, dot, last] if dot.is('.') && last.number().is_some() => match first.number() {
                Some(number) if number.1 >= 9 => {
                    self.oddities.add(Oddity::Fraction);
                    number
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        match digits {
            9 | 10 => Ok(Some(value as i64)),
            12 | 13 => {
                self.oddities.add(Oddity::Fraction);
                Ok(Some((value / 1000) as i64))
            }
            // Digits of a date.
            8 | 14 => Ok(None),
            _ => Err(Rejection::Unreadable),
        }
    }

    /// Splits `20190821` and `20190821123456` into their parts, with marks between them.
    fn split_digits(&mut self) {
        let mut split = Vec::with_capacity(self.tokens.len());
        let has_clock = self.tokens.iter().any(|token| token.is(':'));
        let mut before = None;
        for placed in std::mem::take(&mut self.tokens) {
            let Some((value, digits)) = placed.number() else {
                if placed.word() != Some("t") {
                    before = None;
                }
                split.push(placed);
                continue;
            };
            let number = |value: u64, digits: usize| Placed {
                token: Token::Number { value, digits },
                spaced: false,
            };
            let mark = |mark: char| Placed {
                token: Token::Mark(mark),
                spaced: false,
            };
            let mut date = |value: u64| {
                split.extend([
                    number(value / 10_000, 4),
                    mark('-'),
                    number(value / 100 % 100, 2),
                    mark('-'),
                    number(value % 100, 2),
                ]);
            };
            match digits {
                14 => {
                    date(value / 1_000_000);
                    split.extend([
                        number(value / 10_000 % 100, 2),
                        mark(':'),
                        number(value / 100 % 100, 2),
                        mark(':'),
                        number(value % 100, 2),
                    ]);
                }
                8 => date(value),
                // The time after a date of digits, and the T between them.
                6 if !has_clock && before == Some(8) => {
                    split.extend([
                        number(value / 10_000, 2),
                        mark(':'),
                        number(value / 100 % 100, 2),
                        mark(':'),
                        number(value % 100, 2),
                    ]);
                }
                _ => split.push(placed),
            }
            before = Some(digits);
        }
        self.tokens = split;
    }

    /// The time of day, and where it stood.
    fn clock(&mut self) -> Read<(Clock, usize)> {
        let is_short = |token: Option<&Placed>| {
            let number = token.and_then(Placed::number);
            number.is_some_and(|(_, digits)| digits <= 2)
        };
        let colon = (1..self.tokens.len()).find(|&at| {
            self.tokens[at].is(':')
                && is_short(self.tokens.get(at - 1))
                && is_short(self.tokens.get(at + 1))
        });
        let Some(colon) = colon else {
            if self.tokens.iter().any(|token| token.is(':')) {
                return Err(Rejection::Unreadable);
            }
            self.oddities.add(Oddity::NoTime);
            return Ok((Clock { seconds: 0 }, self.tokens.len()));
        };
        let start = colon - 1;
        let part = |at: usize| -> Option<i64> {
            let (value, digits) = self.tokens.get(at)?.number()?;
            (digits <= 2).then_some(value as i64)
        };
        let is = |at: usize, mark: char| self.tokens.get(at).is_some_and(|token| token.is(mark));
        let mut hour = part(start).ok_or(Rejection::Unreadable)?;
        let minute = part(start + 2).ok_or(Rejection::Unreadable)?;
        let mut end = start + 3;
        let mut second = 0;
        let mut oddities = Vec::new();
        if is(end, ':') {
            second = part(end + 1).ok_or(Rejection::Unreadable)?;
            end += 2;
            let is_fraction = (is(end, '.') || is(end, ','))
                && self
                    .tokens
                    .get(end + 1)
                    .is_some_and(|t| t.number().is_some() && !t.spaced);
            if is_fraction {
                oddities.push(Oddity::Fraction);
                end += 2;
            }
        } else {
            oddities.push(Oddity::NoSeconds);
        }
        let half = self
            .tokens
            .get(end)
            .and_then(Placed::word)
            .map(str::to_owned);
        if let Some(half @ ("am" | "pm")) = half.as_deref() {
            if !(1..=12).contains(&hour) {
                return Err(Rejection::NoSuchDate);
            }
            hour = hour % 12 + if half == "pm" { 12 } else { 0 };
            oddities.push(Oddity::TwelveHours);
            end += 1;
        }
        if second == 60 || hour == 24 && minute == 0 && second == 0 {
            oddities.push(Oddity::Overflow);
        } else if hour > 23 || second > 59 {
            return Err(Rejection::NoSuchDate);
        }
        if minute > 59 || hour > 24 {
            return Err(Rejection::NoSuchDate);
        }
        oddities
            .into_iter()
            .for_each(|oddity| self.oddities.add(oddity));
        self.tokens.drain(start..end);
        Ok((
            Clock {
                seconds: hour * 3600 + minute * 60 + second,
            },
            start,
        ))
    }

    /// The offset of the zone, in minutes. `after` is where the time stood.
    fn zone(&mut self, after: usize) -> Read<i32> {
        // A number right after the time.
        let number = self.numeric_zone(after)?;
        if let Some((_, used)) = number {
            self.oddities.add(Oddity::NumericZone);
            self.place_zone(after, used, after);
        }
        let is_zone = |token: &Placed| token.word().is_some_and(|word| names::zone(word).is_some());
        let Some(at) = self.tokens.iter().position(is_zone) else {
            if number.is_none() {
                self.oddities.add(Oddity::NoZone);
            }
            return Ok(number.map_or(0, |(minutes, _)| minutes));
        };
        let name = self.tokens[at].word().unwrap_or_default().to_owned();
        let mut minutes = names::zone(&name).unwrap_or_default();
        if let Some((given, _)) = number {
            // A number and a name: the name may say the same, or that this is an offset from UTC.
            if minutes != 0 && minutes != given {
                return Err(Rejection::UnknownZone);
            }
            self.place_zone(at, 1, after);
            return Ok(given);
        }
        let mut used = 1;
        if let Some((more, length)) = self.numeric_zone(at + 1)? {
            self.oddities.add(Oddity::NumericZone);
            minutes += more;
            used += length;
        } else if name != "gmt" {
            self.oddities.add(Oddity::NamedZone);
        }
        self.place_zone(at, used, after);
        Ok(minutes)
    }

    /// Takes out the zone at a place. It should stand at the end, after the time.
    fn place_zone(&mut self, at: usize, used: usize, after: usize) {
        if at + used < self.tokens.len() || at < after {
            self.oddities.add(Oddity::MisplacedZone);
        }
        self.tokens.drain(at..at + used);
    }

    /// `+0200`, `-5` or `+05:30` at a place: the minutes, and how many tokens it has.
    fn numeric_zone(&self, at: usize) -> Read<Option<(i32, usize)>> {
        let Some(sign) = self.tokens.get(at) else {
            return Ok(None);
        };
        let sign = match sign.token {
            Token::Mark('+') => 1,
            Token::Mark('-' | '\u{2212}') => -1,
            _ => return Ok(None),
        };
        let Some((value, digits)) = self
            .tokens
            .get(at + 1)
            .filter(|t| !t.spaced)
            .and_then(Placed::number)
        else {
            return Ok(None);
        };
        let value = i32::try_from(value).map_err(|_| Rejection::UnknownZone)?;
        let (hours, minutes, used) = match digits {
            1 | 2 => {
                let colon = self.tokens.get(at + 2).is_some_and(|token| token.is(':'));
                match self
                    .tokens
                    .get(at + 3)
                    .filter(|_| colon)
                    .and_then(Placed::number)
                {
                    Some((minutes, 2)) => (value, minutes as i32, 4),
                    _ => (value, 0, 2),
                }
            }
            4 => (value / 100, value % 100, 2),
            _ => return Err(Rejection::UnknownZone),
        };
        if hours > 15 || minutes > 59 {
            return Err(Rejection::UnknownZone);
        }
        Ok(Some((sign * (hours * 60 + minutes), used)))
    }

    /// The date: what is left.
    fn date(&mut self) -> Read<(Date, Form)> {
        let mut month = None;
        let mut weekday = None;
        let mut foreign_weekday = false;
        // Numbers, and whether the month stood before each of them.
        let mut numbers: Vec<(u64, usize, bool)> = Vec::new();
        let mut marks: Vec<char> = Vec::new();
        for (at, placed) in self.tokens.iter().enumerate() {
            match &placed.token {
                Token::Number { value, digits } => numbers.push((*value, *digits, month.is_some())),
                Token::Mark(mark) => match mark {
                    ',' => {}
                    // The date and time of log files.
                    ':' if at > 0 && matches!(self.tokens[at - 1].number(), Some((_, 4))) => {}
                    '.' | '/' | '-' | '\u{2010}'..='\u{2013}' if at > 0 => marks.push(*mark),
                    '年' | '月' | '日' => marks.push('-'),
                    _ => return Err(Rejection::Unreadable),
                },
                Token::Word(word) => {
                    let is_ordinal = !placed.spaced
                        && matches!(word.as_str(), "st" | "nd" | "rd" | "th" | "er" | "º" | "ª")
                        && at > 0
                        && self.tokens[at - 1].number().is_some();
                    if is_ordinal || matches!(word.as_str(), "年" | "月" | "日") {
                        if !is_ordinal {
                            marks.push('-');
                        }
                        continue;
                    }
                    if let Some(found) = names::month(word) {
                        if month.replace(found).is_some() {
                            return Err(Rejection::Unreadable);
                        }
                    } else if let Some(day) = names::weekday(word) {
                        weekday = day;
                        foreign_weekday |= day.is_none();
                    } else if names::is_filler(word) {
                    } else if numbers.is_empty()
                        && at == 0
                        && self.tokens.get(1).is_some_and(|t| t.is(',') || t.is('.'))
                    {
                        // A word with a comma before everything else can only be a weekday.
                        foreign_weekday = true;
                    } else if numbers.len() >= 2
                        && at + 1 == self.tokens.len()
                        && word.chars().count() <= 5
                    {
                        return Err(Rejection::UnknownZone);
                    } else {
                        return Err(Rejection::Unreadable);
                    }
                }
            }
        }
        let (year, month_number, day, form) = match month {
            Some((number, is_english)) => {
                if !is_english {
                    self.oddities.add(Oddity::ForeignMonth);
                }
                let (year, day, form) = self.named(&numbers, &marks)?;
                (year, number, day, form)
            }
            None => numeric(&numbers, &marks)?,
        };
        let year = self.year(year, form)?;
        let day = u8::try_from(day).map_err(|_| Rejection::NoSuchDate)?;
        let date = Date {
            year,
            month: month_number,
            day,
        };
        if foreign_weekday {
            self.oddities.add(Oddity::ForeignWeekday);
        } else if let Some(weekday) = weekday {
            if date.is_valid() && date.weekday() != weekday {
                self.oddities.add(Oddity::WrongWeekday);
            }
        } else if !matches!(form, Form::Iso8601 | Form::Numeric) {
            self.oddities.add(Oddity::NoWeekday);
        }
        // asctime has no zone.
        if form == Form::Asctime
            && self.oddities.contains(Oddity::NoZone)
            && !self.oddities.contains(Oddity::NoTime)
        {
            self.oddities.0 &= !(1 << Oddity::NoZone as u8);
        }
        Ok((date, form))
    }

    /// The year, with its digits, and the day of a date whose month is a name.
    fn named(
        &self,
        numbers: &[(u64, usize, bool)],
        marks: &[char],
    ) -> Read<((u64, usize), u64, Form)> {
        let [first, second] = numbers else {
            return Err(Rejection::Unreadable);
        };
        let is_year = |number: &(u64, usize, bool)| number.1 > 2;
        let (day, year) = match (is_year(first), is_year(second)) {
            (false, true) => (first, second),
            (true, false) => (second, first),
            // Day before year, as in all forms.
            (false, false) => (first, second),
            (true, true) => return Err(Rejection::Unreadable),
        };
        let form = if first.2 {
            Form::Asctime
        } else if is_year(first) {
            Form::Iso8601
        } else if marks.iter().filter(|mark| **mark == '-').count() >= 2 {
            Form::Rfc850
        } else {
            Form::Rfc1123
        };
        Ok(((year.0, year.1), day.0, form))
    }

    /// The year that digits mean.
    fn year(&mut self, (value, digits): (u64, usize), form: Form) -> Read<i32> {
        Ok(match (digits, value) {
            (4, 1..) => value as i32,
            (1 | 2, _) => {
                if form != Form::Rfc850 {
                    self.oddities.add(Oddity::TwoDigitYear);
                }
                if digits == 1 {
                    return Err(Rejection::Unreadable);
                }
                // As POSIX does it.
                value as i32 + if value < 70 { 2000 } else { 1900 }
            }
            (3, 100..=199) => {
                self.oddities.add(Oddity::YearSince1900);
                value as i32 + 1900
            }
            (5, 19_100..=19_199) => {
                self.oddities.add(Oddity::YearSince1900);
                value as i32 - 19_100 + 2000
            }
            _ => return Err(Rejection::NoSuchDate),
        })
    }
}

/// Year, month and day of a date of numbers.
fn numeric(numbers: &[(u64, usize, bool)], marks: &[char]) -> Read<((u64, usize), u8, u64, Form)> {
    let [first, second, third] = numbers else {
        return Err(Rejection::Unreadable);
    };
    let month = |value: u64| match value {
        1..=12 => Ok(value as u8),
        _ => Err(Rejection::NoSuchDate),
    };
    if first.1 == 4 && second.1 <= 2 && third.1 <= 2 {
        return Ok(((first.0, 4), month(second.0)?, third.0, Form::Iso8601));
    }
    if third.1 != 4 || first.1 > 2 || second.1 > 2 {
        // With a year of two digits, nobody knows which number it is.
        let short = [first, second, third].iter().all(|number| number.1 <= 2);
        return Err(if short {
            Rejection::Ambiguous
        } else {
            Rejection::Unreadable
        });
    }
    let year = (third.0, 4);
    let day_first = marks.first() == Some(&'.') || first.0 > 12 || first.0 == second.0;
    if day_first {
        return Ok((year, month(second.0)?, first.0, Form::Numeric));
    }
    if second.0 > 12 {
        return Ok((year, month(first.0)?, second.0, Form::Numeric));
    }
    Err(Rejection::Ambiguous)
}
