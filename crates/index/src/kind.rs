//! Detects the type of a file from its content.
//!
//! Names are unreliable and may be missing: an index may come through a pipe, and a WARC file may be
//! given instead of an index. Every input is therefore inspected before it is read. Formats with a
//! magic number are recognised by it. Text is classified by its first readable line, however long it
//! is and however many blank or bad lines precede it.

use memchr::{memchr, memrchr};
use waypost_io::{Compression, Error, ErrorKind, LONGEST_LINE, Result, Source, Stream};
use waypost_surt::is_surt;

use crate::layout::FileLayout;
use crate::wacz::{self, Wacz};

/// The type of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FileKind {
    /// Empty, or only blank lines.
    Empty,
    /// Captures, in this layout.
    Index(Box<FileLayout>),
    /// A list of URIs or SURTs, one per line.
    List,
    /// A profile or a map, recognised by its headers.
    Summary,
    /// A Waypost filter.
    Filter,
    /// The `.idx` file of a ZipNum index, such as `cluster.idx`.
    ZipNumIndex,
    /// A WARC file.
    Warc,
    /// A WACZ file: a zip archive of WARC files with their index.
    Wacz,
    /// Another zip archive.
    Zip,
    /// A Parquet file that is not read as lines.
    Parquet,
    /// HTML or XML.
    Html,
    /// Binary data.
    Binary,
    /// Text with hardly any URIs.
    Text,
}

impl FileKind {
    /// Its name with an article.
    pub fn name(&self) -> &'static str {
        match self {
            FileKind::Empty => "an empty file",
            FileKind::Index(_) => "an index",
            FileKind::List => "a list of URIs",
            FileKind::Summary => "a summary",
            FileKind::Filter => "a filter",
            FileKind::ZipNumIndex => "the index of a ZipNum",
            FileKind::Warc => "a WARC file",
            FileKind::Wacz => "a WACZ file",
            FileKind::Zip => "a zip archive",
            FileKind::Parquet => "a Parquet file",
            FileKind::Html => "HTML or XML",
            FileKind::Binary => "a binary file",
            FileKind::Text => "text whose lines are mostly not URIs",
        }
    }

    /// The error for a file of this kind where `wanted` was expected.
    pub fn instead_of(&self, wanted: &'static str) -> Error {
        Error::new(ErrorKind::WrongKind {
            found: self.name(),
            wanted,
        })
    }
}

/// What was detected about a source.
#[derive(Debug)]
pub struct Detected {
    /// Its type.
    pub kind: FileKind,
    /// Its compression.
    pub compression: Compression,
    /// The first readable lines, complete.
    pub lines: Vec<u8>,
    /// Damage found before the type was known. Later damage is found when the source is read.
    pub damage: Option<Error>,
}

/// Detects the type of a source. A pipe can still be read from its start afterwards.
///
/// # Errors
/// If the source cannot be read or is UTF-16.
pub fn detect(source: &Source) -> Result<Detected> {
    let is_pipe = source.file()?.is_none();
    let mut stream = source.open()?;
    let mut sample = Sample::new(&mut stream, is_pipe);
    let mut kind = sample.kind();
    let (lines, damage) = (sample.window, sample.error);
    // Any entry may be the first.
    if kind == FileKind::Zip && !is_pipe && Wacz::open(source).is_ok() {
        kind = FileKind::Wacz;
    }
    let compression = stream.compression();
    match damage {
        Some(error) if !error.is_damage() => Err(error),
        damage => Ok(Detected {
            kind,
            compression,
            lines,
            damage,
        }),
    }
}

/// How much of a pipe may be read to find its first readable line.
const MOST_KEPT: usize = LONGEST_LINE;

/// Number of lines to inspect together.
const LINES: usize = 200;

