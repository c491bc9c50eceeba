//! Compact summaries of what a web archive holds, and an evaluation of how accurate they are.
//!
//! The index of an archive has a line for each capture. A *summary* is much smaller: a
//! [`profile`](mod@profile) counts captures under keys that stand for many URIs, a [`map`] uses
//! keys of mixed depth with wildcards, and a [`filter`] stores hashed keys. Clients ask the summary
//! first, and the archive only if it may hold something.
//!
//! ```
//! use waypost_io::Source;
//! use waypost_summary::holdings::Input;
//! use waypost_summary::profile::{self, Profile};
//! use waypost_summary::{Answer, Archive, Lookup, Summary};
//!
//! # let folder = tempfile::tempdir()?;
//! # let uris = folder.path().join("uris.txt");
//! std::fs::write(&uris, "http://example.com/a\nhttp://example.com/b\n")?;
//! let options = profile::Options {
//!     policies: vec!["H3P0".parse()?],
//!     archive: Archive::default(),
//!     date: None,
//!     folder: Some(folder.path().to_owned()),
//!     name: "small".into(),
//!     gzip: false,
//! };
//! profile::build(&Input::new(vec![Source::new(uris)]), &options, None)?;
//!
//! let small = Profile::open(&folder.path().join("small.H3P0.cdxj"))?;
//! let mut buffer = Vec::new();
//! let lookup = Lookup::new(b"http://example.com/c", small.about().dialect, &mut buffer)?;
//! let Answer::Present(found) = small.lookup(&lookup)? else { panic!("all of the host is present") };
//! assert_eq!(found.key.as_deref(), Some(&b"com,example)/"[..]));
//! assert_eq!(found.frequency.to_string(), "2/2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Summaries are read from bytes as well as from files ([`from_bytes`], `Profile::from_bytes`,
//! `Map::from_bytes`, `Filter::from_bytes`), built from iterators ([`holdings::Gather::collect`],
//! [`filter::Hashing::collect`]) and written to anything that implements `Write`
//! ([`profile::write_to`], [`map::write_to`], [`filter::write_to`]).
//!
//! The modules, in the order in which data passes through them:
//!
//! - [`holdings`]: sorted URI-Rs with their captures, from indexes and lists of any size;
//! - [`profile`](mod@profile): build profiles for all policies in one pass, merge them, look URIs
//!   up;
//! - [`ukvs`] and [`frequency`]: the text formats, read leniently and written strictly;
//! - [`fuzzy`](mod@fuzzy): what pywb finds instead of a URI;
//! - [`Summary`]: the common interface of all kinds of summaries;
//! - [`evaluate`]: cost, accuracy, precision and recall on real lookups.
//!
//! When not to use this crate: to find captures. A summary only says that there may be some; the
//! index, in `waypost-index`, says which.

mod about;
mod classes;
mod error;
pub mod evaluate;
pub mod filter;
pub mod frequency;
pub mod fuzzy;
pub mod holdings;
mod lookup;
pub mod map;
mod open;
mod power;
mod preference;
pub mod profile;
mod scope;
mod summary;
pub mod ukvs;

pub use about::{About, Archive, By, Texts};
pub use classes::Classes;
pub use error::{Error, ErrorKind, Result};
pub use frequency::{Frequency, Number, Sureness};
pub use lookup::{HashedSurt, Lookup, LookupBatch, LookupBuffer, SurtWriter};
pub use open::{check_alone, from_bytes, kind_of_source, open, open_source};
pub use power::PowerFit;
pub use preference::Preference;
pub use scope::{Scope, Scopes};
pub use summary::{Answer, Kind, Match, Presence, Size, Summary, combine};
pub use ukvs::Wholeness;
