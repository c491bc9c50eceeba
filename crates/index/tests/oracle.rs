//! Real peers: GNU sort, pywb reading our ZipNum, cdxj-indexer, and py-wacz.
//!
//! pywb runs with the Python that `WAYPOST_PYTHON` names; SURT ranges are compared with those that
//! pywb gave, in the folder that `WAYPOST_SHARED` names. Without them those tests are skipped.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "oracle/cdxj_indexer.rs"]
mod cdxj_indexer;
#[path = "oracle/gnu_sort.rs"]
mod gnu_sort;
#[path = "oracle/pywb.rs"]
mod pywb;
#[path = "oracle/wacz.rs"]
mod wacz;

#[path = "../../../tests/oracles.rs"]
mod oracles;
