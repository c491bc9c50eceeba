//! One record of a WARC or ARC file.

use std::borrow::Cow;

use super::DamageKind;
use super::head::Head;
use super::text::decoded;
use super::units::Unit;

/// A record and the part of its content that is in memory.
pub(super) struct Record<'a> {
    head: Kind<'a>,
    /// The offset of the content in the unit.
    pub(super) start: usize,
    /// The content; of a large record, its first part.
    pub(super) content: &'a [u8],
    /// The length of the content.
    pub(super) length: u64,
}

enum Kind<'a> {
    Warc(Head<'a>),
    Arc(ArcLine<'a>),
}

/// The line before a record of an ARC file: `URL IP-address date content-type length`.
pub(super) struct ArcLine<'a> {
    uri: &'a [u8],
    date: &'a [u8],
    content_type: &'a [u8],
    /// `None` if it is invalid.
    length: Option<u64>,
}

impl<'a> ArcLine<'a> {
    /// Parses a line without its line break.
    pub(super) fn parse(line: &'a [u8]) -> Option<ArcLine<'a>> {
        let mut words = line.trim_ascii_end().rsplitn(5, |&byte| byte == b' ');
        let length = number(words.next()?);
        let content_type = words.next()?;
        let date = words.next()?;
        let _address = words.next()?;
        let uri = words.next()?;
        let is_date = date.len() >= 8 && date.iter().all(u8::is_ascii_digit);
        (is_date && uri.contains(&b':')).then_some(ArcLine {
            uri,
            date,
            content_type,
            length,
        })
    }

    fn is_description(&self) -> bool {
        self.uri.starts_with(b"filedesc://")
    }
}

/// The length of a head and of the content behind it.
pub(super) struct Extent {
    pub(super) head: usize,
    pub(super) content: u64,
}

/// The extent of the record at the start of `bytes`.
pub(super) fn extent(bytes: &[u8]) -> Result<Extent, DamageKind> {
    let (_, extent) = parse(bytes)?;
    Ok(extent)
}

fn parse(bytes: &[u8]) -> Result<(Kind<'_>, Extent), DamageKind> {
    if bytes.starts_with(b"WARC/") {
        let head = Head::parse(bytes);
        let content = head
            .get("Content-Length")
            .and_then(number)
            .ok_or(DamageKind::BadHeader("Content-Length"))?;
        let extent = Extent {
            head: head.length,
            content,
        };
        return Ok((Kind::Warc(head), extent));
    }
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let line = ArcLine::parse(&bytes[..end]).ok_or(DamageKind::NotARecord)?;
    let extent = Extent {
        head: (end + 1).min(bytes.len()),
        content: line.length.ok_or(DamageKind::BadHeader("length"))?,
    };
    Ok((Kind::Arc(line), extent))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

impl<'a> Record<'a> {
    /// Parses a unit. `None` if it is empty.
    pub(super) fn parse(unit: &Unit<'a>) -> Result<Option<Record<'a>>, DamageKind> {
        let blank = unit
            .bytes
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace());
        let blank = blank.count();
        let bytes = &unit.bytes[blank..];
        if bytes.is_empty() {
            return Ok(None);
        }
        let (head, extent) = parse(bytes)?;
        let start = blank + extent.head;
        let end = (start as u64).saturating_add(extent.content);
        if end > unit.total {
            return Err(DamageKind::TooLong);
        }
        if let Some(behind) = usize::try_from(end)
            .ok()
            .and_then(|end| unit.bytes.get(end..))
            && unit.is_compressed
        {
            let behind = behind.trim_ascii_start();
            if !behind.is_empty() {
                return Err(match parse(behind) {
                    Ok(_) => DamageKind::Together,
                    Err(_) => DamageKind::BadLength,
                });
            }
        }
        let end = usize::try_from(end).map_or(unit.bytes.len(), |end| end.min(unit.bytes.len()));
        Ok(Some(Record {
            head,
            start,
            content: &unit.bytes[start.min(end)..end],
            length: extent.content,
        }))
    }

    fn field(&self, name: &str) -> Option<&[u8]> {
        match &self.head {
            Kind::Warc(head) => head.get(name),
            Kind::Arc(_) => None,
        }
    }

    /// The type of the record.
    pub(super) fn kind(&self) -> Option<&[u8]> {
        match &self.head {
            Kind::Warc(head) => head.get("WARC-Type"),
            Kind::Arc(line) if line.is_description() => Some(b"warcinfo"),
            Kind::Arc(_) => Some(b"response"),
        }
    }

    /// The media type of the content.
    pub(super) fn content_type(&self) -> Option<&[u8]> {
        match &self.head {
            Kind::Warc(head) => head.get("Content-Type"),
            Kind::Arc(line) if line.is_description() => Some(line.content_type),
            Kind::Arc(_) => Some(b"application/http;msgtype=response"),
        }
    }

    /// The URI, without the angle brackets that some versions of wget write and with its spaces
    /// escaped.
    pub(super) fn uri(&self) -> Option<Cow<'_, str>> {
        let uri = match &self.head {
            Kind::Warc(head) => head.get("WARC-Target-URI")?,
            Kind::Arc(line) if line.is_description() => return None,
            Kind::Arc(line) => line.uri,
        };
        let uri = uri
            .strip_prefix(b"<")
            .and_then(|uri| uri.strip_suffix(b">"))
            .unwrap_or(uri);
        let uri = decoded(uri);
        match uri.contains(' ') {
            true => Some(uri.replace(' ', "%20").into()),
            false => Some(uri),
        }
    }

    /// The date as 14 digits.
    pub(super) fn timestamp(&self) -> Option<String> {
        let (date, is_arc) = match &self.head {
            Kind::Warc(head) => (head.get("WARC-Date")?, false),
            Kind::Arc(line) => (line.date, true),
        };
        timestamp(date, is_arc)
    }

    /// The digest of the payload, if it is in the head.
    pub(super) fn digest(&self) -> Option<&[u8]> {
        self.field("WARC-Payload-Digest")
            .filter(|digest| !digest.is_empty())
    }

    /// The identifier of the record.
    pub(super) fn id(&self) -> Option<&[u8]> {
        self.field("WARC-Record-ID")
    }

    /// Whether it is a record of a WARC file, not of an ARC file.
    pub(super) fn is_warc(&self) -> bool {
        matches!(self.head, Kind::Warc(_))
    }

    /// The URI of the capture that a revisit repeats.
    pub(super) fn refers_to(&self) -> Option<&[u8]> {
        self.field("WARC-Refers-To-Target-URI")
    }

    /// The identifier of the record that was captured with it.
    pub(super) fn concurrent_to(&self) -> Option<&[u8]> {
        self.field("WARC-Concurrent-To")
    }

    /// Whether the heads of the record and of the HTTP message in it are certainly in memory, although
    /// the rest may not be.
    pub(super) fn has_heads(&self) -> bool {
        let has_content = self.content.len() as u64 == self.length;
        let uri = self.uri();
        let http = self.http(uri.as_deref());
        // A head that ends with what is in memory may go on.
        has_content
            || !self.content.is_empty() && http.is_none_or(|http| http.length < self.content.len())
    }

    /// The head of the HTTP message in the content.
    pub(super) fn http(&self, uri: Option<&str>) -> Option<Head<'a>> {
        let has_http = matches!(self.kind(), Some(b"response" | b"request" | b"revisit"))
            && uri.is_some_and(|uri| uri.starts_with("http:") || uri.starts_with("https:"));
        (has_http && !self.content.is_empty()).then(|| Head::parse(self.content))
    }
}

