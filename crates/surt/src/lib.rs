//! URI → SURT → key, as web archives do it.
//!
//! A *SURT* is the canonical form of a URI with its host reversed, so that sorting brings a site's
//! pages together: `https://www.Example.com/a?y=2&x=1` becomes `com,example)/a?x=1&y=2`. Indexes of
//! web archives are sorted by it, and two archives can be compared only if they agree on it to the
//! byte. This crate gives the bytes that the tools behind the world's indexes give, under three
//! [dialects](Dialect), and cuts SURTs into *keys* ([`Policy`]) that stand for many URIs at once.
//!
//! ```
//! use waypost_surt::{Canonicalizer, Dialect, Policy, Surt};
//!
//! let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
//! let mut surt = Vec::new();
//! canonicalizer.canonicalize(b"https://www.news.BBC.co.uk/images/Logo.png?b=2&a=1#top", &mut surt)?;
//! assert_eq!(surt, b"uk,co,bbc,news)/images/logo.png?a=1&b=2");
//!
//! let mut key = Vec::new();
//! "H3P0".parse::<Policy>()?.cut(&Surt::new(&surt), &mut key);
//! assert_eq!(key, b"uk,co,bbc)/");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything is pure functions over bytes: no I/O, no threads, any input, and a [`Canonicalizer`] that
//! is reused allocates nothing but its output.
//!
//! When not to use it: to fetch URIs or to compare them as browsers do. A SURT forgets the scheme, the
//! fragment, `www` and session parameters on purpose.

mod canonicalize;
mod dialect;
mod domain;
mod error;
mod key;
mod policy;
mod surt;

pub use canonicalize::Canonicalizer;
pub use dialect::{Dialect, UnknownDialect};
pub use domain::PSL_VERSION;
pub use error::Error;
pub use key::{Key, Reach};
pub use policy::{Detail, Limit, Policy, UnknownPolicy};
pub use surt::{Kind, Surt, is_surt};
