//! Zip archives, whose entries are read in place.
//!
//! The directory at the end of the file says where the entries are. An entry that is stored is a
//! section of the file; one that is deflated is inflated while it is read. Nothing is unpacked.
//!
//! ```text
//! local header · data · [data descriptor] · …      one for each entry
//! central headers                                  the directory
//! [zip64 end record · zip64 locator]               if a number does not fit in 32 bits
//! end record · comment
//! ```
//!
//! The functions that parse ([`End::find`], [`End::parse64`], [`entries`]) are pure.

use std::os::unix::fs::FileExt;

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::opened::{Packing, Part};
use crate::source::Source;

/// The longest end record with a comment, and a zip64 locator before it.
const LONGEST_END: u64 = 22 + 65_535 + 20;

/// Maximum size of a directory. An entry takes about 100 bytes.
const LARGEST_DIRECTORY: u64 = 256 << 20;

/// The bytes that a zip archive starts with: a local header, or the end record of an empty one.
pub fn is_zip(start: &[u8]) -> bool {
    start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06")
}

/// The name of the first entry, if an archive starts with these bytes.
pub fn first_name(start: &[u8]) -> Option<&[u8]> {
    let header = start.strip_prefix(b"PK\x03\x04")?;
    header.get(26..26 + usize::from(u16_at(header, 22)?))
}

/// A zip archive.
pub struct Zip {
    source: Source,
    entries: Vec<Entry>,
}

/// An entry of a zip archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, with slashes.
    pub name: String,
    /// Its size, inflated.
    pub size: u64,
    /// Its size in the archive.
    packed: u64,
    method: u16,
    is_encrypted: bool,
    crc: u32,
    /// The offset of its local header.
    header: u64,
}

/// Why a file is not a readable zip archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no end record: the file was cut, or is not a zip archive.
    NoEnd,
    /// The archive continues in other files.
    Split,
    /// Something is not where the archive says it is.
    Corrupt(&'static str),
}

/// Where the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of entries.
    pub entries: u64,
    /// The size of the directory.
    pub size: u64,
    /// The offset of the directory, according to the archive.
    pub offset: u64,
    /// The offset where the directory ends.
    pub end: u64,
    /// The offset of the zip64 end record, if numbers are in it, according to the archive.
    pub zip64: Option<u64>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl End {
    /// Finds the end record in the last bytes of a file, which start at `start`.
    ///
    /// # Errors
    /// If no end record is found, or the archive is split.
    pub fn find(tail: &[u8], start: u64) -> Result<End, Problem> {
        let is_end = |at: &usize| {
            tail[*at..].starts_with(b"PK\x05\x06")
                && u16_at(tail, at + 20)
                    .is_some_and(|comment| at + 22 + usize::from(comment) == tail.len())
        };
        let at = (0..tail.len()).rev().find(is_end).ok_or(Problem::NoEnd)?;
        let end = End::parse(&tail[at..], start + at as u64).ok_or(Problem::NoEnd)?;
        let locator = at.checked_sub(20).map(|locator| &tail[locator..]);
        let locator = locator.filter(|locator| locator.starts_with(b"PK\x06\x07"));
        let is_full = end.entries == 0xffff || end.size == 0xffff_ffff || end.offset == 0xffff_ffff;
        match locator {
            Some(locator) if is_full => Ok(End {
                zip64: u64_at(locator, 8),
                ..end
            }),
            _ if u16_at(tail, at + 4) != Some(0) || u16_at(tail, at + 6) != Some(0) => {
                Err(Problem::Split)
            }
            _ => Ok(end),
        }
    }

    fn parse(record: &[u8], at: u64) -> Option<End> {
        Some(End {
            entries: u16_at(record, 10)?.into(),
            size: u32_at(record, 12)?.into(),
            offset: u32_at(record, 16)?.into(),
            end: at,
            zip64: None,
        })
    }

    /// Parses a zip64 end record of 56 bytes, which is at `at`.
    ///
    /// # Errors
    /// If it is not one, or the archive is split.
    pub fn parse64(record: &[u8], at: u64) -> Result<End, Problem> {
        let numbers = || {
            Some(End {
                entries: u64_at(record, 32)?,
                size: u64_at(record, 40)?,
                offset: u64_at(record, 48)?,
                end: at,
                zip64: None,
            })
        };
        if !record.starts_with(b"PK\x06\x06") {
            return Err(Problem::Corrupt("the zip64 end record is missing"));
        }
        if u32_at(record, 16) != Some(0) || u32_at(record, 20) != Some(0) {
            return Err(Problem::Split);
        }
        numbers().ok_or(Problem::NoEnd)
    }

    /// The offset of the directory, and how many bytes were put before the archive.
    ///
    /// # Errors
    /// If the directory does not fit before its end.
    pub fn directory(&self) -> Result<(u64, u64), Problem> {
        let start = self.end.checked_sub(self.size);
        let before = start.and_then(|start| Some((start, start.checked_sub(self.offset)?)));
        before.ok_or(Problem::Corrupt("the directory is not where it should be"))
    }
}

