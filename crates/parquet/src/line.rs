//! Rows as lines of CDXJ, in the form of Common Crawl's.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use waypost_index::json::push_string;
use waypost_index::{Capture, Field};

/// The fields of a line, with the columns that they are read from, in the order of Common Crawl's lines.
pub(crate) const FIELDS: [(Field, &str); 12] = [
    (Field::Url, "url"),
    (Field::Mime, "content_mime_type"),
    (Field::MimeDetected, "content_mime_detected"),
    (Field::Status, "fetch_status"),
    (Field::Digest, "content_digest"),
    (Field::Length, "warc_record_length"),
    (Field::Offset, "warc_record_offset"),
    (Field::Filename, "warc_filename"),
    (Field::Charset, "content_charset"),
    (Field::Languages, "content_languages"),
    (Field::Truncated, "content_truncated"),
    (Field::Redirect, "fetch_redirect"),
];

/// A line that is being written.
pub(crate) struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl<'a> Line<'a> {
    /// Starts a line with a key and a timestamp.
    pub(crate) fn begin(out: &'a mut Vec<u8>, key: &[u8], timestamp: &[u8]) -> Line<'a> {
        for &byte in key {
            match byte {
                // A key ends at a space, and a line at a line feed.
                b' ' | b'\n' | b'\r' => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
                _ => out.push(byte),
            }
        }
        out.push(b' ');
        out.extend_from_slice(timestamp);
        out.extend_from_slice(b" {");
        Line {
            out,
            is_first: true,
        }
    }

    /// Adds a field.
    pub(crate) fn field(&mut self, field: Field, value: &[u8]) {
        if !std::mem::take(&mut self.is_first) {
            self.out.extend_from_slice(b", ");
        }
        push_string(field.name().as_bytes(), self.out);
        self.out.extend_from_slice(b": ");
        push_string(value, self.out);
    }

    /// Ends the line.
    pub(crate) fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }
}

/// Appends a capture as a line.
pub(crate) fn push_capture(out: &mut Vec<u8>, surt: &[u8], capture: &Capture<'_>) {
    let timestamp = match capture.timestamp() {
        b"" => b"-",
        timestamp => timestamp,
    };
    let mut line = Line::begin(out, surt, timestamp);
    for (field, _) in FIELDS {
        if let Some(value) = capture.text(field) {
            line.field(field, &value);
        }
    }
    line.end();
}

/// A time in milliseconds since 1970 as 14 digits.
pub(crate) fn digits(milliseconds: i64) -> Option<[u8; 14]> {
    let time = Timestamp::from_millisecond(milliseconds).ok()?;
    let time = TimeZone::UTC.to_datetime(time);
    let mut number = u64::try_from(time.year()).ok()?;
    for part in [
        time.month(),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
    ] {
        number = number * 100 + u64::try_from(part).ok()?;
    }
    let mut digits = [b'0'; 14];
    for place in digits.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_14_digits() {
        assert_eq!(&digits(0).unwrap(), b"19700101000000");
        assert_eq!(&digits(1_700_000_000_999).unwrap(), b"20231114221320");
        assert_eq!(digits(i64::MAX), None);
    }

    #[test]
    fn nothing_in_a_row_breaks_its_line() {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, b"com,a)/b c", b"2020");
        line.field(Field::Url, b"http://a.com/\"\n\\");
        line.field(Field::Mime, b"x");
        line.end();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with("com,a)/b%20c 2020 {\"url\": "), "{text}");
    }
}
