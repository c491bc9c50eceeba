//! Where the rows of a map are, by the hash of their keys.
//!
//! A lookup has about seven keys that may speak of it, each a prefix of the next. One walk over its
//! bytes gives the hashes of all of them, and the slots of all of them are read at once, before the
//! first is looked at: the memory answers them together, not one behind the other. Only a slot whose
//! fingerprint fits leads to the text, where the key itself is compared.
//!
//! ```text
//! magic  version  flags  text length  text time  text hash  rows  slots   64 bytes
//! slot 0, slot 1, …                                                        8 bytes each
//! └ fingerprint, 24 bits │ where the row begins in the text, + 1, 40 bits
//! ```

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use std::io::Write;

use waypost_index::output::Output;
use waypost_surt::{Key, Reach};

use super::memory::Bytes;
use super::row::Row;
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"WAYPMAP\n";
const VERSION: u32 = 1;
const HEADER: usize = 64;

/// Some keys have a query.
const HAS_QUERIES: u32 = 1;

/// Flags from here on say which widths of filters rows have, from 1 bit up.
const WIDTHS: u32 = 15;

/// The hash of a prefix, which the next byte continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix(u64);

impl Prefix {
    pub(crate) const EMPTY: Prefix = Prefix(0xcbf2_9ce4_8422_2325);

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// The hash of the key with this stem.
    #[inline]
    pub(crate) fn key(self, reach: Reach) -> u64 {
        let mut hash = self.0
            ^ match reach {
                Reach::Exact => 0,
                Reach::Paths => 0x9e37_79b9_7f4a_7c15,
                Reach::Hosts => 0xc2b2_ae3d_27d4_eb4f,
                Reach::All => 0x1656_67b1_9e37_79f9,
            };
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }
}

fn hash_of(key: &Key<'_>) -> u64 {
    let mut prefix = Prefix::EMPTY;
    for &byte in key.stem() {
        prefix.push(byte);
    }
    prefix.key(key.reach())
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Bytes,
    slots: u64,
    pub(crate) rows: u64,
    flags: u32,
}

impl Table {
    /// Reads all rows of a text and notes where they are. Rows of one key follow each other, and the
    /// first is noted.
    pub(crate) fn build(text: &[u8], keys: usize) -> Result<Vec<u8>> {
        let mut hashes: Vec<(u64, u64)> = Vec::new();
        let mut rows = 0u64;
        let mut flags = 0;
        let mut last: &[u8] = b"";
        let mut start = 0;
        let mut line_number = 0;
        while start < text.len() {
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at);
            let line = &text[start..end];
            line_number += 1;
            if !matches!(line.first(), None | Some(b'!' | b'@')) {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let row = Row::parse(line, keys).map_err(|error| error.at_line(line_number))?;
                rows += 1;
                if let Some(width) = row.filter {
                    flags |= 1 << (WIDTHS + u32::from(width));
                }
                let shown = &line[..row.key.len().min(line.len())];
                if keys == 1 || shown != last {
                    let key = Key::new(&row.key);
                    if memchr::memchr(b'?', &row.key).is_some() {
                        flags |= HAS_QUERIES;
                    }
                    hashes.push((hash_of(&key), start as u64));
                }
                last = shown;
            }
            start = end + 1;
        }
        let slots = (hashes.len() as u64 * 3 / 2).max(8);
        let mut bytes = vec![0; HEADER + 8 * slots as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[40..48].copy_from_slice(&rows.to_le_bytes());
        bytes[48..56].copy_from_slice(&slots.to_le_bytes());
        for (hash, offset) in hashes {
            let mut slot = home(hash, slots);
            loop {
                let at = HEADER + 8 * slot as usize;
                if bytes[at..at + 8] == [0; 8] {
                    let entry = (fingerprint(hash) << 40) | ((offset + 1) & ((1 << 40) - 1));
                    bytes[at..at + 8].copy_from_slice(&entry.to_le_bytes());
                    break;
                }
                slot = if slot + 1 == slots { 0 } else { slot + 1 };
            }
        }
        Ok(bytes)
    }

