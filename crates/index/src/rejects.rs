//! Bad lines: counted by kind, with examples of each.

use std::fmt;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use waypost_io::{AtomicFile, Error, ErrorKind, IoContext, Result};

/// Number of examples to keep of each kind.
pub const EXAMPLES: usize = 3;
/// How many bytes of a line an example keeps.
const EXAMPLE_BYTES: usize = 160;

/// Why a line is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Bad {
    /// The line is empty.
    Blank,
    /// Plain text, such as an error message or part of a line that was split by a newline in a URL.
    Text,
    /// Columns are missing, extra, or shifted by a space in a value.
    Columns,
    /// The key is missing or contains a space.
    Key,
    /// The timestamp is not 4 to 17 digits.
    Timestamp,
    /// The URL is invalid.
    Url,
    /// The status is neither three digits nor `-`.
    Status,
    /// A length or an offset is neither digits nor `-`.
    Number,
    /// The JSON is invalid.
    Json,
    /// The line contains a NUL byte, as crashed machines leave behind.
    Nul,
    /// The line is longer than 16 MiB.
    TooLong,
    /// The last line is incomplete and has no newline: the file was truncated.
    Cut,
}

impl Bad {
    /// The number of kinds.
    pub const COUNT: usize = 12;

    /// All kinds.
    pub const ALL: [Bad; Bad::COUNT] = [
        Bad::Blank,
        Bad::Text,
        Bad::Columns,
        Bad::Key,
        Bad::Timestamp,
        Bad::Url,
        Bad::Status,
        Bad::Number,
        Bad::Json,
        Bad::Nul,
        Bad::TooLong,
        Bad::Cut,
    ];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Bad::Blank => "blank",
            Bad::Text => "text",
            Bad::Columns => "columns",
            Bad::Key => "key",
            Bad::Timestamp => "timestamp",
            Bad::Url => "url",
            Bad::Status => "status",
            Bad::Number => "number",
            Bad::Json => "json",
            Bad::Nul => "nul",
            Bad::TooLong => "too-long",
            Bad::Cut => "cut",
        }
    }

    /// What is wrong, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Bad::Blank => "empty line",
            Bad::Text => "plain text",
            Bad::Columns => "missing, extra or shifted columns",
            Bad::Key => "missing key, or a space in the key",
            Bad::Timestamp => "timestamp is not 4 to 17 digits",
            Bad::Url => "invalid URL",
            Bad::Status => "status is not three digits",
            Bad::Number => "invalid length or offset",
            Bad::Json => "invalid JSON",
            Bad::Nul => "a NUL byte",
            Bad::TooLong => "line longer than 16 MiB",
            Bad::Cut => "incomplete last line",
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An example of a bad line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// What is wrong with it.
    pub kind: Bad,
    /// More details, if the kind is not specific enough.
    pub detail: Option<String>,
    /// The file, as named by the user.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The offset of the line in the decompressed file.
    pub byte: u64,
    /// The start of the line, with control characters escaped.
    pub start: String,
}

/// Bad lines, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejects {
    counts: [u64; Bad::COUNT],
    examples: Vec<Example>,
}

impl Rejects {
    /// The number of bad lines of a kind.
    pub fn count(&self, kind: Bad) -> u64 {
        self.counts[kind as usize]
    }

    /// The number of bad lines.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The kinds that occur, with their counts.
    pub fn kinds(&self) -> impl Iterator<Item = (Bad, u64)> + '_ {
        Bad::ALL
            .into_iter()
            .map(|kind| (kind, self.count(kind)))
            .filter(|(_, count)| *count > 0)
    }

    /// The first few of each kind, in input order.
    pub fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// Adds a bad line that comes after all others.
    pub(crate) fn add(
        &mut self,
        kind: Bad,
        detail: Option<String>,
        (file, line, byte): (&str, u64, u64),
        bytes: &[u8],
    ) {
        self.counts[kind as usize] += 1;
        if self.wants_example(kind) {
            self.examples.push(Example {
                kind,
                detail,
                file: file.to_owned(),
                line,
                byte,
                start: printable(bytes),
            });
        }
    }

    /// Merges later bad lines. `place` makes lines and bytes of the examples in the first file count
    /// from its start.
    pub(crate) fn merge(&mut self, later: Rejects, place: impl Fn(&mut Example)) {
        for (count, more) in self.counts.iter_mut().zip(later.counts) {
            *count += more;
        }
        for mut example in later.examples {
            if self.wants_example(example.kind) {
                place(&mut example);
                self.examples.push(example);
            }
        }
    }

    fn wants_example(&self, kind: Bad) -> bool {
        self.examples
            .iter()
            .filter(|example| example.kind == kind)
            .count()
            < EXAMPLES
    }
}