/// Parses a directory. `before` is added to all offsets.
///
/// # Errors
/// If it does not consist of headers.
pub fn entries(directory: &[u8], before: u64) -> Result<Vec<Entry>, Problem> {
    const CUT: Problem = Problem::Corrupt("the directory is cut");
    let mut entries = Vec::new();
    let mut rest = directory;
    while rest.starts_with(b"PK\x01\x02") {
        let (entry, length) = entry(rest, before).ok_or(CUT)?;
        entries.push(entry);
        rest = &rest[length..];
    }
    // A signature of the directory may follow.
    match rest.is_empty() || rest.starts_with(b"PK\x05\x05") {
        true => Ok(entries),
        false => Err(Problem::Corrupt("the directory has an invalid header")),
    }
}

/// Parses a central header. Returns the entry and the length of the header.
fn entry(header: &[u8], before: u64) -> Option<(Entry, usize)> {
    let length_at = |at| Some(usize::from(u16_at(header, at)?));
    let (name, extra, comment) = (length_at(28)?, length_at(30)?, length_at(32)?);
    let length = 46 + name + extra + comment;
    let name_bytes = header.get(46..46 + name)?;
    let mut extra = header.get(46 + name..46 + name + extra)?;
    header.get(..length)?;
    let flags = u16_at(header, 8)?;
    let mut numbers = [
        u32_at(header, 24)?,
        u32_at(header, 20)?,
        u32_at(header, 42)?,
    ]
    .map(u64::from);
    while extra.len() >= 4 {
        let length = usize::from(u16_at(extra, 2)?);
        let mut field = extra.get(4..4 + length)?;
        if u16_at(extra, 0)? == 1 {
            // Zip64: the numbers that do not fit above, in this order.
            for number in numbers.iter_mut().filter(|number| **number == 0xffff_ffff) {
                *number = u64_at(field, 0)?;
                field = &field[8..];
            }
        }
        extra = &extra[4 + length..];
    }
    let [size, packed, offset] = numbers;
    let entry = Entry {
        name: String::from_utf8_lossy(name_bytes).into_owned(),
        size,
        packed,
        method: u16_at(header, 10)?,
        is_encrypted: flags & 1 != 0,
        crc: u32_at(header, 16)?,
        header: offset.checked_add(before)?,
    };
    Some((entry, length))
}

impl Zip {
    /// Reads the directory of an archive, which must be a regular file.
    ///
    /// # Errors
    /// If it cannot be read, or is not a complete zip archive.
    pub fn open(source: &Source) -> Result<Zip> {
        Zip::read_directory(source).map_err(|error| error.in_file(source))
    }

    fn read_directory(source: &Source) -> Result<Zip> {
        let size = source.file()?.map_or(0, |section| section.length);
        let tail_start = size.saturating_sub(LONGEST_END);
        let tail = read(source, tail_start, size - tail_start)?;
        let mut end = End::find(&tail, tail_start).map_err(error)?;
        if let Some(at) = end.zip64 {
            end = read_zip64(source, at, end.end)?;
        }
        let (start, before) = end.directory().map_err(error)?;
        if end.size > LARGEST_DIRECTORY {
            return Err(Error::new(ErrorKind::Format(format!(
                "a zip directory of {} bytes exceeds the limit of {LARGEST_DIRECTORY} bytes",
                end.size
            ))));
        }
        let mut entries = entries(&read(source, start, end.size)?, before).map_err(error)?;
        // Only the lower bits are stored in an archive without zip64.
        if entries.len() as u64 & 0xffff != end.entries & 0xffff {
            let detail = "the number of entries differs";
            return Err(error(Problem::Corrupt(detail)));
        }
        // Of entries with the same name, the last one counts.
        entries.reverse();
        let mut names = std::collections::HashSet::new();
        entries.retain(|entry| names.insert(entry.name.clone()));
        entries.reverse();
        Ok(Zip {
            source: source.clone(),
            entries,
        })
    }

