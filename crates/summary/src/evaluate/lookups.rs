//! Lookups: lists of URIs, access logs, logs of MemGator and of Waypost.
//!
//! | shape | a line | the lookup |
//! |---|---|---|
//! | list | `http://example.com/` | all of it |
//! | access log | `… "GET /web/2004/http://example.com/ HTTP/1.1" 200 …` | what follows the time |
//! | MemGator | `INFO: … Aggregating Mementos for http://example.com/` | what follows `for` |
//! | Waypost | `{"event":"lookup",…,"uri":"http://example.com/"}` | `uri` |
//!
//! The format is detected from the first lines. Lines that don't contain a URI (other requests,
//! other log lines) are counted and skipped; URIs without a SURT are rejected lookups.

use std::collections::HashMap;

use rayon::prelude::*;
use waypost_io::pieces::{PIECE, Piece, Pieces};
use waypost_io::{Source, pieces};
use waypost_surt::Dialect;

use super::order::{Entry, Part, RANGE, in_order};
use super::tally::{Counted, Tally};
use crate::error::{Error, Result};
use crate::lookup::{Lookup, SurtWriter};
use crate::scope::Scope;

/// The format of a file of lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One URI per line.
    List,
    /// Common or combined log format of a Wayback Machine.
    AccessLog,
    /// A MemGator log.
    MemGator,
    /// The log of `waypost serve`.
    Waypost,
}

/// Distinct lookups with their number of occurrences, sorted by SURT.
#[derive(Debug)]
pub struct Lookups {
    shape: Shape,
    dialect: Dialect,
    /// The captures that are looked up.
    wanted: Scope,
    bytes: Vec<u8>,
    /// The position of each lookup.
    asked: Vec<Entry>,
    /// URIs without a SURT, and how often they occur.
    rejected: u64,
    rejected_times: u64,
    /// Lines that don't contain a URI.
    passed_over: u64,
}

/// The URIs of a piece.
fn counted(shape: Shape, piece: &Piece) -> Counted {
    let lines = piece.lines().map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    Counted::of(lines.map(|line| uri_of(shape, line).filter(|_| !piece.too_long)))
}

const REQUEST: &[u8] = b" \"";
const EVENT: &[u8] = b"\"event\":\"";
const AGGREGATING: &[u8] = b"Aggregating Mementos for ";

impl Lookups {
    /// Reads lookups.
    ///
    /// # Errors
    /// If the source can't be read.
    pub fn read(source: &Source, dialect: Dialect) -> Result<Lookups> {
        Lookups::read_within(source, dialect, usize::MAX)
    }

    /// Reads lookups within a memory limit in bytes: all distinct ones are kept.
    ///
    /// # Errors
    /// If the source can't be read, or the lookups exceed the limit.
    pub fn read_within(source: &Source, dialect: Dialect, memory: usize) -> Result<Lookups> {
        let mut pieces = Pieces::new(source.to_string(), source.open()?, PIECE);
        let mut shape = Shape::List;
        let mut tally = Tally::new(memory);
        let in_file = |error: Error| error.in_file(source);
        if let Some(first) = pieces.next()? {
            shape = shape_of(first.lines().take(200).map(<[u8]>::trim_ascii));
            tally.add(counted(shape, &first)).map_err(in_file)?;
            let threads = rayon::current_num_threads();
            let worker = || move |piece: Piece| Ok::<_, Error>(counted(shape, &piece));
            pieces::run(threads, pieces, worker, |counted| {
                tally.add(counted).map_err(in_file)
            })?;
        }
        let (tables, passed_over) = tally.finish();
        if tables.iter().map(HashMap::len).sum::<usize>() > u32::MAX as usize {
            return Err(Error::format("too many distinct lookups").in_file(source));
        }
        let parts = tables.into_par_iter().map(|table| {
            let mut writer = SurtWriter::new(dialect);
            Part::of(table.into_iter(), |uri, out| writer.write(uri, out))
        });
        Ok(Lookups::new(parts.collect(), shape, dialect, passed_over))
    }

    /// Lookups of these SURTs, which are distinct and in the spelling of holdings.
    pub(super) fn of_surts(surts: &[Vec<u8>], dialect: Dialect) -> Lookups {
        let parts = surts.par_chunks(1 << 14).map(|surts| {
            let mut writer = SurtWriter::new(dialect);
            Part::of(surts.iter().map(|surt| (surt, 1)), |surt, out| {
                writer.write_surt(surt, out);
                Ok(())
            })
        });
        Lookups::new(parts.collect(), Shape::List, dialect, 0)
    }

