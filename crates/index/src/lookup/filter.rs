//! `--filter`: conditions on the fields of a capture, in pywb's syntax.
//!
//! `[!][=|~]FIELD:VALUE`. The field must contain the value, equal it (`=`), or match it as a
//! regular expression from its start (`~`); `!` negates the filter. Without a field, the whole line
//! is searched. A missing field is empty.

use std::borrow::Cow;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use waypost_io::{Error, ErrorKind, Result};

use crate::capture::{Capture, Field, Fields};

/// One condition.
#[derive(Clone, Debug)]
pub struct Filter {
    negated: bool,
    subject: Subject,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Line,
    Key,
    Timestamp,
    Field(Field),
    /// Any other member of the JSON.
    Other(String),
}

#[derive(Clone, Debug)]
enum Test {
    Contains(Vec<u8>),
    Is(Vec<u8>),
    Matches(Regex),
}

impl Filter {
    /// Parses `[!][=|~]FIELD:VALUE`.
    ///
    /// # Errors
    /// If the regular expression is invalid or the name of the field is empty.
    pub fn parse(text: &str) -> Result<Filter> {
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (sign, rest) = match rest.chars().next() {
            Some(sign @ ('=' | '~')) => (Some(sign), &rest[1..]),
            _ => (None, rest),
        };
        let (subject, value) = match rest.split_once(':') {
            Some(("", _)) => return Err(invalid(text, "the field has no name")),
            Some((name, value)) => (Subject::of(name), value),
            None => {
                refuse_comparison(text, rest)?;
                (Subject::Line, rest)
            }
        };
        let test = match sign {
            Some('=') => Test::Is(value.as_bytes().to_vec()),
            Some(_) => Test::Matches(
                regex(&format!("^(?:{value})"))
                    .map_err(|error| invalid(text, &error.to_string()))?,
            ),
            None => Test::Contains(value.as_bytes().to_vec()),
        };
        Ok(Filter {
            negated,
            subject,
            test,
        })
    }

    /// Parses a filter of the Wayback Machine's CDX server, `[~][!]FIELD:VALUE`. The whole field must
    /// match the value as a regular expression, or contain it (`~`); `!` negates the filter. Fields are
    /// names, or the numbers of columns from 0.
    ///
    /// # Errors
    /// As for [`Filter::parse`].
    pub fn parse_wayback(text: &str) -> Result<Filter> {
        let (contains, rest) = match text.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (negated, rest) = match rest.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (subject, value) = match rest.split_once(':') {
            Some(("", _)) => return Err(invalid(text, "the field has no name")),
            Some((name, value)) => (Subject::of_wayback(name), value),
            None => (Subject::Line, rest),
        };
        let test = match contains {
            true => Test::Contains(value.as_bytes().to_vec()),
            false => Test::Matches(
                regex(&format!("^(?:{value})$"))
                    .map_err(|error| invalid(text, &error.to_string()))?,
            ),
        };
        Ok(Filter {
            negated,
            subject,
            test,
        })
    }

    /// The field that the filter applies to.
    pub fn wanted(&self) -> Fields {
        match self.subject {
            Subject::Field(field) => field.into(),
            _ => Fields::NONE,
        }
    }

    /// Whether the capture passes.
    pub fn passes(&self, capture: &Capture<'_>) -> bool {
        let value: Cow<'_, [u8]> = match &self.subject {
            Subject::Line => capture.line().into(),
            Subject::Key => capture.key().into(),
            Subject::Timestamp => capture.timestamp().into(),
            Subject::Field(field) => capture.text(*field).unwrap_or_default(),
            Subject::Other(name) => capture.other(name).unwrap_or_default(),
        };
        let holds = match &self.test {
            Test::Contains(part) => memmem::find(&value, part).is_some(),
            Test::Is(whole) => value[..] == whole[..],
            Test::Matches(regex) => regex.is_match(&value),
        };
        holds != self.negated
    }
}

impl Subject {
    fn of_wayback(name: &str) -> Subject {
        let column = name
            .parse()
            .ok()
            .and_then(|at: usize| WAYBACK_COLUMNS.get(at));
        Subject::of(column.copied().unwrap_or(name))
    }

