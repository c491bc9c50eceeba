//! The table of shards, and their positions.
//!
//! A file contains one filter, or several ribbon filters of different widths (one *part* each),
//! which are distinguished by the widths in the table.

use super::head::{self, Extent, Head, Kind, LENGTH, array};
use super::is_padded;
use super::metadata::Metadata;
use crate::error::{Error, Result};
use crate::filter::bloom;
use crate::filter::ribbon::{self, Place, WIDEST};

/// Size of a table entry in bytes.
pub(crate) const ENTRY: usize = 32;
/// Size of a stored hash in bytes.
pub(crate) const HASH: u64 = 16;

/// One shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// XXH3-64 of its bytes.
    pub(crate) checksum: u64,
    /// Keys in it.
    pub(crate) count: u32,
    /// Ribbon: rows. Bloom: blocks. Hashes: zero.
    pub(crate) extent: u32,
    /// Ribbon: columns, of which the first `narrow` blocks have one less.
    pub(crate) width: u8,
    pub(crate) narrow: u32,
}

impl Entry {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.extent.to_le_bytes());
        out.push(self.width);
        out.extend_from_slice(&[0; 3]);
        out.extend_from_slice(&self.narrow.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Entry> {
        if bytes[25..28] != [0; 3] {
            return Err(Error::format("the table of shards is damaged"));
        }
        Ok(Entry {
            offset: u64::from_le_bytes(array(bytes, 0)),
            checksum: u64::from_le_bytes(array(bytes, 8)),
            count: u32::from_le_bytes(array(bytes, 16)),
            extent: u32::from_le_bytes(array(bytes, 20)),
            width: bytes[24],
            narrow: u32::from_le_bytes(array(bytes, 28)),
        })
    }

    /// The size of the shard in bytes. `None` if the entry is invalid.
    pub(crate) fn length(&self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Ribbon => {
                let least = 1 + u8::from(self.narrow > 0);
                let sound = (least..=WIDEST).contains(&self.width)
                    && self.extent.is_multiple_of(8)
                    && self.narrow <= self.extent / 64;
                // A shard has no rows if and only if it has no keys.
                (sound && (self.extent == 0) == (self.count == 0)).then(|| {
                    ribbon::bytes_of_rows(self.extent.into(), self.width, self.narrow.into())
                })
            }
            Kind::Bloom => (self.extent > 0).then(|| u64::from(self.extent) * bloom::BLOCK as u64),
            Kind::Hashes => Some(u64::from(self.count) * HASH),
        }
    }
}

/// The shards of one width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) width: u8,
    /// The number of its first shard.
    pub(crate) first: usize,
    /// How many it has.
    pub(crate) shards: usize,
    /// Ribbon: the number of buckets in all shards.
    pub(crate) buckets: usize,
    /// Ribbon: where its starts of buckets begin in those of the file.
    pub(crate) first_start: usize,
}

/// Everything before the shards, parsed and verified.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    pub(crate) head: Head,
    pub(crate) metadata: Metadata,
    pub(crate) entries: Vec<Entry>,
    pub(crate) parts: Vec<Part>,
    /// Ribbon: what lookups need to know about each shard.
    pub(crate) places: Vec<Place>,
    /// Ribbon: for each shard, the first row of each bucket and the end of the last one.
    pub(crate) starts: Vec<u32>,
    /// Bloom: the number of all blocks, and of those in every shard but the last.
    pub(crate) blocks: u64,
    pub(crate) blocks_per_shard: u64,
    /// Bloom: the offset of the first block.
    pub(crate) first_block: usize,
    /// The end of the table.
    end_of_table: u64,
    /// The length of the file.
    pub(crate) length: u64,
    /// The checksum of everything before the shards, including their checksums.
    pub(crate) checksum: u64,
}

impl Layout {
    /// The number of bytes before the shards, given the first [`LENGTH`] of them.
    pub(crate) fn prefix(start: &[u8]) -> Result<u64> {
        let head = start
            .first_chunk::<LENGTH>()
            .ok_or_else(|| Error::format("not a filter: too short"))?;
        Ok(Head::decode(head)?.1.end())
    }

