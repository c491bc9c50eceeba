//! HTTP at the edges of Waypost. Knows nothing about archives.
//!
//! The client reads files on the Web by range requests, as [`waypost_io::RangeRead`], and downloads
//! them so that an interrupted download resumes:
//!
//! ```no_run
//! use waypost_io::RangeRead;
//! use waypost_net::{Client, ClientOptions};
//!
//! let client = Client::new(ClientOptions::default())?;
//! let file = client.open("https://data.example/indexes/cluster.idx")?;
//! let mut start = [0; 100];
//! file.read_at(0, &mut start)?;
//! # Ok::<(), waypost_io::Error>(())
//! ```
//!
//! [`Client::open_any`] also opens files in S3 and compatible stores (`s3://BUCKET/KEY`) and in HDFS
//! (`webhdfs://NAMENODE:PORT/PATH`).
//!
//! Nothing is taken on trust: an answer must be exactly the requested bytes, of the same version of the
//! file as every answer before it. Requests that fail because of the network or the load of the server
//! are repeated a bounded number of times.
//!
//! | module | subject |
//! |---|---|
//! | [`client`] | the client: limits, redirects, errors |
//! | [`range`] | a remote file, read by range requests |
//! | [`download`], [`cache`] | downloads that resume, and a folder of them |
//! | [`server`], [`open_files`] | serves HTTP, with limits and a graceful end |
//!
//! The functions of the client block, and must not be called from asynchronous code.

pub mod cache;
pub mod client;
pub mod download;
pub mod open_files;
pub mod range;
mod response;
mod retry;
mod s3;
mod sending;
pub mod server;
mod webhdfs;

pub use cache::Cache;
pub use client::{Client, ClientOptions, Stats, is_remote, is_url};
pub use range::RemoteFile;
pub use response::retry_after;