    fn new(parts: Vec<Part>, shape: Shape, dialect: Dialect, passed_over: u64) -> Lookups {
        let rejected = parts.iter().map(|part| part.rejected).sum();
        let rejected_times = parts.iter().map(|part| part.rejected_times).sum();
        let (bytes, asked) = in_order(parts, RANGE);
        Lookups {
            shape,
            dialect,
            wanted: Scope::default(),
            bytes,
            asked,
            rejected,
            rejected_times,
            passed_over,
        }
    }

    /// Looks up only these captures: see [`Lookup::wanting`].
    pub fn want(&mut self, wanted: Scope) {
        self.wanted = wanted;
    }

    /// The format of the lines.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The dialect of the SURTs.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The number of distinct lookups.
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    /// Whether there are no lookups.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// How many have no SURT; if `weighted`, counting every occurrence.
    pub fn rejected(&self, weighted: bool) -> u64 {
        if weighted {
            self.rejected_times
        } else {
            self.rejected
        }
    }

    /// Lines that don't contain a URI.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Each lookup: the URI as given, its SURT, and how often it occurs. Sorted by SURT.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], u64)> {
        self.asked.iter().map(|asked| asked.fields(&self.bytes))
    }

    /// The same on all cores.
    pub(super) fn par_iter(&self) -> impl IndexedParallelIterator<Item = (&[u8], &[u8], u64)> {
        self.asked.par_iter().map(|asked| asked.fields(&self.bytes))
    }

    /// The same as [`Lookup`]s.
    pub fn lookups(&self) -> Vec<Lookup<'_>> {
        self.par_iter()
            .map(|(uri, surt, _)| Lookup::spelled(uri, surt).wanting(&self.wanted))
            .collect()
    }

    /// The SURT of a lookup.
    pub(super) fn surt(&self, index: usize) -> &[u8] {
        self.asked[index].surt(&self.bytes)
    }

    /// The first lookup whose SURT is not less than `surt`.
    pub(super) fn first_not_below(&self, surt: &[u8]) -> usize {
        self.asked
            .partition_point(|asked| asked.surt(&self.bytes) < surt)
    }
}

/// The format of most lines.
fn shape_of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Shape {
    let (mut all, mut access, mut memgator, mut waypost) = (0, 0, 0, 0);
    for line in lines.filter(|line| !line.is_empty()) {
        all += 1;
        waypost += usize::from(line.starts_with(b"{") && value_of(line, EVENT).is_some());
        access += usize::from(request_path(line).is_some());
        let marked = [&b"INFO: "[..], b"BENCHMARK: ", b"ERROR: "]
            .iter()
            .any(|mark| line.starts_with(mark));
        memgator += usize::from(marked || memchr::memmem::find(line, AGGREGATING).is_some());
    }
    if memgator * 2 > all {
        Shape::MemGator
    } else if waypost * 2 > all {
        Shape::Waypost
    } else if access * 2 > all {
        Shape::AccessLog
    } else {
        Shape::List
    }
}

fn uri_of(shape: Shape, line: &[u8]) -> Option<&[u8]> {
    match shape {
        Shape::List => Some(line),
        Shape::MemGator => {
            let at = memchr::memmem::find(line, AGGREGATING)?;
            Some(line[at + AGGREGATING.len()..].trim_ascii()).filter(|uri| !uri.is_empty())
        }
        Shape::AccessLog => uri_in_path(request_path(line)?),
        Shape::Waypost => {
            // Lines about each archive repeat the URI of the lookup.
            value_of(line, EVENT).filter(|event| *event == b"lookup")?;
            value_of(line, b"\"uri\":\"").filter(|uri| !uri.is_empty())
        }
    }
}

/// The string that follows a key in a line of JSON. URIs and events need no escapes.
fn value_of<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let start = memchr::memmem::find(line, key)? + key.len();
    let end = start + memchr::memchr2(b'"', b'\\', &line[start..])?;
    (line[end] == b'"').then(|| &line[start..end])
}

