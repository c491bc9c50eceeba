//! One face for every kind of summary.

use std::fmt;

use rayon::prelude::*;

use crate::about::About;
use crate::error::Result;
use crate::frequency::Frequency;
use crate::lookup::Lookup;

/// What a summary says of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The archive does not have it.
    Absent,
    /// The archive may have it.
    Present(Match),
}

/// What a summary knows of a URI that it calls present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The key that speaks of it, if there are keys.
    pub key: Option<Vec<u8>>,
    /// What is known under that key.
    pub frequency: Frequency,
}

/// Which kind of summary it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Keys of one policy.
    Profile,
    /// Hashed keys.
    Filter,
    /// Keys of mixed depth with wildcards.
    Map,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Profile => "profile",
            Kind::Filter => "filter",
            Kind::Map => "map",
        })
    }
}

/// How large a summary is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Rows of keys, voids too; a filter's entries.
    pub keys: u64,
    /// Bytes of all files that are shipped.
    pub bytes: u64,
    /// The same, gzipped at level 6; of files that are gzipped already, as they are.
    pub gzip_bytes: u64,
}

/// Something that tells what an archive may hold.
pub trait Summary: Send + Sync {
    /// Which kind it is.
    fn kind(&self) -> Kind;

    /// What it says of itself.
    fn about(&self) -> &About;

    /// How large it is.
    fn size(&self) -> Size;

    /// Whether the archive may have a URI.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer>;

    /// The same for many, without the keys: what is known of each that is present, in the order of
    /// `lookups`. Kinds that can do it faster than one by one do.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn lookup_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Option<Frequency>>> {
        lookups
            .par_iter()
            .map(|lookup| {
                Ok(match self.lookup(lookup)? {
                    Answer::Absent => None,
                    Answer::Present(found) => Some(found.frequency),
                })
            })
            .collect()
    }

    /// The same with the keys.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn answer_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        lookups
            .par_iter()
            .map(|lookup| self.lookup(lookup))
            .collect()
    }
}
