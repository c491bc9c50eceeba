//! The file format of extracted Last-Modified times: `docs/formats/lastmod.md`.
//!
//! ```text
//! !waypost-lastmod 1
//! !file crawl-data/CC-MAIN-2019-35/segments/1566027312025.20/warc/CC-MAIN-…-00000.warc.gz
//! 17325 ⇥ 1114316977 ⇥ 20190817212056
//! ```

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicU64, Ordering};

use waypost_io::{Error, ErrorKind, Result, Source, Stream};

pub(super) const MAGIC: &str = "!waypost-lastmod 1";

/// One response: its offset in the file, its Last-Modified time, and the time of its capture as 14
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The number of the file.
    file: u32,
    /// The offset.
    pub offset: u64,
    /// The Last-Modified time.
    pub lastmod: i64,
    /// The time of the capture.
    pub captured: u64,
}

/// The bytes that an entry takes in memory.
const ENTRY: usize = size_of::<Entry>() + 1;

/// Reads a file in slices of bounded size.
pub struct LastmodReader {
    name: String,
    lines: BufReader<Stream>,
    line: Vec<u8>,
    number: u64,
    /// The file that the next entries belong to.
    current: Option<Vec<u8>>,
}

impl LastmodReader {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn open(source: &Source) -> Result<LastmodReader> {
        let mut reader = LastmodReader {
            name: source.to_string(),
            lines: BufReader::with_capacity(1 << 18, source.open()?),
            line: Vec::new(),
            number: 0,
            current: None,
        };
        if !reader.read_line()? || reader.line != MAGIC.as_bytes() {
            let message = match reader.line.starts_with(b"!waypost-lastmod ") {
                true => "a file of another version of this format",
                false => "not a file of Last-Modified times",
            };
            return Err(reader.wrong(message));
        }
        Ok(reader)
    }

    fn wrong(&self, message: &str) -> Error {
        Error::new(ErrorKind::Format(message.to_owned()))
            .in_file(&self.name)
            .at_line(self.number.max(1))
    }

    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| Error::from_read(error).in_file(&self.name))?;
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        Ok(read > 0)
    }

    /// The next entries, as many as fit in `memory` bytes. `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is invalid.
    pub fn next_slice(&mut self, memory: usize) -> Result<Option<Slice>> {
        let most = (memory / ENTRY).max(1);
        let mut slice = Slice::default();
        let mut file = None;
        while slice.entries.len() < most && self.read_line()? {
            if let Some(name) = self.line.strip_prefix(b"!file ") {
                self.current = Some(name.to_vec());
                file = None;
                continue;
            }
            if self.line.is_empty() || self.line.starts_with(b"!") {
                continue;
            }
            let Some(name) = &self.current else {
                return Err(self.wrong("expected a line `!file NAME` before the first entry"));
            };
            let number = match file {
                Some(number) => number,
                None => *file.insert(slice.number(name)),
            };
            let Some(entry) = parse(&self.line, number) else {
                return Err(self.wrong("expected OFFSET⇥LASTMOD⇥CAPTURED"));
            };
            slice.entries.push(entry);
        }
        if slice.entries.is_empty() {
            return Ok(None);
        }
        slice.finish();
        Ok(Some(slice))
    }
}

fn parse(line: &[u8], file: u32) -> Option<Entry> {
    let mut columns = std::str::from_utf8(line).ok()?.split('\t');
    let offset = columns.next()?.parse().ok()?;
    let lastmod = columns.next()?.parse().ok()?;
    let captured = columns.next()?.parse().ok()?;
    let entry = Entry {
        file,
        offset,
        lastmod,
        captured,
    };
    columns.next().is_none().then_some(entry)
}

/// Some entries in memory, to be found by file and offset.
#[derive(Debug, Default)]
pub struct Slice {
    numbers: HashMap<Vec<u8>, u32>,
    names: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    /// Where the entries of each file start, and where the last ends.
    starts: Vec<usize>,
    /// How many parts the names have.
    depths: BTreeSet<usize>,
    /// One bit for each entry that was found.
    used: Vec<AtomicU64>,
}

/// What was found for a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The Last-Modified time.
    Time(i64),
    /// An entry with another time of capture.
    OtherCapture,
    /// Nothing.
    Nothing,
}