/// The path of a request in common log format: the part between the method and the version.
fn request_path(line: &[u8]) -> Option<&[u8]> {
    let open = memchr::memmem::find(line, REQUEST)?;
    let request = &line[open + REQUEST.len()..];
    let request = &request[..memchr::memchr(b'"', request)?];
    let method = memchr::memchr(b' ', request)?;
    if !matches!(&request[..method], b"GET" | b"HEAD") {
        return None;
    }
    let path = &request[method + 1..];
    let end = memchr::memmem::rfind(path, b" HTTP/").unwrap_or(path.len());
    Some(&path[..end])
}

/// The URI-R after `/…/20040102030405im_/`, `timemap/link/` or `timegate/`.
fn uri_in_path(path: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while at < path.len() {
        let end = memchr::memchr(b'/', &path[at..]).map_or(path.len(), |slash| at + slash);
        let segment = &path[at..end];
        let digits = segment
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let rest = &segment[digits..];
        let is_flag = rest.is_empty() || rest == b"*" || (rest.ends_with(b"_") && rest.len() == 3);
        let named = matches!(
            segment,
            b"timegate" | b"link" | b"cdxj" | b"json" | b"memento" | b"proxy" | b"*"
        );
        if end < path.len() && (((4..=14).contains(&digits) && is_flag) || named) {
            let uri = &path[end + 1..];
            // `timemap/link/…`, `memento/2004/…`: the URI comes later.
            let goes_on = uri.iter().take_while(|byte| byte.is_ascii_digit()).count() >= 4 && named;
            if !goes_on && !uri.is_empty() {
                return Some(uri);
            }
        }
        if segment.contains(&b':') || segment.contains(&b'.') {
            return None;
        }
        at = end + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_found_in_logs_of_all_kinds() {
        for (line, expected) in [
            (
                r#"1.2.3.4 - - [01/Jan/2012:00:00:00 +0000] "GET /web/20040102030405im_/http://example.com/a?b HTTP/1.1" 200 5 "-" "x""#,
                Some("http://example.com/a?b"),
            ),
            (
                r#"1.2.3.4 - - [t] "GET /wayback/2004/http://example.com/ HTTP/1.0" 302 -"#,
                Some("http://example.com/"),
            ),
            (
                r#"1.2.3.4 - - [t] "GET /web/*/http://example.com/ HTTP/1.0" 200 -"#,
                Some("http://example.com/"),
            ),
            (
                r#"1.2.3.4 - - [t] "GET /timemap/link/http://example.com/x HTTP/1.0" 200 -"#,
                Some("http://example.com/x"),
            ),
            (
                r#"1.2.3.4 - - [t] "GET /memento/20040101/example.com HTTP/1.0" 200 -"#,
                Some("example.com"),
            ),
            (
                r#"1.2.3.4 - - [t] "GET /static/logo.png HTTP/1.0" 200 -"#,
                None,
            ),
            (
                r#"1.2.3.4 - - [t] "POST /web/2004/http://example.com/ HTTP/1.0" 200 -"#,
                None,
            ),
        ] {
            let found = uri_of(Shape::AccessLog, line.as_bytes())
                .map(|uri| String::from_utf8_lossy(uri).into_owned());
            assert_eq!(found.as_deref(), expected, "{line}");
            assert_eq!(
                shape_of([line.as_bytes()].into_iter()) == Shape::AccessLog,
                !line.contains("POST")
            );
        }
        let line = b"INFO: 2026/11/15 18:20:43.609860 Aggregating Mementos for http://example.com/";
        assert_eq!(shape_of([&line[..]].into_iter()), Shape::MemGator);
        assert_eq!(
            uri_of(Shape::MemGator, line),
            Some(&b"http://example.com/"[..])
        );
        assert_eq!(
            uri_of(Shape::MemGator, b"INFO: d t ia => Success: 3 mementos"),
            None
        );
        let line = br#"{"event":"lookup","level":"info","uri":"http://example.com/?a=b"}"#;
        assert_eq!(shape_of([&line[..]].into_iter()), Shape::Waypost);
        assert_eq!(
            uri_of(Shape::Waypost, line),
            Some(&b"http://example.com/?a=b"[..])
        );
        for other in [
            &br#"{"archive":"a","event":"archive","uri":"http://example.com/"}"#[..],
            br#"{"event":"lookup","uri":"cut off"#,
            br#"{"event":"lookup","uri":"http://example.com/\u0022"}"#,
            br#"{"event":"reload"}"#,
        ] {
            assert_eq!(uri_of(Shape::Waypost, other), None);
        }
        assert_eq!(
            shape_of([&b"http://example.com/"[..]].into_iter()),
            Shape::List
        );
    }
}
