//! The lookup table of a map: offsets of rows by the hash of their keys.
//!
//! A slot contains a fingerprint of the key and the offset of its row. Only if the fingerprint
//! matches is the key in the text compared.
//!
//! ```text
//! magic  version  widths  text length  text hash  rows  slots  levels            64 bytes
//! slot 0, slot 1, …                                                               8 bytes each
//! └ fingerprint, 24 bits │ where the row begins in the text, + 1, 40 bits
//! checksum                                                                        8 bytes
//! ```
//!
//! A table is built in memory when a map is opened, or once by [`index`], which writes it next to
//! the map. Such a table is used only if it is intact and was built from exactly this text: opening
//! a map hashes both, at about memory speed. Any other table is an error, because a table that
//! misses a row would call a held URI absent.

use std::io::Write;
use std::path::{Path, PathBuf};

use waypost_io::{AtomicFile, Compression, IoContext, Mapped, Resources, Source};
use waypost_surt::{Key, Reach};
use xxhash_rust::xxh3::xxh3_64;

use super::build::{Sorted, Tidiness};
use super::stamp::{self, Stamp};
use super::store::headers_of;
use crate::error::{Error, ErrorKind, Result};
use crate::map::tree::rows::{check_kind, key_fields};
use crate::ukvs::Wholeness;

const MAGIC: &[u8; 8] = b"WAYPMAP\n";
const VERSION: u32 = 4;

/// Offsets have 40 bits.
pub(super) const LONGEST_TEXT: u64 = (1 << 40) - 2;

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

    pub(super) fn add(&mut self, more: Levels) {
        self.0 |= more.0;
    }

    pub(super) fn of(key: &Key<'_>) -> Levels {
        let stem = key.stem();
        let query = memchr::memchr(b'?', stem).map_or(0, |_| Levels::QUERIES.0);
        let wildcard = match key.reach() {
            Reach::Exact => Levels(0),
            Reach::Paths => Levels::paths(memchr::memchr_iter(b'/', stem).count()),
            Reach::Hosts => Levels::hosts(memchr::memchr2_iter(b',', b':', stem).count()),
            Reach::All => Levels::ALL,
        };
        Levels(wildcard.0 | query)
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Mapped,
    head: Head,
    /// Whether the text had all of its rows when it was read.
    pub(super) wholeness: Wholeness,
}

/// The fields of a table before its slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub(crate) rows: u64,
    /// The number of slots that are the home of some hash.
    pub(crate) slots: u64,
    /// The widths of filters that occur in rows: bit *n* for *n* bits.
    widths: u32,
    pub(crate) levels: Levels,
}

impl Head {
    /// Its size in the file.
    pub(crate) const BYTES: usize = 64;

    /// Adds the rows of another part of the text.
    pub(crate) fn add(&mut self, other: &Head) {
        self.rows += other.rows;
        self.widths |= other.widths;
        self.levels.add(other.levels);
    }

    /// Notes that rows have filters of this width.
    pub(crate) fn add_width(&mut self, bits: u8) {
        self.widths |= 1 << bits;
    }

    pub(crate) fn to_bytes(self, stamp: Stamp) -> Vec<u8> {
        let version = VERSION.to_le_bytes();
        let numbers = [self.rows, self.slots, self.levels.0].map(u64::to_le_bytes);
        [
            &MAGIC[..],
            &version,
            &self.widths.to_le_bytes(),
            &stamp,
            numbers.as_flattened(),
        ]
        .concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Head> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let known = bytes.starts_with(MAGIC) && small(8)? == VERSION;
        known.then_some(Head {
            widths: small(12)?,
            rows: number(40)?,
            slots: number(48)?,
            levels: Levels(number(56)? | Levels::EXACT.0),
        })
    }
}

