//! The file that classic Bloom filters are imported to: their bits as they are, memory-mapped.
//!
//! ```text
//! head (64 bytes) │ the bits of each filter │ table │ metadata (JSON) │ trailer (24 bytes)
//! ```
//!
//! Specified byte by byte in docs/formats/orestes.md. The table is at the end, so that filters are
//! written as they come.

use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use waypost_io::{AtomicFile, Compression, Mapped, Source};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::forms::{self, Form};
use super::hash::{self, Method};
use super::{Shape, Split};
use crate::error::{Error, Result};
use crate::filter::format::Metadata;

/// The magic number.
const MAGIC: [u8; 8] = *b"WPORESTE";
/// The version that is written, and the only one that is read.
const VERSION: u16 = 1;
/// Every array of bits starts at a multiple of this.
const ALIGNMENT: u64 = 64;
/// The length of what follows the arrays, before the table.
const FOOT: usize = 24;
/// The length of a row of the table.
const ROW: usize = 40;
/// The length of the trailer.
const TRAILER: usize = 24;
/// An unknown number of URLs.
const UNKNOWN: u64 = u64::MAX;

/// The bits of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its size.
    pub shape: Shape,
    /// The number of its URLs, if known.
    pub urls: Option<u64>,
    offset: u64,
    checksum: u64,
}

/// Writes filters to a file, in the order of their numbers.
pub struct Writer {
    out: BufWriter<AtomicFile>,
    method: Method,
    split: Split,
    at: u64,
    arrays: Vec<Array>,
    checksum: Xxh3Default,
    /// Bytes of the last array so far.
    written: u64,
    ones: u64,
    rates: f64,
}