/// The start of a stream, as much as is needed to detect its type.
pub(crate) struct Sample<'a> {
    stream: &'a mut Stream,
    /// Lines that were not ruled out, and the start of the next line.
    pub(crate) window: Vec<u8>,
    /// All bytes read so far, for streams that cannot be read again.
    pub(crate) all: Option<Vec<u8>>,
    ended: bool,
    /// Whether a line that is not blank was ruled out.
    any: bool,
    pub(crate) error: Option<Error>,
    /// Whether the type was recognised by a magic number.
    pub(crate) by_magic: bool,
}

impl<'a> Sample<'a> {
    pub(crate) fn new(stream: &'a mut Stream, keep: bool) -> Sample<'a> {
        Sample {
            stream,
            window: Vec::new(),
            all: keep.then(Vec::new),
            ended: false,
            any: false,
            error: None,
            by_magic: false,
        }
    }

    /// Detects the type of the stream. Afterwards `window` starts with the first readable line.
    pub(crate) fn kind(&mut self) -> FileKind {
        self.fill();
        if let Some(kind) = by_magic(&self.window) {
            self.by_magic = true;
            return kind;
        }
        let start = self.window[..self.window.len().min(512)].to_vec();
        match self.kind_of_lines() {
            FileKind::Text => by_start(&start),
            kind => kind,
        }
    }

    fn kind_of_lines(&mut self) -> FileKind {
        loop {
            let whole = match memrchr(b'\n', &self.window) {
                _ if self.ended => self.window.len(),
                Some(end) => end + 1,
                None if self.is_full() => return FileKind::Text,
                None if self.window.len() > LONGEST_LINE => {
                    self.skip_long_line();
                    continue;
                }
                None => {
                    self.fill();
                    continue;
                }
            };
            let mut start = 0;
            while start < whole {
                let end = after_lines(&self.window[..whole], start);
                if let Some((kind, skip)) = by_lines(&self.window[start..end]) {
                    self.window.drain(..start + skip);
                    return kind;
                }
                self.any |= !self.window[start..end].trim_ascii().is_empty();
                start = end;
            }
            self.window.drain(..whole);
            if self.ended || self.is_full() {
                return if self.any || !self.ended {
                    FileKind::Text
                } else {
                    FileKind::Empty
                };
            }
            self.fill();
        }
    }

    /// Whether the limit of kept bytes is reached.
    fn is_full(&self) -> bool {
        self.all.as_ref().is_some_and(|all| all.len() > MOST_KEPT)
    }

    /// Reads until the window has a newline, or is as long as the longest line.
    fn fill(&mut self) {
        loop {
            let before = self.window.len();
            self.window.resize(before + FileLayout::SAMPLE, 0);
            let (read, error) = self.stream.read_full(&mut self.window[before..]);
            self.window.truncate(before + read);
            if let Some(all) = &mut self.all {
                all.extend_from_slice(&self.window[before..]);
            }
            self.ended = error.is_some() || read < FileLayout::SAMPLE;
            if error.is_some() {
                self.error = error;
                // An incomplete line before damage is ignored, unless there is nothing else.
                if let Some(end) = memrchr(b'\n', &self.window) {
                    self.window.truncate(end + 1);
                }
            }
            let has_line = memchr(b'\n', &self.window[before..]).is_some();
            if self.ended || has_line || self.window.len() > LONGEST_LINE || self.is_full() {
                return;
            }
        }
    }

    /// Drops a line that is too long to be read.
    fn skip_long_line(&mut self) {
        self.any = true;
        loop {
            self.window.clear();
            self.fill();
            match memchr(b'\n', &self.window) {
                Some(end) => {
                    self.window.drain(..=end);
                    return;
                }
                None if self.ended || self.is_full() => {
                    self.window.clear();
                    return;
                }
                None => {}
            }
        }
    }
}

/// The end of the lines to inspect from `start`.
fn after_lines(text: &[u8], start: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[start..])
        .nth(LINES - 1)
        .map_or(text.len(), |at| start + at + 1)
}