    /// Takes a table as it was built.
    pub(crate) fn new(bytes: Bytes) -> Option<Table> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (rows, slots, flags) = (number(40)?, number(48)?, small(12)?);
        let whole = bytes.starts_with(MAGIC)
            && small(8)? == VERSION
            && slots > 0
            && Some(bytes.len() as u64) == slots.checked_mul(8)?.checked_add(HEADER as u64);
        whole.then_some(Table {
            bytes,
            slots,
            rows,
            flags,
        })
    }

    /// The widths of filters that rows have, a bit for each.
    pub(crate) fn widths(&self) -> u32 {
        (self.flags >> (WIDTHS + 1)) << 1
    }

    /// Whether some keys have a query.
    pub(crate) fn has_queries(&self) -> bool {
        self.flags & HAS_QUERIES != 0
    }

    /// The first slot where a key may be, and what it holds.
    #[inline]
    pub(crate) fn first(&self, hash: u64) -> (u64, u64) {
        let slot = home(hash, self.slots);
        (slot, self.entry(slot))
    }

    #[inline]
    fn entry(&self, slot: u64) -> u64 {
        let at = HEADER + 8 * slot as usize;
        let bytes: &[u8] = &self.bytes;
        bytes
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    /// Where rows begin that may have the key, from the slot on that [`first`](Table::first) gave.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u64,
        (mut slot, mut entry): (u64, u64),
        mut fits: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        // A damaged file may have no empty slot.
        for _ in 0..self.slots {
            if entry == 0 {
                return None;
            }
            if entry >> 40 == fingerprint(hash) {
                let offset = (entry & ((1 << 40) - 1)) as usize - 1;
                if fits(offset) {
                    return Some(offset);
                }
            }
            slot = if slot + 1 == self.slots { 0 } else { slot + 1 };
            entry = self.entry(slot);
        }
        None
    }
}

#[inline]
fn home(hash: u64, slots: u64) -> u64 {
    ((u128::from(hash) * u128::from(slots)) >> 64) as u64
}

#[inline]
fn fingerprint(hash: u64) -> u64 {
    // The home is taken from the high bits.
    (hash & 0xff_ffff).max(1)
}

/// Where the table of a text is kept.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".wmap");
    PathBuf::from(name)
}

/// What tells whether a text is still the one that a table was made of: its time, and a hash of its
/// start and its end.
fn stamp(path: &Path, text: &[u8]) -> [u8; 24] {
    let time = std::fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |time| time.as_nanos() as u64);
    let ends = 4096.min(text.len());
    let hash = xxhash_rust::xxh3::xxh3_64(&text[..ends])
        ^ xxhash_rust::xxh3::xxh3_64(&text[text.len() - ends..]).rotate_left(1);
    let mut stamp = [0; 24];
    stamp[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    stamp[8..16].copy_from_slice(&time.to_le_bytes());
    stamp[16..].copy_from_slice(&hash.to_le_bytes());
    stamp
}

/// The table beside a text, if it is there and was made of this text.
pub(crate) fn load(path: &Path, text: &[u8]) -> Option<Table> {
    let bytes = Bytes::map(&beside(path)).ok()?;
    let fresh = bytes.get(16..40)? == stamp(path, text);
    fresh.then(|| Table::new(bytes)).flatten()
}

/// Writes a table beside its text. It can be made again, so failing to is no error.
pub(crate) fn store(path: &Path, text: &[u8], table: &mut [u8]) {
    table[16..40].copy_from_slice(&stamp(path, text));
    let written = || -> Result<()> {
        let place = beside(path);
        let mut out = Output::create(&place)?;
        out.write_all(table)
            .map_err(|source| Error::io("write", &place, source))?;
        out.commit()?;
        Ok(())
    };
    // The folder may be read-only.
    let _ = written();
}
