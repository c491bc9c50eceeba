//! WARC files and indexes of several crawls into one index.