    /// The entries in the order of the directory.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry with this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The content of an entry. Its checksum is compared when it is inflated; for a stored one, see
    /// [`check`](Zip::check).
    ///
    /// # Errors
    /// If it is encrypted, compressed in an unknown way, or not where the directory says.
    pub fn source(&self, entry: &Entry) -> Result<Source> {
        let path = self.source.path().join(&entry.name);
        self.part(entry)
            .map(|part| Source::of_part(path.clone(), part))
            .map_err(|error| error.in_file(path.display()))
    }

    fn part(&self, entry: &Entry) -> Result<Part> {
        if entry.is_encrypted {
            let message = "the entry of the zip archive is encrypted".to_owned();
            return Err(Error::new(ErrorKind::Format(message)));
        }
        let packing = match entry.method {
            0 if entry.size == entry.packed => Packing::Stored,
            8 => Packing::Deflated {
                size: entry.size,
                crc: entry.crc,
            },
            0 => return Err(error(Problem::Corrupt("a stored entry has two sizes"))),
            method => {
                let message = format!(
                    "the entry is compressed by zip method {method}, and only deflate is supported"
                );
                return Err(Error::new(ErrorKind::Format(message)));
            }
        };
        let header = read(&self.source, entry.header, 30)?;
        if !header.starts_with(b"PK\x03\x04") {
            let detail = "an entry is not where the directory says";
            return Err(error(Problem::Corrupt(detail)));
        }
        let lengths = [u16_at(&header, 26), u16_at(&header, 28)];
        let lengths: u64 = lengths.into_iter().flatten().map(u64::from).sum();
        let start = entry.header + 30 + lengths;
        let size = self.source.file()?.map_or(0, |section| section.length);
        if start.checked_add(entry.packed).is_none_or(|end| end > size) {
            return Err(error(Problem::NoEnd));
        }
        Ok(Part::new(self.source.clone(), start, entry.packed, packing))
    }

    /// Compares the content of a stored entry with its checksum.
    ///
    /// # Errors
    /// If they differ, or it cannot be read.
    pub fn check(&self, entry: &Entry) -> Result<()> {
        use std::io::Read;
        if entry.method != 0 {
            return Ok(());
        }
        let source = self.source(entry)?;
        let Some(section) = source.file()? else {
            return Ok(());
        };
        let mut reader = section.reader(0);
        let mut crc = libdeflater::Crc::new();
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = reader.read(&mut buffer).doing("read", source.path())?;
            if read == 0 {
                break;
            }
            crc.update(&buffer[..read]);
        }
        if crc.sum() == entry.crc {
            return Ok(());
        }
        Err(error(Problem::Corrupt("the checksum of an entry differs")).in_file(&source))
    }
}

/// Reads the zip64 end record: where the locator says, or just before it if something was put before
/// the archive.
fn read_zip64(source: &Source, at: u64, end: u64) -> Result<End> {
    let beside = end.saturating_sub(20 + 56);
    for at in [at, beside] {
        if at <= beside
            && let Ok(found) = End::parse64(&read(source, at, 56)?, at)
        {
            return Ok(found);
        }
    }
    End::parse64(&read(source, beside, 56)?, beside).map_err(error)
}

fn read(source: &Source, at: u64, length: u64) -> Result<Vec<u8>> {
    let Some(section) = source.file()? else {
        let message = "a zip archive cannot be read from a pipe".to_owned();
        return Err(Error::new(ErrorKind::Invalid(message)));
    };
    if at
        .checked_add(length)
        .is_none_or(|end| end > section.length)
    {
        return Err(error(Problem::NoEnd));
    }
    let mut bytes = vec![0; length as usize];
    section
        .file
        .read_exact_at(&mut bytes, section.start + at)
        .doing("read", source.path())?;
    Ok(bytes)
}

fn error(problem: Problem) -> Error {
    let compression = "zip";
    Error::new(match problem {
        Problem::NoEnd => ErrorKind::Truncated { compression },
        Problem::Split => {
            ErrorKind::Format("the zip archive is split over several files".to_owned())
        }
        Problem::Corrupt(detail) => ErrorKind::Corrupt {
            compression,
            detail: detail.to_owned(),
        },
    })
}
