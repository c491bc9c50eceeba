//! Serving a map at `/.well-known/mementomap`, whole, gzipped, or in pages.
//!
//! | path | content |
//! |---|---|
//! | `/.well-known/mementomap` | the map, or its first page if it is large |
//! | `/.well-known/mementomap?page=2` | another page |
//! | `/.well-known/mementomap.gz` | all of it, gzipped |
//! | `/.well-known/mementomap.IDENTITY.filter` | its filter, if it has one |
//!
//! A page is a map itself: the headers, and the rows from one key to another. Its `Link` header names
//! the first, previous, next and last page with the keys from which and until which they reach, and the
//! gzipped whole. All have an `ETag`, and parts of them can be requested.
//!
//! The map is a copy in memory-mapped files that nobody else can change: what is sent is always one
//! version of it, however long the client takes.

mod pages;
mod range;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, LINK, RANGE,
};
use http::{Response, StatusCode};
use waypost_io::{Error, ErrorKind, IoContext, Mapped, Result, Source, Stamp, temporary};
use waypost_summary::map::{self, check};
use waypost_summary::{Kind, kind_of_source};
use xxhash_rust::xxh3::xxh3_64;

pub use pages::{download, download_companion, in_one_file, linked};
use range::{Wanted, wanted};

/// The path of the map of a host.
pub const WELL_KNOWN: &str = ".well-known/mementomap";

/// The size of a page, unless it is set otherwise.
pub const PAGE: usize = 4 << 20;

/// A map that is served.
pub struct ServedMap {
    path: PathBuf,
    page: usize,
    current: Mutex<Option<Arc<Version>>>,
}

/// One version of a map.
struct Version {
    stamp: Stamp,
    text: Arc<Mapped>,
    gzip: Arc<Mapped>,
    /// The path of its filter on the Web, and the filter.
    companion: Option<(String, Arc<Mapped>)>,
    etag: u64,
    modified: Option<String>,
    /// The end of the headers.
    headers: usize,
    /// The start of each page, and the end of the last one.
    pages: Vec<usize>,
}

/// What is requested of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapPart {
    /// A page, from 1; the whole map if it is small.
    Page(usize),
    /// All of it, gzipped.
    Gzip,
    /// Its filter, by its path.
    Companion(String),
}

impl MapPart {
    /// Understands a path without its leading slash and a query. `None` if it is not that of a map.
    pub fn of(path: &str, query: Option<&str>) -> Option<MapPart> {
        let rest = path.strip_prefix(WELL_KNOWN)?;
        match rest {
            ".gz" => Some(MapPart::Gzip),
            "" => {
                let mut parameters = query.unwrap_or_default().split('&');
                let page = parameters.find_map(|parameter| parameter.strip_prefix("page="));
                match page {
                    None => Some(MapPart::Page(1)),
                    Some(page) => Some(MapPart::Page(page.parse().unwrap_or(0))),
                }
            }
            _ if rest.ends_with(".filter") => Some(MapPart::Companion(path.to_owned())),
            _ => None,
        }
    }
}

impl ServedMap {
    /// The map at a path, in pages of about this many bytes.
    ///
    /// # Errors
    /// If it can't be read, or is not a map.
    pub fn open(path: &Path, page: usize) -> Result<ServedMap> {
        let map = ServedMap {
            path: path.to_owned(),
            page: page.max(1),
            current: Mutex::default(),
        };
        map.version()?;
        Ok(map)
    }

