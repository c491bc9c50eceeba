//! Downloading a map that a server sends in pages: never one page for the whole map.
//!
//! A page is a map by itself, so that only its `Link` header tells that there are more. The rows of all
//! further pages are appended to the download before anyone sees it, and what does not fit together
//! (other headers, another version, an empty or missing page) is an error.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use http::header::{HeaderMap, LAST_MODIFIED, LINK};
use url::Url;
use waypost_io::{Error, ErrorKind, IoContext, Result};
use waypost_memento::{Link, links};
use waypost_net::cache::Fetched;
use waypost_net::{Cache, Client};
use waypost_summary::map;

use super::headers_end;

/// Maximum number of pages.
const MOST_PAGES: usize = 100_000;

/// The first link of an answer with a relation type. Links with an anchor are about something else.
pub fn linked(headers: &HeaderMap, relation: &str) -> Option<Link> {
    let fields = headers.get_all(LINK).iter();
    let mut all = fields.flat_map(|field| links(field.as_bytes()).filter_map(Result::ok));
    all.find(|link| link.has_relation(relation) && link.get("anchor").is_none())
}

/// The URL of the whole map in one file, if an answer is only a page of it and names such a file.
pub fn in_one_file(headers: &HeaderMap) -> Option<String> {
    linked(headers, "next")?;
    let whole = linked(headers, "alternate")?;
    (whole.get("type") == Some("application/gzip")).then_some(whole.uri)
}

/// Downloads a summary of at most `most` bytes: all pages of a map. A new version replaces the copy only
/// after `check` has accepted it.
///
/// # Errors
/// If the server fails, or what it sends is not whole.
pub fn download(
    client: &Client,
    cache: &Cache,
    url: &str,
    most: u64,
    check: impl FnOnce(&Path) -> Result<()>,
) -> Result<Fetched> {
    cache.fetch_checked(url, most, |part, headers| {
        append_pages(client, url, headers, most, part)?;
        check(part)
    })
}

/// Downloads the filter that a downloaded map names, from beside it. `None` if it names none.
///
/// # Errors
/// If the map can't be read, or the server fails.
pub fn download_companion(
    cache: &Cache,
    url: &str,
    copy: &Path,
    most: u64,
) -> Result<Option<PathBuf>> {
    let companion = map::companion_of(copy).map_err(waypost_summary::Error::into_io)?;
    let Some(name) = companion.as_deref().and_then(Path::file_name) else {
        return Ok(None);
    };
    let url = absolute(&parsed(url)?, &name.to_string_lossy())?;
    let fetched = cache.fetch_checked(url.as_str(), most, |_, _| Ok(()))?;
    Ok(Some(fetched.path))
}

fn append_pages(
    client: &Client,
    url: &str,
    first: &HeaderMap,
    most: u64,
    part: &Path,
) -> Result<()> {
    let Some(next) = linked(first, "next") else {
        return Ok(());
    };
    let mut at = parsed(url)?;
    let last = linked(first, "last");
    let last = last.map(|link| absolute(&at, &link.uri)).transpose()?;
    let mut next = Some(absolute(&at, &next.uri)?);
    let start = fs::read(part).doing("read", part)?;
    let head = &start[..headers_end(&start)];
    let (mut total, mut ended) = (start.len() as u64, start.ends_with(b"\n"));
    let mut out = File::options()
        .append(true)
        .open(part)
        .doing("write", part)?;
    for _ in 1..MOST_PAGES {
        let Some(url) = next.take() else {
            break;
        };
        let left = usize::try_from(most.saturating_sub(total)).unwrap_or(usize::MAX);
        let (page, headers) = client.get_with_headers(url.as_str(), left)?;
        let rows = &page[headers_end(&page)..];
        let modified = |headers: &HeaderMap| headers.get(LAST_MODIFIED).cloned();
        let problem = match () {
            () if page[..page.len() - rows.len()] != *head
                || modified(&headers) != modified(first) =>
            {
                "the map changed while its pages were downloaded"
            }
            () if !ended => "the page before it ends in the middle of a line",
            () if rows.is_empty() => "a page without rows",
            () => "",
        };
        if !problem.is_empty() {
            return Err(invalid(problem).in_file(url));
        }
        out.write_all(rows).doing("write", part)?;
        total += rows.len() as u64;
        ended = rows.ends_with(b"\n");
        next = match linked(&headers, "next") {
            Some(link) => Some(absolute(&url, &link.uri)?),
            None => None,
        };
        at = url;
    }
    let problem = match () {
        () if next.is_some() => format!("more than {MOST_PAGES} pages"),
        () if last.is_some_and(|last| last != at) => format!("{at} is not the last page"),
        () if !ended => format!("{at} ends in the middle of a line"),
        () => return out.sync_all().doing("write", part),
    };
    Err(invalid(problem).in_file(url))
}

/// The URL that a link of an answer leads to, which must be on the same host.
fn absolute(base: &Url, link: &str) -> Result<Url> {
    let url = base
        .join(link)
        .map_err(|error| invalid(format!("invalid link to {link}: {error}")).in_file(base))?;
    match url.origin() == base.origin() {
        true => Ok(url),
        false => Err(invalid(format!("a link to another host: {url}")).in_file(base)),
    }
}

fn parsed(url: &str) -> Result<Url> {
    Url::parse(url).map_err(|error| invalid(format!("invalid URL: {error}")).in_file(url))
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid(what.into()))
}
