//! Sorted, distinct hashes: the output of partitions and the input of shards and merges.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::Kind;
use super::hash::{Hash, high, spread};
use super::read::Filter;
use crate::error::{Error, Result};

/// How many bytes are read at a time.
const CHUNK: usize = 1 << 20;

/// Collects hashes in order, in memory as long as they fit, then in a file.
pub(crate) struct RunWriter {
    /// In chunks of any size.
    held: Vec<Vec<Hash>>,
    /// How many hashes may be held in memory.
    most: usize,
    file: Option<BufWriter<File>>,
    count: u64,
    folder: PathBuf,
}

impl RunWriter {
    /// `memory` is in bytes. The file is created in `folder` without a name: nothing is left of it
    /// when the process ends, however it ends.
    pub(crate) fn new(memory: usize, folder: &Path) -> RunWriter {
        RunWriter {
            held: Vec::new(),
            most: memory / 16,
            file: None,
            count: 0,
            folder: folder.to_owned(),
        }
    }

    /// Appends hashes that are greater than all before.
    pub(crate) fn push(&mut self, hashes: &[Hash]) -> Result<()> {
        let has_room = self.has_room(hashes.len());
        self.count += hashes.len() as u64;
        if has_room {
            match self.held.last_mut() {
                Some(last) => last.extend_from_slice(hashes),
                None => self.held.push(hashes.to_vec()),
            }
            return Ok(());
        }
        let fail = |error| Error::io("write a temporary file in", &self.folder, error);
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = tempfile::tempfile_in(&self.folder).map_err(fail)?;
                let mut file = BufWriter::with_capacity(CHUNK, file);
                for held in std::mem::take(&mut self.held) {
                    write_hashes(&held, &mut file).map_err(fail)?;
                }
                none.insert(file)
            }
        };
        write_hashes(hashes, file).map_err(fail)
    }

    /// The same without copying them, if they fit in memory.
    pub(crate) fn push_chunk(&mut self, hashes: Vec<Hash>) -> Result<()> {
        if !self.has_room(hashes.len()) {
            return self.push(&hashes);
        }
        self.count += hashes.len() as u64;
        self.held.push(hashes);
        Ok(())
    }

    fn has_room(&self, more: usize) -> bool {
        self.file.is_none() && self.count + more as u64 <= self.most as u64
    }

    pub(crate) fn finish(self) -> Result<Run> {
        let fail = |error| Error::io("write a temporary file in", &self.folder, error);
        Ok(Run {
            stored: match self.file {
                None => Stored::Memory(self.held),
                Some(file) => Stored::File(
                    file.into_inner()
                        .map_err(|error| fail(error.into_error()))?,
                    self.folder,
                ),
            },
            count: self.count,
        })
    }
}

/// Writes hashes in the file format.
pub(crate) fn write_hashes(
    hashes: &[Hash],
    out: &mut (impl Write + ?Sized),
) -> std::io::Result<()> {
    for hash in hashes {
        out.write_all(&hash.to_le_bytes())?;
    }
    Ok(())
}

/// Sorted, distinct hashes.
pub(crate) struct Run {
    stored: Stored,
    count: u64,
}

enum Stored {
    /// In chunks of any size.
    Memory(Vec<Vec<Hash>>),
    File(File, PathBuf),
}

impl Run {
    /// The number of hashes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Reads them in order, from the start.
    pub(crate) fn reader(&self) -> RunReader<'_> {
        self.reader_at(0)
    }

    /// Reads them in order, from the hash with this number on.
    pub(crate) fn reader_at(&self, number: u64) -> RunReader<'_> {
        let mut reader = RunReader {
            run: self,
            bytes: Vec::new(),
            buffer: Vec::new(),
            chunk: 0,
            at: 0,
            next: 0,
        };
        reader.seek(number);
        reader
    }
}

/// Reads a run in order.
pub(crate) struct RunReader<'a> {
    run: &'a Run,
    bytes: Vec<u8>,
    /// Hashes read so far, if they are in a file; those from `at` on were not consumed yet.
    buffer: Vec<Hash>,
    /// The chunk that is read, if they are in memory.
    chunk: usize,
    at: usize,
    /// The number of the hash after the buffer.
    next: u64,
}

