//! What the headers of an answer say: its range, its version, and when to ask again.

use std::time::{Duration, SystemTime};

use reqwest::header::{
    CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER,
};
use waypost_io::{Error, RemoteProblem, Stamp};

use crate::client::{invalid, problem};

/// The range that an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    /// The first byte and the one after the last; `None` if the requested range is not in the file.
    pub(crate) range: Option<(u64, u64)>,
    /// The size of the file, if the server says it.
    pub(crate) size: Option<u64>,
}

impl ContentRange {
    /// Parses `bytes 0-99/1000`, `bytes 0-99/*` or `bytes */1000`.
    pub(crate) fn parse(text: &str) -> Option<ContentRange> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (range, size) = rest.trim().split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let size = match size {
            "*" => None,
            size => Some(number(size)?),
        };
        let range = match range {
            "*" => None,
            range => {
                let (first, last) = range.split_once('-')?;
                let (first, end) = (number(first)?, number(last)?.checked_add(1)?);
                if first >= end || size.is_some_and(|size| end > size) {
                    return None;
                }
                Some((first, end))
            }
        };
        Some(ContentRange { range, size })
    }

    pub(crate) fn of(headers: &HeaderMap) -> Option<ContentRange> {
        ContentRange::parse(text(headers, &CONTENT_RANGE)?)
    }
}

fn number(digits: &str) -> Option<u64> {
    // `parse` alone accepts a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

/// Tells one version of a remote file from another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    pub(crate) size: Option<u64>,
}

impl Version {
    /// The version of the file of which an answer has `size` bytes in total.
    pub(crate) fn of(headers: &HeaderMap, size: Option<u64>) -> Version {
        Version {
            etag: text(headers, &ETAG).map(str::to_owned),
            modified: text(headers, &LAST_MODIFIED).map(str::to_owned),
            size,
        }
    }

    /// Compares with a later answer. What only one of them says is not compared.
    ///
    /// # Errors
    /// If the file has changed.
    pub(crate) fn check(&self, later: &Version) -> Result<(), Error> {
        let changed = |what: &str, old: &str, new: &str| {
            let detail =
                format!("the file changed during the run: its {what} was {old} and is {new}");
            Err(problem(RemoteProblem::Changed, detail))
        };
        match (self.size, later.size) {
            (Some(old), Some(new)) if old != new => {
                return changed("size", &old.to_string(), &new.to_string());
            }
            _ => {}
        }
        match (&self.etag, &later.etag) {
            (Some(old), Some(new)) if old != new => return changed("ETag", old, new),
            (Some(_), Some(_)) => return Ok(()),
            _ => {}
        }
        match (&self.modified, &later.modified) {
            (Some(old), Some(new)) if old != new => changed("modification time", old, new),
            _ => Ok(()),
        }
    }

    /// Adds what a later answer says in addition.
    pub(crate) fn learn(&mut self, later: Version) {
        self.etag = self.etag.take().or(later.etag);
        self.modified = self.modified.take().or(later.modified);
        self.size = self.size.or(later.size);
    }

    /// The value of `If-Range`: a strong ETag or a modification time.
    pub(crate) fn validator(&self) -> Option<&str> {
        match &self.etag {
            Some(etag) if !etag.starts_with("W/") => Some(etag),
            Some(_) => None,
            None => self.modified.as_deref(),
        }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let tag = self.etag.as_ref().or(self.modified.as_ref());
        Stamp {
            size: self.size.unwrap_or(0),
            tag: tag.cloned().unwrap_or_default(),
        }
    }
}

/// How long a server asks to wait in `Retry-After`, in seconds or until a date.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?.trim();
    if let Some(seconds) = number(value) {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// An answer must not be compressed: ranges and sizes would be those of something else.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    match text(headers, &CONTENT_ENCODING) {
        None => Ok(()),
        Some(encoding) if encoding.eq_ignore_ascii_case("identity") => Ok(()),
        Some(encoding) => Err(invalid(format!(
            "the answer is compressed ({encoding}), which was not requested"
        ))),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn content_ranges_are_parsed_and_nonsense_is_not() {
        let range = |range, size| Some(ContentRange { range, size });
        for (text, expected) in [
            ("bytes 0-99/1000", range(Some((0, 100)), Some(1000))),
            ("Bytes 5-5/*", range(Some((5, 6)), None)),
            ("bytes */0", range(None, Some(0))),
            ("bytes 5-4/10", None),
            ("bytes 0-10/10", None),
            ("bytes -1-4/10", None),
            ("bytes 0-+4/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("pages 0-1/2", None),
            ("bytes 0-1", None),
            ("", None),
        ] {
            assert_eq!(ContentRange::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            retry_after(&headers)
        };
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        let wait = of(&date).unwrap();
        assert!(wait > Duration::from_secs(55) && wait < Duration::from_secs(61));
        assert_eq!(of("soon"), None);
        assert_eq!(of("-1"), None);
    }

    #[test]
    fn versions_differ_in_what_both_say() {
        let version = |etag: &str, modified: &str, size| Version {
            etag: (!etag.is_empty()).then(|| etag.to_owned()),
            modified: (!modified.is_empty()).then(|| modified.to_owned()),
            size,
        };
        let same = [
            (version("a", "1", None), version("a", "2", Some(1))),
            (version("a", "", Some(1)), version("", "2", Some(1))),
            (version("", "", None), version("a", "2", Some(1))),
        ];
        for (one, other) in same {
            assert!(one.check(&other).is_ok(), "{one:?} {other:?}");
        }
        let different = [
            (version("a", "1", None), version("b", "1", None)),
            (version("", "1", None), version("b", "2", None)),
            (version("a", "1", Some(1)), version("a", "1", Some(2))),
        ];
        for (one, other) in different {
            assert!(one.check(&other).is_err(), "{one:?} {other:?}");
        }
    }
}
