//! The blocks of a run: encoded rows, in memory or spilled, and decoded ones.

use super::Spill;
use super::bytes::{damaged, take_number};
use crate::error::Result;

/// Encoded rows of a run.
#[derive(Debug)]
pub(super) enum Block {
    Held(Vec<u8>),
    Spilled { at: u64, length: u32 },
}

impl Block {
    pub(super) fn size(&self) -> u64 {
        match self {
            Block::Held(held) => held.len() as u64,
            Block::Spilled { length, .. } => u64::from(*length),
        }
    }

    /// Appends the rows to `bytes`.
    pub(super) fn load(&self, spill: &Spill, bytes: &mut Vec<u8>) -> Result<()> {
        match self {
            Block::Held(held) => bytes.extend_from_slice(held),
            Block::Spilled { at, length } => {
                let start = bytes.len();
                bytes.resize(start + *length as usize, 0);
                spill.read(*at, &mut bytes[start..])?;
            }
        }
        Ok(())
    }
}

/// A row as it is stored: the length of the prefix shared with the preceding key, the rest of the key,
/// the payload.
pub(super) struct RowRef<'a> {
    pub(super) shared: usize,
    pub(super) rest: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl<'a> RowRef<'a> {
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Option<(RowRef<'a>, &'a [u8])> {
        let (shared, bytes) = take_number(bytes)?;
        let (length, bytes) = take_number(bytes)?;
        let (rest, bytes) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        let (length, bytes) = take_number(bytes)?;
        let (payload, bytes) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        let shared = usize::try_from(shared).ok()?;
        Some((
            RowRef {
                shared,
                rest,
                payload,
            },
            bytes,
        ))
    }
}

/// Consecutive rows.
#[derive(Clone, Debug, Default)]
pub struct RowBlock {
    /// Rows that have not been decoded.
    pub(super) encoded: Vec<u8>,
    bytes: Vec<u8>,
    /// The start of each key, and the start and end of each payload.
    rows: Vec<(usize, usize, usize)>,
}

impl RowBlock {
    /// The number of bytes that were read, before it is opened.
    pub fn size(&self) -> u64 {
        self.encoded.len() as u64
    }

    pub(super) fn clear(&mut self) {
        self.encoded.clear();
        self.bytes.clear();
        self.rows.clear();
    }

    /// Appends the rows of one or more blocks.
    pub(super) fn decode(&mut self, mut encoded: &[u8]) -> Result<()> {
        let mut last = (0, 0);
        while !encoded.is_empty() {
            let (row, rest) = RowRef::read(encoded).ok_or_else(damaged)?;
            encoded = rest;
            if row.shared > last.1 - last.0 {
                return Err(damaged());
            }
            let start = self.bytes.len();
            self.bytes.extend_from_within(last.0..last.0 + row.shared);
            self.bytes.extend_from_slice(row.rest);
            let middle = self.bytes.len();
            self.bytes.extend_from_slice(row.payload);
            self.rows.push((start, middle, self.bytes.len()));
            last = (start, middle);
        }
        Ok(())
    }

    /// Decodes the rows. Call this on the thread that processes them.
    ///
    /// # Errors
    /// If a temporary file was changed by another process.
    pub fn open(&mut self) -> Result<()> {
        let encoded = std::mem::take(&mut self.encoded);
        let decoded = self.decode(&encoded);
        self.encoded = encoded;
        self.encoded.clear();
        decoded
    }

    /// The keys and payloads.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + Clone {
        self.rows
            .iter()
            .map(|&(start, middle, end)| (&self.bytes[start..middle], &self.bytes[middle..end]))
    }

    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.rows
            .sort_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]));
    }

    /// The number of distinct keys, if they are sorted.
    pub(super) fn distinct(&self) -> u64 {
        let keys = self.iter().map(|(key, _)| key);
        let changes = keys.clone().zip(keys.skip(1)).filter(|(a, b)| a != b);
        u64::from(!self.rows.is_empty()) + changes.count() as u64
    }

    pub(super) fn is_sorted(&self) -> bool {
        self.iter().is_sorted_by_key(|(key, _)| key)
    }
}
