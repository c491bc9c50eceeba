//! One record, by the file, offset and length that an index gives.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

use waypost_io::{Error, ErrorKind, RangeRead, Result};
use zstd::zstd_safe;

use super::DamageKind;
use super::body;
use super::head::Head;
use super::record::{Record, extent};
use super::units::{Container, DICTIONARY, Unit, dictionary_of};

/// How much is read at a time.
const PIECE: u64 = 8 << 20;

/// How much is read first if the length is unknown.
const FIRST: u64 = 64 << 10;

/// Maximum size of a dictionary.
const LARGEST_DICTIONARY: u64 = 64 << 20;

/// A record of a WARC or ARC file, uncompressed and in memory.
#[derive(Debug)]
pub struct WarcRecord {
    bytes: Vec<u8>,
    content: Range<usize>,
    kind: String,
    uri: Option<String>,
    /// The length of the head of the HTTP message at the start of the content, if there is one.
    http: Option<usize>,
    refers_to: Option<String>,
}

impl WarcRecord {
    /// Reads the record at `offset`, of which `length` bytes are in the file; if that is unknown, up to
    /// its end. It may be compressed with gzip or zstd, or not at all.
    ///
    /// # Errors
    /// If there is no complete record of that length at that place, or it has more than `limit` bytes.
    pub fn read(
        file: &dyn RangeRead,
        offset: u64,
        length: Option<u64>,
        limit: usize,
    ) -> Result<WarcRecord> {
        read(file, offset, length.filter(|length| *length > 0), limit)
            .map_err(|error| error.in_file(file.name()).at_byte(offset))
    }

    /// The record with its head, as in an uncompressed file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is in the record: an HTTP message, or a file.
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.content.clone()]
    }

    /// Its type: `response`, `revisit`, `resource`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The URI that was captured.
    pub fn uri(&self) -> Option<&str> {
        self.uri.as_deref()
    }

    /// The URI of the capture that a revisit repeats, if it says so.
    pub fn refers_to(&self) -> Option<&str> {
        self.refers_to.as_deref()
    }

    /// The head of the HTTP message, with the empty line at its end.
    pub fn http_head(&self) -> Option<&[u8]> {
        Some(&self.content()[..self.http?])
    }

    /// The body of the HTTP message without its transfer and content encodings, or the content of a
    /// record without an HTTP message.
    ///
    /// # Errors
    /// If an encoding is unknown or damaged, or the body has more than `limit` bytes.
    pub fn body(&self, limit: usize) -> Result<Cow<'_, [u8]>> {
        match self.http {
            Some(length) => {
                let (head, body) = self.content().split_at(length);
                body::decode(&Head::parse(head), body, limit)
            }
            None => Ok(Cow::Borrowed(self.content())),
        }
    }
}

fn read(
    file: &dyn RangeRead,
    offset: u64,
    length: Option<u64>,
    limit: usize,
) -> Result<WarcRecord> {
    let mut packed = Vec::new();
    let size = match length {
        Some(length) => offset.saturating_add(length),
        None => file.size()?,
    };
    if offset >= size {
        return Err(Error::new(ErrorKind::EndsEarly));
    }
    let mut wanted = match length {
        Some(_) => size,
        None => size.min(offset + FIRST),
    };
    loop {
        if wanted - offset > limit as u64 {
            return Err(too_large(limit));
        }
        while offset + (packed.len() as u64) < wanted {
            let have = packed.len();
            let more = (wanted - offset - have as u64).min(PIECE);
            packed.resize(have + more as usize, 0);
            file.read_at(offset + have as u64, &mut packed[have..])?;
        }
        match unpack(file, &packed, length.is_some(), limit)? {
            Some((mut bytes, consumed)) => {
                let is_compressed = consumed.is_some();
                if let (Some(consumed), Some(length)) = (consumed, length)
                    && (consumed as u64) < length
                {
                    return Err(wrong(format!(
                        "the record has {consumed} bytes, not the {length} that the index gives"
                    )));
                }
                return parse(&mut bytes, is_compressed);
            }
            None if wanted == size => {
                let kind = DamageKind::Truncated;
                return Err(wrong(kind.to_string()));
            }
            None => wanted = size.min(offset + 2 * (wanted - offset)),
        }
    }
}