impl RunReader<'_> {
    /// Continues with the hash with this number.
    pub(crate) fn seek(&mut self, number: u64) {
        self.buffer.clear();
        (self.chunk, self.at) = (0, 0);
        self.next = number.min(self.run.count);
        if let Stored::Memory(chunks) = &self.run.stored {
            self.at = self.next as usize;
            while (chunks.get(self.chunk)).is_some_and(|chunk| chunk.len() <= self.at) {
                self.at -= chunks[self.chunk].len();
                self.chunk += 1;
            }
        }
    }

    /// Hashes not consumed yet: at least one, unless the run is at its end.
    pub(crate) fn peek(&mut self) -> Result<&[Hash]> {
        if let Stored::Memory(chunks) = &self.run.stored {
            while chunks
                .get(self.chunk)
                .is_some_and(|chunk| chunk.len() == self.at)
            {
                (self.chunk, self.at) = (self.chunk + 1, 0);
            }
            return Ok(chunks
                .get(self.chunk)
                .map_or(&[], |chunk| &chunk[self.at..]));
        }
        if self.at == self.buffer.len() {
            self.fill()?;
        }
        Ok(&self.buffer[self.at..])
    }

    /// Consumes this many of the hashes returned by [`peek`](RunReader::peek).
    pub(crate) fn take(&mut self, count: usize) {
        self.at += count;
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.clear();
        self.at = 0;
        if let Stored::File(file, folder) = &self.run.stored {
            let count = (self.run.count - self.next).min((CHUNK / 16) as u64);
            self.bytes.resize(count as usize * 16, 0);
            file.read_exact_at(&mut self.bytes, self.next * 16)
                .map_err(|error| Error::io("read a temporary file in", folder, error))?;
            self.buffer.extend(decode(&self.bytes));
            self.next += count;
        }
        Ok(())
    }

    /// Appends the next hashes for which `wanted` holds.
    pub(crate) fn take_while(
        &mut self,
        wanted: impl Fn(Hash) -> bool,
        out: &mut Vec<Hash>,
    ) -> Result<()> {
        while self.take_some(&wanted, usize::MAX, out)? {}
        Ok(())
    }

    /// The same for at most `most` hashes. Returns whether there may be more.
    pub(crate) fn take_some(
        &mut self,
        wanted: impl Fn(Hash) -> bool,
        most: usize,
        out: &mut Vec<Hash>,
    ) -> Result<bool> {
        let seen = self.peek()?;
        let seen = &seen[..seen.len().min(most)];
        let end = seen.partition_point(|&hash| wanted(hash));
        let more = end == seen.len() && end > 0;
        out.extend_from_slice(&seen[..end]);
        self.take(end);
        Ok(more)
    }

    /// Appends the hashes of a shard; shards must be requested in order.
    pub(crate) fn shard(&mut self, shard: u64, shards: u64, out: &mut Vec<Hash>) -> Result<()> {
        self.take_while(|hash| spread(high(hash), shards) <= shard, out)
    }
}

/// Parses hashes in the file format.
pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = Hash> + '_ {
    let (hashes, _) = bytes.as_chunks::<16>();
    hashes.iter().map(|bytes| u128::from_le_bytes(*bytes))
}

/// A source of hashes: a run, or a file of hashes.
pub(crate) enum Cursor<'a> {
    Run(RunReader<'a>),
    File {
        filter: &'a Filter,
        shard: usize,
        held: Vec<Hash>,
        at: usize,
    },
}

