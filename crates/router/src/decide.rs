//! Decides which archives are asked for a lookup, in which order, and why.

use crate::{Lookup, Registry};

/// Which archives are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// All archives of the registry, those that are asked first.
    pub choices: Vec<Choice>,
}

/// What was decided about an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place in the registry.
    pub archive: usize,
    /// Whether it is asked.
    pub asked: bool,
    /// Why, or why not.
    pub reason: Reason,
}

/// Why an archive is asked or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is known about its holdings.
    Unknown,
}

/// Decides which archives are asked for a lookup, in which order, and why.
pub fn decide(registry: &Registry, _lookup: &Lookup) -> Decision {
    let everyone = 0..registry.archives.len();
    Decision {
        choices: everyone
            .map(|archive| Choice {
                archive,
                asked: true,
                reason: Reason::Unknown,
            })
            .collect(),
    }
}
