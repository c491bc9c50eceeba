//! Errors of this crate, with their positions.

use std::fmt;
use std::io;
use std::path::Path;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its position.
#[derive(Debug)]
pub struct Error {
    // Boxed, because results are returned row by row and errors are rare.
    inner: Box<(ErrorKind, Place)>,
}

/// The position of an error. Unknown parts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as named by the user.
    pub file: Option<String>,
    /// The line number, from 1.
    pub line: Option<u64>,
    /// The byte within the line, from 1.
    pub column: Option<usize>,
}

/// What can go wrong when a summary is read, built or evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An index or a file could not be read or written.
    #[error(transparent)]
    Index(waypost_io::Error),
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
    /// Maps with filters can't be merged without their holdings.
    #[error("its rows have filters, and filters of two maps cannot be merged")]
    FiltersToMerge,
    /// The holdings are not those that the map was built from.
    #[error("{0}")]
    Holdings(String),
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

    pub(crate) fn companion(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Companion(message.into()))
    }

    /// Converts this error into one about the companion filter of a map.
    pub(crate) fn into_companion(self) -> Error {
        let message = self.kind().to_string();
        let place = self.inner.1;
        Error {
            inner: Box::new((ErrorKind::Companion(message), place)),
        }
    }

    /// Converts this error into a read error, for scan jobs.
    pub(crate) fn into_index(self) -> waypost_io::Error {
        match *self.inner {
            (ErrorKind::Index(error), _) => error,
            (kind, _) => waypost_io::Error::new(waypost_io::ErrorKind::Format(kind.to_string())),
        }
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

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind() {
            ErrorKind::Index(error) => error.hint(),
            ErrorKind::Syntax(_) => {
                Some("a line is `key {json}`, or `key frequency`; headers begin with ! or @")
            }
            ErrorKind::NotSorted { .. } => Some("sort it by bytes: `LC_ALL=C sort`"),
            ErrorKind::PoliciesDiffer { .. } => Some(
                "merge profiles of the same policy, or convert finer ones to a coarser one with `--policy H3P0`",
            ),
            ErrorKind::Companion(_) => Some(
                "keep the map and its filter in one folder under their original names, rebuild them with `waypost map compact --filters`, or read the rows alone with --ignore-filter",
            ),
            ErrorKind::Table(_) => {
                Some("rebuild the table with `waypost map index MAP`, or remove it")
            }
            ErrorKind::Untidy => Some("sort it with `waypost map merge MAP -o ORDERED`"),
            ErrorKind::FiltersToMerge => Some(
                "rebuild the filters with --holdings INPUT, where INPUT is what all the maps hold, or merge only the rows with --ignore-filter",
            ),
            ErrorKind::Holdings(_) => {
                Some("build the map from these holdings: `waypost map build HOLDINGS -o full.ukvs`")
            }
            ErrorKind::FilterAsHoldings(_) => Some(
                "name the index or a list of URIs; lookups, `map compact --filters` and `map merge` take unkeyed hashes of whole URIs, too: `waypost filter build --kind hashes`",
            ),
            ErrorKind::LookupsTooLarge(_) => {
                Some("raise --memory, or use a random sample: `shuf -n 100000 LIST`")
            }
            ErrorKind::Format(_) | ErrorKind::Invalid(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        if let Some(file) = &place.file {
            write!(f, "{file}: ")?;
        }
        if let Some(line) = place.line {
            write!(f, "line {}", waypost_report::count(line))?;
            if let Some(column) = place.column {
                write!(f, ", column {}", waypost_report::count(column as u64))?;
            }
            write!(f, ": ")?;
        }
        self.kind().fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            ErrorKind::Index(error) => std::error::Error::source(error),
            _ => None,
        }
    }
}

impl From<waypost_io::Error> for Error {
    fn from(error: waypost_io::Error) -> Error {
        Error::new(ErrorKind::Index(error))
    }
}
