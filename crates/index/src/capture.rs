//! A capture: one line of an index.
//!
//! A [`Capture`] borrows from its line. Only the fields requested with [`Fields`] are parsed.

use std::borrow::Cow;
use std::fmt;
use std::ops::BitOr;

use memchr::memchr2;

use crate::json;
use crate::timestamp::{Time, are_digits, is_plausible_timestamp};

/// A field of a capture besides its key and its timestamp, which every capture has.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[repr(u8)]
pub enum Field {
    /// The original URI.
    Url,
    /// The media type sent by the server.
    Mime,
    /// The media type detected from the content.
    MimeDetected,
    /// The HTTP status.
    Status,
    /// The digest of the payload.
    Digest,
    /// The length of the record, compressed.
    Length,
    /// The offset of the record in its file.
    Offset,
    /// The file that contains the record.
    Filename,
    /// The character set.
    Charset,
    /// The languages, `eng,deu`.
    Languages,
    /// Why the payload was truncated.
    Truncated,
    /// The target of a redirect.
    Redirect,
    /// The Last-Modified time, in seconds since 1970.
    LastMod,
    /// The robots directives of the page: `A`, `F`, `I`.
    RobotFlags,
    /// The length of the record that a revisit refers to.
    OriginalLength,
    /// The offset of the record that a revisit refers to.
    OriginalOffset,
    /// The file of the record that a revisit refers to.
    OriginalFilename,
}

impl Field {
    /// The number of fields.
    pub const COUNT: usize = 17;

    /// All fields.
    pub const ALL: [Field; Field::COUNT] = [
        Field::Url,
        Field::Mime,
        Field::MimeDetected,
        Field::Status,
        Field::Digest,
        Field::Length,
        Field::Offset,
        Field::Filename,
        Field::Charset,
        Field::Languages,
        Field::Truncated,
        Field::Redirect,
        Field::LastMod,
        Field::RobotFlags,
        Field::OriginalLength,
        Field::OriginalOffset,
        Field::OriginalFilename,
    ];

    /// The name that Common Crawl and pywb use.
    pub fn name(self) -> &'static str {
        match self {
            Field::Url => "url",
            Field::Mime => "mime",
            Field::MimeDetected => "mime-detected",
            Field::Status => "status",
            Field::Digest => "digest",
            Field::Length => "length",
            Field::Offset => "offset",
            Field::Filename => "filename",
            Field::Charset => "charset",
            Field::Languages => "languages",
            Field::Truncated => "truncated",
            Field::Redirect => "redirect",
            Field::LastMod => "lastmod",
            Field::RobotFlags => "robotflags",
            Field::OriginalLength => "orig.length",
            Field::OriginalOffset => "orig.offset",
            Field::OriginalFilename => "orig.filename",
        }
    }

    /// The field with this name in the JSON of any tool.
    #[inline]
    pub fn of_json(name: &[u8]) -> Option<Field> {
        Some(match name {
            b"url" | b"original" | b"u" | b"uri" | b"original_uri" => Field::Url,
            b"mime" | b"mimetype" | b"m" | b"mime_type" | b"mct" => Field::Mime,
            b"mime-detected" => Field::MimeDetected,
            b"status" | b"statuscode" | b"status_code" | b"hsc" => Field::Status,
            b"digest" | b"d" | b"sha" | b"dig" | b"payload_digest" => Field::Digest,
            b"length" | b"l" | b"s" | b"S" | b"rle" => Field::Length,
            b"offset" | b"o" => Field::Offset,
            b"filename" | b"f" | b"w" => Field::Filename,
            b"charset" | b"encoding" => Field::Charset,
            b"languages" => Field::Languages,
            b"truncated" => Field::Truncated,
            b"redirect" | b"redirecturl" => Field::Redirect,
            b"lastmod" => Field::LastMod,
            b"robotflags" => Field::RobotFlags,
            b"orig.length" | b"originalLength" => Field::OriginalLength,
            b"orig.offset" | b"originalOffset" => Field::OriginalOffset,
            b"orig.filename" | b"originalFilename" => Field::OriginalFilename,
            _ => {
                let text = json::unescaped(name);
                return matches!(text, Cow::Owned(_)).then(|| Field::of_json(&text))?;
            }
        })
    }
}

/// A set of fields.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Fields(u32);

