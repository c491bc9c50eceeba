//! Where the records of captures are.

use waypost_io::{Error, ErrorKind, Result};

use super::{Cursor, Direction, Filter, Index, Query, is_cdxj};
use crate::capture::{Capture, Field};
use crate::layout::{FileLayout, Line};
use crate::revisit::bare;
use crate::timestamp::Time;
use crate::web;
use crate::zipnum::Extent;

/// A capture and the place of its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The captured URL; empty if the index does not have it.
    pub url: String,
    /// The timestamp as in the index.
    pub timestamp: String,
    /// The same as a time.
    pub time: Option<Time>,
    /// The media type, if the index has it.
    pub mime: Option<String>,
    /// The status, if the index has it.
    pub status: Option<u16>,
    /// The digest of the payload, without the name of its algorithm.
    pub digest: Option<String>,
    /// Whether the record repeats the content of another one.
    pub is_revisit: bool,
    /// The file of the record, as in the index.
    pub filename: Option<String>,
    /// The offset of the record in the file.
    pub offset: Option<u64>,
    /// The length of the record in the file.
    pub length: Option<u64>,
}

impl Located {
    fn of(capture: &Capture<'_>) -> Located {
        let text = |field| {
            let text = capture.text(field)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            (!text.is_empty() && text != "-").then_some(text)
        };
        let digest = |digest: String| String::from_utf8_lossy(bare(digest.as_bytes())).into_owned();
        Located {
            url: text(Field::Url).unwrap_or_default(),
            timestamp: String::from_utf8_lossy(capture.timestamp()).into_owned(),
            time: capture.time(),
            mime: text(Field::Mime),
            status: capture.status(),
            digest: text(Field::Digest).map(digest),
            is_revisit: capture.is_revisit(),
            filename: text(Field::Filename),
            offset: capture.number(Field::Offset),
            length: capture.number(Field::Length),
        }
    }

    /// The first capture with the same content that is not a revisit itself.
    pub fn original<'a>(&self, captures: &'a [Located]) -> Option<&'a Located> {
        let digest = self.digest.as_ref()?;
        captures
            .iter()
            .find(|other| !other.is_revisit && other.digest.as_ref() == Some(digest))
    }
}

/// Maximum number of captures of one lookup.
const MOST: usize = 1_000_000;

impl Index {
    /// The captures of a query that pass all filters, in the order of the index.
    ///
    /// # Errors
    /// If the index cannot be read, or there are too many captures.
    pub fn locate(&self, query: &Query, filters: &[Filter]) -> Result<Vec<Located>> {
        let mut fields = Field::Url
            | Field::Mime
            | Field::Status
            | Field::Digest
            | Field::Length
            | Field::Offset
            | Field::Filename;
        for filter in filters {
            fields = fields | filter.wanted();
        }
        let (mut cursor, mut layout) = (Cursor::new(self), None);
        cursor.prepare(query.ranges.iter(), Extent::All)?;
        let mut found = Vec::new();
        for range in &query.ranges {
            cursor.seek(range.clone(), Direction::Forward)?;
            while cursor.advance()? {
                let line = cursor.line();
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let read = if is_cdxj(line) {
                    FileLayout::default().read(line, fields, true)
                } else {
                    if layout.is_none() {
                        layout = Some(self.layout()?);
                    }
                    layout.get_or_insert_default().read(line, fields, true)
                };
                if let Line::Capture(capture, _) = read
                    && web::answers(&capture)
                    && filters.iter().all(|filter| filter.passes(&capture))
                {
                    if found.len() == MOST {
                        return Err(Error::new(ErrorKind::TooManyResults));
                    }
                    found.push(Located::of(&capture));
                }
            }
        }
        cursor.check()?;
        Ok(found)
    }
}

/// The capture closest to a time, the earlier of two; without a time, the latest.
pub fn choose(captures: &[Located], at: Option<Time>) -> Option<&Located> {
    let distance = |located: &Located| match (located.time, at) {
        (Some(time), Some(at)) => time.unix().abs_diff(at.unix()),
        (Some(time), None) => u64::MAX - 1 - time.unix().max(0).unsigned_abs(),
        (None, _) => u64::MAX,
    };
    match at {
        Some(_) => captures.iter().min_by_key(|located| distance(located)),
        // The last of several with the same time.
        None => captures
            .iter()
            .rev()
            .min_by_key(|located| distance(located)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_or_the_closest_capture_is_chosen() {
        let located = |timestamp: &str| Located {
            timestamp: timestamp.to_owned(),
            time: Time::parse(timestamp.as_bytes()),
            ..Located::default()
        };
        let all = ["20200101", "2020", "20200301000000", "20200501000000", "x"].map(located);
        let chosen = |at: Option<&str>| {
            let at = at.map(|at| Time::parse(at.as_bytes()).unwrap());
            choose(&all, at).unwrap().timestamp.as_str()
        };
        assert_eq!(chosen(None), "20200501000000");
        assert_eq!(chosen(Some("20200302000000")), "20200301000000");
        assert_eq!(chosen(Some("19990101000000")), "20200101");
        assert_eq!(chosen(Some("20300101000000")), "20200501000000");
        assert_eq!(choose(&[], None), None);
    }

    #[test]
    fn a_revisit_has_the_first_capture_with_its_digest_as_original() {
        let located = |digest: &str, is_revisit, offset| Located {
            digest: (!digest.is_empty()).then(|| digest.to_owned()),
            is_revisit,
            offset: Some(offset),
            ..Located::default()
        };
        let all = [
            located("B", false, 0),
            located("A", true, 1),
            located("A", false, 2),
            located("A", false, 3),
        ];
        assert_eq!(all[1].original(&all).unwrap().offset, Some(2));
        assert_eq!(located("C", true, 0).original(&all), None);
        assert_eq!(located("", true, 0).original(&all), None);
    }
}
