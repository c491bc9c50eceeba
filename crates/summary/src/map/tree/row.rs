//! A row of a map: `com,example)/a/* 54321/20000`, optionally with a second key before the
//! frequency.

use std::borrow::Cow;

use waypost_surt::{Key, Kind, Reach, Surt};

use crate::error::{Error, Result};
use crate::frequency::{Frequency, Number, Sureness};
use crate::ukvs::{self, Line, digits, push_digits};

/// A row of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The key as spelled.
    pub key: Cow<'a, [u8]>,
    /// The second key, if there is one.
    pub second: Option<Cow<'a, [u8]>>,
    /// Its frequency.
    pub frequency: Frequency,
    /// The width in bits of the filter that decides which of the covered URIs are present:
    /// `{"filter": 8}`. Without it, all of them are.
    pub filter: Option<u8>,
}

impl<'a> Row<'a> {
    /// Parses a line with `keys` key fields, 1 or 2.
    ///
    /// # Errors
    /// If it is not a row of a map.
    #[inline]
    pub fn parse(line: &'a [u8], keys: usize) -> Result<Row<'a>> {
        Ok(Row::parse_from(line, keys, 0)?.0)
    }

    /// Parses a line whose first bytes are known to belong to its key and to have no query. Also
    /// says whether the key is plain: spelled as in the line, and without a query.
    #[inline]
    pub(crate) fn parse_from(line: &'a [u8], keys: usize, known: usize) -> Result<(Row<'a>, bool)> {
        if keys == 1
            && let Some(row) = usual(line, known)
        {
            return Ok((row, true));
        }
        Ok((Row::parse_any(line, keys)?, false))
    }

    #[cold]
    fn parse_any(line: &'a [u8], keys: usize) -> Result<Row<'a>> {
        let Line::Row(row) = Line::parse(line)? else {
            return Err(Error::syntax(
                "found a header or an empty line, expected a row",
                1,
            ));
        };
        let found = row.fields.len();
        let mut fields = row.fields.into_iter();
        let key = fields.next().unwrap_or_default();
        let second = (keys > 1).then(|| fields.next()).flatten();
        let column = (key.len() + second.as_ref().map_or(0, |second| second.len() + 1) + 2)
            .min(line.len() + 1);
        let frequency = match (fields.next(), &row.json) {
            (Some(field), _) => text_of(&field).parse::<Frequency>(),
            (None, Some(json)) => match json.get("frequency") {
                Some(ukvs::Value::Number(text) | ukvs::Value::Text(text)) => text.parse(),
                _ => return Err(Error::syntax("the frequency is missing", column)),
            },
            (None, None) => {
                return Err(Error::syntax(
                    format!("the frequency is missing: {} of {} fields", found, keys + 1),
                    column,
                ));
            }
        }
        .map_err(|error| Error::syntax(error.to_string(), column))?;
        let filter = match row.json.as_ref().and_then(|json| json.get("filter")) {
            None => None,
            Some(width) => match width.as_u64() {
                Some(width @ 1..=16) => Some(width as u8),
                _ => {
                    return Err(Error::syntax(
                        "a filter is 1 to 16 bits wide: {\"filter\": 8}",
                        column,
                    ));
                }
            },
        };
        Ok(Row {
            key,
            second,
            frequency,
            filter,
        })
    }

    /// The number of URI-Rs. If it is not stated, it is 1, or for a wildcard the number of
    /// captures.
    #[inline]
    pub(crate) fn urirs(&self) -> u64 {
        match (self.frequency.urirs, self.key.last()) {
            (Some(urirs), _) => urirs.value.max(1),
            (None, Some(b'*')) => self.frequency.captures.map_or(1, |n| n.value.max(1)),
            (None, _) => 1,
        }
    }

    /// Appends the row and a line feed.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(
            &self.key,
            self.second.as_deref(),
            &self.frequency,
            self.filter,
            out,
        );
    }
}

/// Appends a row and a line feed.
pub(crate) fn write(
    key: &[u8],
    second: Option<&[u8]>,
    frequency: &Frequency,
    filter: Option<u8>,
    out: &mut Vec<u8>,
) {
    write_head(key, second, out);
    write_frequency(frequency, out);
    write_filter(filter, out);
    out.push(b'\n');
}

/// Appends the width of a row's filter, if it has one.
#[inline]
pub(crate) fn write_filter(filter: Option<u8>, out: &mut Vec<u8>) {
    if let Some(width) = filter {
        out.extend_from_slice(FILTER);
        push_digits(u64::from(width), out);
        out.push(b'}');
    }
}

const FILTER: &[u8] = b" {\"filter\": ";

/// Appends keys and the space behind them.
pub(crate) fn write_head(key: &[u8], second: Option<&[u8]>, out: &mut Vec<u8>) {
    ukvs::write_field(key, true, out);
    out.push(b' ');
    if let Some(second) = second {
        ukvs::write_field(second, false, out);
        out.push(b' ');
    }
}

