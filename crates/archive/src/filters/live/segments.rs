//! The filters of added hashes: the last one is added to, those before it are full.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use waypost_io::{IoContext, Result};
use waypost_summary::filter::{Filter, Hash, Hasher, Keyer, LiveFilter};

use super::{LiveOptions, Segment};

/// All filters of added hashes.
pub(crate) struct Segments {
    /// With their numbers, ascending; never none.
    all: Vec<(u64, Segment)>,
}

/// The number of a filter of added hashes, by its name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("live-")?.strip_suffix(".filter")?;
    (digits.len() == 6).then(|| digits.parse().ok())?
}

fn name_of(number: u64) -> String {
    format!("live-{number:06}.filter")
}

impl Segments {
    /// Opens all filters in a folder. If there is no room in the last one, another one is made, and
    /// written at once if URIs can be added: a hash that an earlier one seemed to contain is not in the
    /// log, so that the filter must have the same size whenever the log is read again.
    pub(super) fn open(
        folder: &Path,
        keyer: &Keyer,
        options: &LiveOptions,
        writable: bool,
    ) -> Result<Segments> {
        let io = waypost_summary::Error::into_io;
        let mut all = Vec::new();
        if folder.is_dir() {
            for entry in fs::read_dir(folder).doing("read", folder)? {
                let entry = entry.doing("read", folder)?;
                let Some(number) = entry.file_name().to_str().and_then(number_of) else {
                    continue;
                };
                let mut filter = Filter::open(&entry.path()).map_err(io)?;
                if let (_, _, Hasher::Keyed(secret)) = keyer.parts() {
                    filter = filter.with_secret(secret).map_err(io)?;
                }
                all.push((number, Arc::new(LiveFilter::of(&filter).map_err(io)?)));
            }
        }
        all.sort_by_key(|(number, _)| *number);
        let segments = Segments { all };
        if !segments.needs_another(0) {
            return Ok(segments);
        }
        let segments = segments.with_another(keyer, options, 0);
        if writable {
            segments.write_last(folder)?;
        }
        Ok(segments)
    }

    /// These filters, and an empty one of twice the size, or for this many hashes if that is more. It
    /// takes the place of one that is empty.
    pub(super) fn with_another(&self, keyer: &Keyer, options: &LiveOptions, most: u64) -> Segments {
        self.measure();
        let mut all = self.all.clone();
        let empty = all.pop_if(|(_, last)| last.count() == 0);
        let (number, capacity) = match (empty, all.last()) {
            (Some((number, last)), _) => (number, last.capacity()),
            (None, Some((number, last))) => (number + 1, last.capacity().saturating_mul(2)),
            (None, None) => (1, options.capacity),
        };
        let another = LiveFilter::new(keyer, capacity.max(most), options.rate);
        all.push((number, Arc::new(another)));
        Segments { all }
    }

    pub(crate) fn contains(&self, hash: Hash) -> bool {
        self.all.iter().any(|(_, segment)| segment.contains(hash))
    }

    /// Adds a hash, unless it is there. Returns whether it was new.
    pub(super) fn insert(&self, hash: Hash) -> bool {
        let known = self.contains(hash);
        match self.all.last() {
            Some((_, last)) if !known => last.insert(hash),
            _ => false,
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.all.iter().map(|(_, segment)| segment.count()).sum()
    }

    pub(super) fn rate(&self) -> f64 {
        let rates = self.all.iter().map(|(_, segment)| segment.rate());
        1.0 - rates.fold(1.0, |miss, rate| miss * (1.0 - rate))
    }

    pub(super) fn measure(&self) {
        if let Some((_, last)) = self.all.last() {
            last.measure();
        }
    }

    /// Whether the last filter is full, or is empty and too small for this many hashes.
    pub(super) fn needs_another(&self, most: u64) -> bool {
        let last = self.all.last();
        last.is_none_or(|(_, last)| match last.count() {
            0 => last.capacity() < most,
            count => count >= last.capacity(),
        })
    }

    /// Writes the last filter.
    pub(super) fn write_last(&self, folder: &Path) -> Result<()> {
        if let Some((number, last)) = self.all.last() {
            let path = folder.join(name_of(*number));
            last.write(&path).map_err(waypost_summary::Error::into_io)?;
        }
        Ok(())
    }
}
