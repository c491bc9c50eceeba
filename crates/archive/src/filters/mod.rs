//! The lookup service: which archives may hold a URI, over HTTP.
//!
//! | | |
//! |---|---|
//! | `HEAD`, `GET /ARCHIVE/URI` | 200 maybe, 404 surely not |
//! | `GET /bloom/agg/URI` | the archives that may hold it |
//! | `POST /lookup` | the same for many URIs, as lines of JSON |
//! | `POST /ARCHIVE/add` | adds URIs, if the server is writable |
//! | `GET /` | the archives |
//!
//! An archive is a file or a folder of summaries; what several of them hold is held. Files are
//! reopened when they change.
//!
//! ```text
//! request ─► service ─► snapshot of all archives ─► key ─► hash ─► parts ─► answer
//!                                                                 └ live: write-ahead log, filters
//! ```
//!
//! The router embeds [`Service`], with the summaries of its archives as the [`Catalogue`].

mod batch;
mod files;
mod holdings;
pub mod live;
mod metrics;
mod route;
mod server;
mod service;
mod snapshot;
mod stream;

pub use files::{is_companion, is_recent, may_be_summary};
pub use holdings::{Holdings, HoldingsOptions, RESERVED, check_id};
pub use server::FilterServer;
pub use service::{Catalogue, Service, ServiceOptions};
pub use snapshot::{LookupError, RemoteState, RemoteSummary, ServedArchive, Snapshot};
