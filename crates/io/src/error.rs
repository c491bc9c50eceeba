//! The error type of the crate: what happened, and in which file, line and byte.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What happened and where. Like the errors of the standard library, it does not print its
/// [source](std::error::Error::source): print the whole chain.
#[derive(Debug)]
pub struct Error {
    // Boxed, because results are returned line by line and errors are rare.
    inner: Box<(ErrorKind, Place)>,
}

/// Where it happened. Unknown parts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; `-` is standard input.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The byte within the line, from 1.
    pub column: Option<usize>,
    /// The byte within the file, from 0; within the compressed file if the compression is damaged.
    pub byte: Option<u64>,
}

/// What can go wrong while a file is read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An error of the operating system.
    #[error("cannot {doing}")]
    Io {
        /// What failed: `open`, `read`, `write`.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is shorter than what was to be read from it.
    #[error("the file ends too early")]
    EndsEarly,
    /// A remote file cannot be read.
    #[error("{detail}")]
    Remote {
        /// What kind of problem it is.
        problem: RemoteProblem,
        /// What happened.
        detail: String,
    },
    /// A compressed file ends in the middle.
    #[error("the {compression} data ends too early")]
    Truncated {
        /// Which compression.
        compression: &'static str,
    },
    /// A compressed file is damaged.
    #[error("the {compression} data is corrupt: {detail}")]
    Corrupt {
        /// Which compression.
        compression: &'static str,
        /// What the decoder says.
        detail: String,
    },
    /// Trailing garbage after the compressed data.
    #[error("trailing garbage after the {compression} data")]
    TrailingGarbage {
        /// Which compression.
        compression: &'static str,
    },
    /// Text in UTF-16, of which no line could be read.
    #[error("this is UTF-16 text; only UTF-8 can be read")]
    Utf16,
    /// A file of another kind than the one that was expected.
    #[error("this is {found}, not {wanted}")]
    WrongKind {
        /// What it is, with its article: `an index`, `a WARC file`.
        found: &'static str,
        /// What was expected.
        wanted: &'static str,
    },
    /// A folder in which no file is to be read.
    #[error("no index in this folder")]
    NoIndex,
    /// A line that cannot be read, when the user asked to stop at the first.
    #[error("bad line ({kind}): {detail}")]
    BadLine {
        /// The kind of the bad line.
        kind: &'static str,
        /// The start of the line.
        detail: String,
    },
    /// Input that had to be sorted is not.
    #[error("not sorted: this line comes after a larger one\n  before: {before}\n  here:   {here}")]
    NotSorted {
        /// The start of the line before.
        before: String,
        /// The start of the line that should have come earlier.
        here: String,
    },
    /// A line is longer than the limit, which may depend on the memory limit.
    #[error("the line is longer than {} bytes", grouped(*bytes as u64))]
    LineTooLong {
        /// The limit.
        bytes: usize,
    },
    /// A compressed file, in which nothing can be searched.
    #[error("{compression} data cannot be searched")]
    NotSearchable {
        /// Its compression.
        compression: &'static str,
    },
    /// More results than can be sorted in memory.
    #[error("too many results to sort them in memory")]
    TooManyResults,
    /// Something that is larger than it may be.
    #[error("larger than {} bytes", grouped(*bytes as u64))]
    TooLarge {
        /// The limit.
        bytes: usize,
    },
    /// Files with the same name in an index, which could not tell their records apart.
    #[error("{} and {} have the same name in the index: {name}", files[0], files[1])]
    SameName {
        /// The files.
        files: [String; 2],
        /// Their name.
        name: String,
    },
    /// An HTTP body that cannot be decoded.
    #[error("{0}")]
    Encoding(String),
    /// A thread has panicked. What it was doing is lost; the run cannot go on.
    #[error("an internal error: a thread has panicked")]
    Panicked,
    /// An option, filter or argument that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A file that is not what it should be.
    #[error("{0}")]
    Format(String),
}

/// Why a remote file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteProblem {
    /// The server has no such file.
    Missing,
    /// The server does not allow access.
    Denied,
    /// The file changed while it was in use.
    Changed,
    /// The server cannot send a part of the file.
    NoRanges,
    /// No connection, or no answer in time, after all attempts.
    Unreachable,
    /// The server refused the request because of its load or an error of its own, after all attempts.
    Busy,
    /// An answer that makes no sense, or an invalid URL.
    Invalid,
}