    /// The version that is at the path now. If it can't be read, the last one that could.
    fn version(&self) -> Result<Arc<Version>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of_path(&self.path);
        if let (Some(version), Ok(stamp)) = (&*current, &stamp)
            && version.stamp == *stamp
        {
            return Ok(Arc::clone(version));
        }
        match (Version::read(&self.path, self.page), &*current) {
            (Ok(version), _) => Ok(Arc::clone(current.insert(Arc::new(version)))),
            (Err(_), Some(last)) => Ok(Arc::clone(last)),
            (Err(error), None) => Err(error),
        }
    }

    /// Answers a request for a part of the map, whose URL starts with `base`, which ends with a slash.
    /// Blocks while a changed file is read.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn answer(
        &self,
        part: MapPart,
        request: &HeaderMap,
        base: &str,
    ) -> Result<Response<Bytes>> {
        let version = self.version()?;
        let filter = |name: &str| version.companion.as_ref().filter(|own| own.0 == name);
        let (body, media_type, kind) = match &part {
            MapPart::Gzip => (whole(&version.gzip), "application/gzip", "gz".to_owned()),
            MapPart::Page(number) => match version.page(*number) {
                Some(page) => (page, "text/plain; charset=utf-8", number.to_string()),
                None => return Ok(plain(StatusCode::NOT_FOUND, "there is no such page\n")),
            },
            MapPart::Companion(name) => match filter(name) {
                Some((name, own)) => (whole(own), "application/octet-stream", name.clone()),
                None => return Ok(plain(StatusCode::NOT_FOUND, "there is no such filter\n")),
            },
        };
        let etag = format!("\"{:016x}-{kind}\"", version.etag);
        let mut headers: Vec<(HeaderName, String)> = vec![
            (ETAG, etag.clone()),
            (ACCEPT_RANGES, "bytes".to_owned()),
            (LINK, version.links(part, base)),
        ];
        headers.extend(version.modified.clone().map(|date| (LAST_MODIFIED, date)));
        let text = |name: HeaderName| request.get(name).and_then(|value| value.to_str().ok());
        let is_known = text(IF_NONE_MATCH).is_some_and(|list| {
            let mut tags = list.split(',').map(str::trim);
            tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
        });
        if is_known {
            return Ok(answer(StatusCode::NOT_MODIFIED, headers, Bytes::new()));
        }
        headers.push((CONTENT_TYPE, media_type.to_owned()));
        // A part of another version would not fit what the client has.
        let same = text(IF_RANGE).is_none_or(|version| version == etag);
        let requested = text(RANGE).filter(|_| same);
        Ok(match wanted(requested, body.len()) {
            Wanted::All => answer(StatusCode::OK, headers, body),
            Wanted::Part(range) => {
                let (first, last) = (range.start, range.end - 1);
                let all = body.len();
                headers.push((CONTENT_RANGE, format!("bytes {first}-{last}/{all}")));
                answer(StatusCode::PARTIAL_CONTENT, headers, body.slice(range))
            }
            Wanted::Nothing => {
                headers.push((CONTENT_RANGE, format!("bytes */{}", body.len())));
                answer(StatusCode::RANGE_NOT_SATISFIABLE, headers, Bytes::new())
            }
        })
    }
}

fn answer(status: StatusCode, headers: Vec<(HeaderName, String)>, body: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let headers = vec![(CONTENT_TYPE, "text/plain; charset=utf-8".to_owned())];
    answer(status, headers, Bytes::from_static(text.as_bytes()))
}

/// The bytes of a mapped file, without copying them.
fn whole(mapped: &Arc<Mapped>) -> Bytes {
    struct Shared(Arc<Mapped>);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Shared(Arc::clone(mapped)))
}

impl Version {
    fn read(path: &Path, page: usize) -> Result<Version> {
        let source = Source::new(path);
        let kind = kind_of_source(&source).map_err(waypost_summary::Error::into_io)?;
        if kind != Some(Kind::Map) {
            let text = "only maps are served as mementomap".to_owned();
            return Err(Error::new(ErrorKind::Invalid(text)).in_file(path.display()));
        }
        let stamp = Stamp::of_path(path)?;
        check::wholeness(&source).map_err(waypost_summary::Error::into_io)?;
        let folder = temporary::folder_in(&std::env::temp_dir())?;
        let (plain, packed) = (folder.path().join("map"), folder.path().join("map.gz"));
        let mut stream = source.open()?;
        let mut text = std::fs::File::create(&plain).doing("write", &plain)?;
        let gz = std::fs::File::create(&packed).doing("write", &packed)?;
        let mut gz = GzEncoder::new(gz, Compression::default());
        let mut buffer = vec![0; 1 << 18];
        loop {
            let (length, error) = stream.read_full(&mut buffer);
            if let Some(error) = error {
                return Err(error);
            }
            if length == 0 {
                break;
            }
            text.write_all(&buffer[..length]).doing("write", &plain)?;
            gz.write_all(&buffer[..length]).doing("write", &packed)?;
        }
        gz.finish().doing("write", &packed)?;
        let (text, gzip) = (Mapped::open(&plain)?, Mapped::open(&packed)?);
        let companion =
            |at: &Path| map::companion_at(path, at).map_err(waypost_summary::Error::into_io);
        let companion = match (companion(path)?, companion(Path::new(WELL_KNOWN))?) {
            (Some(filter), Some(url)) => {
                let copy = folder.path().join("filter");
                std::fs::copy(&filter, &copy).doing("copy", &filter)?;
                let copy = Mapped::open(&copy)?;
                copy.set_private();
                Some((url.to_string_lossy().into_owned(), Arc::new(copy)))
            }
            _ => None,
        };
        drop(folder);
        text.set_private();
        gzip.set_private();
        if Stamp::of_path(path)? != stamp {
            let text = "the file changed while it was read".to_owned();
            return Err(Error::new(ErrorKind::Invalid(text)).in_file(path.display()));
        }
        let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
        let headers = headers_end(&text);
        Ok(Version {
            pages: pages(&text, headers, page),
            headers,
            etag: xxh3_64(&text),
            modified: modified.ok().map(httpdate::fmt_http_date),
            text: Arc::new(text),
            gzip: Arc::new(gzip),
            companion,
            stamp,
        })
    }

