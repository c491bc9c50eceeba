//! What is asked.

use waypost_memento::Datetime;

/// What is asked of the archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The original URI.
    pub uri: String,
    /// Which of its mementos.
    pub wanted: Wanted,
}

/// Which mementos are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them: TimeMaps are asked.
    All,
    /// The one closest to a datetime and those around it: TimeGates are asked.
    Closest(Datetime),
}
