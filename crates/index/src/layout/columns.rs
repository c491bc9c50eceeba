//! CDX: columns separated by spaces, named by letters in a header or identified by their number.

use memchr::memchr;

use crate::capture::{Capture, Field, Fields};
use crate::rejects::Bad;
use crate::timestamp::is_timestamp;
use crate::web;

/// Maximum number of columns of a layout, more than CDX has letters.
pub(crate) const MOST: usize = 32;

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Column {
    Key,
    Timestamp,
    Field(Field),
    Other,
}

/// An order of columns.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Columns {
    letters: String,
    columns: Vec<Column>,
    key: usize,
    timestamp: usize,
}

/// The positions of the columns of a line.
pub(crate) struct Split<'a> {
    line: &'a [u8],
    starts: [u32; MOST + 1],
    count: usize,
}

impl<'a> Split<'a> {
    /// Splits a line at spaces, into at most [`MOST`] columns and a rest.
    pub(crate) fn new(line: &'a [u8]) -> Split<'a> {
        let mut split = Split {
            line,
            starts: [0; MOST + 1],
            count: 0,
        };
        let mut start = 0;
        while split.count < MOST {
            split.starts[split.count] = start as u32;
            split.count += 1;
            match memchr(b' ', &line[start..]) {
                Some(len) => start += len + 1,
                None => {
                    start = line.len() + 1;
                    break;
                }
            }
        }
        split.starts[split.count] = start as u32;
        split
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn line(&self) -> &'a [u8] {
        self.line
    }

    #[inline]
    pub(crate) fn get(&self, column: usize) -> &'a [u8] {
        let (start, end) = (self.starts[column], self.starts[column + 1] - 1);
        &self.line[start as usize..end as usize]
    }
}

impl Columns {
    /// From the letters of a header: ` CDX N b a m s k r M S V g`. `None` without a timestamp, or
    /// with neither a key nor a URL.
    pub fn from_header(line: &[u8]) -> Option<Columns> {
        let text = std::str::from_utf8(line.strip_prefix(b" CDX")?).ok()?;
        let letters: Vec<&str> = text.split_ascii_whitespace().collect();
        if letters.len() > MOST || letters.iter().any(|letter| letter.len() != 1) {
            return None;
        }
        Columns::from_letters(&letters.concat())
    }

    fn from_letters(letters: &str) -> Option<Columns> {
        let has = |letter: char| letters.contains(letter);
        // wget writes the URL twice, first in place of the key.
        let key = letters
            .find('N')
            .or_else(|| letters.find('A'))
            .or_else(|| letters.find('a'))?;
        let timestamp = letters.find('b')?;
        let url = letters.rfind('a');
        let columns = letters
            .char_indices()
            .map(|(place, letter)| match letter {
                'a' if Some(place) == url => Column::Field(Field::Url),
                _ if place == key => Column::Key,
                'b' if place == timestamp => Column::Timestamp,
                'm' => Column::Field(Field::Mime),
                's' => Column::Field(Field::Status),
                'k' => Column::Field(Field::Digest),
                'c' if !has('k') => Column::Field(Field::Digest),
                'r' => Column::Field(Field::Redirect),
                'R' if !has('r') => Column::Field(Field::Redirect),
                'M' => Column::Field(Field::RobotFlags),
                'S' => Column::Field(Field::Length),
                'n' if !has('S') => Column::Field(Field::Length),
                'V' => Column::Field(Field::Offset),
                'v' if !has('V') => Column::Field(Field::Offset),
                'g' => Column::Field(Field::Filename),
                // Our names of the three columns that tools add to a resolved revisit: CDX has no letters for them.
                '1' => Column::Field(Field::OriginalLength),
                '2' => Column::Field(Field::OriginalOffset),
                '3' => Column::Field(Field::OriginalFilename),
                _ => Column::Other,
            })
            .collect();
        Some(Columns {
            letters: letters.to_owned(),
            columns,
            key,
            timestamp,
        })
    }