/// The numbers of an ISO date, or those of an ARC file, which may be short, as 14 digits.
fn timestamp(date: &[u8], is_arc: bool) -> Option<String> {
    let least = [0, 1, 1, 0, 0, 0];
    let most = [9999, 12, 31, 23, 59, 59];
    let mut numbers = least;
    if is_arc {
        let digits = std::str::from_utf8(date).ok()?;
        numbers[0] = digits.get(..4)?.parse().ok()?;
        for (place, number) in numbers.iter_mut().enumerate().skip(1) {
            if let Some(digits) = digits.get(2 + 2 * place..4 + 2 * place) {
                *number = digits.parse().ok()?;
            }
        }
    } else {
        let groups = date.split(|byte| !byte.is_ascii_digit());
        let mut count = 0;
        for (number, group) in numbers.iter_mut().zip(groups) {
            *number = std::str::from_utf8(group).ok()?.parse().ok()?;
            count += 1;
        }
        if count < 3 {
            return None;
        }
    }
    let is_valid = |(number, (least, most)): (&u32, (&u32, &u32))| (least..=most).contains(&number);
    let mut ranges = numbers.iter().zip(least.iter().zip(&most));
    if !ranges.all(is_valid) {
        return None;
    }
    let [year, month, day, hour, minute, second] = numbers;
    Some(format!(
        "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_14_digits() {
        let iso = |text: &str| timestamp(text.as_bytes(), false);
        assert_eq!(iso("2014-01-26T20:06:24Z").unwrap(), "20140126200624");
        assert_eq!(
            iso("2014-01-26T20:06:24.123456Z").unwrap(),
            "20140126200624"
        );
        assert_eq!(iso("2014-01-26").unwrap(), "20140126000000");
        for bad in [
            "",
            "2014",
            "2014-13-01T00:00:00Z",
            "2014-01-01T24:00:00Z",
            "x",
        ] {
            assert_eq!(iso(bad), None, "{bad}");
        }
        assert_eq!(
            timestamp(b"20140126200624", true).unwrap(),
            "20140126200624"
        );
        assert_eq!(timestamp(b"201401", true).unwrap(), "20140101000000");
    }

    #[test]
    fn an_arc_line_is_read_from_its_end() {
        let line = ArcLine::parse(b"http://a/b c 1.2.3.4 20140126200624 text/html 12\r").unwrap();
        assert_eq!((line.uri, line.length), (&b"http://a/b c"[..], Some(12)));
        assert!(ArcLine::parse(b"<html> with some words here").is_none());
    }
}
