//! Why a query has no answer.

use crate::query::BadQuery;

/// Why a query has no answer, or only the start of one.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The query is invalid.
    #[error(transparent)]
    Bad(#[from] BadQuery),
    /// The query took longer than it may.
    #[error(
        "the query took longer than the server allows: ask for less, or for one page at a time"
    )]
    TooLong,
    /// More captures than the server keeps in memory would have to be sorted.
    #[error("too many captures to sort: give a limit, or ask for fewer")]
    TooMany,
    /// The answer is too large to be made at once.
    #[error("the answer is not small")]
    NotSmall,
    /// The rest of the answer could not be made in time.
    #[error("the answer was cut off")]
    CutOff,
    /// The client went away.
    #[error("the client went away")]
    Gone,
    /// Nothing was found, but not in all that there is.
    #[error("no captures found, but not all indexes can be read at the moment")]
    Unknown,
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] waypost_io::Error),
}
