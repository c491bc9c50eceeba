//! Captures as rows: one vector of values per column.

use waypost_index::{Capture, Field};

use crate::host::{Names, Url};
use crate::schema::{COLUMNS, Kind};

/// The values of a column. Nulls have an end or a number, too.
#[derive(Default)]
pub(crate) struct Values {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    pub(crate) numbers: Vec<i64>,
    pub(crate) valid: Vec<bool>,
}

impl Values {
    fn text(&mut self, text: Option<&[u8]>) {
        if let Some(text) = text {
            match std::str::from_utf8(text) {
                Ok(_) => self.bytes.extend_from_slice(text),
                // Strings of Parquet are UTF-8.
                Err(_) => self
                    .bytes
                    .extend_from_slice(String::from_utf8_lossy(text).as_bytes()),
            }
        }
        self.ends.push(self.bytes.len());
        self.valid.push(text.is_some());
    }

    fn number(&mut self, number: Option<i64>) {
        self.numbers.push(number.unwrap_or_default());
        self.valid.push(number.is_some());
    }

    fn append(&mut self, later: &Values) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&later.bytes);
        self.ends.extend(later.ends.iter().map(|end| base + end));
        self.numbers.extend_from_slice(&later.numbers);
        self.valid.extend_from_slice(&later.valid);
    }
}

/// Rows of one partition.
pub(crate) struct Rows {
    pub(crate) columns: Vec<Values>,
    pub(crate) length: usize,
    /// About how much memory they take.
    pub(crate) size: usize,
}

impl Rows {
    pub(crate) fn new() -> Rows {
        Rows {
            columns: COLUMNS.iter().map(|_| Values::default()).collect(),
            length: 0,
            size: 0,
        }
    }

    pub(crate) fn append(&mut self, later: &Rows) {
        for (column, later) in self.columns.iter_mut().zip(&later.columns) {
            column.append(later);
        }
        self.length += later.length;
        self.size += later.size;
    }

    /// The key of a row.
    pub(crate) fn key(&self, row: usize) -> &[u8] {
        let keys = &self.columns[0];
        let start = if row == 0 { 0 } else { keys.ends[row - 1] };
        &keys.bytes[start..keys.ends[row]]
    }

    /// Adds a capture.
    pub(crate) fn add(&mut self, surt: &[u8], capture: &Capture<'_>, segment: &[u8]) {
        let url = capture.url().unwrap_or_default();
        let split = Url::split(&url);
        let names = Names::of(&split.host);
        let field = |field| capture.text(field);
        let (redirect, digest) = (field(Field::Redirect), field(Field::Digest));
        let (mime, detected) = (field(Field::Mime), field(Field::MimeDetected));
        let (charset, languages) = (field(Field::Charset), field(Field::Languages));
        let (truncated, filename) = (field(Field::Truncated), field(Field::Filename));
        let texts: [Option<&[u8]>; 24] = [
            Some(surt),
            Some(&url),
            Some(&split.host),
            names.parts[0],
            names.parts[1],
            names.parts[2],
            names.parts[3],
            names.parts[4],
            names.registry_suffix,
            names.registered_domain,
            names.private_suffix,
            names.private_domain,
            names.reversed.as_deref(),
            Some(split.protocol),
            Some(split.path),
            split.query,
            redirect.as_deref(),
            digest.as_deref(),
            mime.as_deref(),
            detected.as_deref(),
            charset.as_deref(),
            languages.as_deref(),
            truncated.as_deref(),
            Some(filename.as_deref().unwrap_or_default()),
        ];
        let place = |field| Some(capture.number(field).map_or(0, |number| number as i64));
        // Common Crawl's value for a missing status is -1; a missing time has no value of its own.
        let numbers = [
            split.port.map(i64::from),
            Some(capture.time().map_or(0, |time| time.unix() * 1000)),
            Some(capture.status().map_or(-1, i64::from)),
            place(Field::Offset),
            place(Field::Length),
        ];
        let (mut texts, mut numbers) = (texts.into_iter(), numbers.into_iter());
        for (values, (name, kind, _)) in self.columns.iter_mut().zip(COLUMNS) {
            match kind {
                Kind::Text if name == "warc_segment" => values.text(Some(segment)),
                Kind::Text => {
                    let text = texts.next().flatten();
                    self.size += 9 + text.map_or(0, <[u8]>::len);
                    values.text(text);
                }
                _ => {
                    self.size += 9;
                    values.number(numbers.next().flatten());
                }
            }
        }
        self.length += 1;
    }
}

/// Crawl, segment and subset, from the name of a WARC file of Common Crawl:
/// `crawl-data/CC-MAIN-2017-39/segments/1505818689752.21/warc/….warc.gz`.
pub(crate) fn place_of(filename: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut parts = filename.split(|byte| *byte == b'/');
    let crawl = parts
        .find(|part| *part == b"crawl-data")
        .and_then(|_| parts.next())?;
    let segment = parts
        .find(|part| *part == b"segments")
        .and_then(|_| parts.next())?;
    let subset = parts.next()?;
    parts.next().map(|_| (crawl, segment, subset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_capture_is_in_the_name_of_its_file() {
        let name = b"crawl-data/CC-MAIN-2017-39/segments/1505.21/robotstxt/a.warc.gz";
        let place = place_of(name).unwrap();
        assert_eq!(
            place,
            (&b"CC-MAIN-2017-39"[..], &b"1505.21"[..], &b"robotstxt"[..])
        );
        assert_eq!(place_of(b"a.warc.gz"), None);
        assert_eq!(place_of(b"crawl-data/x/segments/y"), None);
    }
}
