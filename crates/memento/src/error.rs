//! What is wrong with a document, and where.

use std::fmt;

/// A part of a document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The offset of the part in the document, in bytes.
    pub offset: usize,
}

/// What can be wrong with a part of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A link does not start with `<`.
    #[error("expected `<` before a URI")]
    ExpectedUri,
    /// The `>` behind a URI is missing.
    #[error("URI without `>`")]
    UnclosedUri,
    /// Something other than `;` or `,` follows a URI or parameter.
    #[error("expected `;` or `,` after a link")]
    ExpectedSeparator,
    /// A quoted value has no closing quote.
    #[error("value without a closing quote")]
    UnclosedQuote,
    /// A memento has no datetime.
    #[error("memento without a datetime")]
    MissingDatetime,
    /// A datetime in none of the known forms.
    #[error("invalid datetime `{0}`")]
    BadDatetime(String),
    /// The JSON of a document or row cannot be parsed.
    #[error("invalid JSON: {0}")]
    BadJson(String),
    /// A row of CDXJ has no JSON or no timestamp.
    #[error("expected a timestamp and a JSON object")]
    BadRow,
    /// A memento has no URI, and no [replay template](crate::Replay) was given.
    #[error("memento without a URI")]
    MissingUri,
    /// The document does not name the original URI.
    #[error("TimeMap without an original URI")]
    MissingOriginal,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, offset: usize) -> Error {
        Error { kind, offset }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl std::error::Error for Error {}
