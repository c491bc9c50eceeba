//! Filters: what an archive holds, as hashes, for archives that may not show their URIs.
//!
//! A filter answers one question, "may this key be held?", with no or maybe. A no is always right. A
//! maybe is wrong at a rate that is chosen when the filter is made, and that its file states.
//!
//! ```text
//! URI ─► SURT ─► key of a policy ─► 128-bit hash ─► radix partitions on disk
//!                                                        │ sort, deduplicate
//!                                                        ▼
//!                                   a sorted run ─► shards ─► one file
//! ```
//!
//! | kind | for | bits for each key at a rate of 0.39% |
//! |---|---|---|
//! | [`ribbon`] | publishing: the smallest, built in one go | 8.2 |
//! | [`bloom`] | adding to and joining, one cache line a lookup | 12.2 |
//! | hashes | keeping: from it any filter is made, merged or cut down | 128, never wrong |
//!
//! The same holdings give the same bytes, in whatever order they come and on however many threads.
//! Memory is bounded: what does not fit goes through temporary files that have no name, so that a
//! build that is killed leaves nothing.
//!
//! ```
//! use waypost_index::Source;
//! use waypost_summary::filter::{self, Filter, Keyer, Recipe};
//!
//! # let folder = tempfile::tempdir()?;
//! # let list = folder.path().join("uris.txt");
//! # let path = folder.path().join("holdings.filter");
//! std::fs::write(&list, "http://example.com/\nhttps://example.org/a?b=c\n")?;
//! let sources = [Source::new(list)];
//! filter::build(filter::Input::new(&sources), &Recipe::default(), &path)?;
//!
//! let filter = Filter::open(&path)?;
//! let mut keyer = Keyer::of(&filter)?;
//! assert!(filter.contains(keyer.hash(b"http://www.example.org/a?b=c")?)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When not to use it: to learn *what* an archive holds, or how often. Profiles and maps tell that.
//! And an unkeyed filter hides nothing that can be guessed: [`privacy`] says in numbers what a file
//! gives away.

pub mod bloom;
mod build;
pub mod check;
mod format;
mod hash;
mod input;
mod lookup;
mod partition;
pub mod plan;
pub mod privacy;
mod read;
pub mod ribbon;
mod run;
mod size;
mod summary;

pub(crate) use build::ribbons;
pub use build::{Keys, Made, Recipe, add, build, exclude, merge, write};
pub use format::{ELEMENTS, Head, Kind, Metadata};
pub use hash::{Fingerprint, Hash, HashFunction, Hasher, Secret};
pub use input::{Hashed, Hashing, Input, Reading};
pub(crate) use partition::Partitions;
pub use read::Filter;
pub(crate) use run::{Cursor, Run, RunWriter, difference, union};
pub(crate) use size::part_size;
pub use size::{Budget, file_size};
pub use summary::Keyer;