impl Fields {
    /// Only the key and the timestamp.
    pub const NONE: Fields = Fields(0);
    /// Every field.
    pub const ALL: Fields = Fields((1 << Field::COUNT) - 1);
    /// Every field, and the columns that are not fields: see [`Capture::columns`].
    pub const WITH_COLUMNS: Fields = Fields((1 << (Field::COUNT + 1)) - 1);

    /// Whether `field` is in the set.
    #[inline]
    pub fn contains(self, field: Field) -> bool {
        self.0 & (1 << field as u32) != 0
    }

    /// Whether every field of `other` is in the set.
    #[inline]
    pub fn covers(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether columns that are not fields are requested.
    #[inline]
    pub(crate) fn wants_columns(self) -> bool {
        self.0 & (1 << Field::COUNT) != 0
    }

    /// The same; statuses and numbers in JSON are checked, too, as those in columns are.
    pub(crate) fn with_checked_numbers(self) -> Fields {
        Fields(self.0 | (1 << (Field::COUNT + 1)))
    }

    /// Whether statuses and numbers in JSON are checked.
    #[inline]
    pub(crate) fn checks_numbers(self) -> bool {
        self.0 & (1 << (Field::COUNT + 1)) != 0
    }

    /// Whether these are the fields of `wanted`, whatever else it asks for.
    #[inline]
    pub(crate) fn are_all_of(self, wanted: Fields) -> bool {
        self.0 == wanted.0 & !(1 << (Field::COUNT + 1))
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn remove(&mut self, field: Field) {
        self.0 &= !(1 << field as u32);
    }

    #[inline]
    pub(crate) fn insert(&mut self, field: Field) {
        self.0 |= 1 << field as u32;
    }
}

impl From<Field> for Fields {
    fn from(field: Field) -> Fields {
        Fields(1 << field as u32)
    }
}

impl<T: Into<Fields>> BitOr<T> for Fields {
    type Output = Fields;

    fn bitor(self, other: T) -> Fields {
        Fields(self.0 | other.into().0)
    }
}

impl BitOr for Field {
    type Output = Fields;

    fn bitor(self, other: Field) -> Fields {
        Fields::from(self) | other
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Fields {
        fields
            .into_iter()
            .fold(Fields::NONE, |set, field| set | field)
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(Field::ALL.iter().filter(|field| self.contains(**field)))
            .finish()
    }
}

/// The most NULs before a text of fixed length.
const MOST_NULS: usize = 64;

/// What such a text is masked with, from the number of NULs before its middle.
static MASKS: [u8; 2 * MOST_NULS] = {
    let mut masks = [0; 2 * MOST_NULS];
    let mut at = MOST_NULS;
    while at < masks.len() {
        masks[at] = 0xff;
        at += 1;
    }
    masks
};

/// A capture with the requested fields.
#[derive(Clone, Debug)]
pub struct Capture<'a> {
    line: &'a [u8],
    key: Cow<'a, [u8]>,
    timestamp: Cow<'a, [u8]>,
    values: [&'a [u8]; Field::COUNT],
    present: Fields,
    /// Fields whose value has JSON escapes that must be decoded.
    escaped: Fields,
    /// The offset of the JSON in the line, if there is any.
    json: Option<usize>,
    /// Whether every part of the timestamp is in range, once somebody has looked.
    plausible: Option<bool>,
    columns: Vec<(&'static str, &'a [u8])>,
    /// The fields in the JSON of the lines before.
    pub(crate) order: json::Order<Option<Field>>,
}

impl<'a> Capture<'a> {
    /// Creates an empty capture that is used for many lines.
    pub(crate) fn reused() -> Capture<'a> {
        Capture {
            order: json::Order::remembering(),
            ..Capture::empty()
        }
    }

    /// Creates an empty capture.
    pub(crate) fn empty() -> Capture<'a> {
        Capture {
            line: &[],
            key: Cow::Borrowed(&[]),
            timestamp: Cow::Borrowed(&[]),
            values: [&[]; Field::COUNT],
            present: Fields::NONE,
            escaped: Fields::NONE,
            json: None,
            plausible: None,
            columns: Vec::new(),
            order: json::Order::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn new(line: &'a [u8], key: &'a [u8], timestamp: &'a [u8]) -> Capture<'a> {
        let mut capture = Capture::empty();
        capture.begin(line, key, timestamp);
        capture
    }

    /// Starts a new line. Old values are not cleared, which would cost as much as parsing the line;
    /// without their bits in the sets they are ignored.
    #[inline(always)]
    pub(crate) fn begin(&mut self, line: &'a [u8], key: &'a [u8], timestamp: &'a [u8]) {
        self.line = line;
        self.key = Cow::Borrowed(key);
        self.timestamp = Cow::Borrowed(timestamp);
        self.present = Fields::NONE;
        self.escaped = Fields::NONE;
        self.json = None;
        self.plausible = None;
        self.columns.clear();
    }

    pub(crate) fn set_key(&mut self, key: Cow<'a, [u8]>) {
        self.key = key;
    }

    pub(crate) fn set_timestamp(&mut self, timestamp: Cow<'a, [u8]>) {
        self.timestamp = timestamp;
        self.plausible = None;
    }

    pub(crate) fn set_json(&mut self, at: usize) {
        self.json = Some(at);
    }

    /// Adds a column that is not a field, unless it is missing.
    pub(crate) fn push_column(&mut self, name: &'static str, value: &'a [u8]) {
        if !value.is_empty() && value != b"-" {
            self.columns.push((name, value));
        }
    }

    /// Sets a field to its raw value, as [`Values::set`] does.
    #[inline]
    pub(crate) fn set(&mut self, field: Field, value: &'a [u8]) {
        self.parts().1.set(field, value);
    }

    /// Sets a field to a value of JSON.
    #[inline]
    pub(crate) fn set_raw(&mut self, field: Field, raw: json::Raw<'a>) {
        self.parts().1.set_raw(field, raw);
    }

    /// The order of the members in the lines before, and the values to be filled.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut json::Order<Option<Field>>, Values<'_, 'a>) {
        let values = Values {
            values: &mut self.values,
            present: &mut self.present,
            escaped: &mut self.escaped,
        };
        (&mut self.order, values)
    }

    /// Sets or replaces a field, such as one that a revisit takes from the capture that it repeats.
    pub(crate) fn replace(&mut self, field: Field, value: &'a [u8]) {
        self.escaped.remove(field);
        self.values[field as usize] = value;
        self.present.insert(field);
    }

    /// The requested fields that are present.
    pub fn present(&self) -> Fields {
        self.present
    }

    /// The whole line, without its newline.
    pub fn line(&self) -> &'a [u8] {
        self.line
    }

    /// The key as written in the index.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether the line starts with its key, as written in the index.
    #[inline]
    pub(crate) fn key_starts_line(&self) -> bool {
        matches!(self.key, Cow::Borrowed(key) if key.as_ptr() == self.line.as_ptr())
    }

    /// The parts of the line before and after the key. `None` if the key is not a column, or is also the
    /// URL.
    pub(crate) fn around_key(&self) -> Option<(&'a [u8], &'a [u8])> {
        let Cow::Borrowed(key) = self.key else {
            return None;
        };
        if self.json == Some(0) {
            return None;
        }
        let line = self.line;
        let start = key.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
        let behind = line.get(start + key.len()..)?;
        let is_url = self
            .raw(Field::Url)
            .is_some_and(|url| url.as_ptr() == key.as_ptr());
        (!is_url).then_some((&line[..start], behind))
    }

    /// The columns that are not fields, with names, if they were requested.
    pub fn columns(&self) -> &[(&'static str, &'a [u8])] {
        &self.columns
    }

    /// The timestamp as written in the index.
    pub fn timestamp(&self) -> &[u8] {
        &self.timestamp
    }

    /// Whether every part of the timestamp is in range, which is remembered.
    #[inline]
    pub(crate) fn check_time(&mut self) -> bool {
        let plausible = is_plausible_timestamp(&self.timestamp);
        self.plausible = Some(plausible);
        plausible
    }

    /// Whether every part of the timestamp is in range: no month 00, no hour 24.
    #[inline]
    pub(crate) fn is_plausible(&self) -> bool {
        self.plausible
            .unwrap_or_else(|| is_plausible_timestamp(&self.timestamp))
    }

    /// The parsed timestamp.
    pub fn time(&self) -> Option<Time> {
        Time::parse(&self.timestamp)
    }

    /// The raw bytes of a field, including JSON escapes.
    #[inline]
    pub fn raw(&self, field: Field) -> Option<&'a [u8]> {
        self.present
            .contains(field)
            .then(|| self.values[field as usize])
    }

    /// The text of a field, unless it has JSON escapes.
    #[inline]
    pub(crate) fn plain(&self, field: Field) -> Option<&'a [u8]> {
        self.raw(field).filter(|_| !self.escaped.contains(field))
    }