/// The type according to a magic number, or to bytes that do not occur in text.
fn by_magic(start: &[u8]) -> Option<FileKind> {
    const MAGIC: &[(&[u8], FileKind)] = &[
        (b"WPFILTER", FileKind::Filter),
        (b"WARC/", FileKind::Warc),
        (b"\x89PNG", FileKind::Binary),
        (b"%PDF-", FileKind::Binary),
        (b"GIF8", FileKind::Binary),
        (b"\xff\xd8\xff", FileKind::Binary),
        (b"PAR1", FileKind::Parquet),
        (b"\x7fELF", FileKind::Binary),
    ];
    if let Some(kind) = wacz::kind_of_start(start) {
        return Some(kind);
    }
    for (magic, kind) in MAGIC {
        if start.starts_with(magic) {
            return Some(kind.clone());
        }
    }
    let text = start.trim_ascii_start();
    let is_html = [&b"<!doctype"[..], b"<html", b"<head", b"<?xml"]
        .iter()
        .any(|tag| text.len() >= tag.len() && text[..tag.len()].eq_ignore_ascii_case(tag));
    is_html.then_some(FileKind::Html)
}

/// The type of a file without a readable line, according to its start.
fn by_start(start: &[u8]) -> FileKind {
    if start.contains(&0) {
        FileKind::Binary
    } else if start.trim_ascii_start().starts_with(b"<") {
        FileKind::Html
    } else {
        FileKind::Text
    }
}

/// The type according to the first readable of some lines, and the offset of that line.
fn by_lines(lines: &[u8]) -> Option<(FileKind, usize)> {
    if is_summary(lines) {
        return Some((FileKind::Summary, 0));
    }
    if is_zipnum_index(lines) {
        return Some((FileKind::ZipNumIndex, 0));
    }
    let layout = FileLayout::detect(lines);
    if layout.shape().is_some() {
        return Some((FileKind::Index(Box::new(layout)), 0));
    }
    let mut at = 0;
    let (mut first, mut uris, mut others) = (None, 0, 0);
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let text = line.trim_ascii();
        if looks_like_uri(text) {
            first.get_or_insert(at);
            uris += 1;
        } else if first.is_some() && !text.is_empty() && !text.starts_with(b"#") {
            others += 1;
        }
        at += line.len();
    }
    let kind = if uris >= others {
        FileKind::List
    } else {
        FileKind::Text
    };
    Some((kind, first?))
}

/// Whether a header is that of a summary: it names the keys, unlike the header of an index.
fn is_summary(lines: &[u8]) -> bool {
    lines
        .split(|&byte| byte == b'\n')
        .take_while(|line| matches!(line.first(), Some(b'!' | b'@')))
        .any(|line| {
            [&b"!keys"[..], b"@keys", b"!fields", b"@fields", b"@about"]
                .iter()
                .any(|name| line.starts_with(name))
        })
}

/// Whether a line is a row of an `.idx` file, with the file, offset and length of a block.
fn is_zipnum_index(lines: &[u8]) -> bool {
    let mut lines = lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    let Some(first) = lines.next() else {
        return false;
    };
    if first.starts_with(b"!meta") {
        return memchr::memmem::find(first, b"cdxj-gzip").is_some();
    }
    let is_number = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let fields: Vec<&[u8]> = first.split(|&byte| byte == b'\t').collect();
    matches!(fields[..], [_, part, offset, length, ..]
        if !part.is_empty() && is_number(offset) && is_number(length.trim_ascii()))
}