impl Slice {
    fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_vec(), number);
        self.names.push(name.to_vec());
        number
    }

    fn finish(&mut self) {
        self.entries.sort_unstable();
        self.entries
            .dedup_by_key(|entry| (entry.file, entry.offset));
        self.starts = (0..=self.names.len() as u32)
            .map(|file| self.entries.partition_point(|entry| entry.file < file))
            .collect();
        self.depths = self
            .names
            .iter()
            .map(|name| memchr::memchr_iter(b'/', name).count())
            .collect();
        self.used = (0..self.entries.len().div_ceil(64))
            .map(|_| AtomicU64::new(0))
            .collect();
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The file that a name means: that of the same name, or else the longest that the name ends with,
    /// at a slash. Names of extracted files may lack their first folders.
    fn file(&self, name: &[u8]) -> Option<u32> {
        let slashes = memchr::memchr_iter(b'/', name).count();
        for &depth in self.depths.iter().rev() {
            let Some(skipped) = slashes.checked_sub(depth) else {
                continue;
            };
            let start = match skipped {
                0 => 0,
                skipped => memchr::memchr_iter(b'/', name).nth(skipped - 1)? + 1,
            };
            if let Some(number) = self.numbers.get(&name[start..]) {
                return Some(*number);
            }
        }
        None
    }

    /// Finds the entry of a capture, and marks it as used.
    pub fn find(&self, file: &[u8], offset: u64, captured: &[u8]) -> Found {
        let Some(number) = self.file(file) else {
            return Found::Nothing;
        };
        let range = self.starts[number as usize]..self.starts[number as usize + 1];
        let Ok(at) =
            self.entries[range.clone()].binary_search_by_key(&offset, |entry| entry.offset)
        else {
            return Found::Nothing;
        };
        let at = range.start + at;
        let entry = self.entries[at];
        let digits = captured.get(..captured.len().min(14)).unwrap_or_default();
        let captured = std::str::from_utf8(digits)
            .ok()
            .and_then(|d| d.parse().ok());
        if captured != Some(entry.captured) {
            return Found::OtherCapture;
        }
        self.used[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
        Found::Time(entry.lastmod)
    }

    /// The entries that no capture matched: how many, and the first ones.
    pub fn left_over(&self, most: usize) -> (u64, Vec<(String, Entry)>) {
        let mut count = 0;
        let mut first = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            if self.used[at / 64].load(Ordering::Relaxed) & (1 << (at % 64)) == 0 {
                count += 1;
                if first.len() < most {
                    let name = &self.names[entry.file as usize];
                    first.push((String::from_utf8_lossy(name).into_owned(), *entry));
                }
            }
        }
        (count, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<LastmodReader> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lastmod");
        std::fs::write(&path, text).unwrap();
        LastmodReader::open(&Source::new(path))
    }

    #[test]
    fn entries_are_found_by_the_end_of_a_file_name_and_the_time_of_capture() {
        let text = "!waypost-lastmod 1\n!file warc/a.gz\n70\t5\t20190101000000\n7\t6\t20190101000001\n!file x/warc/b.gz\n7\t7\t20190101000002\n";
        let slice = open(text).unwrap().next_slice(1 << 20).unwrap().unwrap();
        assert_eq!(slice.len(), 3);
        let find = |name: &str, offset, captured: &str| {
            slice.find(name.as_bytes(), offset, captured.as_bytes())
        };
        assert_eq!(find("crawl/warc/a.gz", 7, "20190101000001"), Found::Time(6));
        assert_eq!(find("warc/a.gz", 70, "20190101000000"), Found::Time(5));
        assert_eq!(find("warc/a.gz", 70, "20190101000009"), Found::OtherCapture);
        assert_eq!(find("a.gz", 7, "20190101000001"), Found::Nothing);
        assert_eq!(find("other/a.gz", 7, "20190101000001"), Found::Nothing);
        assert_eq!(find("y/warc/b.gz", 7, "20190101000002"), Found::Nothing);
        let (count, first) = slice.left_over(5);
        assert_eq!((count, &*first[0].0), (1, "x/warc/b.gz"));
        assert_eq!(find("y/x/warc/b.gz", 7, "20190101000002"), Found::Time(7));
    }

    #[test]
    fn slices_divide_the_entries() {
        let text: String = (0..100)
            .map(|n| format!("{n}\t{n}\t20190101000000\n"))
            .collect();
        let mut reader = open(&format!("!waypost-lastmod 1\n!file a\n{text}")).unwrap();
        let (mut slices, mut entries) = (0, 0);
        while let Some(slice) = reader.next_slice(30 * ENTRY).unwrap() {
            slices += 1;
            entries += slice.len();
        }
        assert_eq!((slices, entries), (4, 100));
    }

    #[test]
    fn what_is_not_such_a_file_is_an_error_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("hello\n", 1),
            ("!waypost-lastmod 2\n", 1),
            ("!waypost-lastmod 1\n7\t8\t9\n", 2),
            ("!waypost-lastmod 1\n!file a\n7\t8\n", 3),
            ("!waypost-lastmod 1\n!file a\n7\tx\t9\n", 3),
        ] {
            let error = match open(text) {
                Err(error) => error,
                Ok(mut reader) => reader.next_slice(1000).unwrap_err(),
            };
            assert_eq!(error.place().line, Some(line), "{text}");
        }
    }
}