    /// Parses `prefix`, whose length is given by [`Layout::prefix`], and checks it against the
    /// length of the file.
    pub(crate) fn decode(prefix: &[u8], length: u64) -> Result<Layout> {
        let start = prefix
            .first_chunk::<LENGTH>()
            .ok_or_else(|| Error::format("not a filter: too short"))?;
        let (head, extent) = Head::decode(start)?;
        let rest = usize::try_from(extent.end())
            .ok()
            .and_then(|end| prefix.get(LENGTH..end))
            .ok_or_else(|| Error::format("the filter is cut short before its shards"))?;
        if head::checksum(start, &[rest]) != head::stated_checksum(start) {
            return Err(Error::format(
                "the filter is damaged: checksum mismatch in the head",
            ));
        }
        let (metadata, rest) = rest.split_at(extent.metadata as usize);
        let (table, starts) = rest.split_at(rest.len() - extent.starts as usize);
        let entries = table
            .chunks(ENTRY)
            .map(Entry::decode)
            .collect::<Result<Vec<_>>>()?;
        let mut layout = Layout {
            metadata: Metadata::decode(metadata)?,
            parts: parts(head.kind, &entries)?,
            places: Vec::new(),
            starts: Vec::new(),
            blocks: 0,
            blocks_per_shard: 0,
            first_block: 0,
            end_of_table: extent.end(),
            length,
            checksum: head::stated_checksum(start),
            head,
            entries,
        };
        layout.check(extent)?;
        layout.place(starts)?;
        Ok(layout)
    }

    /// Computes what lookups need to know about the shards of a ribbon filter.
    fn place(&mut self, stored: &[u8]) -> Result<()> {
        let damaged = || Error::format("the starts of buckets are damaged");
        let mut rest = stored;
        if self.head.kind == Kind::Ribbon {
            self.places.reserve(self.entries.len());
            for part in &mut self.parts {
                let entries = &self.entries[part.first..][..part.shards];
                let keys = entries.iter().map(|entry| u64::from(entry.count)).sum();
                let buckets = ribbon::buckets(keys, part.shards as u64, part.width);
                let length = ribbon::bytes_of_starts(buckets) as usize;
                part.buckets = part.shards * buckets as usize;
                part.first_start = self.starts.len();
                for entry in entries {
                    let (own, others) = rest.split_at_checked(length).ok_or_else(damaged)?;
                    rest = others;
                    ribbon::starts(entry.extent, buckets, own, &mut self.starts);
                    let place = Place::new(entry.offset, entry.extent, entry.narrow);
                    self.places.push(place);
                }
            }
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(damaged())
        }
    }

    /// An attacker can make a checksum match, so everything that lookups rely on is checked
    /// separately.
    fn check(&mut self, extent: Extent) -> Result<()> {
        let damaged = |what: &str| Error::format(format!("the table of shards is damaged: {what}"));
        let kind = self.head.kind;
        let mut end = extent.end();
        let mut count = 0u64;
        for entry in &self.entries {
            if extent.padded {
                end = end.next_multiple_of(64);
            }
            let length = entry
                .length(kind)
                .ok_or_else(|| damaged("a shard without a size"))?;
            if entry.offset != end {
                return Err(damaged("shards are not contiguous"));
            }
            end = end
                .checked_add(length)
                .ok_or_else(|| damaged("too large"))?;
            count += u64::from(entry.count);
        }
        if extent.padded != is_padded(end, &self.entries) {
            return Err(damaged("unexpected padding"));
        }
        if end != self.length {
            return Err(Error::format(format!(
                "the filter should have {end} bytes, but has {}: it was cut or added to",
                self.length
            )));
        }
        if kind == Kind::Bloom {
            let most = self
                .entries
                .first()
                .map_or(0, |entry| u64::from(entry.extent));
            let last = self.entries.len().saturating_sub(1);
            if self.entries[..last]
                .iter()
                .any(|entry| u64::from(entry.extent) != most)
                || self
                    .entries
                    .last()
                    .is_some_and(|entry| u64::from(entry.extent) > most)
            {
                return Err(damaged("blocks are unevenly distributed"));
            }
            self.blocks_per_shard = most;
            self.first_block = self
                .entries
                .first()
                .map_or(0, |entry| entry.offset as usize);
            self.blocks = self
                .entries
                .iter()
                .map(|entry| u64::from(entry.extent))
                .sum();
        } else if count != self.head.count {
            return Err(damaged(
                "the shards hold more or fewer keys than the head says",
            ));
        }
        Ok(())
    }

    /// The start of the padding before a shard, if there is any.
    pub(crate) fn gap(&self, shard: usize) -> u64 {
        match shard.checked_sub(1) {
            Some(before) => self.range(before).end,
            None => self.end_of_table,
        }
    }

