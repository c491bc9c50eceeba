//! Files that appear complete or not at all: see [`waypost_io::AtomicFile`].

pub use waypost_io::{AtomicFile, Format, LineWriter, Written};