impl<'a> Cursor<'a> {
    /// Reads a file of hashes.
    pub(crate) fn file(filter: &'a Filter) -> Cursor<'a> {
        debug_assert_eq!(filter.head().kind, Kind::Hashes);
        Cursor::File {
            filter,
            shard: 0,
            held: Vec::new(),
            at: 0,
        }
    }

    fn peek(&mut self) -> Result<&[Hash]> {
        match self {
            Cursor::Run(reader) => reader.peek(),
            Cursor::File {
                filter,
                shard,
                held,
                at,
            } => {
                while *at == held.len() && *shard < filter.shards() {
                    held.clear();
                    *at = 0;
                    filter.with_shard(*shard, |bytes| held.extend(decode(bytes)))?;
                    *shard += 1;
                }
                Ok(&held[*at..])
            }
        }
    }

    fn take(&mut self, count: usize) {
        match self {
            Cursor::Run(reader) => reader.take(count),
            Cursor::File { at, .. } => *at += count,
        }
    }
}

/// All distinct hashes of all inputs.
pub(crate) fn union(cursors: &mut [Cursor<'_>], out: &mut RunWriter) -> Result<()> {
    let mut batch = Vec::with_capacity(1 << 16);
    loop {
        let mut least: Option<Hash> = None;
        for cursor in cursors.iter_mut() {
            if let Some(&first) = cursor.peek()?.first() {
                least = Some(least.map_or(first, |least| least.min(first)));
            }
        }
        let Some(least) = least else {
            return out.push(&batch);
        };
        batch.push(least);
        for cursor in cursors.iter_mut() {
            if cursor.peek()?.first() == Some(&least) {
                cursor.take(1);
            }
        }
        if batch.len() == batch.capacity() {
            out.push(&batch)?;
            batch.clear();
        }
    }
}

/// The hashes of `from` that are not in `without`. Returns how many were removed.
pub(crate) fn difference(
    from: &mut Cursor<'_>,
    without: &mut Cursor<'_>,
    out: &mut RunWriter,
) -> Result<u64> {
    let mut batch = Vec::with_capacity(1 << 16);
    let mut taken_out = 0;
    while let Some(&hash) = from.peek()?.first() {
        from.take(1);
        while without.peek()?.first().is_some_and(|&other| other < hash) {
            without.take(1);
        }
        if without.peek()?.first() == Some(&hash) {
            taken_out += 1;
            continue;
        }
        batch.push(hash);
        if batch.len() == batch.capacity() {
            out.push(&batch)?;
            batch.clear();
        }
    }
    out.push(&batch)?;
    Ok(taken_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn run(hashes: &BTreeSet<Hash>, memory: usize) -> Run {
        let mut writer = RunWriter::new(memory, &std::env::temp_dir());
        for hash in hashes {
            // Some in chunks of their own, which may be empty.
            match hash % 3 {
                0 => writer.push_chunk(vec![*hash]).unwrap(),
                1 => writer
                    .push_chunk(Vec::new())
                    .and(writer.push(&[*hash]))
                    .unwrap(),
                _ => writer.push(&[*hash]).unwrap(),
            }
        }
        writer.finish().unwrap()
    }

    fn all(run: &Run) -> Vec<Hash> {
        let mut hashes = Vec::new();
        run.reader().take_while(|_| true, &mut hashes).unwrap();
        hashes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn union_and_difference_are_those_of_sets(
            a in proptest::collection::btree_set(0u128..300, 0..150),
            b in proptest::collection::btree_set(0u128..300, 0..150),
            memory in prop_oneof![Just(0usize), Just(64), Just(1 << 20)],
        ) {
            let spread = |set: BTreeSet<Hash>| set.into_iter().map(|hash| hash << 119).collect::<BTreeSet<_>>();
            let (a, b) = (spread(a), spread(b));
            let (run_a, run_b) = (run(&a, memory), run(&b, memory));
            let mut out = RunWriter::new(memory, &std::env::temp_dir());
            union(&mut [Cursor::Run(run_a.reader()), Cursor::Run(run_b.reader())], &mut out).unwrap();
            prop_assert_eq!(all(&out.finish().unwrap()), a.union(&b).copied().collect::<Vec<_>>());
            let mut out = RunWriter::new(memory, &std::env::temp_dir());
            let gone = difference(&mut Cursor::Run(run_a.reader()), &mut Cursor::Run(run_b.reader()), &mut out).unwrap();
            prop_assert_eq!(gone as usize, a.intersection(&b).count());
            prop_assert_eq!(all(&out.finish().unwrap()), a.difference(&b).copied().collect::<Vec<_>>());
        }

        #[test]
        fn shards_are_cut_without_loss(
            set in proptest::collection::btree_set(any::<u128>(), 0..400),
            shards in 1u64..9,
            memory in prop_oneof![Just(0usize), Just(1 << 20)],
        ) {
            let run = run(&set, memory);
            let mut reader = run.reader();
            let mut joined = Vec::new();
            for shard in 0..shards {
                let mut hashes = Vec::new();
                reader.shard(shard, shards, &mut hashes).unwrap();
                prop_assert!(hashes.iter().all(|&hash| spread(high(hash), shards) == shard));
                joined.extend(hashes);
            }
            for number in 0..=set.len() {
                let mut rest = Vec::new();
                run.reader_at(number as u64).take_while(|_| true, &mut rest).unwrap();
                prop_assert_eq!(&rest[..], &joined[number..]);
            }
            prop_assert_eq!(joined, set.into_iter().collect::<Vec<_>>());
        }
    }
}