    /// The possible layouts of lines with this many columns and without a header, most likely first.
    pub(crate) fn standard(count: usize) -> &'static [&'static str] {
        match count {
            // Part of an index whose header is in another part.
            3 => &["Nba"],
            6 => &["NbaSVg"],
            7 => &["NbamskS"],
            9 => &["NbamskrVg"],
            10 => &["NbamskrMVg"],
            11 => &["NbamskrMSVg", "abamskrMVgu"],
            12 => &["NbamskrVg123"],
            13 => &["NbamskrMVg123"],
            14 => &["NbamskrMSVg123"],
            16 => &["AbeamsckrVvDdgMn"],
            _ => &[],
        }
    }

    /// The standard layouts with this many columns.
    pub(crate) fn all_standard(count: usize) -> Vec<Columns> {
        Columns::standard(count)
            .iter()
            .filter_map(|letters| Columns::from_letters(letters))
            .collect()
    }

    /// The number of columns.
    pub fn count(&self) -> usize {
        self.columns.len()
    }

    /// The letters of the header, with spaces between; `orig.*` for columns without a letter.
    pub fn letters(&self) -> String {
        let names: Vec<String> = self
            .letters
            .chars()
            .map(|letter| match letter {
                '1' => "orig.length".to_owned(),
                '2' => "orig.offset".to_owned(),
                '3' => "orig.filename".to_owned(),
                letter => letter.to_string(),
            })
            .collect();
        names.join(" ")
    }

    /// Whether the first column is the URL itself, as wget writes it.
    pub fn is_wget(&self) -> bool {
        self.letters == "abamskrMVgu"
    }

    /// Whether lines of this layout have a column for `field`.
    pub fn has(&self, field: Field) -> bool {
        self.columns.contains(&Column::Field(field))
    }

    /// Reads a line that has the right number of columns.
    pub(crate) fn read<'a>(
        &self,
        split: &Split<'a>,
        wanted: Fields,
        capture: &mut Capture<'a>,
    ) -> Result<(), Bad> {
        let key = split.get(self.key);
        let timestamp = split.get(self.timestamp);
        let mut wrong = None;
        capture.begin(split.line, key, timestamp);
        for (place, column) in self.columns.iter().enumerate() {
            let value = split.get(place);
            let field = match column {
                Column::Field(field) => field,
                Column::Other if wanted.wants_columns() => {
                    capture.push_column(name_of(self.letters.as_bytes()[place]), value);
                    continue;
                }
                Column::Other | Column::Key | Column::Timestamp => continue,
            };
            if let Err(kind) = fits(*field, value) {
                wrong = Some(match wrong {
                    // Two implausible values: the order of columns is wrong, not the values.
                    Some(_) => Bad::Columns,
                    None => kind,
                });
            }
            if wanted.contains(*field) {
                capture.set(*field, value);
            }
        }
        if key.is_empty() {
            return Err(Bad::Key);
        }
        if !is_timestamp(timestamp) {
            return Err(match wrong {
                Some(_) => Bad::Text,
                None => Bad::Timestamp,
            });
        }
        match wrong {
            Some(kind) => Err(kind),
            None => Ok(()),
        }
    }
}

/// A name for a column that is not a field of captures.
fn name_of(letter: u8) -> &'static str {
    match letter {
        b'A' => "canonized-url",
        b'B' => "news-group",
        b'C' => "rulespace-category",
        b'D' => "dat-offset",
        b'F' => "canonized-frame",
        b'G' => "multi-column-language",
        b'H' => "canonized-host",
        b'I' => "canonized-image",
        b'J' => "canonized-jump-point",
        b'K' => "fbis-changed",
        b'L' => "canonized-link",
        b'P' => "canonized-path",
        b'Q' => "language",
        b'R' => "canonized-redirect",
        b'U' => "uniqueness",
        b'X' => "canonized-other-href",
        b'Y' => "canonized-other-src",
        b'Z' => "canonized-other-script",
        b'a' => "other-url",
        b'c' => "old-digest",
        b'd' => "uncompressed-dat-offset",
        b'e' => "ip",
        b'f' => "frame",
        b'h' => "original-host",
        b'i' => "image",
        b'j' => "jump-point",
        b'l' => "link",
        b'n' => "document-length",
        b'o' => "port",
        b'p' => "original-path",
        b't' => "title",
        b'u' => "record-id",
        b'v' => "uncompressed-offset",
        b'x' => "other-href",
        b'y' => "other-src",
        b'z' => "other-script",
        b'#' => "comment",
        _ => "unknown-column",
    }
}

