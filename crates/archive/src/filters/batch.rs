//! Batches: lines of JSON in, lines of JSON out.
//!
//! A line of a batch is a URI as a JSON string, or an object with a member `uri`. An answer repeats it:
//!
//! ```text
//! "http://example.com/"          {"uri":"http://example.com/","archives":["haw","ukwa"]}
//! {"uri":"http://example.org/"}  {"uri":"http://example.org/","archives":[]}
//! "no URI"                       {"uri":"no URI","error":"…"}
//! nonsense                       {"line":4,"error":"…"}
//! ```

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use serde_json::value::RawValue;

use super::snapshot::Snapshot;

/// Maximum length of a line.
pub(crate) const LONGEST_LINE: usize = 64 << 10;

/// A line of a batch: the URI as JSON, and as it is.
pub(crate) struct Line<'a> {
    pub(crate) json: &'a str,
    pub(crate) uri: Cow<'a, [u8]>,
}

#[derive(serde::Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    uri: &'a RawValue,
}

/// Parses a line.
///
/// # Errors
/// If it is not a URI in JSON.
pub(crate) fn parse(line: &[u8]) -> Result<Line<'_>, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("longer than {LONGEST_LINE} bytes"));
    }
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    // Nearly all of them.
    if let Some(inner) = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        && memchr2(b'"', b'\\', inner.as_bytes()).is_none()
        && !inner.bytes().fold(false, |any, byte| any | (byte < b' '))
    {
        return Ok(Line {
            json: text,
            uri: Cow::Borrowed(inner.as_bytes()),
        });
    }
    let json = match text.starts_with('{') {
        true => serde_json::from_str::<Object<'_>>(text).map(|object| object.uri.get()),
        false => Ok(text),
    };
    let wrong = |error: serde_json::Error| format!("expected a URI as a JSON string: {error}");
    let json = json.map_err(wrong)?;
    let uri: String = serde_json::from_str(json).map_err(wrong)?;
    Ok(Line {
        json,
        uri: Cow::Owned(uri.into_bytes()),
    })
}

/// The lines of a block, without empty ones, with their numbers.
pub(crate) fn lines(block: &[u8], first: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = Some(block).filter(|block| !block.is_empty());
    let all = std::iter::from_fn(move || {
        let block = rest?;
        let (line, after) = match memchr(b'\n', block) {
            Some(end) => (&block[..end], &block[end + 1..]),
            None => (block, &[][..]),
        };
        rest = Some(after).filter(|after| !after.is_empty());
        Some(line.trim_ascii())
    });
    (first..).zip(all).filter(|(_, line)| !line.is_empty())
}

/// The URIs of a block, and what is wrong with other lines.
#[derive(Default)]
pub(crate) struct Parsed<'a> {
    pub(crate) lines: Vec<Line<'a>>,
    /// For every line that is not empty, in order: a problem, or one of `lines`.
    pub(crate) problems: Vec<Option<(u64, String)>>,
}

impl<'a> Parsed<'a> {
    pub(crate) fn of(block: &'a [u8], first: u64) -> Parsed<'a> {
        let mut parsed = Parsed::default();
        for (number, line) in lines(block, first) {
            match parse(line) {
                Ok(line) => {
                    parsed.lines.push(line);
                    parsed.problems.push(None);
                }
                Err(problem) => parsed.problems.push(Some((number, problem))),
            }
        }
        parsed
    }
}

/// What is wrong with a line, as a line of JSON.
pub(crate) fn push_problem(number: u64, problem: &str, out: &mut Vec<u8>) {
    let problem = serde_json::Value::from(problem);
    out.extend(format!("{{\"line\":{number},\"error\":{problem}}}\n").into_bytes());
}

/// A URI that has no SURT, as a line of JSON.
pub(crate) fn push_invalid(json: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"uri\":");
    out.extend_from_slice(json.as_bytes());
    out.extend_from_slice(b",\"error\":\"the URI is invalid\"}\n");
}

/// The result of a block.
pub(crate) struct Answered {
    pub(crate) text: Vec<u8>,
    pub(crate) lookups: u64,
    pub(crate) present: u64,
}

/// Answers the lookups of a block, whose first line has this number.
pub(crate) fn answer(snapshot: &Snapshot, block: &[u8], first: u64) -> Answered {
    let parsed = Parsed::of(block, first);
    let uris: Vec<&[u8]> = parsed.lines.iter().map(|line| &*line.uri).collect();
    let (mut invalid, mut found) = (Vec::new(), Vec::new());
    snapshot.holders_of_all(&uris, &mut invalid, &mut found);
    // The ids as JSON, which they can be without escapes.
    let ids: Vec<String> = snapshot
        .archives()
        .iter()
        .map(|archive| format!("\"{}\"", archive.id()))
        .collect();
    let mut answered = Answered {
        text: Vec::with_capacity(block.len() + 40 * parsed.problems.len()),
        lookups: 0,
        present: 0,
    };
    let out = &mut answered.text;
    let mut lines = parsed
        .lines
        .iter()
        .zip(&invalid)
        .zip(found.chunks(ids.len().max(1)));
    for problem in &parsed.problems {
        if let Some((number, problem)) = problem {
            push_problem(*number, problem, out);
            continue;
        }
        let Some(((line, invalid), found)) = lines.next() else {
            break;
        };
        if *invalid {
            push_invalid(line.json, out);
            continue;
        }
        out.extend_from_slice(b"{\"uri\":");
        out.extend_from_slice(line.json.as_bytes());
        out.extend_from_slice(b",\"archives\":[");
        let mut any = false;
        for (id, _) in ids.iter().zip(found).filter(|(_, found)| **found) {
            if any {
                out.push(b',');
            }
            out.extend_from_slice(id.as_bytes());
            any = true;
        }
        out.extend_from_slice(b"]}\n");
        answered.lookups += 1;
        answered.present += u64::from(any);
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_means_what_json_says(text in "[ -~\\n\"\\\\é\u{1}]{0,30}") {
            let json = serde_json::to_string(&text).unwrap();
            for line in [json.clone(), format!("{{\"x\": 1, \"uri\": {json}}}")] {
                let line = parse(line.as_bytes()).unwrap();
                prop_assert_eq!(&*line.uri, text.as_bytes());
                prop_assert_eq!(line.json, &json);
            }
        }

        #[test]
        fn nonsense_is_an_error(line in proptest::collection::vec(any::<u8>(), 0..40)) {
            if serde_json::from_slice::<String>(&line).is_err()
                && serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&line).is_err()
            {
                prop_assert!(parse(&line).is_err());
            }
        }
    }

    #[test]
    fn empty_lines_are_skipped_and_counted() {
        let found: Vec<_> = lines(b"a\n\n b\r\nc", 10).collect();
        assert_eq!(found, [(10, &b"a"[..]), (12, b"b"), (13, b"c")]);
        assert_eq!(lines(b"", 1).count(), 0);
        assert!(parse(&[b'a'; LONGEST_LINE + 1]).is_err());
        assert!(parse(br#"{"url": "http://a/"}"#).is_err());
        assert!(parse(br#"{"uri": 1}"#).is_err());
    }
}