/// Appends a frequency in the format of rows.
pub fn write_frequency(frequency: &Frequency, out: &mut Vec<u8>) {
    let number = |number: Number, out: &mut Vec<u8>| {
        push_digits(number.value, out);
        out.extend_from_slice(number.sureness.sign().as_bytes());
    };
    if let Some(captures) = frequency.captures {
        number(captures, out);
    }
    if let Some(urirs) = frequency.urirs {
        out.push(b'/');
        number(urirs, out);
    } else if frequency.captures.is_none() {
        out.push(b'/');
    }
}

fn text_of(field: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(field)
}

/// Fast path for `key captures[/urirs]` with a single space, no query and no special characters. The
/// first `known` bytes belong to the key.
#[inline]
fn usual(line: &[u8], known: usize) -> Option<Row<'_>> {
    let space = known + memchr::memchr3(b' ', b'\t', b'?', line.get(known..)?)?;
    if line[space] != b' ' || matches!(line[0], b' ' | b'"' | b'\\' | b'{' | b'[') {
        return None;
    }
    let (captures, mut rest) = digits(&line[space + 1..])?;
    let urirs = match rest {
        [b'/', rest_of @ ..] => {
            let (urirs, behind) = digits(rest_of)?;
            rest = behind;
            Some(urirs)
        }
        _ => None,
    };
    let filter = match rest {
        [] => None,
        _ => match rest.strip_prefix(FILTER)? {
            [digit @ b'1'..=b'9', b'}'] => Some(digit - b'0'),
            [b'1', digit @ b'0'..=b'6', b'}'] => Some(10 + digit - b'0'),
            _ => return None,
        },
    };
    let exact = |value| Number {
        value,
        sureness: Sureness::Exact,
    };
    Some(Row {
        key: Cow::Borrowed(&line[..space]),
        second: None,
        frequency: Frequency {
            captures: Some(exact(captures)),
            urirs: urirs.map(exact),
        },
        filter,
    })
}

/// Appends a key without its query and trailing slashes, in the map's spelling; wildcards are kept
/// as they are.
pub(crate) fn tidy_key(text: &[u8], out: &mut Vec<u8>) {
    let key = Key::new(text);
    match key.reach() {
        // Might be the wildcard of the host `a:b?c`, and is looked up as such, too.
        Reach::Exact if text.ends_with(b",*") && Surt::new(text).kind() == Kind::Bare => {
            out.extend_from_slice(text);
        }
        Reach::Exact => write_exact(Surt::new(key.stem()).without_query(), out),
        _ => key.write(out),
    }
}

/// The exact key of a node in the map's spelling: no trailing slash except for a root.
#[inline]
pub(crate) fn write_exact(place: &[u8], out: &mut Vec<u8>) {
    let place = trim_slashes(place);
    out.extend_from_slice(place);
    if place.last() == Some(&b')') && memchr::memchr2(b')', b'/', place) == Some(place.len() - 1) {
        out.push(b'/');
    }
}

/// A node without its trailing slashes.
#[inline]
pub(crate) fn trim_slashes(mut place: &[u8]) -> &[u8] {
    while let [rest @ .., b'/'] = place {
        place = rest;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_of_the_paper_are_read_and_written_back() {
        for (line, keys) in [
            ("* 54321/20000", 1),
            ("com,* 10000+", 1),
            ("org,arxiv)/ 100", 1),
            ("uk,co,bbc)/images/* 300+/20-", 1),
            ("com,cnn)/profiles/* 0", 1),
            ("com,cnn)/ 2008 4/1", 2),
            ("org,x)/* 1996:1999 /", 2),
            ("* 54321/20000 {\"filter\": 16}", 1),
            ("com,x)/ 7 {\"filter\": 1}", 1),
            ("com,x)/ 2008 7/2 {\"filter\": 9}", 2),
        ] {
            let row = Row::parse(line.as_bytes(), keys).unwrap();
            let mut out = Vec::new();
            row.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap().trim_end(), line);
        }
        for bad in [
            "com,x)/",
            "com,x)/ -5",
            "com,x)/ x",
            "com,x)/ 1/2/3",
            "com,x)/ 1_000",
            "com,x)/ 1 {\"filter\": 0}",
            "com,x)/ 1 {\"filter\": 17}",
            "com,x)/ 1 {\"filter\": \"8\"}",
            "",
        ] {
            assert!(Row::parse(bad.as_bytes(), 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_spelled_in_one_way() {
        for (key, tidy) in [
            ("com,x)", "com,x)/"),
            ("com,x)/?q", "com,x)/"),
            ("com,x)/a/", "com,x)/a"),
            ("com,x)/a?b/c", "com,x)/a"),
            ("com,x)/a/*", "com,x)/a/*"),
            ("uk,gov,*)/", "uk,gov,*"),
            ("urn:a?b", "urn:a"),
            ("a:00?b,*", "a:00?b,*"),
        ] {
            let mut out = Vec::new();
            tidy_key(key.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), tidy);
        }
    }

    proptest! {
        #[test]
        fn the_short_way_reads_what_the_long_way_reads(line in "[a-z,)/*\\\\\"{ \t]{0,12} ?[0-9]{0,3}[/+~-]?[0-9]{0,2}( \\{\"filter\": [0-9]{1,2}\\})?") {
            let short = Row::parse(line.as_bytes(), 1);
            let long = Row::parse_any(line.as_bytes(), 1);
            prop_assert_eq!(short.ok(), long.ok());
        }
    }
}