/// Whether a line is likely to be a URI: a SURT, something with a scheme, or a host with a dot.
fn looks_like_uri(line: &[u8]) -> bool {
    if line.is_empty() || line.starts_with(b"#") {
        return false;
    }
    if is_surt(line) {
        return true;
    }
    let scheme = memchr(b':', line).unwrap_or(0);
    let has_scheme = line[0].is_ascii_alphabetic()
        && scheme > 1
        && line[..scheme]
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(byte))
        && line
            .get(scheme + 1)
            .is_some_and(|byte| !byte.is_ascii_whitespace());
    if has_scheme {
        return true;
    }
    let end = line
        .iter()
        .position(|byte| b"/?#:".contains(byte))
        .unwrap_or(line.len());
    let host = &line[..end];
    let is_label =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte) || *byte >= 0x80;
    memchr(b'.', host).is_some_and(|dot| dot > 0 && dot + 1 < host.len())
        && host.iter().all(is_label)
        && memchr(b' ', line).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn kind_of(text: &[u8]) -> (FileKind, Vec<u8>) {
        let mut stream = Stream::new("test", Box::new(Cursor::new(text.to_vec())))
            .unwrap()
            .text();
        let mut sample = Sample::new(&mut stream, true);
        let kind = sample.kind();
        assert!(text.starts_with(&sample.all.unwrap()));
        (kind, sample.window)
    }

    const CAPTURE: &str = "com,example)/ 20200101000000 {\"url\": \"http://example.com/\"}\n";

    #[test]
    fn files_are_told_by_their_content() {
        for (text, name) in [
            ("", "an empty file"),
            ("\n \r\n\n", "an empty file"),
            (CAPTURE, "an index"),
            (" CDX N b a m s k r M S V g\n", "an index"),
            ("http://example.com/a b\nexample.com\n", "a list of URIs"),
            ("# comment\n\ncom,example)/a\n", "a list of URIs"),
            ("example.com/a", "a list of URIs"),
            ("!keys [\"surt\"]\ncom)/ 5\n", "a summary"),
            ("WPFILTER\u{1}", "a filter"),
            (
                "com,example)/ 2020\tcdx-00000.gz\t0\t181223\t1\n",
                "the index of a ZipNum",
            ),
            (
                "!meta 0 {\"format\":\"cdxj-gzip-1.0\",\"filename\":\"index.cdx.gz\"}\n",
                "the index of a ZipNum",
            ),
            ("WARC/1.0\r\nWARC-Type: warcinfo\r\n", "a WARC file"),
            ("PK\u{3}\u{4}archive/", "a zip archive"),
            (
                "PK\u{3}\u{4}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\u{a}\0\0\0archive/a.warc",
                "a WACZ file",
            ),
            ("\n<!doctype html>\n", "HTML or XML"),
            ("a\0b\n", "a binary file"),
            ("<p>\nno line\n", "HTML or XML"),
            (
                "once upon a time\nthere was: a line\n",
                "text whose lines are mostly not URIs",
            ),
            (
                "see\nhttp://example.com/\nfor more\nand then\n",
                "text whose lines are mostly not URIs",
            ),
        ] {
            assert_eq!(kind_of(text.as_bytes()).0.name(), name, "{text:?}");
        }
    }

    #[test]
    fn the_first_readable_line_tells_however_long_and_however_far_it_is() {
        let long = format!(
            "com,example)/ 20200101000000 {{\"url\": \"http://example.com/{}\"}}\n",
            "x".repeat(300_000)
        );
        let (kind, window) = kind_of(long.as_bytes());
        assert_eq!(kind.name(), "an index");
        assert_eq!(window.len(), long.len());
        for before in [
            "\n".repeat(200_000),
            "not a line of an index\n".repeat(20_000),
            "<urlopen error>\n".repeat(20_000),
            "zero \0 byte\n".repeat(20_000),
            format!("{}\n", "y".repeat(200_000)),
        ] {
            let (kind, window) = kind_of(format!("{before}{CAPTURE}").as_bytes());
            assert_eq!(kind.name(), "an index");
            assert!(window.ends_with(CAPTURE.as_bytes()));
            let (kind, _) = kind_of(format!("{before}http://example.com/\n").as_bytes());
            assert_eq!(kind, FileKind::List);
        }
        let too_long = "z".repeat(LONGEST_LINE + 100_000);
        let text = format!("{too_long}\n{CAPTURE}").into_bytes();
        let mut stream = Stream::new("test", Box::new(Cursor::new(text)))
            .unwrap()
            .text();
        let mut sample = Sample::new(&mut stream, false);
        assert_eq!(sample.kind().name(), "an index");
    }
}
