//! Filters: holdings as hashes, for archives that may not reveal their URIs.
//!
//! A filter answers one question, "may this key be held?", with no or maybe. A no is always right.
//! A maybe is wrong at a rate that is chosen when the filter is built and stated in its file.
//!
//! ```text
//! URI ─► SURT ─► key of a policy ─► 128-bit hash ─► radix partitions on disk
//!                                                        │ sort, deduplicate
//!                                                        ▼
//!                                   a sorted run ─► shards ─► one file
//! ```
//!
//! | kind | use | bits per key at a rate of 0.39% |
//! |---|---|---|
//! | [`ribbon`] | publishing: the smallest, can't be changed | 8.2 |
//! | [`bloom`] | adding and merging, one cache line per lookup | 12.2 |
//! | hashes | master copy: every other filter can be built from it | 128, no false positives |
//!
//! The same holdings give the same bytes, whatever their order and the number of threads. Memory is
//! limited: the rest goes to unnamed temporary files, so a build that is killed leaves nothing
//! behind.
//!
//! ```
//! use waypost_io::Source;
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
//! When not to use a filter: to learn *what* an archive holds, or how often it was captured. Use a
//! profile or a map for that. And an unkeyed filter hides nothing that can be guessed: [`privacy`]
//! quantifies what a file reveals.

pub mod bloom;
mod build;
pub mod check;
mod format;
mod hash;
mod input;
mod live;
mod lookup;
pub mod orestes;
mod partition;
pub mod plan;
pub mod privacy;
mod ranged;
mod read;
pub mod ribbon;
mod run;
mod size;
mod summary;

pub(crate) use build::ribbons;
pub use build::{BuildReport, Keys, Recipe, add, build, exclude, merge, write, write_to};
pub use format::{ELEMENTS, Head, Kind, Metadata};
pub use hash::{Fingerprint, Hash, HashFunction, Hasher, Secret};
pub use input::{Hashed, Hashing, Input, Reading};
pub use live::LiveFilter;
pub(crate) use partition::Partitions;
pub use ranged::{LONGEST_RANGE, RangedFilter};
pub use read::Filter;
pub(crate) use run::{Cursor, Run, RunReader, RunWriter, difference, union};
pub(crate) use size::part_size;
pub use size::{Budget, file_size};
pub use summary::Keyer;
