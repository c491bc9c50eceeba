//! A profile that answers lookups.
//!
//! A profile is read from bytes: those of a memory-mapped file, or in memory. Opening reads it once,
//! to count its rows and to verify that it is sorted, which everything else relies on. Single lookups
//! are binary searches; batches are sorted and joined in one pass over the rows.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use rayon::prelude::*;
use waypost_index::kind::{self, FileKind};
use waypost_index::timestamp::Time;
use waypost_io::{Compression, InputKind, Lines, Mapped, Source, gzip};
use waypost_surt::Policy;

use super::row::Row;
use crate::about::{About, By};
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::Frequency;
use crate::lookup::Lookup;
use crate::map::Span;
use crate::preference::{Preference, Share};
use crate::summary::{Answer, Kind, Match, Size, Summary};
use crate::ukvs::{Reader, Wholeness};

/// An open profile.
#[derive(Debug)]
pub struct Profile {
    /// The name of its file.
    name: String,
    text: Mapped,
    /// Where the rows start in the text.
    start: usize,
    about: About,
    policy: Policy,
    /// The number of keys in a row.
    fields: usize,
    keys: u64,
    wholeness: Wholeness,
    /// The size of its file, if that is compressed.
    compressed: Option<u64>,
    /// Computed on demand: compressing takes longer than a lookup.
    gzip_bytes: OnceLock<u64>,
}

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
        let name = source.to_string();
        let stream = source.open()?;
        let plain = stream.compression() == Compression::Plain;
        let regular = source.kind()? == InputKind::Regular;
        if plain && regular {
            let text = Mapped::of(source)?;
            // What follows a byte-order mark is loaded, like the rows of a pipe or a compressed file.
            if !text.starts_with(b"\xef\xbb\xbf") {
                return Profile::new(name, text);
            }
        }
        let mut text = Vec::new();
        let mut lines = Lines::new(stream);
        while lines.advance()? {
            text.extend_from_slice(lines.line());
            text.push(b'\n');
        }
        let mut profile = Profile::new(name, Mapped::from(text))?;
        if !plain && regular {
            profile.compressed = source.file()?.map(|file| file.length);
        }
        Ok(profile)
    }

    /// Opens a profile from its text: a `Vec<u8>`, an `Arc<[u8]>` or a [`Mapped`] file.
    ///
    /// ```
    /// use waypost_summary::profile::Profile;
    /// use waypost_summary::{Lookup, Presence, Summary};
    ///
    /// let text = b"!meta {\"type\": \"urikey#H2P0\"}\ncom,example)/ {\"frequency\": 7}\n";
    /// let profile = Profile::from_bytes(text.to_vec())?;
    /// let mut buffer = Vec::new();
    /// let lookup = Lookup::of_surt(b"com,example)/a", &mut buffer);
    /// assert_eq!(profile.lookup(&lookup)?.presence(), Presence::Present);
    /// # Ok::<(), waypost_summary::Error>(())
    /// ```
    ///
    /// # Errors
    /// If it is not a profile, or is not sorted.
    pub fn from_bytes(text: impl Into<Mapped>) -> Result<Profile> {
        Profile::new("profile".to_owned(), text.into())
    }

    fn new(name: String, text: Mapped) -> Result<Profile> {
        let mut reader = Reader::new(name.clone(), &text[..])?;
        let about = About::from_headers(reader.headers()).map_err(|error| error.in_file(&name))?;
        let Some(policy) = about.policy else {
            return Err(
                Error::format("not a profile: no header names the policy of its keys")
                    .in_file(&name),
            );
        };
        let fields = 1 + usize::from(about.by.is_some());
        let mut keys = 0;
        let (mut key, mut before) = (Vec::new(), Vec::new());
        loop {
            let parsed = match reader.next_line()? {
                None => break,
                Some(line) => Row::parse(line, fields, &mut key),
            };
            parsed.map_err(|error| reader.error(error))?;
            check_order(&before, &key, keys).map_err(|error| reader.error(error))?;
            std::mem::swap(&mut before, &mut key);
            keys += 1;
        }
        let wholeness = reader.wholeness()?;
        text.check()?;
        Ok(Profile {
            name,
            start: rows_start(&text),
            text,
            about,
            policy,
            fields,
            keys,
            wholeness,
            compressed: None,
            gzip_bytes: OnceLock::new(),
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

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The frequency of a key, over all its second keys.
    fn find(&self, key: &[u8]) -> Result<Option<Frequency>> {
        let mut sum: Option<Frequency> = None;
        self.each_row(key, |_, frequency| {
            sum = Some(match sum {
                None => frequency,
                // A URI-R may be under several second keys.
                Some(sum) => at_most_urirs(sum.plus(frequency)),
            });
        })?;
        Ok(sum)
    }

    /// Passes on the second key, if any, and the frequency of each row with a key.
    fn each_row(&self, key: &[u8], mut take: impl FnMut(Option<&[u8]>, Frequency)) -> Result<()> {
        let mut at = self.first_not_below(key)?;
        let mut found = Vec::new();
        while let Some(line) = self.line_at(at) {
            at += line.len() + 1;
            let frequency = self.parse(line, &mut found)?;
            let first = first_key(&found, self.fields);
            if first != key {
                break;
            }
            take(found.get(first.len() + 1..), frequency);
        }
        Ok(self.text.check()?)
    }

    /// The offset of the first row whose first key is not less than `key`.
    fn first_not_below(&self, key: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (self.start, self.text.len());
        let mut found = Vec::new();
        // The wanted row starts in `low..=high`; `low` is always the start of a row.
        while low < high {
            let middle = low + (high - low) / 2;
            let before = memchr::memrchr(b'\n', &self.text[low..middle]);
            let start = before.map_or(low, |at| low + at + 1);
            let Some(line) = self.line_at(start) else {
                break;
            };
            self.parse(line, &mut found)?;
            if first_key(&found, self.fields) < key {
                low = start + line.len() + 1;
            } else {
                high = start;
            }
        }
        Ok(low)
    }

    /// The line that starts at `at`, without its line feed. `None` at the end.
    fn line_at(&self, at: usize) -> Option<&[u8]> {
        let rest = self.text.get(at..).filter(|rest| !rest.is_empty())?;
        Some(&rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())])
    }

    /// The frequency of a row. Its keys are written to `key`.
    fn parse(&self, line: &[u8], key: &mut Vec<u8>) -> Result<Frequency> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let row = Row::parse(line, self.fields, key);
        row.map(|row| row.frequency)
            .or_else(|error| self.text.check().map_err(Error::from).and(Err(error)))
            .map_err(|error| error.in_file(&self.name))
    }
}