    fn count(&self) -> usize {
        self.pages.len() - 1
    }

    /// A page, with the headers.
    fn page(&self, number: usize) -> Option<Bytes> {
        if !(1..=self.count()).contains(&number) {
            return None;
        }
        if self.count() == 1 {
            return Some(whole(&self.text));
        }
        let rows = self.pages[number - 1]..self.pages[number];
        let mut page = self.text[..self.headers].to_vec();
        page.extend_from_slice(&self.text[rows]);
        Some(page.into())
    }

    /// The keys of the first and the last row of a page.
    fn reach(&self, number: usize) -> (String, String) {
        let rows = &self.text[self.pages[number - 1]..self.pages[number]];
        let key = |line: &[u8]| {
            let end = line.iter().position(|byte| *byte == b' ');
            String::from_utf8_lossy(&line[..end.unwrap_or(line.len())]).into_owned()
        };
        let trimmed = rows.strip_suffix(b"\n").unwrap_or(rows);
        let first = trimmed.split(|byte| *byte == b'\n').next();
        let last = trimmed.rsplit(|byte| *byte == b'\n').next();
        (
            key(first.unwrap_or_default()),
            key(last.unwrap_or_default()),
        )
    }

    /// The `Link` header: the map itself, the pages around this one, and all of them in one file.
    fn links(&self, part: MapPart, base: &str) -> String {
        let mut links = Vec::new();
        if let MapPart::Page(number) = part
            && self.count() > 1
        {
            let last = self.count();
            let around = [
                ("first", Some(1)),
                ("prev", number.checked_sub(1).filter(|&page| page > 0)),
                ("next", (number < last).then_some(number + 1)),
                ("last", Some(last)),
            ];
            for (relation, page) in around {
                if let Some(page) = page {
                    let (from, until) = self.reach(page);
                    let (from, until) = (quotable(&from), quotable(&until));
                    links.push(format!(
                        "</{WELL_KNOWN}?page={page}>; rel=\"{relation}\"; from=\"{from}\"; until=\"{until}\""
                    ));
                }
            }
            links.push(format!(
                "</{WELL_KNOWN}.gz>; rel=\"alternate\"; type=\"application/gzip\""
            ));
        }
        links.push(format!("<{base}{WELL_KNOWN}>; rel=\"mementomap\""));
        links.join(", ")
    }
}

/// A key as a quoted string can have it.
fn quotable(key: &str) -> String {
    let mut out = String::new();
    for character in key.chars() {
        match character {
            ' '..='~' if character != '"' && character != '\\' => out.push(character),
            other => {
                let mut buffer = [0; 4];
                for byte in other.encode_utf8(&mut buffer).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    out
}

/// Where the rows start.
fn headers_end(text: &[u8]) -> usize {
    let mut end = 0;
    while let Some(b'!' | b'@') = text.get(end) {
        let line = text[end..].iter().position(|byte| *byte == b'\n');
        end += line.map_or(text.len() - end, |line| line + 1);
    }
    end
}

/// Cuts rows into pages of about this size, at the ends of lines.
fn pages(text: &[u8], start: usize, size: usize) -> Vec<usize> {
    let mut pages = vec![start];
    let mut at = start;
    while text.len() - at > size {
        let line = text[at + size..].iter().position(|byte| *byte == b'\n');
        let Some(line) = line else {
            break;
        };
        at += size + line + 1;
        if at < text.len() {
            pages.push(at);
        }
    }
    pages.push(text.len());
    pages
}

#[cfg(test)]
mod tests;