    /// The text of a field, with JSON escapes decoded.
    pub fn text(&self, field: Field) -> Option<Cow<'a, [u8]>> {
        let bytes = self.raw(field)?;
        if self.escaped.contains(field) {
            json::text(json::Raw {
                bytes,
                kind: json::Kind::Escaped,
            })
        } else {
            Some(Cow::Borrowed(bytes))
        }
    }

    /// The last bytes of a text of this line as words, with NULs before it if there are fewer: so a
    /// text of at most that length is a key that is hashed and compared without loops. Lines of captures
    /// have no NULs. `None` if the text is not part of the line, or too near to its start.
    #[inline(always)]
    pub fn fixed<const WORDS: usize>(&self, text: &[u8]) -> Option<[u64; WORDS]> {
        if text.is_empty() {
            return Some([0; WORDS]);
        }
        let end = (text.as_ptr().addr() + text.len()).checked_sub(self.line.as_ptr().addr())?;
        let words: &[[u8; 8]; WORDS] = self.line.get(..end)?.as_rchunks().1.last_chunk()?;
        let nuls = (8 * WORDS).saturating_sub(text.len());
        let masks: &[[u8; 8]; WORDS] =
            MASKS.get(MOST_NULS - nuls..)?.as_chunks().0.first_chunk()?;
        Some(std::array::from_fn(|at| {
            u64::from_le_bytes(words[at]) & u64::from_le_bytes(masks[at])
        }))
    }

    /// The original URI.
    pub fn url(&self) -> Option<Cow<'a, [u8]>> {
        self.text(Field::Url)
    }

    /// The media type without its parameters, as written.
    #[inline]
    pub fn mime(&self) -> Option<Cow<'a, [u8]>> {
        let cut = |mime: &[u8]| memchr2(b';', b' ', mime).unwrap_or(mime.len());
        Some(match self.text(Field::Mime)? {
            Cow::Borrowed(mime) => Cow::Borrowed(&mime[..cut(mime)]),
            Cow::Owned(mut mime) => {
                mime.truncate(cut(&mime));
                Cow::Owned(mime)
            }
        })
    }

    /// The HTTP status, if it is a number of three digits.
    #[inline]
    pub fn status(&self) -> Option<u16> {
        match &*self.text(Field::Status)? {
            [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
            }
            _ => None,
        }
    }

    /// The value of a numeric field: a length, an offset, a time in seconds.
    pub fn number(&self, field: Field) -> Option<u64> {
        let text = self.text(field)?;
        let digits = &*text;
        if let (1..=8, Some([word])) = (digits.len(), self.fixed(digits)) {
            return number_of_word(word, digits.len());
        }
        if digits.is_empty() || digits.len() > 19 {
            return None;
        }
        digits.iter().try_fold(0u64, |value, digit| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + u64::from(digit - b'0'))
        })
    }

    /// The JSON object of the line, if it has one.
    pub fn json(&self) -> Option<&'a [u8]> {
        self.json.map(|at| &self.line[at..])
    }

    /// A member of the line's JSON by its name. Scans the JSON again.
    pub fn other(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        let object = self.json()?;
        let mut found = None;
        json::members(object, false, |member, raw| {
            if member == name.as_bytes() {
                found = json::text(raw);
                json::Next::Enough
            } else {
                json::Next::More
            }
        })
        .ok()?;
        found
    }

    /// Whether the capture is a revisit: its content was the same as before.
    #[inline(always)]
    pub fn is_revisit(&self) -> bool {
        // The first letter is enough for most media types.
        self.raw(Field::Mime)
            .is_some_and(|mime| matches!(mime.first(), Some(b'w' | b'\\')))
            && self.has_mime_of_revisits()
    }

    #[cold]
    fn has_mime_of_revisits(&self) -> bool {
        self.mime().as_deref() == Some(b"warc/revisit")
    }
}