impl Writer {
    /// Starts a file, which appears when it is finished.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn create(path: &Path, method: Method, split: Split) -> Result<Writer> {
        let mut writer = Writer {
            out: BufWriter::with_capacity(1 << 20, AtomicFile::create(path)?),
            method,
            split,
            at: 0,
            arrays: Vec::new(),
            checksum: Xxh3Default::new(),
            written: 0,
            ones: 0,
            rates: 0.0,
        };
        writer.put(&head())?;
        Ok(writer)
    }

    /// Starts the next filter.
    ///
    /// # Errors
    /// If the size is impossible, or the file can't be written.
    pub fn begin(&mut self, shape: Shape, urls: Option<u64>) -> Result<()> {
        shape.checked()?;
        self.end()?;
        self.arrays.push(Array {
            shape,
            urls,
            offset: self.at,
            checksum: 0,
        });
        Ok(())
    }

    /// Adds bits: the first in the lowest bit of the first byte. Zeros at the end may be left out.
    ///
    /// # Errors
    /// If there are more than the filter has, or the file can't be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(array) = self.arrays.last() else {
            return Err(Error::invalid("bits without a filter"));
        };
        let Shape { bits, .. } = array.shape;
        self.written += bytes.len() as u64;
        // Other writers round up to whole words, with zeros.
        let over = self.written.saturating_sub(array.shape.bytes());
        let (bytes, beyond) = bytes.split_at(bytes.len() - (over as usize).min(bytes.len()));
        self.written -= beyond.len() as u64;
        let last = match bytes.last() {
            Some(last) if self.written == array.shape.bytes() && bits % 8 != 0 => {
                last >> (bits % 8)
            }
            _ => 0,
        };
        if last != 0 || beyond.iter().any(|&byte| byte != 0) {
            return Err(Error::format(format!("more than the stated {bits} bits")));
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let of_words = words
            .iter()
            .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()));
        let of_rest = rest.iter().map(|byte| u64::from(byte.count_ones()));
        self.ones += of_words.chain(of_rest).sum::<u64>();
        self.checksum.update(bytes);
        self.put(bytes)
    }

    /// Whether bits of the last array are missing.
    pub(super) fn is_short(&self) -> bool {
        let last = self.arrays.last();
        last.is_some_and(|array| self.written < array.shape.bytes())
    }

    fn end(&mut self) -> Result<()> {
        let Some(array) = self.arrays.last().copied() else {
            return Ok(());
        };
        let zeros = vec![0; 1 << 16];
        let mut missing = array.shape.bytes() - self.written;
        while missing > 0 {
            let some = missing.min(zeros.len() as u64) as usize;
            self.checksum.update(&zeros[..some]);
            self.put(&zeros[..some])?;
            missing -= some as u64;
        }
        if let Some(array) = self.arrays.last_mut() {
            array.checksum = self.checksum.digest();
        }
        let density = self.ones as f64 / array.shape.bits as f64;
        self.rates += density.powf(array.shape.hashes.into());
        self.checksum = Xxh3Default::new();
        (self.written, self.ones) = (0, 0);
        let gap = self.at.next_multiple_of(ALIGNMENT) - self.at;
        self.put(&zeros[..gap as usize])
    }

    /// Completes the file. Returns its false positive rate.
    ///
    /// # Errors
    /// If filters are missing, or the file can't be written.
    pub fn finish(mut self, metadata: &Metadata) -> Result<f64> {
        self.end()?;
        if self.arrays.len() != self.split.filters() {
            return Err(Error::invalid(format!(
                "{} filters instead of {}",
                self.arrays.len(),
                self.split
            )));
        }
        let metadata = metadata.encode();
        let rate = self.rates / self.arrays.len() as f64;
        let number = Method::ALL.iter().position(|method| *method == self.method);
        let mut footer = vec![number.unwrap_or(0) as u8 + 1, 0, 0, 0];
        footer.extend((self.arrays.len() as u32).to_le_bytes());
        footer.extend((metadata.len() as u32).to_le_bytes());
        footer.extend([0; 4]);
        footer.extend(rate.to_le_bytes());
        for array in &self.arrays {
            footer.extend(array.offset.to_le_bytes());
            footer.extend(array.shape.bits.to_le_bytes());
            footer.extend(array.urls.unwrap_or(UNKNOWN).to_le_bytes());
            footer.extend(array.checksum.to_le_bytes());
            footer.extend(array.shape.hashes.to_le_bytes());
            footer.extend([0; 4]);
        }
        footer.extend(metadata);
        let offset = self.at;
        let checksum = checksum(&footer);
        footer.extend(offset.to_le_bytes());
        footer.extend(checksum.to_le_bytes());
        footer.extend(MAGIC);
        self.put(&footer)?;
        let fail = |error: std::io::Error| Error::invalid(format!("cannot write: {error}"));
        let file = self
            .out
            .into_inner()
            .map_err(|error| fail(error.into_error()))?;
        file.commit()?;
        Ok(rate)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        let written = self.out.write_all(bytes);
        written.map_err(|error| Error::io("write", self.out.get_ref().path(), error))
    }
}

fn head() -> [u8; ALIGNMENT as usize] {
    let mut head = [0; ALIGNMENT as usize];
    head[..8].copy_from_slice(&MAGIC);
    head[8..10].copy_from_slice(&VERSION.to_le_bytes());
    head
}

fn checksum(footer: &[u8]) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(&head());
    hasher.update(footer);
    hasher.digest()
}

/// Classic Bloom filters of one archive.
pub struct ClassicFilter {
    name: String,
    pub(super) bytes: Mapped,
    /// The size of its file.
    length: u64,
    method: Method,
    split: Split,
    arrays: Vec<Array>,
    rate: f64,
    metadata: Metadata,
    identity: u64,
    sound: Vec<AtomicBool>,
    pub(super) about: crate::About,
}

impl ClassicFilter {
    /// Whether a file that starts with these bytes is such a file.
    pub fn begins(start: &[u8]) -> bool {
        start.starts_with(&MAGIC)
    }

