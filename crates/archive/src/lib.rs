//! An archive's own side on the Web: a CDX server over its index, with TimeMaps and TimeGates.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use waypost_archive::{Collection, Options, Server, Source};
//! use waypost_index::lookup::BlockCache;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Arc::new(BlockCache::new(64 << 20));
//! let source = Source {
//!     path: "sorted.cdxj".into(),
//!     dialect: None,
//!     anywhere: false,
//!     sorted: false,
//! };
//! let web = Collection::open("web", vec![source], &cache);
//! let server = Arc::new(Server::new(vec![web], cache, Options::default())?);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! // http://127.0.0.1:8080/web/cdx?url=example.com
//! server.run(listener, None, |_| {}, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! # A request
//!
//! ```text
//! path ─► route ─► query ─► search: cursors of all indexes, merged ─► render ─► body, in chunks
//!                             │ access: takedowns, embargo
//!                             └ filter, clamp, collapse, sort, limit
//! ```
//!
//! | | |
//! |---|---|
//! | `/COLL/cdx`, `/COLL/index` | pywb's parameters and answers |
//! | `/COLL/cdx/search/cdx` | those of the Wayback Machine |
//! | `/COLL/timemap/link/URL`, `…/json/…`, `…/cdxj/…` | a TimeMap |
//! | `/COLL/timegate/URL`, `/COLL/URL` | a TimeGate |
//!
//! Queries run in threads of their own and stream their answers, so that memory is bounded whatever
//! their size. Indexes are memory-mapped, and reopened when their files change; queries that are under
//! way finish with the old ones.

mod access;
mod body;
mod collapse;
mod collection;
pub mod discover;
mod failure;
pub mod filters;
mod log;
pub mod mementomap;
mod metrics;
mod parameters;
pub mod publish;
mod query;
mod render;
mod reply;
mod resume;
mod route;
mod row;
mod running;
mod search;
mod server;
pub mod sitemap;
#[cfg(feature = "redis")]
pub mod store;

pub use access::Embargo;
pub use body::AnswerBody;
pub use collection::{Collection, Source};
pub use failure::Failure;
pub use log::AccessLog;
pub use query::{Api, BadQuery, Limit, Output, Page, Query};
pub use resume::Resume;
pub use server::{Options, Server};