/// The fields of a capture that is being read.
pub(crate) struct Values<'c, 'a> {
    values: &'c mut [&'a [u8]; Field::COUNT],
    present: &'c mut Fields,
    escaped: &'c mut Fields,
}

impl<'a> Values<'_, 'a> {
    /// Sets a field to its raw value; `-` and the empty string mean that it is missing. The first
    /// value of a field wins.
    #[inline(always)]
    pub(crate) fn set(&mut self, field: Field, value: &'a [u8]) {
        if !self.present.contains(field) && !value.is_empty() && value != b"-" {
            self.values[field as usize] = value;
            self.present.insert(field);
        }
    }

    #[inline(always)]
    pub(crate) fn set_raw(&mut self, field: Field, raw: json::Raw<'a>) {
        match raw.kind {
            json::Kind::Text => self.set(field, raw.bytes),
            json::Kind::Escaped => {
                let is_missing = || json::text(raw).is_some_and(|text| *text == *b"-");
                if !self.present.contains(field) && (raw.bytes.len() > 6 || !is_missing()) {
                    self.set(field, raw.bytes);
                    self.escaped.insert(field);
                }
            }
            json::Kind::Word if raw.bytes == b"null" => {}
            json::Kind::Word => self.set(field, raw.bytes),
            json::Kind::Nested => {}
        }
    }
}

