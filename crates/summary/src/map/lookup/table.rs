//! The lookup table of a map: offsets of rows by the hash of their keys.
//!
//! A slot contains a fingerprint of the key and the offset of its row. Only if the fingerprint
//! matches is the key in the text compared.
//!
//! ```text
//! magic  version  flags  text length  text hash  rows  slots  levels  checksum   72 bytes
//! slot 0, slot 1, …                                                               8 bytes each
//! └ fingerprint, 24 bits │ where the row begins in the text, + 1, 40 bits
//! ```
//!
//! A table is built in memory when a map is opened, or once by [`index`], which writes it next to
//! the map. Such a table is used only if it is intact and was built from exactly this text: opening
//! a map hashes both, at about memory speed. Any other table is an error, because a table that
//! misses a row would call a held URI absent.

use std::cmp::Ordering;
use std::io::Write;
use std::path::{Path, PathBuf};

use waypost_io::{AtomicFile, Compression, LONGEST_LINE, Mapped, Source};
use waypost_surt::{Key, Reach};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::store::headers_of;
use crate::error::{Error, ErrorKind, Result};
use crate::map::tree::row::Row;
use crate::map::tree::rows::{is_tidy, key_fields};

const MAGIC: &[u8; 8] = b"WAYPMAP\n";
const VERSION: u32 = 3;
const HEADER: usize = 72;

/// The offset of the checksum, the last field of the header.
const CHECKSUM: usize = 64;

/// Some keys have a query.
const HAS_QUERIES: u32 = 1;

/// The flags from here on tell which widths of filters occur in rows, from 1 bit up.
const WIDTHS: u32 = 15;

/// The hash of a prefix, to be continued with the next byte.
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

/// The kinds of wildcards in a map, by reach and depth, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(u64);

impl Levels {
    /// `*`.
    pub(crate) const ALL: Levels = Levels(1 << 32);
    /// Keys with a query.
    pub(crate) const QUERIES: Levels = Levels(1 << 33);
    /// Other exact keys, which any map may have.
    pub(crate) const EXACT: Levels = Levels(1 << 34);
    /// All levels.
    pub(crate) const EVERY: Levels = Levels(u64::MAX);

    /// Host wildcards with this many label separators.
    #[inline]
    pub(crate) fn hosts(separators: usize) -> Levels {
        Levels(1 << separators.min(15))
    }

    /// Path wildcards with this many slashes.
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

/// How many rows are inserted together, so that the accesses to their slots overlap.
const TOGETHER: usize = 64;

impl Table {
    /// Reads all rows of a text and records their offsets. Rows of the same key are adjacent, and
    /// the first is recorded. `None` if the text is not tidy, unless that need not be checked.
    pub(crate) fn build(text: &Mapped, keys: usize, order: Tidiness) -> Result<Option<Vec<u8>>> {
        let slots = (count(text, keys)? * 3 / 2).max(8);
        let mut bytes = vec![0; HEADER + 8 * slots as usize];
        let mut rows = 0u64;
        let mut flags = 0;
        let mut levels = Levels::default();
        let mut last: &[u8] = b"";
        let mut before: Option<Row<'_>> = None;
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
            // Headers after rows, blank lines that are not empty, rows with leading white space.
            let odd = match line.first() {
                Some(b'!' | b'@') => rows > 0,
                Some(b' ' | b'\t' | b'\r') => true,
                _ => false,
            };
            if odd && order == Tidiness::Check {
                return Ok(None);
            }
            if is_row(line) {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let row = Row::parse(line, keys).map_err(|error| error.at_line(line_number))?;
                if order == Tidiness::Check {
                    if !is_tidy(&row) || before.is_some_and(|before| !ascends(&before, &row)) {
                        return Ok(None);
                    }
                    before = Some(row.clone());
                }
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
        Ok(Some(bytes))
    }

    /// Opens a table file, if it is intact and was built from this text.
    fn verified(bytes: Mapped, text: &[u8]) -> Result<Table> {
        let wrong = |what| Err(Error::new(ErrorKind::Table(what)));
        if !bytes.starts_with(MAGIC) || bytes.len() < HEADER {
            return wrong("this is not the table of a map");
        }
        if bytes[8..12] != VERSION.to_le_bytes() {
            return wrong("the table was made by another version of Waypost");
        }
        if bytes[CHECKSUM..HEADER] != checksum(&bytes) {
            return wrong("the table is damaged: its checksum does not match");
        }
        if bytes[16..40] != stamp(text) {
            return wrong("the table was not made from this map as it is now");
        }
        match Table::new(bytes) {
            Some(table) => Ok(table),
            None => wrong("the table is damaged: wrong length"),
        }
    }

    /// Whether the file is still intact, that is, was not truncated while in use.
    pub(crate) fn check_intact(&self) -> Result<()> {
        Ok(self.bytes.check()?)
    }

    pub(crate) fn set_private(&self) {
        self.bytes.set_private();
    }

    /// Uses a table as it was built.
    pub(crate) fn new(bytes: Mapped) -> Option<Table> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (rows, slots, levels, flags) = (number(40)?, number(48)?, number(56)?, small(12)?);
        let whole = bytes.starts_with(MAGIC)
            && small(8)? == VERSION
            && slots > 0
            && Some(bytes.len() as u64) == slots.checked_mul(8)?.checked_add(HEADER as u64);
        let queries = match flags & HAS_QUERIES {
            0 => 0,
            _ => Levels::QUERIES.0,
        };
        // The file has the levels of wildcards only.
        let wildcards = levels & !(Levels::QUERIES.0 | Levels::EXACT.0);
        whole.then_some(Table {
            bytes,
            slots,
            rows,
            flags,
            levels: Levels(wildcards | queries | Levels::EXACT.0),
        })
    }

