//! Summaries that are cut or empty.
