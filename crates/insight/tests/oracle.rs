//! Real peers: scipy computes what `numeric` computes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../tests/oracles.rs"]
mod oracles;
#[path = "../../../tests/peers.rs"]
mod peers;

#[path = "oracle/crawl.rs"]
mod crawl;
#[path = "oracle/scipy.rs"]
mod scipy;
#[path = "oracle/statistics.rs"]
mod statistics;
