//! A profile that answers lookups.
//!
//! Opening reads the profile once: to count its rows, determine its size and verify that it is
//! sorted, which everything else relies on. Single lookups search plain files in place and
//! compressed ones in memory; batches are sorted and joined in one pass over the file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use waypost_index::kind::{self, FileKind};
use waypost_io::{Compression, FileReader, InputKind, Lines, Source, gzip};
use waypost_surt::Policy;

use super::row::Row;
use crate::about::About;
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::Frequency;
use crate::lookup::Lookup;
use crate::summary::{Answer, Kind, Match, Size, Summary};
use crate::ukvs::Reader;

/// A profile in a file.
#[derive(Debug)]
pub struct Profile {
    source: Source,
    about: About,
    policy: Policy,
    /// The number of keys in a row.
    fields: usize,
    keys: u64,
    bytes: u64,
    compression: Compression,
    /// Computed on demand: compressing takes longer than a lookup.
    gzip_bytes: OnceLock<u64>,
    rows: Rows,
}

/// Where the rows are.
#[derive(Debug)]
enum Rows {
    /// In a range of a file.
    File(Arc<File>, u64, u64),
    /// In memory.
    Loaded(Vec<u8>),
}

/// How much is read at a time from a file.
const PIECE: usize = 4096;

impl Profile {
    /// Opens a profile, plain or compressed.
    ///
    /// # Errors
    /// If it can't be read, is not a profile, or is not sorted.
    pub fn open(path: &Path) -> Result<Profile> {
        Profile::of(&Source::new(path))
    }

    /// Reads a profile from a source.
    ///
    /// # Errors
    /// Like [`open`](Profile::open).
    pub fn of(source: &Source) -> Result<Profile> {
        match kind::detect(source)?.kind {
            // Whatever else is wrong with a text is said with its line.
            FileKind::Empty | FileKind::List | FileKind::Summary | FileKind::Text => {}
            other => return Err(other.instead_of("a profile").in_file(source).into()),
        }
        let (mut reader, compression) = open_rows(source)?;
        let about = About::from_headers(reader.headers()).map_err(|error| error.in_file(source))?;
        let Some(policy) = about.policy else {
            return Err(
                Error::format("not a profile: no header names the policy of its keys")
                    .in_file(source),
            );
        };
        let fields = 1 + usize::from(about.by.is_some());
        // Rows of a pipe, or after a byte-order mark, are kept in memory like those of a compressed
        // file.
        let regular = match source.kind()? {
            InputKind::Regular => source.file()?,
            InputKind::Pipe | InputKind::Stdin => None,
        };
        let plain = match (&regular, compression) {
            (Some((file, _)), Compression::Plain) if !has_mark(file, source)? => Some(file),
            _ => None,
        };
        let mut keys = 0;
        let (mut key, mut before) = (Vec::new(), Vec::new());
        let mut loaded = Vec::new();
        loop {
            let parsed = match reader.next_line()? {
                None => break,
                Some(line) => {
                    if plain.is_none() {
                        loaded.extend_from_slice(line);
                        loaded.push(b'\n');
                    }
                    Row::parse(line, fields, &mut key)
                }
            };
            parsed.map_err(|error| reader.error(error))?;
            check_order(&before, &key, keys).map_err(|error| reader.error(error))?;
            std::mem::swap(&mut before, &mut key);
            keys += 1;
        }
        let bytes = regular
            .as_ref()
            .map_or(loaded.len() as u64, |(_, length)| *length);
        let rows = match plain {
            Some(file) => Rows::File(Arc::clone(file), rows_start(file)?, bytes),
            None => Rows::Loaded(loaded),
        };
        Ok(Profile {
            source: source.clone(),
            about,
            policy,
            fields,
            keys,
            bytes,
            compression,
            gzip_bytes: OnceLock::new(),
            rows,
        })
    }

    /// Whether a source starts like a summary in text form.
    ///
    /// # Errors
    /// If it can't be read.
    pub(crate) fn is_one(source: &Source) -> Result<bool> {
        let mut start = vec![0; 64 << 10];
        let (length, _) = source.open()?.read_full(&mut start);
        Ok(crate::holdings::content_of(&start[..length]) == crate::holdings::Content::Summary)
    }

    /// The policy of its keys.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// The frequency of a key, over all its second keys.
    fn find(&self, key: &[u8]) -> Result<Option<Frequency>> {
        let mut at = self.first_not_below(key)?;
        let mut line = Vec::new();
        let mut found_key = Vec::new();
        let mut sum: Option<Frequency> = None;
        while self.line_at(at, &mut line)? {
            at += line.len() as u64;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let row = Row::parse(
                text.strip_suffix(b"\r").unwrap_or(text),
                self.fields,
                &mut found_key,
            )
            .map_err(|error| error.in_file(&self.source))?;
            if first_key(&found_key, self.fields) != key {
                break;
            }
            sum = Some(match sum {
                None => row.frequency,
                // A URI-R may be under several second keys.
                Some(sum) => at_most_urirs(sum.plus(row.frequency)),
            });
        }
        Ok(sum)
    }

