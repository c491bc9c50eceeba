//! Reads what an archive sends: a TimeMap in any format, or rows of an index.

use std::collections::HashSet;

use url::Url;
use waypost_memento::{Format, Memento, Replay, TimeMap, TimeMapLink};

use super::cdx;

/// What a document of an archive says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Its mementos, with absolute URIs, in its order.
    pub mementos: Vec<Memento>,
    /// The other pages of the TimeMap, or the TimeMaps of an index. Never the same TimeMap in another
    /// format.
    pub pages: Vec<Url>,
    /// The first thing in it that could not be read.
    pub problem: Option<String>,
}

/// Reads a document. `content_type` is the header's value, `base` the URI of the document, and
/// `replay` makes memento URIs for rows that have none.
///
/// # Errors
/// If nothing in it can be read.
pub fn read(
    content_type: Option<&str>,
    body: &[u8],
    base: &Url,
    replay: Option<&Replay>,
) -> Result<Document, String> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let body = body.trim_ascii();
    let declared = content_type.and_then(Format::of_media_type);
    let (found, format) = match (body.first(), declared) {
        (None, _) => return Ok(Document::default()),
        (Some(b'<'), _) if is_html(body) => return Err("HTML instead of a TimeMap".to_owned()),
        (Some(b'['), _) => (rows(cdx::table(body, replay)?), None),
        (Some(b'<'), _) | (_, Some(Format::Link)) => timemap(Format::Link, body, replay)?,
        (Some(b'{'), _) => timemap(Format::Json, body, replay)?,
        (Some(b'!'), _) | (_, Some(Format::Cdxj)) => timemap(Format::Cdxj, body, replay)?,
        _ if is_cdxj(body) => timemap(Format::Cdxj, body, replay)?,
        _ => (rows(cdx::lines(body, replay)), None),
    };
    let (timemap, problem) = found;
    if timemap.mementos.is_empty()
        && timemap.timemaps.is_empty()
        && let Some(problem) = problem
    {
        return Err(problem);
    }
    let pages = match format {
        None => Vec::new(),
        Some(format) => pages(&timemap, format, base),
    };
    let mut mementos = timemap.mementos;
    let foreign = resolve(&mut mementos, base);
    Ok(Document {
        mementos,
        pages,
        problem: problem.or(foreign),
    })
}

type Found = (TimeMap, Option<String>);

fn timemap(
    format: Format,
    body: &[u8],
    replay: Option<&Replay>,
) -> Result<(Found, Option<Format>), String> {
    let (timemap, problems) =
        TimeMap::read(format, body, replay).map_err(|error| error.to_string())?;
    // Which URI was asked is known.
    let is_relevant = |problem: &&waypost_memento::Error| {
        problem.kind != waypost_memento::ErrorKind::MissingOriginal
    };
    let problem = problems.iter().find(is_relevant).map(ToString::to_string);
    Ok(((timemap, problem), Some(format)))
}

fn rows((mementos, problem): (Vec<Memento>, Option<String>)) -> Found {
    let timemap = TimeMap {
        mementos,
        ..TimeMap::default()
    };
    (timemap, problem)
}

/// Whether something that starts with `<` is a page for people. A URI cannot start with a name and a
/// space, nor with `!`.
fn is_html(body: &[u8]) -> bool {
    let start = body[..body.len().min(64)].to_ascii_lowercase();
    [
        &b"<!"[..],
        b"<?xml",
        b"<html",
        b"<head",
        b"<body",
        b"<title>",
        b"<p>",
    ]
    .iter()
    .any(|tag| start.starts_with(tag))
}

/// Whether the first line is a row of CDXJ: a JSON object behind the timestamp.
fn is_cdxj(body: &[u8]) -> bool {
    let line = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut columns = line.split(|byte| *byte == b' ').skip(1).take(2);
    columns.any(|column| column.starts_with(b"{"))
}

/// The pages that must be read, too. Links of JSON and CDXJ that say nothing about a page name the
/// same TimeMap in all formats.
fn pages(timemap: &TimeMap, format: Format, base: &Url) -> Vec<Url> {
    let this = timemap
        .this
        .as_ref()
        .and_then(|this| base.join(&this.uri).ok());
    let same: HashSet<String> = this.iter().chain([base]).map(identity).collect();
    let is_page = |link: &&TimeMapLink| {
        let says_page = link.page.is_some() || link.from.is_some() || link.until.is_some();
        let is_other_format = link.format.is_some_and(|other| other != format);
        !is_other_format && (says_page || format == Format::Link)
    };
    let links = timemap.timemaps.iter().filter(is_page);
    links
        .filter_map(|link| base.join(&link.uri).ok())
        .filter(|url| !same.contains(&identity(url)))
        .collect()
}

/// A URI without the differences that do not lead to another document.
pub(super) fn identity(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = String::from(url);
    match text.split_once("://") {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

/// Makes URIs absolute. What is then not on the Web is not a memento; the first of them is returned
/// as a problem.
pub(super) fn resolve(mementos: &mut Vec<Memento>, base: &Url) -> Option<String> {
    let mut foreign = None;
    mementos.retain_mut(|memento| {
        if is_web(&memento.uri) {
            return true;
        }
        match base.join(&memento.uri) {
            Ok(url) if is_web(url.as_str()) => {
                memento.uri = url.into();
                true
            }
            _ => {
                foreign.get_or_insert_with(|| format!("invalid memento URI `{}`", memento.uri));
                false
            }
        }
    });
    foreign
}

pub(super) fn is_web(uri: &str) -> bool {
    let has = |scheme: &str| {
        let start = uri.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme)) && uri.len() > scheme.len()
    };
    has("http://") || has("https://")
}
