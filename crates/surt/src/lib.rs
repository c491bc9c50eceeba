//! URI → SURT → key, as web archives do it.
//!
//! A *SURT* is the canonical form of a URI with its host reversed, so that sorting brings a site's
//! pages together: `https://www.Example.com/a?y=2&x=1` becomes `com,example)/a?x=1&y=2`. Indexes of
//! web archives are sorted by it, and two archives can be compared only if they agree on it to the
//! byte. This crate gives the same bytes as the tools that write the world's indexes, in four
//! [dialects](Dialect), and cuts SURTs into *keys* ([`Policy`]) that stand for many URIs.
//!
//! ```
//! assert_eq!(waypost_surt::surt("http://www.example.com/A/../b/")?, "com,example)/b");
//! # Ok::<(), waypost_surt::Error>(())
//! ```
//!
//! That is one call for one URI. For millions, create a [`Canonicalizer`] for a dialect once; it
//! appends each SURT to a buffer. [`Surt`] splits a SURT into its parts without copying:
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
//! # What it offers
//!
//! | | |
//! |---|---|
//! | [`surt`] | a URI's SURT in one call |
//! | [`Canonicalizer`] | URIs to SURTs under a [`Dialect`], without allocating; comparing a URI with a SURT |
//! | [`Surt`] | a SURT's host, port, path and query; its registered domain; its order by segment; a URI for it |
//! | [`Policy`] | the keys of the archive-profiling papers: `H3P0`, `DDom`, `URIR`, … |
//! | [`Key`] | the keys of a MementoMap, `com,example)/a/*`: what each covers, and which cover a SURT |
//!
//! # Which dialect
//!
//! The one that the index was written with: [`Dialect::Ia`] for pywb, cdxj-indexer and the Internet
//! Archive, [`Dialect::CommonCrawl`] for Common Crawl since January 2025,
//! [`Dialect::CommonCrawlLegacy`] for earlier crawls and OpenWayback. These three agree on all but a
//! few URIs in a thousand, which is why a wrong choice goes unnoticed for long.
//! [`Dialect::Webrecorder`] is for WACZ files; it keeps trailing slashes and escapes.
//!
//! # What to expect
//!
//! Every function is pure and works on bytes: no I/O, no threads, no panics, any input. Time is linear
//! in the length of the input, however odd it is. A [`Canonicalizer`] that is reused allocates nothing
//! but its output; one core canonicalises about four million URIs a second.
//!
//! When not to use it: to fetch URIs or to compare them as browsers do. A SURT drops the scheme, the
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

/// The SURT of a URI under the default [dialect](Dialect::Ia), in one call.
///
/// ```
/// let surt = waypost_surt::surt("https://www.Example.com/a?y=2&x=1#top")?;
/// assert_eq!(surt, "com,example)/a?x=1&y=2");
/// # Ok::<(), waypost_surt::Error>(())
/// ```
///
/// To canonicalise many URIs, bytes that are not UTF-8, or under another dialect, reuse a
/// [`Canonicalizer`].
///
/// # Errors
/// The URI is empty, or its host or port is invalid.
pub fn surt(uri: &str) -> Result<String, Error> {
    let mut surt = Vec::with_capacity(uri.len());
    Canonicalizer::new(Dialect::default()).canonicalize(uri.as_bytes(), &mut surt)?;
    Ok(String::from_utf8_lossy(&surt).into_owned())
}