    /// The offset of the first row whose first key is not less than `key`.
    fn first_not_below(&self, key: &[u8]) -> Result<u64> {
        let (mut low, mut high) = match &self.rows {
            Rows::File(_, start, end) => (*start, *end),
            Rows::Loaded(bytes) => (0, bytes.len() as u64),
        };
        let mut line = Vec::new();
        let mut found = Vec::new();
        // The wanted row starts in `low..=high`; `low` is always the start of a row.
        while low < high {
            let middle = low + (high - low) / 2;
            let start = self.line_start(middle, low)?;
            if !self.line_at(start, &mut line)? {
                break;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            Row::parse(
                text.strip_suffix(b"\r").unwrap_or(text),
                self.fields,
                &mut found,
            )
            .map_err(|error| error.in_file(&self.source))?;
            if first_key(&found, self.fields) < key {
                low = start + line.len() as u64;
            } else {
                high = start;
            }
        }
        Ok(low)
    }

    /// The start of the line that contains the byte `at`, not before `least`.
    fn line_start(&self, at: u64, least: u64) -> Result<u64> {
        let mut end = at;
        let mut piece = [0; PIECE];
        while end > least {
            let from = end.saturating_sub(PIECE as u64).max(least);
            let length = self.read_at(from, &mut piece[..(end - from) as usize])?;
            if let Some(feed) = memchr::memrchr(b'\n', &piece[..length]) {
                return Ok(from + feed as u64 + 1);
            }
            end = from;
        }
        Ok(least)
    }

    /// The line that starts at `at`, with its terminator. `false` at the end.
    fn line_at(&self, at: u64, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let mut piece = [0; 512];
        loop {
            let length = self.read_at(at + line.len() as u64, &mut piece)?;
            let feed = memchr::memchr(b'\n', &piece[..length]);
            line.extend_from_slice(&piece[..feed.map_or(length, |feed| feed + 1)]);
            if feed.is_some() || length == 0 {
                return Ok(!line.is_empty());
            }
        }
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        match &self.rows {
            Rows::Loaded(bytes) => {
                let from = (at as usize).min(bytes.len());
                let length = out.len().min(bytes.len() - from);
                out[..length].copy_from_slice(&bytes[from..from + length]);
                Ok(length)
            }
            Rows::File(file, _, _) => {
                let mut length = 0;
                while length < out.len() {
                    match file.read_at(&mut out[length..], at + length as u64) {
                        Ok(0) => break,
                        Ok(read) => length += read,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(Error::io("read", self.source.path(), error)),
                    }
                }
                Ok(length)
            }
        }
    }
}

/// The rows of a file, after its headers.
pub(super) fn open_rows(source: &Source) -> Result<(Reader<impl Read + use<>>, Compression)> {
    let stream = source.open()?;
    let compression = stream.compression();
    Ok((Reader::new(source.to_string(), stream)?, compression))
}

/// Whether a regular file starts with a byte-order mark.
fn has_mark(file: &Arc<File>, source: &Source) -> Result<bool> {
    let mut start = Vec::new();
    FileReader::new(Arc::clone(file), 0)
        .take(3)
        .read_to_end(&mut start)
        .map_err(|error| Error::io("read", source.path(), error))?;
    Ok(start == b"\xef\xbb\xbf")
}

/// Checks that rows are in ascending order.
pub(super) fn check_order(before: &[u8], here: &[u8], rows: u64) -> Result<()> {
    if rows > 0 && before >= here {
        return Err(Error::new(ErrorKind::NotSorted {
            before: String::from_utf8_lossy(before).into_owned(),
            here: String::from_utf8_lossy(here).into_owned(),
        }));
    }
    Ok(())
}

fn first_key(key: &[u8], fields: usize) -> &[u8] {
    if fields == 1 {
        return key;
    }
    &key[..memchr::memchr(b' ', key).unwrap_or(key.len())]
}

fn at_most_urirs(mut frequency: Frequency) -> Frequency {
    frequency.urirs = frequency
        .urirs
        .map(|urirs| urirs.plus(crate::frequency::Number::at_most(0)));
    frequency
}

/// The offset of the rows of a plain file: after the leading headers.
fn rows_start(file: &Arc<File>) -> Result<u64> {
    let mut lines = Lines::new(FileReader::new(Arc::clone(file), 0));
    let mut start = 0;
    while lines.advance()? {
        match lines.line().first() {
            Some(b'!' | b'@' | b'\r') | None => start += lines.line().len() as u64 + 1,
            _ => break,
        }
    }
    Ok(start)
}

impl Summary for Profile {
    fn kind(&self) -> Kind {
        Kind::Profile
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        let gzip_bytes = *self.gzip_bytes.get_or_init(|| {
            // The file was just read to its end; if it can't be read now, lookups will report that.
            let size = match &self.rows {
                _ if self.compression != Compression::Plain => Ok(self.bytes),
                Rows::Loaded(text) => Ok(gzip::size(text)),
                Rows::File(file, ..) => gzip::size_of(FileReader::new(Arc::clone(file), 0)),
            };
            size.unwrap_or(self.bytes)
        });
        Size {
            keys: self.keys,
            bytes: self.bytes,
            gzip_bytes,
        }
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer> {
        let mut key = Vec::new();
        self.policy.cut(lookup.surt(), &mut key);
        let answer = match self.find(&key)? {
            Some(frequency) if !frequency.is_void() => Answer::Present(Match {
                key: Some(key),
                frequency,
            }),
            _ => Answer::Absent,
        };
        Ok(self.about.scopes.limit(lookup, answer))
    }

    fn lookup_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        let mut sought = Sought::new(self.policy, lookups);
        let mut answers = vec![None; lookups.len()];
        let (mut reader, _) = open_rows(&self.source)?;
        let mut key = Vec::new();
        loop {
            let row = match reader.next_line()? {
                None => break,
                Some(line) => Row::parse(line, self.fields, &mut key),
            };
            let row = row.map_err(|error| reader.error(error))?;
            sought.answer(first_key(&key, self.fields), |index| {
                let sum: Option<Frequency> = answers[index];
                let sum = match sum {
                    None => row.frequency,
                    Some(sum) => at_most_urirs(sum.plus(row.frequency)),
                };
                answers[index] = Some(sum);
            });
        }
        let held = |frequency: &Frequency| !frequency.is_void();
        Ok(answers
            .into_iter()
            .zip(lookups)
            .map(|(answer, lookup)| {
                let answer = Answer::without_key(answer.filter(held));
                self.about.scopes.limit(lookup, answer)
            })
            .collect())
    }