    fn of(name: &str) -> Subject {
        match name {
            "urlkey" | "key" => Subject::Key,
            "timestamp" => Subject::Timestamp,
            _ => match Field::of_json(name.as_bytes()) {
                Some(field) => Subject::Field(field),
                None => Subject::Other(name.to_owned()),
            },
        }
    }
}

/// The columns of the Wayback Machine's CDX server.
pub const WAYBACK_COLUMNS: [&str; 7] = [
    "urlkey",
    "timestamp",
    "original",
    "mimetype",
    "statuscode",
    "digest",
    "length",
];

/// Compiles an expression that is not too large: on a server, anybody may send one.
fn regex(text: &str) -> std::result::Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(1 << 20).build()
}

/// Detects `status=200`, which would search the line for these bytes and find nothing.
fn refuse_comparison(text: &str, rest: &str) -> Result<()> {
    let Some((name, value)) = rest.split_once('=') else {
        return Ok(());
    };
    let name = name.trim_end_matches(['!', '=', '~']);
    // One letter is more likely the name of a parameter.
    if name.len() < 3 || matches!(Subject::of(name), Subject::Other(_)) {
        return Ok(());
    }
    let value = value.trim_start_matches(['=', '~']);
    Err(invalid(
        text,
        &format!("to compare a field, write ={name}:{value}"),
    ))
}

fn invalid(text: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid(format!(
        "invalid filter `{text}`: {why} (filters are like =status:200, mime:html or !~url:.*login)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{FileLayout, Line};

    fn passes(filter: &str) -> bool {
        let line = br#"com,a)/x 2020 {"url": "http://a.com/x", "mime": "text/html", "status": "200", "collection": "C1", "digest": "sha1:A"}"#;
        let layout = FileLayout::detect(line);
        let filter = Filter::parse(filter).unwrap();
        match layout.read(line, filter.wanted(), false) {
            Line::Capture(capture, _) => filter.passes(&capture),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fields_are_searched_compared_and_matched() {
        for filter in [
            "=status:200",
            "status:20",
            "mime:html",
            "!=mime:html",
            "~url:http",
            "!~url:a\\.com",
            "=collection:C1",
            "=urlkey:com,a)/x",
            "timestamp:2020",
            "=digest:sha1:A",
            "=redirect:",
            "!languages:eng",
            "sha1",
            "!nowhere",
        ] {
            assert!(passes(filter), "{filter}");
            let turned = match filter.strip_prefix('!') {
                Some(rest) => rest.to_owned(),
                None => format!("!{filter}"),
            };
            assert!(!passes(&turned), "{turned}");
        }
    }

    #[test]
    fn filters_of_the_wayback_machine_match_whole_fields() {
        let line = b"com,a)/x 20200102030405 http://a.com/x text/html 200 DIGEST 100";
        let layout = FileLayout::detect(line);
        for (filter, expected) in [
            ("statuscode:200", true),
            ("statuscode:20", false),
            ("statuscode:2..", true),
            ("!statuscode:2..", false),
            ("4:200", true),
            ("3:text/.*", true),
            ("~mimetype:html", true),
            ("~!mimetype:html", false),
            ("mimetype:html", false),
            ("original:http://a\\.com/.*", true),
            ("timestamp:2020.*", true),
            ("~DIGEST", true),
        ] {
            let filter = Filter::parse_wayback(filter).unwrap();
            match layout.read(line, filter.wanted(), false) {
                Line::Capture(capture, _) => {
                    assert_eq!(filter.passes(&capture), expected, "{filter:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(Filter::parse_wayback("statuscode:(").is_err());
    }

    #[test]
    fn an_invalid_filter_says_how_one_is_written() {
        for bad in [
            "~url:(",
            ":200",
            "!=:x",
            "status=200",
            "!mime==html",
            "urlkey~=com",
        ] {
            let error = Filter::parse(bad).unwrap_err().to_string();
            assert!(error.contains("=status:200"), "{error}");
        }
    }
}
