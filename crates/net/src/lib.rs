//! HTTP at the edges of Waypost. Knows nothing about archives.
//!
//! The client reads files on the Web by range requests, as [`waypost_io::RangeRead`], and downloads
//! them so that an interrupted download resumes.