    fn answer_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        // A search takes about twenty reads, and a pass reads every row.
        if (lookups.len() as u64) * 100 < self.keys {
            return lookups
                .par_iter()
                .map(|lookup| self.lookup(lookup))
                .collect();
        }
        let mut answers = self.lookup_all(lookups)?;
        lookups
            .par_iter()
            .zip(&mut answers)
            .for_each(|(lookup, answer)| {
                if let Answer::Present(found) = answer {
                    let mut key = Vec::new();
                    self.policy.cut(lookup.surt(), &mut key);
                    found.key = Some(key);
                }
            });
        Ok(answers)
    }
}

/// The keys of lookups, sorted, to be joined with sorted rows.
///
/// Lookups are mostly sorted by SURT. So adjacent ones often have the same key, which is stored
/// once, and the rest is nearly sorted.
struct Sought {
    /// All keys, one behind the other.
    bytes: Vec<u8>,
    /// Sorted by key.
    keys: Vec<SoughtKey>,
    next: usize,
}

/// A key shared by consecutive lookups.
#[derive(Clone, Copy)]
struct SoughtKey {
    start: usize,
    length: u32,
    /// The first lookup, and their number.
    first: u32,
    count: u32,
}

impl SoughtKey {
    fn slice<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.length as usize]
    }
}

/// How many lookups one thread cuts at a time.
const CHUNK: usize = 50_000;

impl Sought {
    fn new(policy: Policy, lookups: &[Lookup<'_>]) -> Sought {
        let parts: Vec<(Vec<u8>, Vec<SoughtKey>)> = lookups
            .par_chunks(CHUNK)
            .enumerate()
            .map(|(chunk, lookups)| {
                let mut bytes = Vec::new();
                let mut keys: Vec<SoughtKey> = Vec::new();
                for (index, lookup) in lookups.iter().enumerate() {
                    let start = bytes.len();
                    policy.cut(lookup.surt(), &mut bytes);
                    match keys.last_mut() {
                        Some(last) if last.slice(&bytes) == &bytes[start..] => {
                            last.count += 1;
                            bytes.truncate(start);
                        }
                        _ => keys.push(SoughtKey {
                            start,
                            length: (bytes.len() - start) as u32,
                            first: (chunk * CHUNK + index) as u32,
                            count: 1,
                        }),
                    }
                }
                (bytes, keys)
            })
            .collect();
        let mut bytes = Vec::with_capacity(parts.iter().map(|(bytes, _)| bytes.len()).sum());
        let mut keys = Vec::with_capacity(parts.iter().map(|(_, keys)| keys.len()).sum());
        for (part, part_keys) in parts {
            let base = bytes.len();
            keys.extend(part_keys.into_iter().map(|key| SoughtKey {
                start: base + key.start,
                ..key
            }));
            bytes.extend_from_slice(&part);
        }
        if !keys.is_sorted_by(|a, b| a.slice(&bytes) <= b.slice(&bytes)) {
            keys.par_sort_by(|a, b| a.slice(&bytes).cmp(b.slice(&bytes)));
        }
        Sought {
            bytes,
            keys,
            next: 0,
        }
    }

    /// Returns the lookups with this key. Keys must ascend.
    fn answer(&mut self, key: &[u8], mut give: impl FnMut(usize)) {
        while let Some(sought) = self.keys.get(self.next) {
            if sought.slice(&self.bytes) >= key {
                break;
            }
            self.next += 1;
        }
        for sought in &self.keys[self.next..] {
            if sought.slice(&self.bytes) != key {
                break;
            }
            (sought.first..sought.first + sought.count).for_each(|index| give(index as usize));
        }
    }
}
