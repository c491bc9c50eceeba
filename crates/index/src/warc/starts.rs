//! The starts of records: their heads and those of HTTP messages, without inflating what follows where
//! that is not needed.

use std::borrow::Cow;
use std::path::Path;

use waypost_io::{Error, ErrorKind, Mapped, Progress, Result, Source};

use super::head::Head;
use super::record::Record;
use super::units::Units;
use super::{Damage, DamageKind, LARGEST_UNIT, NAMED};

/// The start of a record.
pub struct RecordStart<'a> {
    record: Record<'a>,
    offset: u64,
}

impl RecordStart<'_> {
    /// Its offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The type of the record.
    pub fn kind(&self) -> Option<&[u8]> {
        self.record.kind()
    }

    /// The media type of the content.
    pub fn content_type(&self) -> Option<&[u8]> {
        self.record.content_type()
    }

    /// The URI.
    pub fn uri(&self) -> Option<Cow<'_, str>> {
        self.record.uri()
    }

    /// The date as 14 digits.
    pub fn timestamp(&self) -> Option<String> {
        self.record.timestamp()
    }

    /// The content, or its first part. That of JSON is whole, unless it is huge.
    pub fn content(&self) -> &[u8] {
        self.record.content
    }

    /// The head of the HTTP message in the content.
    pub fn http(&self) -> Option<HttpHead<'_>> {
        let uri = self.record.uri();
        self.record.http(uri.as_deref()).map(HttpHead)
    }
}

/// The head of an HTTP message.
pub struct HttpHead<'a>(Head<'a>);

impl HttpHead<'_> {
    /// The status, if it is a number.
    pub fn status(&self) -> Option<u16> {
        std::str::from_utf8(self.0.words().1).ok()?.parse().ok()
    }

    /// The value of the first field of a name, in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name)
    }
}

/// What was read of a file.
#[derive(Debug, Default)]
pub struct StartsReport {
    /// Records.
    pub records: u64,
    /// Damaged records.
    pub damaged: u64,
    /// The first of them, with file and offset.
    pub damage: Vec<Error>,
}

/// Passes the start of every record of a WARC or ARC file to `take`.
///
/// # Errors
/// If the file cannot be read, or is neither.
pub fn read_starts(
    source: &Source,
    temporary: &Path,
    progress: &Progress,
    mut take: impl FnMut(&RecordStart<'_>),
) -> Result<StartsReport> {
    source.keep(temporary)?;
    let bytes = Mapped::of(source)?;
    let Some(units) = Units::new(&bytes, LARGEST_UNIT) else {
        let message = "not a WARC or ARC file".to_owned();
        return Err(Error::new(ErrorKind::Format(message)).in_file(source));
    };
    let mut units = units.skip_bodies(is_json);
    let mut report = StartsReport::default();
    let mut done = 0;
    let damage = |report: &mut StartsReport, offset: u64, kind: DamageKind| {
        report.damaged += 1;
        if report.damage.len() < NAMED {
            let file = 0;
            let damage = Damage { file, offset, kind };
            report.damage.push(damage.error(source));
        }
    };
    loop {
        let at = units.position();
        if at - done > 1 << 20 {
            progress.add((at - done) as u64);
            bytes.release(done..at);
            done = at;
        }
        let unit = match units.next() {
            None => break,
            Some(Ok(unit)) => unit,
            Some(Err((offset, kind))) => {
                damage(&mut report, offset, kind);
                continue;
            }
        };
        let offset = unit.offset;
        match Record::parse(&unit) {
            Ok(None) => {}
            Ok(Some(record)) => {
                report.records += 1;
                take(&RecordStart { record, offset });
            }
            Err(kind) => {
                let is_last = kind == DamageKind::Together;
                damage(&mut report, offset, kind);
                if is_last {
                    break;
                }
            }
        }
    }
    progress.add((bytes.len() - done) as u64);
    bytes.check()?;
    Ok(report)
}

/// Whether a record is one of a WAT file, whose content is needed.
fn is_json(record: &Record<'_>) -> bool {
    let kind = record.content_type();
    kind.is_some_and(|kind| kind.starts_with(b"application/json"))
}