/// The rows of a file, after its headers.
pub(super) fn open_rows(source: &Source) -> Result<(Reader<impl Read + use<>>, Compression)> {
    let stream = source.open()?;
    let compression = stream.compression();
    Ok((Reader::new(source.to_string(), stream)?, compression))
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

/// The offset of the rows of a text: after the leading headers.
fn rows_start(text: &[u8]) -> usize {
    let mut start = 0;
    while let Some(b'!' | b'@' | b'\r' | b'\n') = text.get(start) {
        let line = memchr::memchr(b'\n', &text[start..]).unwrap_or(text.len() - start);
        start = (start + line + 1).min(text.len());
    }
    start
}

impl Summary for Profile {
    fn kind(&self) -> Kind {
        Kind::Profile
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        let gzip_bytes = || *self.gzip_bytes.get_or_init(|| gzip::size(&self.text));
        Size {
            keys: self.keys,
            bytes: self.compressed.unwrap_or(self.text.len() as u64),
            gzip_bytes: self.compressed.unwrap_or_else(gzip_bytes),
        }
    }

    fn wholeness(&self) -> Wholeness {
        self.wholeness
    }

    fn set_private(&self) {
        self.text.set_private();
    }

    fn share(&self, lookup: &Lookup<'_>, preference: &Preference) -> Result<Option<f64>> {
        let Some(by) = self
            .about
            .by
            .filter(|by| preference.likes(*by, b"").is_some())
        else {
            return Ok(None);
        };
        let mut key = Vec::new();
        self.policy.cut(lookup.surt(), &mut key);
        let mut share = Share::default();
        self.each_row(&key, |second, frequency| {
            let captures = frequency.captures.map(|captures| captures.value);
            let liked = preference.likes(by, second.unwrap_or_default());
            share.add(captures, liked == Some(true));
        })?;
        Ok(share.get())
    }

    fn distance(&self, lookup: &Lookup<'_>, at: Time) -> Result<u64> {
        let whole = self.about.distance(at);
        let times = matches!(self.about.by, Some(By::Year | By::Month));
        if !times || !self.about.scopes.is_everything() {
            return Ok(whole);
        }
        let mut key = Vec::new();
        self.policy.cut(lookup.surt(), &mut key);
        let mut nearest: Option<u64> = None;
        self.each_row(&key, |second, frequency| {
            let span = second.and_then(Span::parse);
            let distance = span.map_or(0, |span| span.distance(at));
            if !frequency.is_void() {
                nearest = Some(nearest.map_or(distance, |known| known.min(distance)));
            }
        })?;
        Ok(whole.max(nearest.unwrap_or(0)))
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
        let mut reader = Reader::new(self.name.clone(), &self.text[..])?;
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
        self.text.check()?;
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
