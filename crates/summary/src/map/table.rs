//! Where the rows of a map are, by the hash of their keys.
//!
//! A slot has a fingerprint of the key and says where its row begins. Only a slot whose fingerprint
//! fits leads to the text, where the key itself is compared.
//!
//! ```text
//! magic  version  flags  text length  text time  text hash  rows  slots  levels   64 bytes
//! slot 0, slot 1, …                                                                8 bytes each
//! └ fingerprint, 24 bits │ where the row begins in the text, + 1, 40 bits
//! ```

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use std::io::Write;

use waypost_index::output::AtomicFile;
use waypost_surt::{Key, Reach};

use super::row::Row;
use crate::error::{Error, Result};
use waypost_io::Mapped;

const MAGIC: &[u8; 8] = b"WAYPMAP\n";
const VERSION: u32 = 2;
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

/// Which kinds of wildcards a map has, by reach and depth: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(u64);

impl Levels {
    /// `*`.
    pub(crate) const ALL: Levels = Levels(1 << 32);

    /// Wildcards of hosts with so many separators of labels.
    #[inline]
    pub(crate) fn hosts(separators: usize) -> Levels {
        Levels(1 << separators.min(15))
    }

    /// Wildcards of paths with so many slashes.
    #[inline]
    pub(crate) fn paths(slashes: usize) -> Levels {
        Levels(1 << (16 + slashes.min(15)))
    }

    #[inline]
    pub(crate) fn has(self, level: Levels) -> bool {
        self.0 & level.0 != 0
    }

    fn of(key: &Key<'_>) -> Levels {
        let stem = key.stem();
        match key.reach() {
            Reach::Exact => Levels(0),
            Reach::Paths => Levels::paths(memchr::memchr_iter(b'/', stem).count()),
            Reach::Hosts => Levels::hosts(memchr::memchr2_iter(b',', b':', stem).count()),
            Reach::All => Levels::ALL,
        }
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Mapped,
    slots: u64,
    pub(crate) rows: u64,
    flags: u32,
    levels: Levels,
}

/// How many rows are put into their slots together: the memory brings the slots of all of them.
const TOGETHER: usize = 64;

impl Table {
    /// Reads all rows of a text and notes where they are. Rows of one key follow each other, and the
    /// first is noted.
    pub(crate) fn build(text: &Mapped, keys: usize) -> Result<Vec<u8>> {
        let slots = (count(text, keys) * 3 / 2).max(8);
        let mut bytes = vec![0; HEADER + 8 * slots as usize];
        let mut rows = 0u64;
        let mut flags = 0;
        let mut levels = Levels::default();
        let mut last: &[u8] = b"";
        let mut waiting: Vec<(u64, u64)> = Vec::with_capacity(TOGETHER);
        let mut start = 0;
        let mut line_number = 0;
        let mut released = 0;
        while start < text.len() {
            if start - released >= WINDOW {
                text.release(released..start);
                released = start;
            }
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at);
            let line = &text[start..end];
            line_number += 1;
            if is_row(line) {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let row = Row::parse(line, keys).map_err(|error| error.at_line(line_number))?;
                rows += 1;
                if let Some(width) = row.filter {
                    flags |= 1 << (WIDTHS + u32::from(width));
                }
                let field = first_field(line);
                if keys == 1 || field != last {
                    let key = Key::new(&row.key);
                    if memchr::memchr(b'?', &row.key).is_some() {
                        flags |= HAS_QUERIES;
                    }
                    levels.0 |= Levels::of(&key).0;
                    waiting.push((hash_of(&key), start as u64));
                    if waiting.len() == TOGETHER {
                        put(&mut waiting, slots, &mut bytes);
                    }
                }
                last = field;
            }
            start = end + 1;
        }
        put(&mut waiting, slots, &mut bytes);
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[40..48].copy_from_slice(&rows.to_le_bytes());
        bytes[48..56].copy_from_slice(&slots.to_le_bytes());
        bytes[56..64].copy_from_slice(&levels.0.to_le_bytes());
        Ok(bytes)
    }

