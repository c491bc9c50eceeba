//! What an index says about an archive.
