//! Journeys: each test walks one chain through the `waypost` command and its servers, as a person would,
//! from the files of an archive to the answer that a client gets.
//!
//! | file | journeys |
//! |---|---|
//! | `world.rs` | what all journeys share: a folder, commands, servers, requests, an index |
//! | `captures.rs` | WARC files and indexes of several crawls into one index |
//! | `filters.rs` | filters: classic, keyed and writable, from build to lookup service and router |
//! | `pairs.rs` | every kind of summary, however it was made, in whatever uses it |
//! | `routing.rs` | publish, discover and route; real archives behind the router |
//! | `selections.rs` | summaries of a part of the captures, evaluated and routed by |
//! | `takedowns.rs` | a takedown list through everything that publishes or answers |
//! | `unsorted.rs` | indexes that are unsorted, cut or changed while they are read |
//! | `wholeness.rs` | summaries that are cut or empty |
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../http.rs"]
mod http;
#[path = "../oracles.rs"]
mod oracles;
#[path = "../peers.rs"]
mod peers;
mod world;

mod captures;
mod filters;
mod pairs;
mod routing;
mod selections;
mod takedowns;
mod unsorted;
mod wholeness;