/// The uncompressed record at the start of `packed`, and how many of the bytes it takes if it is
/// compressed. `None` if more bytes are needed.
fn unpack(
    file: &dyn RangeRead,
    packed: &[u8],
    is_all: bool,
    limit: usize,
) -> Result<Option<(Vec<u8>, Option<usize>)>> {
    let mut bytes = Vec::new();
    match Container::of(packed) {
        Some(Container::Gzip) => {
            let mut rest = packed;
            let mut stream = flate2::bufread::GzDecoder::new(rest);
            let read = (&mut stream).take(limit as u64 + 1).read_to_end(&mut bytes);
            rest = stream.into_inner();
            match read {
                Ok(_) if bytes.len() > limit => Err(too_large(limit)),
                Ok(_) => Ok(Some((bytes, Some(packed.len() - rest.len())))),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(corrupt("gzip", &error)),
            }
        }
        Some(Container::Zstd) => {
            let Ok(length) = zstd_safe::find_frame_compressed_size(packed) else {
                return Ok(None);
            };
            let dictionary = read_dictionary(file)?;
            let frame = &packed[..length];
            zstd::stream::read::Decoder::with_dictionary(frame, &dictionary)
                .and_then(|stream| {
                    stream
                        .single_frame()
                        .take(limit as u64 + 1)
                        .read_to_end(&mut bytes)
                })
                .map_err(|error| corrupt("zstd", &error))?;
            match bytes.len() > limit {
                true => Err(too_large(limit)),
                false => Ok(Some((bytes, Some(length)))),
            }
        }
        Some(Container::Plain) => {
            let blank = packed.len() - packed.trim_ascii_start().len();
            let end = extent(&packed[blank..])
                .map(|extent| extent.content.saturating_add((blank + extent.head) as u64));
            match end {
                Ok(end) if end <= packed.len() as u64 => {
                    Ok(Some((packed[..end as usize].to_vec(), None)))
                }
                // The head may go on.
                Ok(_) => Ok(None),
                Err(_) if !is_all && packed.len() < (1 << 20) => Ok(None),
                Err(kind) => Err(wrong(kind.to_string())),
            }
        }
        None => Err(wrong(DamageKind::NotARecord.to_string())),
    }
}

/// The dictionary of all frames, which is the first frame of a file.
fn read_dictionary(file: &dyn RangeRead) -> Result<Vec<u8>> {
    let mut head = [0; 8];
    file.read_at(0, &mut head)?;
    if !head.starts_with(DICTIONARY) {
        return Ok(Vec::new());
    }
    let [_, _, _, _, size @ ..] = head;
    let size = u64::from(u32::from_le_bytes(size));
    if size > LARGEST_DICTIONARY {
        return Err(wrong(format!("a dictionary of {size} bytes is too large")));
    }
    let mut frame = vec![0; 8 + size as usize];
    file.read_at(0, &mut frame)?;
    Ok(dictionary_of(&frame))
}

fn parse(bytes: &mut Vec<u8>, is_compressed: bool) -> Result<WarcRecord> {
    let unit = Unit {
        offset: 0,
        length: bytes.len() as u64,
        bytes,
        total: bytes.len() as u64,
        is_compressed,
    };
    let record = Record::parse(&unit).map_err(|kind| wrong(kind.to_string()))?;
    let record = record.ok_or_else(|| wrong(DamageKind::NotARecord.to_string()))?;
    let uri = record.uri().map(Cow::into_owned);
    let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
    let end = record.start + record.length as usize;
    let is_warc = record.is_warc();
    let mut fetched = WarcRecord {
        bytes: Vec::new(),
        content: record.start..end,
        kind: text(record.kind()).unwrap_or_default(),
        http: record.http(uri.as_deref()).map(|head| head.length),
        uri,
        refers_to: text(record.refers_to()),
    };
    bytes.truncate(end);
    bytes.extend_from_slice(if is_warc { b"\r\n\r\n" } else { b"\n" });
    fetched.bytes = std::mem::take(bytes);
    Ok(fetched)
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Format(message))
}

fn corrupt(compression: &'static str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Corrupt {
        compression,
        detail: error.to_string(),
    })
}

pub(super) fn too_large(limit: usize) -> Error {
    Error::new(ErrorKind::TooLarge { bytes: limit })
}
