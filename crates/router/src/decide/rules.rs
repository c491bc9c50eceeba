//! Rules of the registry: which URIs and datetimes an archive is asked for at all.

use std::time::Duration;

use waypost_index::timestamp::Time;
use waypost_memento::Datetime;
use waypost_surt::{Canonicalizer, Dialect, Key, Surt};

use crate::Wanted;

/// Which URIs and datetimes an archive is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// It is asked only for URIs that one of these covers, if there are any.
    pub include: Vec<Pattern>,
    /// It is not asked for URIs that one of these covers.
    pub exclude: Vec<Pattern>,
    /// Its first captures are not older than this.
    pub from: Option<Period>,
    /// Its last captures are not newer than this.
    pub until: Option<Period>,
    /// Captures that are younger than this are not accessible.
    pub embargo: Option<Duration>,
}

/// A domain (`gov.uk`), a host with a path (`example.com/news`) or a key of a map (`uk,gov,*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    key: Vec<u8>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If the text is not a pattern.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let text = text.trim();
        let is_key = text == "*" || text.contains(',') || text.contains(')');
        let key = match is_key {
            true => text.as_bytes().to_vec(),
            false => key_of(text).ok_or_else(|| {
                format!("invalid pattern `{text}`: write a domain such as gov.uk, or a key of a map such as uk,gov,*")
            })?,
        };
        Ok(Pattern {
            text: text.to_owned(),
            key,
        })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn covers(&self, surt: &Surt<'_>) -> bool {
        Key::new(&self.key).covers(surt)
    }
}

/// The key of a domain and everything below it, or of a path and everything below it.
fn key_of(text: &str) -> Option<Vec<u8>> {
    let domain = text
        .strip_prefix("*.")
        .unwrap_or(text)
        .trim_start_matches('.');
    if domain.is_empty() || domain.contains(char::is_whitespace) {
        return None;
    }
    let mut surt = Vec::new();
    let uri = format!("http://{domain}");
    Canonicalizer::new(Dialect::default())
        .canonicalize(uri.as_bytes(), &mut surt)
        .ok()?;
    let surt = String::from_utf8(surt).ok()?;
    let (host, path) = surt.split_once(')')?;
    let path = path.trim_end_matches('/').trim_end_matches("/*");
    Some(match path {
        "" => format!("{host},*").into_bytes(),
        path => format!("{host}){path}/*").into_bytes(),
    })
}

/// A time that a rule names, as it was written: `2011`, `201103`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    digits: u64,
    length: u8,
    /// The first second that it stands for.
    pub first: Time,
    /// The last second that it stands for.
    pub last: Time,
}

impl Period {
    /// Reads 4 to 14 digits.
    pub fn parse(text: &str) -> Option<Period> {
        let digits = text.as_bytes();
        let plain = (4..=14).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        plain.then_some(())?;
        Some(Period {
            digits: text.parse().ok()?,
            length: digits.len() as u8,
            first: Time::first_of(digits)?,
            last: Time::last_of(digits)?,
        })
    }
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:0width$}",
            self.digits,
            width = usize::from(self.length)
        )
    }
}

/// Why a rule keeps a lookup from an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hindrance {
    /// Its patterns exclude the URI.
    Pattern,
    /// It has no captures of that time.
    Period,
    /// It has captures of that time, but does not show them yet.
    Embargo,
}

impl Rules {
    /// Whether patterns keep a lookup from the archive.
    pub(super) fn excludes(&self, surt: &Surt<'_>) -> bool {
        let covers = |pattern: &Pattern| pattern.covers(surt);
        (!self.include.is_empty() && !self.include.iter().any(covers))
            || self.exclude.iter().any(covers)
    }

    pub(super) fn has_patterns(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    /// Whether the archive has nothing of a datetime that is asked for, and how far away what it has is
    /// at least.
    pub(super) fn outside(&self, wanted: Wanted, now: Datetime) -> Option<(Hindrance, Duration)> {
        let Wanted::Closest(datetime) = wanted else {
            return None;
        };
        let wanted = datetime.to_jiff().as_second();
        let after = |time: i64, other: i64| {
            let seconds = u64::try_from(time.saturating_sub(other)).ok()?;
            (seconds > 0).then(|| Duration::from_secs(seconds))
        };
        let early = self.from.and_then(|from| after(from.first.unix(), wanted));
        let late = self
            .until
            .and_then(|until| after(wanted, until.last.unix()));
        if let Some(away) = early.max(late) {
            return Some((Hindrance::Period, away));
        }
        let shown = self.embargo.map(|embargo| {
            let seconds = i64::try_from(embargo.as_secs()).unwrap_or(i64::MAX);
            now.to_jiff().as_second().saturating_sub(seconds)
        });
        let away = shown.and_then(|shown| after(wanted, shown))?;
        Some((Hindrance::Embargo, away))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(digits: &str) -> Datetime {
        Datetime::parse_timestamp(digits).unwrap()
    }

    #[test]
    fn patterns_cover_domains_paths_and_keys() {
        for (pattern, surt, expected) in [
            ("gov.uk", "uk,gov)/", true),
            ("gov.uk", "uk,gov,ons)/a", true),
            ("gov.uk", "uk,governor)/a", false),
            ("*.gov.uk", "uk,gov,ons:8080)/a", true),
            ("example.com/news", "com,example)/news/a", true),
            ("example.com/news", "com,example)/newsroom", false),
            ("uk,gov,*", "uk,gov,ons)/", true),
            ("com,example)/a", "com,example)/a?x", true),
            ("*", "com,example)/a?x", true),
            ("pt", "pt,sapo)/", true),
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            assert_eq!(
                pattern.covers(&Surt::new(surt.as_bytes())),
                expected,
                "{pattern:?} {surt}"
            );
        }
        assert!(Pattern::parse("").is_err());
        assert!(Pattern::parse("a b").is_err());
    }

    #[test]
    fn periods_and_embargoes_concern_datetimes_only() {
        let rules = Rules {
            from: Period::parse("2011"),
            until: Period::parse("2015"),
            embargo: Some(Duration::from_secs(86_400)),
            ..Rules::default()
        };
        let now = at("20150601000000");
        assert_eq!(rules.outside(Wanted::All, now), None);
        let day = Duration::from_secs(86_400);
        let early = rules.outside(Wanted::Closest(at("20101231")), now);
        assert_eq!(early, Some((Hindrance::Period, day)));
        for (datetime, expected) in [
            ("1998", Some(Hindrance::Period)),
            ("20110101", None),
            ("20150531120000", Some(Hindrance::Embargo)),
            ("20150529", None),
            ("20160101", Some(Hindrance::Period)),
        ] {
            let outside = rules.outside(Wanted::Closest(at(datetime)), now);
            let hindrance = outside.map(|(hindrance, _)| hindrance);
            assert_eq!(hindrance, expected, "{datetime}");
        }
    }
}