/// The start of a line with unprintable bytes escaped as `\xNN`.
pub fn printable(bytes: &[u8]) -> String {
    let mut shown = String::new();
    let cut = &bytes[..bytes.len().min(EXAMPLE_BYTES)];
    for chunk in cut.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if cut.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

/// A file of bad lines, which appears when it is [`finished`](RejectsFile::finish). Devices and pipes get
/// them at once.
pub struct RejectsFile {
    file: BufWriter<AtomicFile>,
    written: u64,
    /// How many bytes are in a pipe already, which cannot be taken back.
    skip: u64,
}

impl RejectsFile {
    /// Starts to write `path`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> Result<RejectsFile> {
        Ok(RejectsFile {
            file: BufWriter::new(AtomicFile::create(path)?),
            written: 0,
            skip: 0,
        })
    }

    /// Writes a line, passed without its newline.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, line: &[u8]) -> Result<()> {
        self.written += line.len() as u64 + 1;
        if self.written <= self.skip {
            return Ok(());
        }
        let written = self
            .file
            .write_all(line)
            .and_then(|()| self.file.write_all(b"\n"));
        written.doing("write", self.file.get_ref().path())
    }

    /// Removes what was written, because the input is read again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn restart(&mut self) -> Result<()> {
        self.file
            .flush()
            .doing("write", self.file.get_ref().path())?;
        self.skip = match self.file.get_mut().restart()? {
            true => 0,
            false => self.skip.max(self.written),
        };
        self.written = 0;
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.file
            .flush()
            .doing("write", self.file.get_ref().path())?;
        let file = self
            .file
            .into_inner()
            .map_err(|error| Error::from_read(error.into_error()))?;
        file.commit()
    }
}

/// The error for a bad line in strict mode.
pub(crate) fn strict(
    kind: Bad,
    detail: Option<&str>,
    (file, line, byte): (&str, u64, u64),
    bytes: &[u8],
) -> Error {
    Error::new(ErrorKind::BadLine {
        kind: kind.name(),
        detail: format!("{}: {}", detail.unwrap_or(kind.meaning()), printable(bytes)),
    })
    .in_file(file)
    .at_line(line)
    .at_byte(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_examples_of_each_kind_are_kept_and_all_are_counted() {
        let mut rejects = Rejects::default();
        for line in 1..=10 {
            rejects.add(Bad::Json, None, ("a", line, line * 10), b"x");
        }
        rejects.add(Bad::Nul, None, ("b", 3, 0), b"y\0");
        assert_eq!(rejects.count(Bad::Json), 10);
        assert_eq!(rejects.total(), 11);
        assert_eq!(rejects.examples().len(), EXAMPLES + 1);
        assert_eq!(rejects.examples()[EXAMPLES].start, "y\\u{0}");
    }

    #[test]
    fn an_example_cannot_act_on_the_terminal() {
        assert_eq!(
            printable(b"a\x1b[31m\xff\t\xc3\xa9"),
            "a\\u{1b}[31m\\xff\\té"
        );
        assert_eq!(printable(&[b'a'; 500]).chars().count(), EXAMPLE_BYTES + 1);
    }

    #[test]
    fn the_file_appears_when_it_is_finished_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.txt");
        let mut file = RejectsFile::create(&path).unwrap();
        file.write(b"one").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\n");
        assert!(RejectsFile::create(Path::new("/nonexistent/x")).is_err());
    }
}
