//! The units of a file: gzip members, zstd frames, or the records of a file without compression.
//!
//! A gzip member is inflated in one call where its end can be guessed from the start of the next one;
//! if the guess is wrong, it is inflated as a stream, which also says what is wrong with it. Damage
//! is skipped up to the next unit that starts like a record.

use std::io::{self, Read};

use libdeflater::Decompressor;
use memchr::memmem::{self, Finder};
use waypost_io::members;
use zstd::zstd_safe;

use super::DamageKind;
use super::peek::Peek;
use super::record::{ArcLine, Record, extent};

/// One compressed record, or one record.
pub(super) struct Unit<'a> {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// Its length in the file.
    pub(super) length: u64,
    /// What is in it; of a large one, its first part.
    pub(super) bytes: &'a [u8],
    /// The length of all that is in it.
    pub(super) total: u64,
    /// Whether it was compressed.
    pub(super) is_compressed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Gzip,
    Zstd,
    Plain,
}

pub(super) const GZIP: &[u8] = b"\x1f\x8b\x08";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// A skippable frame that holds the dictionary of all others.
pub(super) const DICTIONARY: &[u8] = b"\x5d\x2a\x4d\x18";

/// Compressed members larger than this are inflated as streams.
const LARGEST_MEMBER: usize = 16 << 20;
/// How many guesses of a member's end are tried.
const GUESSES: usize = 4;

impl Container {
    pub(super) fn of(file: &[u8]) -> Option<Container> {
        if file.starts_with(GZIP) {
            Some(Container::Gzip)
        } else if file.starts_with(ZSTD) || file.starts_with(DICTIONARY) {
            Some(Container::Zstd)
        } else if file.is_empty() || starts_record(file.trim_ascii_start()) {
            Some(Container::Plain)
        } else {
            None
        }
    }
}

/// Whether a record of a WARC or ARC file starts here.
fn starts_record(bytes: &[u8]) -> bool {
    let end = memchr::memchr(b'\n', &bytes[..bytes.len().min(1 << 16)]);
    bytes.starts_with(b"WARC/") || end.is_some_and(|end| ArcLine::parse(&bytes[..end]).is_some())
}

/// Reads the units of a file.
pub(super) struct Units<'a> {
    file: &'a [u8],
    container: Container,
    at: usize,
    limit: usize,
    buffer: Vec<u8>,
    inflater: Decompressor,
    /// Finds the starts of gzip members; making one for each member would take longer than using it.
    starts: Finder<'static>,
    dictionary: Vec<u8>,
    /// If bodies are not inflated where they are not needed.
    peek: Option<Box<Peek<'a>>>,
}

type Damaged = (u64, DamageKind);

impl<'a> Units<'a> {
    /// `None` if the file is neither a WARC nor an ARC file.
    pub(super) fn new(file: &'a [u8], limit: usize) -> Option<Units<'a>> {
        let container = Container::of(file)?;
        let mut units = Units {
            file,
            container,
            at: 0,
            limit,
            buffer: Vec::new(),
            inflater: Decompressor::new(),
            starts: Finder::new(GZIP),
            dictionary: Vec::new(),
            peek: None,
        };
        if file.starts_with(DICTIONARY) {
            units.read_dictionary();
        }
        // A compressed file of something else is refused now, not member by member.
        let start = units.at;
        if container != Container::Plain && !units.starts_record_at(start) {
            units.damaged(DamageKind::NotARecord);
            if units.at == file.len() {
                return None;
            }
            units.at = start;
        }
        Some(units)
    }

    /// Does not inflate bodies, except those of records that need theirs.
    pub(super) fn skip_bodies(
        mut self,
        needs_body: impl Fn(&Record<'_>) -> bool + 'a,
    ) -> Units<'a> {
        self.peek = Some(Box::new(Peek::new(Box::new(needs_body), self.file)));
        self
    }

    /// Where the next unit starts.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn next(&mut self) -> Option<Result<Unit<'_>, Damaged>> {
        match self.container {
            Container::Gzip => self.next_gzip(),
            Container::Zstd => self.next_zstd(),
            Container::Plain => self.next_plain(),
        }
    }

    /// Reports damage at the current place and skips to the next unit.
    fn damaged(&mut self, kind: DamageKind) -> Damaged {
        let at = self.at;
        let magic = if self.container == Container::Gzip {
            GZIP
        } else {
            ZSTD
        };
        let mut from = at + 1;
        self.at = loop {
            match memmem::find(self.file.get(from..).unwrap_or_default(), magic) {
                None => break self.file.len(),
                Some(found) if self.starts_record_at(from + found) => break from + found,
                Some(found) => from += found + 1,
            }
        };
        (at as u64, kind)
    }