    /// The kinds of keys in the map.
    #[inline]
    pub(crate) fn levels(&self) -> Levels {
        self.levels
    }

    /// The widths of filters in the rows, as a bit set.
    pub(crate) fn widths(&self) -> u32 {
        (self.flags >> (WIDTHS + 1)) << 1
    }

    /// Fetches the home slot of a key.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let at = HEADER + 8 * home(hash, self.slots) as usize;
        waypost_io::mapped::prefetch(&self.bytes, at);
    }

    /// The content of the home slot of a key.
    #[inline]
    pub(crate) fn home_entry(&self, hash: u64) -> u64 {
        self.entry(home(hash, self.slots))
    }

    /// The offset of the row that a slot points to, if it probably has the key.
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

    /// The offset of the row with a key whose home slot contains `entry`.
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

/// Whether a text is known to be tidy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tidiness {
    /// To be checked.
    Check,
    /// Known to be tidy.
    Known,
}

/// Whether a row may follow another.
fn ascends(before: &Row<'_>, row: &Row<'_>) -> bool {
    match row.key.cmp(&before.key) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => match (&before.second, &row.second) {
            (Some(before), Some(second)) => second > before,
            _ => false,
        },
    }
}

/// How much of a text is kept in memory while its table is built.
const WINDOW: usize = 16 << 20;

/// Whether a line of a tidy map is a row.
fn is_row(line: &[u8]) -> bool {
    !matches!(line.first(), None | Some(b'!' | b'@'))
}

/// The part of a line before its first space.
fn first_field(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr2(b' ', b'\t', line).unwrap_or(line.len())]
}

/// The number of distinct keys in a text.
///
/// # Errors
/// If a line is too long.
fn count(text: &Mapped, keys: usize) -> Result<u64> {
    let mut lines = 1;
    let mut line_start = 0;
    for (number, window) in text.chunks(WINDOW).enumerate() {
        let start = number * WINDOW;
        let first = memchr::memchr(b'\n', window).map_or(start + window.len(), |at| start + at);
        if first - line_start > LONGEST_LINE {
            let error = waypost_io::Error::line_too_long(LONGEST_LINE);
            return Err(error.at_line(lines).into());
        }
        if let Some(last) = memchr::memrchr(b'\n', window) {
            line_start = start + last + 1;
        }
        lines += memchr::memchr_iter(b'\n', window).count() as u64;
        text.release(start..start + window.len());
    }
    if keys == 1 {
        return Ok(lines);
    }
    let mut last: &[u8] = b"";
    let mut count = 0;
    let lines = text.split(|&byte| byte == b'\n');
    for line in lines.filter(|line| is_row(line)) {
        let field = first_field(line);
        count += u64::from(field != last);
        last = field;
    }
    Ok(count)
}

/// Inserts rows into the slots of a table and clears the list.
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
    // The home slot depends on the high bits.
    (hash & 0xff_ffff).max(1)
}

/// The path of the table of a text.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".wmap");
    PathBuf::from(name)
}