/// The number whose digits are the last bytes of a word, of which there are 1 to 8. How many there are
/// differs from line to line, so a loop over them would be mispredicted by most processors.
#[inline(always)]
fn number_of_word(word: u64, digits: usize) -> Option<u64> {
    let zeros = 0x3030_3030_3030_3030 & !(u64::MAX << (64 - 8 * digits));
    let word = word | zeros;
    if !are_digits(word.to_le_bytes()) {
        return None;
    }
    // Adds neighbours: digits become pairs, pairs become fours, fours become the number.
    let pairs = (word & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(10 << 8 | 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 << 16 | 1) >> 16;
    Some((fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 << 32 | 1) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_fields_has_what_was_put_in() {
        let set = Field::Url | Field::Status;
        assert!(set.contains(Field::Url) && set.contains(Field::Status));
        assert!(!set.contains(Field::Mime));
        assert!(Fields::ALL.covers(set) && !set.covers(Fields::ALL));
        assert_eq!(Field::ALL.into_iter().collect::<Fields>(), Fields::ALL);
        assert_eq!(format!("{set:?}"), "{Url, Status}");
    }

    #[test]
    fn a_text_of_the_line_has_a_fixed_length_with_nuls_before_it() {
        let line = b"some text that is long enough, and more";
        let capture = Capture::new(line, b"k", b"2004");
        for end in 0..=line.len() {
            for start in 0..=end {
                let text = &line[start..end];
                let mut padded = vec![0; 16];
                padded.extend_from_slice(text);
                let words = padded.as_rchunks().1.last_chunk::<2>().unwrap();
                let expected = match end {
                    _ if text.is_empty() => Some([0; 2]),
                    ..16 => None,
                    _ => Some(words.map(u64::from_le_bytes)),
                };
                assert_eq!(capture.fixed::<2>(text), expected, "{start}..{end}");
            }
        }
        let other = line.to_vec();
        assert_eq!(capture.fixed::<2>(&other), None);
        assert_eq!(capture.fixed::<9>(line), None);
    }

    #[test]
    fn every_field_is_found_by_its_own_name() {
        for field in Field::ALL {
            assert_eq!(Field::of_json(field.name().as_bytes()), Some(field));
        }
    }

    #[test]
    fn numbers_of_a_line_are_the_same_as_those_read_digit_by_digit() {
        for digits in [
            "0",
            "7",
            "12",
            "123",
            "0012",
            "98765",
            "654321",
            "1234567",
            "99999999",
            "123456789",
            "1x",
            "x1",
            "-1",
            "1 2",
            "1234567:",
            "/2345678",
            "",
        ] {
            let line = format!("com,example)/ 20200101000000 {{\"length\": \"{digits}\"}}");
            let start = line.len() - 2 - digits.len();
            let mut capture = Capture::new(line.as_bytes(), b"k", b"2004");
            capture.set(Field::Length, &line.as_bytes()[start..start + digits.len()]);
            let expected = digits.bytes().all(|byte| byte.is_ascii_digit());
            let expected = expected.then(|| digits.parse::<u64>().ok()).flatten();
            assert_eq!(capture.number(Field::Length), expected, "{digits}");
        }
    }

    #[test]
    fn numbers_and_statuses_are_read_only_from_digits() {
        let mut capture = Capture::new(b"", b"k", b"2004");
        capture.set(Field::Status, b"20x");
        capture.set(Field::Length, b"18446744073709551616");
        capture.set(Field::Offset, b"-");
        assert_eq!(capture.status(), None);
        assert_eq!(capture.number(Field::Length), None);
        assert_eq!(capture.raw(Field::Offset), None);
        capture.replace(Field::Status, b"404");
        assert_eq!(capture.status(), Some(404));
    }
}