    /// Whether a unit starts here that holds a record.
    fn starts_record_at(&self, at: usize) -> bool {
        let mut start = [0; 4096];
        let rest = &self.file[at..];
        let length = match self.container {
            Container::Gzip => read_full(&mut flate2::bufread::GzDecoder::new(rest), &mut start),
            _ => self
                .zstd_stream(rest)
                .and_then(|mut stream| read_full(&mut stream, &mut start)),
        };
        length.is_ok_and(|length| starts_record(start[..length].trim_ascii_start()))
    }

    fn next_gzip(&mut self) -> Option<Result<Unit<'_>, Damaged>> {
        let start = self.at;
        let rest = &self.file[start..];
        if rest.is_empty() {
            return None;
        }
        if !rest.starts_with(GZIP) {
            return Some(Err(self.damaged(DamageKind::NotARecord)));
        }
        if let Some(peek) = &mut self.peek
            && let Some((peeked, end)) = peek.member(start, &mut self.buffer)
        {
            self.at = end;
            return Some(Ok(Unit {
                offset: start as u64,
                length: (end - start) as u64,
                bytes: &self.buffer[..peeked.filled],
                total: peeked.total,
                is_compressed: true,
            }));
        }
        let mut from = start + 18;
        for _ in 0..GUESSES {
            let end = self.next_start(from);
            if end - start > LARGEST_MEMBER {
                break;
            }
            if let Some(length) = self.inflate(start, end) {
                self.at = end;
                return Some(Ok(Unit {
                    offset: start as u64,
                    length: (end - start) as u64,
                    bytes: &self.buffer[..length],
                    total: length as u64,
                    is_compressed: true,
                }));
            }
            if end == self.file.len() {
                break;
            }
            from = end + 1;
        }
        let mut rest = &self.file[start..];
        let mut stream = flate2::bufread::GzDecoder::new(rest);
        let read = read_start(&mut stream, self.limit, &mut self.buffer);
        rest = stream.into_inner();
        self.unit(start, read, self.file.len() - rest.len())
    }

    /// Where the next member may start, or the end of the file.
    fn next_start(&self, mut from: usize) -> usize {
        while let Some(found) = self.starts.find(self.file.get(from..).unwrap_or_default()) {
            let at = from + found;
            // The other bits are unused.
            if self.file.get(at + 3).is_some_and(|flags| flags & 0xe0 == 0) {
                return at;
            }
            from = at + 1;
        }
        self.file.len()
    }

    /// Inflates a member that may end at `end`. `None` if it does not, or is too large.
    fn inflate(&mut self, start: usize, end: usize) -> Option<usize> {
        let member = &self.file[start..end];
        let tail: [u8; 4] = member
            .get(member.len().checked_sub(4)?..)?
            .try_into()
            .ok()?;
        let length = u32::from_le_bytes(tail) as usize;
        // Deflate cannot make more of a byte than 1,032.
        if length > self.limit || length > member.len().saturating_mul(1032) {
            return None;
        }
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let inflated = self
            .inflater
            .gzip_decompress(member, &mut self.buffer[..length]);
        inflated
            .is_ok_and(|inflated| inflated == length && members::is_whole(member))
            .then_some(length)
    }

    /// The unit that a stream gave, or what is wrong with it.
    fn unit(
        &mut self,
        start: usize,
        read: io::Result<(usize, u64)>,
        end: usize,
    ) -> Option<Result<Unit<'_>, Damaged>> {
        let (length, total) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.at = self.file.len();
                return Some(Err((start as u64, DamageKind::Truncated)));
            }
            Err(_) => return Some(Err(self.damaged(DamageKind::Corrupt))),
        };
        self.at = end;
        Some(Ok(Unit {
            offset: start as u64,
            length: (end - start) as u64,
            bytes: &self.buffer[..length],
            total,
            is_compressed: true,
        }))
    }

    fn next_zstd(&mut self) -> Option<Result<Unit<'_>, Damaged>> {
        let start = self.at;
        let rest = &self.file[start..];
        if rest.is_empty() {
            return None;
        }
        let Ok(length) = zstd_safe::find_frame_compressed_size(rest) else {
            let is_frame = rest.starts_with(ZSTD);
            let damage = self.damaged(DamageKind::Corrupt);
            // The end of the file is missing, or something in the middle is wrong.
            return Some(Err(match self.at == self.file.len() && is_frame {
                true => (damage.0, DamageKind::Truncated),
                false => damage,
            }));
        };
        if !rest.starts_with(ZSTD) {
            // A skippable frame.
            self.at += length;
            return self.next_zstd();
        }
        let frame = &rest[..length];
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(peek) = &self.peek
            && let Ok(Some(total)) = zstd_safe::get_frame_content_size(frame)
            && let Ok(stream) = self.zstd_stream(frame)
            && let Some(peeked) = peek.frame(stream, total, &mut buffer)
        {
            self.buffer = buffer;
            self.at = start + length;
            return Some(Ok(Unit {
                offset: start as u64,
                length: length as u64,
                bytes: &self.buffer[..peeked.filled],
                total,
                is_compressed: true,
            }));
        }
        let read = self
            .zstd_stream(frame)
            .and_then(|mut stream| read_start(&mut stream, self.limit, &mut buffer));
        self.buffer = buffer;
        match read {
            Err(_) => Some(Err(self.damaged(DamageKind::Corrupt))),
            read => self.unit(start, read, start + length),
        }
    }

    fn zstd_stream<'b>(
        &self,
        frames: &'b [u8],
    ) -> io::Result<zstd::stream::read::Decoder<'static, &'b [u8]>> {
        let decoder = zstd::stream::read::Decoder::with_dictionary(frames, &self.dictionary)?;
        Ok(decoder.single_frame())
    }

    /// Reads the dictionary in the first frame.
    fn read_dictionary(&mut self) {
        let Ok(length) = zstd_safe::find_frame_compressed_size(self.file) else {
            return;
        };
        self.dictionary = dictionary_of(&self.file[..length]);
        self.at = length;
    }

    fn next_plain(&mut self) -> Option<Result<Unit<'_>, Damaged>> {
        let rest = &self.file[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
        let start = self.at;
        let rest = &self.file[start..];
        if rest.is_empty() {
            return None;
        }
        let extent = match extent(rest) {
            Ok(extent) => extent,
            Err(kind) => {
                self.skip_to_plain(start + 1);
                return Some(Err((start as u64, kind)));
            }
        };
        let total = (extent.head as u64).saturating_add(extent.content);
        if total > rest.len() as u64 {
            // Unless another record follows, the file was cut off.
            self.skip_to_plain(start + extent.head);
            let kind = match self.at < self.file.len() {
                true => DamageKind::BadLength,
                false => DamageKind::Truncated,
            };
            return Some(Err((start as u64, kind)));
        }
        let end = start + total as usize;
        let behind = self.file[end..].trim_ascii_start();
        if !behind.is_empty() && !starts_record(behind) {
            // If the next record starts within this one, its length is wrong. Else something stands
            // between the two, which is reported next.
            self.skip_to_plain(start + extent.head);
            if self.at < end {
                return Some(Err((start as u64, DamageKind::BadLength)));
            }
        }
        self.at = end;
        Some(Ok(Unit {
            offset: start as u64,
            length: total,
            bytes: &self.file[start..end],
            total,
            is_compressed: false,
        }))
    }

    /// Skips to the next line at which a record starts.
    fn skip_to_plain(&mut self, from: usize) {
        let mut at = from;
        while let Some(end) = memchr::memchr(b'\n', self.file.get(at..).unwrap_or_default()) {
            at += end + 1;
            let rest = &self.file[at..];
            let first = rest.first().is_some_and(u8::is_ascii_alphabetic);
            if first && starts_record(rest) {
                self.at = at;
                return;
            }
        }
        self.at = self.file.len();
    }
}