/// Identifies a text: its length and the hash of all of it.
fn stamp(text: &[u8]) -> [u8; 24] {
    let mut stamp = [0; 24];
    stamp[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    stamp[8..].copy_from_slice(&xxh3_128(text).to_le_bytes());
    stamp
}

/// The hash of a table, excluding the checksum itself.
fn checksum(table: &[u8]) -> [u8; 8] {
    let mut hash = Xxh3::new();
    hash.update(&table[..CHECKSUM]);
    hash.update(&table[HEADER..]);
    hash.digest().to_le_bytes()
}

/// Completes a table for storage with the identity of its text and its own checksum.
fn seal(table: &mut [u8], text: &[u8]) {
    table[16..40].copy_from_slice(&stamp(text));
    let checksum = checksum(table);
    table[CHECKSUM..HEADER].copy_from_slice(&checksum);
}

/// The table next to a text, if there is one.
///
/// # Errors
/// If it is damaged or was not built from this text.
pub(crate) fn load(path: &Path, text: &[u8]) -> Result<Option<Table>> {
    let place = beside(path);
    match place.try_exists() {
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(error) => return Err(Error::io("open", &place, error)),
    }
    let table = Table::verified(Mapped::open(&place)?, text);
    table
        .map(Some)
        .map_err(|error| error.in_file(place.display()))
}

/// A table that was written next to its map.
#[derive(Clone, Debug)]
pub struct TableReport {
    /// Its path.
    pub path: PathBuf,
    /// Number of rows in the map.
    pub rows: u64,
    /// Size of the table in bytes.
    pub bytes: u64,
}

/// Whether there is a table next to a map.
pub fn is_indexed(path: &Path) -> bool {
    beside(path).exists()
}

/// Writes the table of a map next to it, so that it need not be built when the map is opened:
/// `a.ukvs.wmap` for `a.ukvs`. An existing table is replaced.
///
/// # Errors
/// If the map is compressed, not tidy or unreadable, or if the table can't be written.
pub fn index(path: &Path) -> Result<TableReport> {
    let name = |error: Error| error.in_file(path.display());
    let source = Source::new(path);
    if source.open()?.compression() != Compression::Plain {
        return Err(name(Error::invalid("a compressed map cannot have a table")));
    }
    let text = Mapped::of(&source)?;
    let keys = key_fields(&headers_of(&text).map_err(name)?).map_err(name)?;
    let Some(mut table) = Table::build(&text, keys, Tidiness::Check).map_err(name)? else {
        return Err(name(Error::new(ErrorKind::Untidy)));
    };
    seal(&mut table, &text);
    let place = beside(path);
    let mut out = AtomicFile::create(&place)?;
    out.write_all(&table)
        .map_err(|source| Error::io("write", &place, source))?;
    out.commit()?;
    Ok(TableReport {
        rows: Table::new(Mapped::from(table.clone())).map_or(0, |table| table.rows),
        bytes: table.len() as u64,
        path: place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of every kind of key, and its table as version 3 has it.
    const MAP: &[u8] = include_bytes!("../../../tests/golden/small.ukvs");
    const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/small.ukvs.wmap");

    #[test]
    fn tables_are_made_as_they_were_and_read() {
        let text = Mapped::from(MAP.to_vec());
        let mut made = Table::build(&text, 1, Tidiness::Check).unwrap().unwrap();
        seal(&mut made, &text);
        if std::env::var_os("WAYPOST_WRITE_GOLDEN").is_some() {
            std::fs::write(TABLE, &made).unwrap();
        }
        let kept = std::fs::read(TABLE).unwrap();
        assert!(made == kept, "the table is not what it was");
        let table = Table::verified(Mapped::from(kept), MAP).unwrap();
        assert_eq!(table.rows, 8);
        assert!(table.levels().has(Levels::QUERIES));
        let mut at = 0;
        for line in MAP.split_inclusive(|&byte| byte == b'\n') {
            if is_row(line) {
                let hash = hash_of(&Key::new(first_field(line)));
                let entry = table.home_entry(hash);
                assert_eq!(table.find(hash, entry, |offset| offset == at), Some(at));
            }
            at += line.len();
        }
    }

    #[test]
    fn a_changed_byte_of_a_table_or_its_text_is_an_error() {
        let kept = std::fs::read(TABLE).unwrap();
        for at in 0..kept.len() {
            for bit in [1, 0x80] {
                let mut changed = kept.clone();
                changed[at] ^= bit;
                assert!(Table::verified(Mapped::from(changed), MAP).is_err(), "{at}");
            }
        }
        for length in 0..kept.len() {
            let cut = kept[..length].to_vec();
            assert!(Table::verified(Mapped::from(cut), MAP).is_err(), "{length}");
        }
        for at in 0..MAP.len() {
            let mut changed = MAP.to_vec();
            changed[at] ^= 1;
            assert!(Table::verified(Mapped::from(kept.clone()), &changed).is_err());
        }
    }
}
