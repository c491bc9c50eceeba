//! Errors of this crate, with their positions.

use std::fmt;
use std::io;
use std::path::Path;

use waypost_io::Place;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its position.
#[derive(Debug)]
pub struct Error {
    // Boxed, because results are returned row by row and errors are rare.
    inner: Box<(ErrorKind, Place)>,
}

/// What can go wrong when a summary is read, built or evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be read or written.
    #[error(transparent)]
    Io(waypost_io::ErrorKind),
    /// A line is malformed.
    #[error("{0}")]
    Syntax(String),
    /// A summary is malformed.
    #[error("{0}")]
    Format(String),
    /// The rows of a summary are not sorted by bytes.
    #[error("not sorted: `{here}` comes after `{before}`")]
    NotSorted {
        /// The preceding key.
        before: String,
        /// The key that is out of order.
        here: String,
    },
    /// Profiles can't be merged because their policies differ.
    #[error("{first} has keys of policy {first_policy}, but {other} has keys of {other_policy}")]
    PoliciesDiffer {
        /// The first profile.
        first: String,
        /// Its policy.
        first_policy: String,
        /// Another profile.
        other: String,
        /// Its policy.
        other_policy: String,
    },
    /// A map can't be built because only it or only a profile has a second key.
    #[error("the profile and the map must both have a second key, or neither")]
    SecondKeys,
    /// An option or argument is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The lookups exceed the memory limit.
    #[error("{0}")]
    LookupsTooLarge(String),
    /// The companion filter of a map is missing, damaged, or belongs to another map.
    #[error("{0}")]
    Companion(String),
    /// The table of a map is damaged or belongs to another map.
    #[error("{0}")]
    Table(&'static str),
    /// The rows of a map are out of order or not in canonical form.
    #[error("its rows are out of order or not in canonical form")]
    Untidy,
    /// Rows are missing, or are not those that the headers describe.
    #[error("{0}")]
    NotWhole(String),
    /// Maps with filters can't be merged without their holdings.
    #[error("its rows have filters, and filters of two maps cannot be merged")]
    FiltersToMerge,
    /// The holdings are not those that the map was built from.
    #[error("{0}")]
    Holdings(String),
    /// A keyed filter was opened without its secret, or with another one.
    #[error("needs a secret: {0}")]
    NeedsSecret(String),
    /// A filter was given where holdings were expected.
    #[error("{0}")]
    FilterAsHoldings(&'static str),
}

impl Error {
    /// An error whose position is not known yet.
    pub fn new(kind: ErrorKind) -> Error {
        Error {
            inner: Box::new((kind, Place::default())),
        }
    }

    pub(crate) fn syntax(message: impl Into<String>, column: usize) -> Error {
        let mut error = Error::new(ErrorKind::Syntax(message.into()));
        error.inner.1.column = Some(column);
        error
    }

    pub(crate) fn format(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Format(message.into()))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid(message.into()))
    }

    pub(crate) fn keyed() -> Error {
        let why = "it was built with a secret key";
        Error::new(ErrorKind::NeedsSecret(why.to_owned()))
    }

    pub(crate) fn companion(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Companion(message.into()))
    }

    /// Converts this error into one about the companion filter of a map.
    pub(crate) fn into_companion(self) -> Error {
        let (kind, place) = *self.inner;
        let message = match std::error::Error::source(&kind) {
            Some(source) => format!("{kind}: {source}"),
            None => kind.to_string(),
        };
        Error {
            inner: Box::new((ErrorKind::Companion(message), place)),
        }
    }

    /// Converts this error into one of files, for scan jobs and servers.
    pub fn into_io(self) -> waypost_io::Error {
        let (kind, place) = *self.inner;
        let kind = match kind {
            ErrorKind::Io(kind) => kind,
            kind => waypost_io::ErrorKind::Format(kind.to_string()),
        };
        waypost_io::Error::at(kind, place)
    }

    pub(crate) fn holdings(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Holdings(message.into()))
    }

    pub(crate) fn io(doing: &'static str, file: &Path, source: io::Error) -> Error {
        waypost_io::Error::io(doing, file, source).into()
    }

    /// Sets the file, unless it is already set.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Error {
        self.inner.1.file.get_or_insert_with(|| file.to_string());
        self
    }

    /// Sets the line number, from 1, unless it is already set.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Error {
        self.inner.1.line.get_or_insert(line);
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

impl From<waypost_io::Error> for Error {
    fn from(error: waypost_io::Error) -> Error {
        let (kind, place) = error.into_parts();
        Error {
            inner: Box::new((ErrorKind::Io(kind), place)),
        }
    }
}
