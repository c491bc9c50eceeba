//! The error type of the crate: what happened, and in which file, line and byte.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What happened and where.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    place: Place,
}

/// Where it happened. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; `-` is standard input.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The byte, from 0: of the compressed file where the compression is at fault.
    pub byte: Option<u64>,
}

/// What can go wrong while a file is read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An error of the operating system.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried: `open`, `read`, `write`.
        doing: &'static str,
        /// The answer.
        source: io::Error,
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
    /// A line that is longer than the memory that was granted.
    #[error("a line of more than {bytes} bytes does not fit in the memory")]
    LineTooLong {
        /// How much of it was read.
        bytes: usize,
    },
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

impl Error {
    /// An error at a place that is not known yet; see [`in_file`](Error::in_file).
    pub fn new(kind: ErrorKind) -> Error {
        Error {
            kind,
            place: Place::default(),
        }
    }

    /// The operating system's answer while `doing` something with `file`.
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

    /// Names the file, unless it is named already.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Error {
        if self.place.file.is_none() {
            self.place.file = Some(file.to_string());
        }
        self
    }

    /// Says at which line, counted from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Error {
        self.place.line = Some(line);
        self
    }

    /// Says at which byte, counted from 0.
    #[must_use]
    pub fn at_byte(mut self, byte: u64) -> Error {
        self.place.byte = Some(byte);
        self
    }

    /// What happened.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Where.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether a file's compression is at fault: what came before it was read and is kept.
    pub fn is_damage(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Truncated { .. }
                | ErrorKind::Corrupt { .. }
                | ErrorKind::TrailingGarbage { .. }
        )
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.kind {
            ErrorKind::Io { source, doing } => match (source.kind(), *doing) {
                (io::ErrorKind::NotFound, _) => Some("check the path"),
                (io::ErrorKind::PermissionDenied, _) => Some("check who may read and write there"),
                (io::ErrorKind::StorageFull, _) => {
                    Some("free some space, or name another folder for temporary files")
                }
                _ => None,
            },
            ErrorKind::Truncated { .. } => {
                Some("the file was cut while it was written or copied; copy it again")
            }
            ErrorKind::Corrupt { .. } => Some("copy the file again and compare checksums"),
            ErrorKind::TrailingGarbage { .. } => {
                Some("cut the file at that byte, or copy it again")
            }
            ErrorKind::NoIndex => Some(
                "name the files themselves; in folders, names like *.cdx, *.cdxj, cdx-*.gz are read",
            ),
            ErrorKind::BadLine { .. } => Some(
                "leave --strict out to count bad lines and go on, or keep them with --rejects FILE",
            ),
            ErrorKind::NotSorted { .. } => Some("sort it first with `waypost index sort`"),
            ErrorKind::LineTooLong { .. } => Some("give more memory with --memory"),
            ErrorKind::Utf16 => Some("convert it first: `iconv -f UTF-16 -t UTF-8`"),
            ErrorKind::WrongKind { .. }
            | ErrorKind::Panicked
            | ErrorKind::Invalid(_)
            | ErrorKind::Format(_) => None,
        }
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
        let kind = match &error.kind {
            ErrorKind::Io { source, .. } => source.kind(),
            ErrorKind::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` prints the operating system's answer already: a second time in a chain of
        // causes would be noise. The kind of an I/O error stays reachable, for closed pipes.
        match &self.kind {
            ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Some(source)
            }
            _ => None,
        }
    }
}

/// A number with a comma before every third digit from the right.
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

/// `file: line 3: byte 1,120: `, as far as it is known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(line) = self.line {
            write!(f, "line {}: ", grouped(line))?;
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
    fn an_error_names_file_line_and_byte_and_survives_the_way_through_io() {
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