    /// Whether a source, which can still be read from its start, has classic filters in any form.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn is(source: &Source) -> Result<bool> {
        Ok(Form::of_source(source)?.is_some())
    }

    /// Opens a file by memory map. The text form is decoded first.
    ///
    /// # Errors
    /// If it can't be read or is damaged.
    pub fn open(path: &Path) -> Result<ClassicFilter> {
        ClassicFilter::of(&Source::new(path))
    }

    /// Maps the file that a source has opened. The text form is decoded first.
    ///
    /// # Errors
    /// Like [`open`](ClassicFilter::open), and if it is JSON, which may be one of several filters and
    /// does not name its hash method.
    pub fn of(source: &Source) -> Result<ClassicFilter> {
        let bytes = match source.open()?.compression() {
            Compression::Plain => Mapped::of(source)?,
            _ => {
                let mut bytes = Vec::new();
                let read = source.open()?.read_to_end(&mut bytes);
                read.map_err(|error| Error::io("read", source.path(), error))?;
                Mapped::from(bytes)
            }
        };
        let filter = ClassicFilter::new(source.to_string(), bytes);
        let mut filter = filter.map_err(|error| error.in_file(source))?;
        filter.length = source.size().unwrap_or(filter.length);
        Ok(filter)
    }

    /// Reads a file from its bytes, binary or text.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn from_bytes(bytes: impl Into<Mapped>) -> Result<ClassicFilter> {
        ClassicFilter::new("a filter".to_owned(), bytes.into())
    }

    fn new(name: String, bytes: Mapped) -> Result<ClassicFilter> {
        let damaged = |what: &str| Error::format(format!("the filter is damaged: {what}"));
        let length = bytes.len() as u64;
        let bytes = match Form::of(&bytes[..bytes.len().min(forms::START)]) {
            Some(Form::Text) => forms::decoded(&bytes)?,
            Some(Form::Json) => {
                return Err(Error::format(
                    "the JSON of a classic filter does not name its hash method, so it has to be imported",
                ));
            }
            Some(Form::Binary) | None => bytes,
        };
        if !ClassicFilter::begins(&bytes) {
            return Err(Error::format("not a file of classic Bloom filters"));
        }
        let cut = || damaged("it is cut short");
        let version = u16::from_le_bytes(array(&bytes, 8).ok_or_else(cut)?);
        if version != VERSION {
            return Err(Error::format(format!(
                "classic Bloom filters of version {version}: only version {VERSION} is supported"
            )));
        }
        let trailer = bytes.len().checked_sub(TRAILER).ok_or_else(cut)?;
        if bytes[trailer + 16..] != MAGIC {
            return Err(cut());
        }
        let start = u64::from_le_bytes(array(&bytes, trailer).ok_or_else(cut)?);
        let footer = usize::try_from(start)
            .ok()
            .and_then(|start| bytes.get(start..trailer))
            .ok_or_else(cut)?;
        let identity = u64::from_le_bytes(array(&bytes, trailer + 8).ok_or_else(cut)?);
        if !bytes.starts_with(&head()) || checksum(footer) != identity {
            return Err(damaged("the checksum of its table does not hold"));
        }
        let number = |at| array(footer, at).map(u32::from_le_bytes).ok_or_else(cut);
        let method = usize::from(footer.first().copied().unwrap_or(0)).wrapping_sub(1);
        let method = *Method::ALL
            .get(method)
            .ok_or_else(|| damaged("unknown hash method"))?;
        let split = Split::of(number(4)? as usize)?;
        let rate = f64::from_le_bytes(array(footer, 16).ok_or_else(cut)?);
        if !(0.0..=1.0).contains(&rate) {
            return Err(damaged("invalid false positive rate"));
        }
        let (table, metadata) = footer
            .get(FOOT..)
            .and_then(|rest| rest.split_at_checked(split.filters() * ROW))
            .ok_or_else(cut)?;
        if metadata.len() as u64 != u64::from(number(8)?) {
            return Err(damaged("its metadata has another length"));
        }
        // An attacker can make a checksum match, so everything that lookups rely on is checked.
        let mut arrays = Vec::with_capacity(split.filters());
        for row in table.chunks(ROW) {
            let field = |at| array(row, at).map(u64::from_le_bytes).ok_or_else(cut);
            let shape = Shape {
                bits: field(8)?,
                hashes: u32::from_le_bytes(array(row, 32).ok_or_else(cut)?),
            };
            let offset = field(0)?;
            let end = offset.checked_add(shape.checked()?.bytes());
            if offset < ALIGNMENT || end.is_none_or(|end| end > start) {
                return Err(damaged("a filter that is not in the file"));
            }
            arrays.push(Array {
                shape,
                urls: Some(field(16)?).filter(|&urls| urls != UNKNOWN),
                offset,
                checksum: field(24)?,
            });
        }
        let metadata = Metadata::decode(metadata)?;
        let about = super::summary::about(&arrays, &metadata);
        let sound = arrays.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(ClassicFilter {
            name,
            method,
            split,
            arrays,
            rate,
            identity,
            about,
            metadata,
            bytes,
            length,
            sound,
        })
    }

    /// Whether a URL may be held, exactly as it is spelled.
    ///
    /// # Errors
    /// If the filter is damaged or was truncated.
    pub fn contains(&self, url: &[u8]) -> Result<bool> {
        let number = self.split.filter_of(&hash::md5(url));
        let array = &self.arrays[number];
        self.verify(number)?;
        let bits = self.bits(number);
        let mut positions = Vec::with_capacity(array.shape.hashes as usize);
        let Shape { bits: m, hashes } = array.shape;
        self.method.positions(url, m, hashes, &mut positions);
        let found = positions
            .iter()
            .all(|&at| bits[(at / 8) as usize] >> (at % 8) & 1 == 1);
        self.bytes.check_quickly()?;
        Ok(found)
    }

    /// Verifies the checksum of a filter, once.
    fn verify(&self, number: usize) -> Result<()> {
        if !self.sound[number].load(Ordering::Relaxed) {
            if xxh3_64(self.bits(number)) != self.arrays[number].checksum {
                return Err(Error::format(format!(
                    "filter {} is damaged: the checksum does not hold",
                    self.split.name(number)
                ))
                .in_file(&self.name));
            }
            self.sound[number].store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Verifies the checksums of all filters.
    ///
    /// # Errors
    /// If one of them is damaged, or the file was truncated.
    pub fn verify_all(&self) -> Result<()> {
        (0..self.arrays.len()).try_for_each(|number| self.verify(number))?;
        Ok(self.bytes.check()?)
    }

    /// The bytes of a filter; the table was checked against the length of the file.
    pub fn bits(&self, number: usize) -> &[u8] {
        let array = &self.arrays[number];
        &self.bytes[array.offset as usize..][..array.shape.bytes() as usize]
    }

    /// Its filters, in the order of their names.
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// How positions are computed.
    pub fn method(&self) -> Method {
        self.method
    }

    /// How URLs are distributed.
    pub fn split(&self) -> Split {
        self.split
    }

    /// The false positive rate, by the set bits.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The false positive rate of a lookup for a page that tries [spellings](super) of its URL: most
    /// have four, which is what this assumes; the URL of a host alone has eight.
    pub fn lookup_rate(&self) -> f64 {
        1.0 - (1.0 - self.rate).powi(4)
    }

    /// The number of URLs, unless it is unknown for one of the filters.
    pub fn urls(&self) -> Option<u64> {
        self.arrays.iter().map(|array| array.urls).sum()
    }

    /// Its metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size of its file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Identifies the content: a checksum that covers those of all filters.
    pub fn identity(&self) -> u64 {
        self.identity
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