impl Error {
    /// An error whose place is not known yet; see [`in_file`](Error::in_file).
    pub fn new(kind: ErrorKind) -> Error {
        Error::at(kind, Place::default())
    }

    /// An error at a place.
    pub fn at(kind: ErrorKind, place: Place) -> Error {
        Error {
            inner: Box::new((kind, place)),
        }
    }

    /// An error of the operating system while `doing` something with `file`.
    pub fn io(doing: &'static str, file: &Path, source: io::Error) -> Error {
        Error::new(ErrorKind::Io { doing, source }).in_file(file.display())
    }

    /// The error for `here`, a line that follows `before` and is smaller.
    pub fn not_sorted(before: &[u8], here: &[u8]) -> Error {
        Error::new(ErrorKind::NotSorted {
            before: excerpt(before),
            here: excerpt(here),
        })
    }

    /// The error for a line of more than `bytes` bytes.
    pub fn line_too_long(bytes: usize) -> Error {
        Error::new(ErrorKind::LineTooLong { bytes })
    }

    /// Sets the file, unless it is already set.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Error {
        self.inner.1.file.get_or_insert_with(|| file.to_string());
        self
    }

    /// Sets the line, from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Error {
        self.inner.1.line = Some(line);
        self
    }

    /// Sets the byte within the file, from 0.
    #[must_use]
    pub fn at_byte(mut self, byte: u64) -> Error {
        self.inner.1.byte = Some(byte);
        self
    }

    /// What happened.
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.0
    }

    /// Where it happened.
    pub fn place(&self) -> &Place {
        &self.inner.1
    }

    /// What happened and where.
    pub fn into_parts(self) -> (ErrorKind, Place) {
        *self.inner
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        match self.kind() {
            ErrorKind::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            ErrorKind::Remote { problem, .. } => *problem == RemoteProblem::Missing,
            _ => false,
        }
    }

    /// Whether access to a remote file is denied.
    pub fn is_denied(&self) -> bool {
        let denied = RemoteProblem::Denied;
        matches!(self.kind(), ErrorKind::Remote { problem, .. } if *problem == denied)
    }

    /// Whether the compression of a file is damaged. Everything before the damage was read.
    pub fn is_damage(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::EndsEarly
                | ErrorKind::Truncated { .. }
                | ErrorKind::Corrupt { .. }
                | ErrorKind::TrailingGarbage { .. }
        )
    }

    /// The error that a [`Read`](io::Read) of this crate wrapped, or an error of reading.
    pub fn from_read(error: io::Error) -> Error {
        match error.downcast::<Error>() {
            Ok(ours) => ours,
            Err(source) => Error::new(ErrorKind::Io {
                doing: "read",
                source,
            }),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::Io { source, .. } => source.kind(),
            ErrorKind::Truncated { .. } | ErrorKind::EndsEarly => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place(), self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(self.kind())
    }
}

/// A number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `file: line 3, column 5: byte 1,120: `, as far as it is known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(line) = self.line {
            write!(f, "line {}", grouped(line))?;
            if let Some(column) = self.column {
                write!(f, ", column {}", grouped(column as u64))?;
            }
            f.write_str(": ")?;
        }
        if let Some(byte) = self.byte {
            write!(f, "byte {}: ", grouped(byte))?;
        }
        Ok(())
    }
}

/// The start of a line in printable characters: other bytes as `\x7f`.
pub fn excerpt(line: &[u8]) -> String {
    const MOST: usize = 100;
    let mut text = String::new();
    for &byte in line.iter().take(MOST) {
        if (b' '..=b'~').contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if line.len() > MOST {
        text.push('…');
    }
    text
}

/// Adds the file to errors of the operating system.
pub trait IoContext<T> {
    /// `doing` is a verb: `open`, `read`.
    ///
    /// # Errors
    /// Those of the operating system, with the file.
    fn doing(self, doing: &'static str, file: impl Into<PathBuf>) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn doing(self, doing: &'static str, file: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::io(doing, &file.into(), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_place_and_survives_conversion_to_an_io_error() {
        let error = Error::new(ErrorKind::Truncated {
            compression: "gzip",
        })
        .in_file("a.cdx.gz")
        .at_byte(17);
        assert_eq!(
            error.to_string(),
            "a.cdx.gz: byte 17: the gzip data ends too early"
        );
        let back = Error::from_read(io::Error::from(error));
        assert!(back.is_damage());
        assert_eq!(back.place().byte, Some(17));
    }
}
