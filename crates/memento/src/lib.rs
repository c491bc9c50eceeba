//! Memento (RFC 7089) as data: TimeMaps, `Link` headers and datetimes, read and written in every
//! format that archives, aggregators and clients use.
//!
//! A *TimeMap* lists the captures (*mementos*) of an original URI with their datetimes. Archives
//! send it in link-format, JSON or CDXJ; a *TimeGate* sends parts of it in a `Link` header. Reading
//! is lenient, because archives take liberties with all of them: what cannot be read is skipped and
//! reported with its byte offset. Writing is strict: what this crate writes, every parser reads.
//!
//! ```
//! use waypost_memento::{Format, TimeMap};
//!
//! // As pywb answers, but for an attribute without quotes and a link without a datetime.
//! let body = br#"<http://archive.example/timemap/link/http://a.example/>; rel=self,
//! <http://a.example/>; rel="original",
//! <http://archive.example/2016/http://a.example/>; rel="memento",
//! <http://archive.example/20140126200624mp_/http://a.example/>; rel="memento"; datetime="Sun, 26 Jan 2014 20:06:24 GMT""#;
//! let (mut timemap, problems) = TimeMap::read(Format::Link, body, None)?;
//! assert_eq!(timemap.original, "http://a.example/");
//! assert_eq!(timemap.mementos[0].datetime.timestamp(), "20140126200624");
//! assert_eq!(problems[0].to_string(), "memento without a datetime at byte 104");
//!
//! timemap.sort();
//! let mut cdxj = Vec::new();
//! timemap.write(Format::Cdxj, &mut cdxj)?;
//! assert!(cdxj.ends_with(br#"20140126200624 {"uri": "http://archive.example/20140126200624mp_/http://a.example/", "rel": "first last memento", "datetime": "Sun, 26 Jan 2014 20:06:24 GMT"}
//! "#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it offers
//!
//! | | |
//! |---|---|
//! | [`TimeMap`] | mementos of an original URI: read, sorted, written as [`Format::Link`], [`Format::Json`] or [`Format::Cdxj`] |
//! | [`links`], [`Link`] | the links of a `Link` header or a link-format document, one at a time |
//! | [`Datetime`] | seconds in UTC: `Accept-Datetime` strictly, everything that archives send leniently |
//! | [`Replay`] | a template of memento URIs, `https://…/{timestamp}/{url}` |
//!
//! No I/O, no threads, no panics on any input. When not to use it: to resolve relative URIs, which
//! are returned as they were sent.

mod datetime;
mod error;
mod link;
mod replay;
mod timemap;

pub use datetime::{Datetime, InvalidDatetime};
pub use error::{Error, ErrorKind};
pub use link::{Link, Links, links};
pub use replay::{InvalidTemplate, Replay};
pub use timemap::{Format, Memento, Page, Relations, TimeMap, TimeMapLink, TimeMapWriter};