    /// The range of a shard in the file.
    pub(crate) fn range(&self, shard: usize) -> std::ops::Range<u64> {
        let entry = &self.entries[shard];
        // `check` has verified that there is a length.
        entry.offset..entry.offset + entry.length(self.head.kind).unwrap_or(0)
    }
}

/// Runs of shards of equal width; each width occurs once, in ascending order.
fn parts(kind: Kind, entries: &[Entry]) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if part.width == entry.width => part.shards += 1,
            Some(part) if part.width > entry.width => {
                return Err(Error::format(
                    "the table of shards is damaged: widths are not in order",
                ));
            }
            _ => parts.push(Part {
                width: entry.width,
                first: number,
                shards: 1,
                ..Part::default()
            }),
        }
    }
    if kind != Kind::Ribbon
        && entries
            .iter()
            .any(|entry| entry.width != 0 || entry.narrow != 0)
    {
        return Err(Error::format(
            "the table of shards is damaged: unexpected widths",
        ));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Filter, Hasher};
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    /// Gives the head a valid checksum, as an attacker would.
    fn seal(bytes: &mut [u8]) {
        let Ok(end) = Layout::prefix(bytes) else {
            return;
        };
        let end = (end as usize).min(bytes.len());
        let head: [u8; LENGTH] = array(bytes, 0);
        let sum = head::checksum(&head, &[&bytes[LENGTH..end]]);
        bytes[LENGTH - 8..LENGTH].copy_from_slice(&sum.to_le_bytes());
    }

    fn small(kind: Kind, path: &std::path::Path) -> Vec<u8> {
        let list = path.join("list");
        std::fs::write(&list, "http://a.com/\nhttp://b.com/\nhttp://c.com/\n").unwrap();
        let sources = [waypost_io::Source::new(&list)];
        let recipe = crate::filter::Recipe {
            kind,
            ..Default::default()
        };
        let out = path.join("f");
        crate::filter::build(crate::filter::Input::new(&sources), &recipe, &out).unwrap();
        std::fs::read(&out).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_hostile_file_with_right_checksums_is_refused_or_harmless(
            kind in 0usize..3,
            changes in proptest::collection::vec((0usize..4096, any::<u8>()), 1..6),
            hash in any::<u128>(),
        ) {
            thread_local! {
                static FILES: Vec<Vec<u8>> = {
                    let folder = tempfile::tempdir().unwrap();
                    Kind::ALL.map(|kind| small(kind, folder.path())).to_vec()
                };
            }
            let mut bytes = FILES.with(|files| files[kind].clone());
            let length = bytes.len();
            for (at, value) in changes {
                bytes[at % length] = value;
            }
            // The checksums of shards, too.
            if let Ok(layout) = Layout::prefix(&bytes).map(|end| end as usize)
                && layout <= length
                && layout >= LENGTH + ENTRY
            {
                let sum = xxh3_64(&bytes[layout..]);
                bytes[layout - ENTRY + 8..layout - ENTRY + 16].copy_from_slice(&sum.to_le_bytes());
            }
            seal(&mut bytes);
            if let Ok(filter) = Filter::from_bytes(bytes) {
                let _ = filter.contains(hash);
                let _ = filter.contains(Hasher::Public.hash(b"com,a)/"));
                let _ = crate::filter::check::check(&filter);
            }
        }
    }

    #[test]
    fn a_table_that_asks_for_more_than_there_is_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let whole = small(Kind::Ribbon, folder.path());
        for (at, value) in [(60, u32::MAX), (60, 2), (56, u32::MAX), (56, 5)] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            seal(&mut bytes);
            assert!(Filter::from_bytes(bytes).is_err(), "{value} at {at}");
        }
        // Excessive keys and rows, rows that aren't whole bytes, invalid widths, missing starts of
        // buckets.
        let entry = LENGTH;
        for (at, value) in [
            (entry + 16, vec![0xff; 4]),
            (entry + 20, vec![0xff; 4]),
            (entry + 20, vec![0xf8, 0xff, 0xff, 0xff]),
            (entry + 20, vec![9]),
            (entry + 24, vec![33]),
            (entry + 24, vec![0]),
            (entry + 25, vec![1]),
            (entry + 28, vec![1, 0, 0, 0]),
            (entry + 28, vec![0xff; 4]),
            (96, vec![1]),
        ] {
            let mut bytes = whole.clone();
            bytes[at..at + value.len()].copy_from_slice(&value);
            seal(&mut bytes);
            assert!(Filter::from_bytes(bytes).is_err(), "{value:?} at {at}");
        }
    }
}
