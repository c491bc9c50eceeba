//! What can go wrong with a summary, and where.

use std::fmt;
use std::io;
use std::path::Path;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What happened and where.
#[derive(Debug)]
pub struct Error {
    // Boxed, because results are returned row by row and errors are rare.
    inner: Box<(ErrorKind, Place)>,
}

/// Where it happened. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The byte of the line, from 1.
    pub column: Option<usize>,
}

/// What can go wrong while a summary is read, made or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An index or a file could not be read or written.
    #[error(transparent)]
    Index(waypost_index::Error),
    /// A line that breaks the rules of the format.
    #[error("{0}")]
    Syntax(String),
    /// A summary that is not what it should be.
    #[error("{0}")]
    Format(String),
    /// Rows of a summary that are not in the order of their bytes.
    #[error("not sorted: `{here}` comes after `{before}`")]
    NotSorted {
        /// The key before.
        before: String,
        /// The key that should have come earlier.
        here: String,
    },
    /// Profiles that cannot be merged because their keys are cut in different ways.
    #[error("{first} has keys of {first_policy}, but {other} of {other_policy}")]
    PoliciesDiffer {
        /// The first profile.
        first: String,
        /// Its policy.
        first_policy: String,
        /// Another.
        other: String,
        /// That one's policy.
        other_policy: String,
    },
    /// An option or argument that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Lookups that do not fit the memory limit.
    #[error("{0}")]
    LookupsTooLarge(String),
    /// The filter beside a map is missing, damaged, or not its own.
    #[error("{0}")]
    Companion(String),
    /// The table beside a map is damaged, or not its own.
    #[error("{0}")]
    Table(&'static str),
    /// A map whose rows are not in order, or not spelled as maps spell them.
    #[error("its rows are not in order, or not spelled as maps spell them")]
    Untidy,
    /// Maps with filters cannot be merged as they are.
    #[error("its rows have filters, and filters of two maps cannot be joined")]
    FiltersToMerge,
    /// Holdings that are not those that a map was made from.
    #[error("{0}")]
    Holdings(String),
    /// A filter where holdings were to be read.
    #[error("{0}")]
    FilterAsHoldings(&'static str),
}

impl Error {
    /// An error at a place that is not known yet.
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

    /// The same as what is wrong with the filter beside a map.
    pub(crate) fn into_companion(self) -> Error {
        let message = self.kind().to_string();
        let place = self.inner.1;
        Error {
            inner: Box::new((ErrorKind::Companion(message), place)),
        }
    }

    /// The same as an error of reading, for jobs of scans.
    pub(crate) fn into_index(self) -> waypost_index::Error {
        match *self.inner {
            (ErrorKind::Index(error), _) => error,
            (kind, _) => {
                waypost_index::Error::new(waypost_index::ErrorKind::Format(kind.to_string()))
            }
        }
    }

    pub(crate) fn holdings(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Holdings(message.into()))
    }

    pub(crate) fn io(doing: &'static str, file: &Path, source: io::Error) -> Error {
        waypost_index::Error::io(doing, file, source).into()
    }

    /// Names the file, unless it is named already.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Error {
        self.inner.1.file.get_or_insert_with(|| file.to_string());
        self
    }

    /// Says at which line, counted from 1, unless that is said already.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Error {
        self.inner.1.line.get_or_insert(line);
        self
    }

    /// What happened.
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.0
    }

    /// Where.
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
                "merge profiles of one policy, or bring finer ones to a coarser one with `--policy H3P0`",
            ),
            ErrorKind::Companion(_) => Some(
                "put the map and its filter side by side under the names they were written with, make them again with `waypost map compact --filters`, or read the rows alone with --ignore-filter",
            ),
            ErrorKind::Table(_) => {
                Some("make the table again with `waypost map index MAP`, or remove it")
            }
            ErrorKind::Untidy => Some("put it in order with `waypost map merge MAP -o ORDERED`"),
            ErrorKind::FiltersToMerge => Some(
                "name what all the maps hold, to make the filters anew: --holdings INPUT; or merge the rows alone with --ignore-filter",
            ),
            ErrorKind::Holdings(_) => {
                Some("make the map from these holdings: `waypost map build HOLDINGS -o full.ukvs`")
            }
            ErrorKind::FilterAsHoldings(_) => Some(
                "name the index or a list of URIs; lookups, `map compact --filters` and `map merge` take unkeyed hashes of whole URIs, too: `waypost filter build --kind hashes`",
            ),
            ErrorKind::LookupsTooLarge(_) => {
                Some("raise --memory, or look at a random sample: `shuf -n 100000 LIST`")
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

impl From<waypost_index::Error> for Error {
    fn from(error: waypost_index::Error) -> Error {
        Error::new(ErrorKind::Index(error))
    }
}