/// The dictionary in a skippable frame, which may be compressed itself.
pub(super) fn dictionary_of(frame: &[u8]) -> Vec<u8> {
    let dictionary = frame.get(8..).unwrap_or_default();
    match dictionary.starts_with(ZSTD) {
        true => {
            let mut inflated = Vec::new();
            let stream = zstd::stream::read::Decoder::with_buffer(dictionary);
            let read = stream.and_then(|s| s.take(1 << 26).read_to_end(&mut inflated));
            read.map(|_| inflated).unwrap_or_default()
        }
        false => dictionary.to_vec(),
    }
}

pub(super) fn read_full(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..])? {
            0 => break,
            length => filled += length,
        }
    }
    Ok(filled)
}

/// Reads a stream to its end and keeps its first `limit` bytes: how many are kept, and how many
/// there are.
fn read_start(
    stream: &mut impl Read,
    limit: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<(usize, u64)> {
    let mut kept = 0;
    loop {
        if kept == limit {
            break;
        }
        let wanted = (kept + (1 << 18)).min(limit);
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let length = read_full(stream, &mut buffer[kept..wanted])?;
        kept += length;
        if kept < wanted {
            return Ok((kept, kept as u64));
        }
    }
    let rest = io::copy(stream, &mut io::sink())?;
    Ok((kept, kept as u64 + rest))
}

/// All that is in a unit, from `from`: to digest more than what is in memory.
pub(super) fn read_again(
    file: &[u8],
    unit: &Unit<'_>,
    from: usize,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let start = unit.offset as usize;
    let stored = &file[start..start + unit.length as usize];
    let mut stream: Box<dyn Read> = match stored.starts_with(GZIP) {
        true => Box::new(flate2::bufread::GzDecoder::new(stored)),
        false => {
            let mut whole = Units::new(file, 1).ok_or(io::ErrorKind::InvalidData)?;
            whole.at = start;
            Box::new(whole.zstd_stream(stored)?)
        }
    };
    io::copy(&mut (&mut stream).take(from as u64), &mut io::sink())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => take(&buffer[..length]),
        }
    }
}