/// Whether a value is plausible for `field`. This detects lines whose columns are shifted by a space
/// in a media type or a redirect.
#[inline]
pub(crate) fn fits(field: Field, value: &[u8]) -> Result<(), Bad> {
    let digits = || value == b"-" || (!value.is_empty() && value.iter().all(u8::is_ascii_digit));
    match field {
        Field::Status => match value {
            // OutbackCDX writes 0 for a missing status.
            b"-" | b"0" | [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] => Ok(()),
            // A parameter of the media type, after a space.
            _ if value.contains(&b'=') => Err(Bad::Columns),
            _ => Err(Bad::Status),
        },
        Field::Length | Field::Offset | Field::OriginalLength | Field::OriginalOffset => {
            if digits() { Ok(()) } else { Err(Bad::Number) }
        }
        // A number instead of a file name: columns are missing before it.
        Field::Filename => {
            if value.is_empty() || (value != b"-" && value.iter().all(u8::is_ascii_digit)) {
                Err(Bad::Columns)
            } else {
                Ok(())
            }
        }
        Field::Url => {
            if web::can_be_url(value) {
                Ok(())
            } else {
                Err(Bad::Url)
            }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(letters: &str, line: &'a str) -> Result<Capture<'a>, Bad> {
        let columns = Columns::from_letters(letters).unwrap();
        let split = Split::new(line.as_bytes());
        assert_eq!(split.count(), columns.count(), "{line}");
        let mut capture = Capture::empty();
        columns.read(&split, Fields::ALL, &mut capture)?;
        Ok(capture)
    }

    #[test]
    fn a_header_names_columns_in_any_order() {
        let columns = Columns::from_header(b" CDX b N m a g V").unwrap();
        let line = b"20040102030405 com,example)/ text/html http://example.com/ x.arc.gz 17";
        let mut capture = Capture::empty();
        columns
            .read(&Split::new(line), Fields::ALL, &mut capture)
            .unwrap();
        assert_eq!(capture.key(), b"com,example)/");
        assert_eq!(capture.timestamp(), b"20040102030405");
        assert_eq!(capture.mime().as_deref(), Some(&b"text/html"[..]));
        assert_eq!(capture.number(Field::Offset), Some(17));
        assert_eq!(capture.raw(Field::Filename), Some(&b"x.arc.gz"[..]));
        assert_eq!(Columns::from_header(b" CDX N a m"), None, "no timestamp");
        assert_eq!(Columns::from_header(b" CDX b m s"), None, "no key");
        assert_eq!(Columns::from_header(b" CDXNba"), None, "no spaces");
    }

    #[test]
    fn the_columns_of_alexa_and_of_wget_are_read() {
        let capture = read(
            "AbeamsckrVvDdgMn",
            "example.com/ 20010203040506 1.2.3.4 http://example.com/ text/html 200 oldsum newsum - 10 11 12 13 f.arc - 99",
        )
        .unwrap();
        assert_eq!(capture.raw(Field::Digest), Some(&b"newsum"[..]));
        assert_eq!(capture.number(Field::Length), Some(99));
        assert_eq!(capture.number(Field::Offset), Some(10));
        let capture = read(
            "abamskrMVgu",
            "http://example.com/ 20220301145028 http://example.com/ text/html 200 XVS5 - - 848 e.warc.gz <urn:uuid:f3>",
        )
        .unwrap();
        assert_eq!(capture.key(), b"http://example.com/");
        assert_eq!(capture.raw(Field::Filename), Some(&b"e.warc.gz"[..]));
        assert_eq!(capture.raw(Field::Length), None);
    }

    #[test]
    fn values_in_the_wrong_column_are_found() {
        let cases = [
            (
                "com,example)/ 2014 http://example.com/ - html> VSND - - 1 2 f.gz",
                Bad::Status,
            ),
            (
                "com,example)/ - http://example.com/ - 200 VSND - - 1 2 f.gz",
                Bad::Timestamp,
            ),
            (
                "com,example)/ 2014 some/thing - 200 VSND - - 1 2 f.gz",
                Bad::Url,
            ),
            (
                "com,example)/ 2014 http://example.com/ - 200 VSND - - 1 x f.gz",
                Bad::Number,
            ),
            (
                "com,example)/ 2014 http://example.com/ text/plain; charset=utf-8 200 - - - 12 f.gz",
                Bad::Columns,
            ),
            (
                " 2014 http://example.com/ - 200 VSND - - 1 2 f.gz",
                Bad::Key,
            ),
            (
                "the tool said that it could not read this at all",
                Bad::Text,
            ),
        ];
        for (line, kind) in cases {
            assert_eq!(read("NbamskrMSVg", line).map(|_| ()), Err(kind), "{line}");
        }
    }

    #[test]
    fn a_line_of_very_many_spaces_is_split_without_fault() {
        let line = vec![b' '; 1000];
        let split = Split::new(&line);
        assert_eq!(split.count(), MOST);
        assert_eq!(split.get(MOST - 1), b"");
        assert_eq!(Split::new(b"").count(), 1);
    }
}