    /// Takes a table as it was built.
    pub(crate) fn new(bytes: Mapped) -> Option<Table> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (rows, slots, levels, flags) = (number(40)?, number(48)?, number(56)?, small(12)?);
        let whole = bytes.starts_with(MAGIC)
            && small(8)? == VERSION
            && slots > 0
            && Some(bytes.len() as u64) == slots.checked_mul(8)?.checked_add(HEADER as u64);
        whole.then_some(Table {
            bytes,
            slots,
            rows,
            flags,
            levels: Levels(levels),
        })
    }

    /// Which wildcards the map has.
    #[inline]
    pub(crate) fn levels(&self) -> Levels {
        self.levels
    }

    /// The widths of filters that rows have, a bit for each.
    pub(crate) fn widths(&self) -> u32 {
        (self.flags >> (WIDTHS + 1)) << 1
    }

    /// Whether some keys have a query.
    pub(crate) fn has_queries(&self) -> bool {
        self.flags & HAS_QUERIES != 0
    }

    /// What the first slot holds where a key may be.
    #[inline]
    pub(crate) fn home_entry(&self, hash: u64) -> u64 {
        self.entry(home(hash, self.slots))
    }

    /// Where the row begins that a slot leads to, if it is likely to have the key.
    #[inline]
    pub(crate) fn leads_to(entry: u64, hash: u64) -> Option<usize> {
        let likely = entry != 0 && entry >> 40 == fingerprint(hash);
        likely.then(|| (entry & ((1 << 40) - 1)) as usize - 1)
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

    /// Where the row with a key begins, whose home slot holds `entry`.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u64,
        mut entry: u64,
        mut fits: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let mut slot = home(hash, self.slots);
        // A damaged file may have no empty slot.
        for _ in 0..self.slots {
            if entry == 0 {
                return None;
            }
            if let Some(offset) = Table::leads_to(entry, hash)
                && fits(offset)
            {
                return Some(offset);
            }
            slot = if slot + 1 == self.slots { 0 } else { slot + 1 };
            entry = self.entry(slot);
        }
        None
    }
}

/// How many bytes of a text are kept in memory while a table is made of it.
const WINDOW: usize = 16 << 20;

/// Whether a line of a tidy map is a row.
fn is_row(line: &[u8]) -> bool {
    !matches!(line.first(), None | Some(b'!' | b'@'))
}

/// A line up to its first space.
fn first_field(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr2(b' ', b'\t', line).unwrap_or(line.len())]
}

/// How many keys a text has, each counted once however many rows it has.
fn count(text: &Mapped, keys: usize) -> u64 {
    if keys == 1 {
        let mut count = 1;
        for (number, window) in text.chunks(WINDOW).enumerate() {
            count += memchr::memchr_iter(b'\n', window).count() as u64;
            text.release(number * WINDOW..number * WINDOW + window.len());
        }
        return count;
    }
    let mut last: &[u8] = b"";
    let mut count = 0;
    let lines = text.split(|&byte| byte == b'\n');
    for line in lines.filter(|line| is_row(line)) {
        let field = first_field(line);
        count += u64::from(field != last);
        last = field;
    }
    count
}

/// Puts rows into the slots of a table, and forgets them.
fn put(rows: &mut Vec<(u64, u64)>, slots: u64, bytes: &mut [u8]) {
    let mut touched = 0;
    for &(hash, _) in rows.iter() {
        touched |= bytes[HEADER + 8 * home(hash, slots) as usize];
    }
    std::hint::black_box(touched);
    for (hash, offset) in rows.drain(..) {
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
    let bytes = Mapped::open(&beside(path)).ok()?;
    let fresh = bytes.get(16..40)? == stamp(path, text);
    fresh.then(|| Table::new(bytes)).flatten()
}

/// Writes a table beside its text. It can be made again, so failing to is no error.
pub(crate) fn store(path: &Path, text: &[u8], table: &mut [u8]) {
    table[16..40].copy_from_slice(&stamp(path, text));
    let written = || -> Result<()> {
        let place = beside(path);
        let mut out = AtomicFile::create(&place)?;
        out.write_all(table)
            .map_err(|source| Error::io("write", &place, source))?;
        out.commit()?;
        Ok(())
    };
    // The folder may be read-only.
    let _ = written();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of every kind of key, and its table as version 2 has it.
    const MAP: &[u8] = include_bytes!("../../tests/golden/small.ukvs");
    const TABLE: &[u8] = include_bytes!("../../tests/golden/small.ukvs.wmap");

    #[test]
    fn tables_are_made_as_they_were_and_read() {
        assert_eq!(Table::build(&Mapped::from(MAP.to_vec()), 1).unwrap(), TABLE);
        let table = Table::new(Mapped::from(TABLE.to_vec())).unwrap();
        assert_eq!((table.rows, table.has_queries()), (8, true));
        let mut at = 0;
        for line in MAP.split_inclusive(|&byte| byte == b'\n') {
            if is_row(line) {
                let hash = hash_of(&Key::new(first_field(line)));
                let entry = table.home_entry(hash);
                assert_eq!(table.find(hash, entry, |offset| offset == at), Some(at));
            }
            at += line.len();
        }
        let mut older = TABLE.to_vec();
        older[8] = 1;
        assert!(
            Table::new(Mapped::from(older)).is_none(),
            "another version is made anew"
        );
    }
}
