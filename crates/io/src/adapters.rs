//! Inputs that this crate cannot open by itself: URLs, and binary tables whose rows become lines.
//!
//! A [`Source`](crate::Source) is made from a name wherever one is given. Whether that name may be a URL,
//! or its file a table, depends on the program, which says so once, when it starts.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::ranged::RangeRead;

/// How URLs are opened.
#[derive(Clone, Copy)]
pub struct UrlAdapter {
    /// Whether a name is a URL that can be opened.
    pub is_url: fn(&str) -> bool,
    /// Opens one.
    pub open: fn(&str) -> Result<Arc<dyn RangeRead>>,
    /// The number of concurrent requests with which a file is read from its start.
    pub connections: usize,
}

/// How the files of a format become lines.
#[derive(Clone, Copy)]
pub struct TableAdapter {
    /// The first bytes of its files.
    pub magic: &'static [u8],
    /// How their names end. Remote files are recognised by it, because reading their start takes a
    /// request.
    pub extension: &'static str,
    /// Reads a file as lines.
    pub lines: ReadLines,
}

/// Reads a file as lines.
pub type ReadLines = fn(Arc<dyn RangeRead>) -> Result<Box<dyn Read + Send>>;

static URLS: OnceLock<UrlAdapter> = OnceLock::new();
static TABLES: OnceLock<TableAdapter> = OnceLock::new();

/// Opens URLs in this process from now on. The first call counts.
pub fn open_urls(adapter: UrlAdapter) {
    let _ = URLS.set(adapter);
}

/// Reads tables as lines in this process from now on. The first call counts.
pub fn read_tables(adapter: TableAdapter) {
    let _ = TABLES.set(adapter);
}

/// How a name is opened, if it is a URL that can be.
pub fn url_of(name: &Path) -> Option<(&str, &'static UrlAdapter)> {
    let adapter = URLS.get()?;
    let name = name.to_str().filter(|name| (adapter.is_url)(name))?;
    Some((name, adapter))
}

/// Whether a file is named like a table that can be read.
pub fn is_table_name(name: &str) -> bool {
    let name = name.split(['?', '#']).next().unwrap_or(name);
    TABLES
        .get()
        .is_some_and(|adapter| name.to_ascii_lowercase().ends_with(adapter.extension))
}

/// How tables are read, if they can be.
pub(crate) fn table() -> Option<&'static TableAdapter> {
    TABLES.get()
}