impl Table {
    /// Builds the table of a text in memory. `None` if the text is not tidy.
    pub(crate) fn build(
        text: &Mapped,
        keys: usize,
        order: Tidiness,
        room: &Resources,
    ) -> Result<Option<Table>> {
        let release = |part| text.release(part);
        let Some(sorted) = Sorted::read(text, keys, order, room, release)? else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(sorted.about_bytes());
        sorted.write([0; 24], room, |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(Table::new(Mapped::from(bytes)).map(|table| Table {
            wholeness: sorted.wholeness(),
            ..table
        }))
    }

    /// Opens a table file, if it is intact and was built from this text.
    fn verified(bytes: Mapped, text: &[u8]) -> Result<Table> {
        let wrong = |what| Err(Error::new(ErrorKind::Table(what)));
        if !bytes.starts_with(MAGIC) || bytes.len() < Head::BYTES + 8 {
            return wrong("this is not the table of a map");
        }
        if bytes[8..12] != VERSION.to_le_bytes() {
            return wrong("the table was made by another version of Waypost");
        }
        let (before, checksum) = bytes.split_at(bytes.len() - 8);
        let (hash, stamp) = rayon::join(|| xxh3_64(before), || stamp::of(text));
        if checksum != hash.to_le_bytes() {
            return wrong("the table is damaged: its checksum does not match");
        }
        if bytes[16..40] != stamp {
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
    fn new(bytes: Mapped) -> Option<Table> {
        let head = Head::from_bytes(&bytes)?;
        // At least one slot behind the last home is empty, and the checksum comes after them.
        let all = (bytes.len() as u64).checked_sub(Head::BYTES as u64 + 8)?;
        let whole = head.slots > 0 && all.is_multiple_of(8) && all / 8 > head.slots;
        whole.then_some(Table {
            bytes,
            head,
            wholeness: Wholeness::Unknown,
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.head.rows
    }

    /// The kinds of keys in the map.
    #[inline]
    pub(crate) fn levels(&self) -> Levels {
        self.head.levels
    }

    /// The widths of filters in the rows, as a bit set.
    pub(crate) fn widths(&self) -> u32 {
        self.head.widths
    }

    /// Fetches the home slot of a key.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let at = Head::BYTES + 8 * home(hash, self.head.slots) as usize;
        waypost_io::mapped::prefetch(&self.bytes, at);
    }

    /// The content of the home slot of a key.
    #[inline]
    pub(crate) fn home_entry(&self, hash: u64) -> u64 {
        self.entry(home(hash, self.head.slots))
    }

    /// The offset of the row that a slot points to, if it probably has the key.
    #[inline]
    pub(crate) fn leads_to(entry: u64, hash: u64) -> Option<usize> {
        let likely = entry != 0 && entry >> 40 == fingerprint(hash);
        likely.then(|| (entry & ((1 << 40) - 1)) as usize - 1)
    }

    #[inline]
    fn entry(&self, slot: u64) -> u64 {
        let at = Head::BYTES + 8 * slot as usize;
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
        let mut slot = home(hash, self.head.slots);
        // The last slot is empty.
        while entry != 0 {
            if let Some(offset) = Table::leads_to(entry, hash)
                && fits(offset)
            {
                return Some(offset);
            }
            slot += 1;
            entry = self.entry(slot);
        }
        None
    }
}

/// The slot at which the search for a hash begins.
#[inline]
pub(super) fn home(hash: u64, slots: u64) -> u64 {
    ((u128::from(hash) * u128::from(slots)) >> 64) as u64
}

/// The content of the slot of a row.
#[inline]
pub(super) fn entry(hash: u64, offset: u64) -> u64 {
    (fingerprint(hash) << 40) | (offset + 1)
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
pub fn index(path: &Path, room: &Resources) -> Result<TableReport> {
    let name = |error: Error| error.in_file(path.display());
    let source = Source::new(path);
    check_kind(&source)?;
    if source.open()?.compression() != Compression::Plain {
        return Err(name(Error::invalid("a compressed map cannot have a table")));
    }
    let text = Mapped::of(&source)?;
    let keys = key_fields(&headers_of(&text).map_err(name)?).map_err(name)?;
    let (sorted, stamp) = stamp::while_reading(&text, |passed| {
        Sorted::read(&text, keys, Tidiness::Check, room, passed)
    });
    let sorted = sorted.map_err(name)?;
    let sorted = sorted.ok_or_else(|| name(Error::new(ErrorKind::Untidy)))?;
    let place = beside(path);
    let mut out = AtomicFile::create(&place)?;
    let bytes = sorted.write(stamp, room, |part| {
        Ok(out.write_all(part).doing("write", &place)?)
    })?;
    out.commit()?;
    Ok(TableReport {
        rows: sorted.rows(),
        bytes,
        path: place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::lookup::build::{first_field, is_row};
    use crate::map::lookup::hash::hash_of;

    /// A map of every kind of key, and its table as version 4 has it.
    const MAP: &[u8] = include_bytes!("../../../tests/golden/small.ukvs");
    const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/small.ukvs.wmap");

    #[test]
    fn tables_are_made_as_they_were_and_read() {
        let text = Mapped::from(MAP.to_vec());
        let room = Resources::default();
        let (sorted, stamp) = stamp::while_reading(&text, |passed| {
            Sorted::read(&text, 1, Tidiness::Check, &room, passed)
        });
        let mut made = Vec::new();
        let sorted = sorted.unwrap().unwrap();
        let written = sorted.write(stamp, &room, |part| {
            made.extend_from_slice(part);
            Ok(())
        });
        assert_eq!(written.unwrap(), made.len() as u64);
        if std::env::var_os("WAYPOST_WRITE_GOLDEN").is_some() {
            std::fs::write(TABLE, &made).unwrap();
        }
        let kept = std::fs::read(TABLE).unwrap();
        assert!(made == kept, "the table is not what it was");
        let table = Table::verified(Mapped::from(kept), MAP).unwrap();
        assert_eq!(table.rows(), 8);
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
