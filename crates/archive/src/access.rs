//! Captures that are not shown: those under takedown, and those that are too recent.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use waypost_index::timestamp::Time;
use waypost_surt::{Canonicalizer, Dialect};

/// SURT prefixes and URLs whose captures are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exclusions {
    /// Sorted; none is a prefix of another.
    prefixes: Vec<Vec<u8>>,
    /// The keys of URLs. What is below them is covered by prefixes.
    keys: BTreeSet<Vec<u8>>,
}

impl Exclusions {
    /// Reads a list with a SURT prefix or a URL in each line. Empty lines and lines that start with
    /// `#` are ignored. A URL stands for itself and everything below it, under every dialect.
    ///
    /// # Errors
    /// The number and the text of the first line that is neither.
    pub(crate) fn parse(text: &[u8]) -> Result<Exclusions, (usize, String)> {
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let mut exclusions = Exclusions::default();
        for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii().to_ascii_lowercase();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let line = line.strip_suffix(b"*").unwrap_or(&line);
            if !exclusions.add(line) {
                return Err((number + 1, String::from_utf8_lossy(line).into_owned()));
            }
        }
        exclusions.prefixes.sort_unstable();
        let prefixes = &mut exclusions.prefixes;
        prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
        Ok(exclusions)
    }

    /// Adds a line in lower case. Returns whether it is a SURT prefix or a URL.
    fn add(&mut self, line: &[u8]) -> bool {
        let scheme = memchr::memmem::find(line, b"://").map(|at| at + 3);
        let rest = &line[scheme.unwrap_or(0)..];
        if rest.is_empty() {
            return false;
        }
        if let Some(surt) = rest.strip_prefix(b"(") {
            // As crawlers write them: `http://(com,example,)/` and, with all subdomains,
            // `http://(com,example,`.
            match memchr::memmem::find(surt, b",)") {
                Some(comma) => self
                    .prefixes
                    .push([&surt[..comma], &surt[comma + 1..]].concat()),
                None => {
                    self.prefixes.push(surt.to_vec());
                    if let Some(host) = surt.strip_suffix(b",") {
                        self.prefixes.push([host, b")"].concat());
                        self.prefixes.push([host, b":"].concat());
                    }
                }
            }
            return !surt.is_empty();
        }
        if scheme.is_none() {
            let prefix = match memchr::memmem::find(line, b",)") {
                Some(comma) => [&line[..comma], &line[comma + 1..]].concat(),
                None => line.to_vec(),
            };
            self.prefixes.push(prefix);
            // `example.com` would be read as a prefix of keys, and exclude nothing.
            return line.contains(&b')') || line.contains(&b',');
        }
        let mut any = false;
        for dialect in Dialect::ALL {
            let mut surt = Vec::new();
            if Canonicalizer::new(dialect)
                .canonicalize(line, &mut surt)
                .is_err()
            {
                continue;
            }
            any = true;
            match surt.ends_with(b"/") {
                true => self.prefixes.push(surt),
                false => {
                    self.prefixes.push([&surt[..], b"/"].concat());
                    self.prefixes.push([&surt[..], b"?"].concat());
                    self.keys.insert(surt);
                }
            }
        }
        any
    }

    /// Whether captures with this key are not shown.
    pub(crate) fn cover(&self, key: &[u8]) -> bool {
        let after = self.prefixes.partition_point(|prefix| &prefix[..] <= key);
        (after > 0 && key.starts_with(&self.prefixes[after - 1])) || self.keys.contains(key)
    }

    /// The number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether nothing is excluded.
    pub(crate) fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }
}

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
    use proptest::prelude::*;

    #[test]
    fn urls_and_surts_exclude_what_is_below_them() {
        let list = b"# takedowns\n\nhttp://www.example.com/A/\r\norg,example,\ncom,example)/c\n\
            http://(net,example,)/\n(uk,co,example,\nde,example,)/Private\nhttp://a.fr/2019/*\nfr,b,*\n";
        let exclusions = Exclusions::parse(list).unwrap();
        for covered in [
            "com,example)/a",
            "com,example)/a/b",
            "com,example)/a?b",
            "com,example)/cd",
            "org,example,x)/",
            "net,example)/x",
            "uk,co,example)/",
            "uk,co,example:8080)/",
            "uk,co,example,www2)/",
            "de,example)/private/x",
            "fr,a)/2019/1",
            "fr,b,c)/",
        ] {
            assert!(exclusions.cover(covered.as_bytes()), "{covered}");
        }
        for shown in [
            "com,example)/",
            "com,example)/about",
            "com,example)/b",
            "org,example)/",
            "net,example,www2)/",
            "uk,co,examples)/",
            "a",
            "",
        ] {
            assert!(!exclusions.cover(shown.as_bytes()), "{shown}");
        }
        for bad in ["example.com", "(", "http://"] {
            let list = format!("com,a)/\n{bad}\n");
            let refused = Exclusions::parse(list.as_bytes());
            assert_eq!(refused, Err((2, bad.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn a_key_is_covered_if_any_prefix_starts_it(
            prefixes in prop::collection::vec("[ab,]{1,4}\\)[ab/]{0,3}", 0..8),
            key in "[ab,]{1,4}\\)[ab/]{0,5}",
        ) {
            let list = prefixes.join("\n");
            let exclusions = Exclusions::parse(list.as_bytes()).unwrap();
            let expected = prefixes.iter().any(|prefix| key.starts_with(&prefix.replacen(",)", ")", 1)));
            prop_assert_eq!(exclusions.cover(key.as_bytes()), expected);
        }
    }

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
