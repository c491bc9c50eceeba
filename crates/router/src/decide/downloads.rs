//! Summaries that archives publish: found, downloaded, checked, installed, and kept up to date.
//!
//! ```text
//! URL ─► a summary, or a page that links to a map ─► download ─► check ─► install
//! ```
//!
//! The source of an archive is the URL of a summary, or of a page or host that names its map: by a
//! `Link` header, by `<link rel="mementomap">`, or at `/.well-known/mementomap`. A new version is
//! installed only after it was opened as a summary; on any failure the last good one stays.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use url::Url;
use waypost_archive::mementomap::{self, linked};
use waypost_archive::publish;
use waypost_io::{AtomicFile, IoContext, Source, temporary};
use waypost_net::{Cache, Client, ClientOptions};
use waypost_summary::{kind_of_source, map};
use xxhash_rust::xxh3::xxh3_64;

use super::Decider;
use super::snapshot::{self, Refusal};
use super::summaries::Warning;
use crate::{Archive, Registry};

/// The path of the map of a host.
const WELL_KNOWN: &str = "/.well-known/mementomap";

/// Maximum size of a page that may name a map.
const MOST_PAGE: usize = 1 << 20;

/// How much of a file tells whether it is a summary.
const MOST_START: usize = 64 << 10;

/// Maximum size of a summary, compressed and not.
const MOST_BYTES: u64 = 16 << 30;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the summary of a source is installed.
pub(super) fn installed(folder: &Path, archive: &str, source: &str) -> PathBuf {
    let safe = |text: &str| -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        text.chars()
            .map(|c| if plain(c) || c == '.' { c } else { '_' })
            .collect()
    };
    let name = source.rsplit('/').find(|part| !part.is_empty());
    let name = safe(name.unwrap_or("map"));
    let name = name.trim_start_matches('.');
    // Two sources may have the same name.
    let hash = xxh3_64(source.as_bytes()) as u32;
    let archive = safe(archive);
    folder
        .join(format!("_{}", archive.trim_start_matches('.')))
        .join(format!("{hash:08x}-{name}"))
}

impl Decider {
    /// Downloads the summaries of all sources that have changed. Blocks until that is done.
    pub fn download(&self, registry: &Registry) {
        let with_sources = |archive: &&Archive| !archive.sources.is_empty();
        let folder = self.read_config().downloads.clone();
        let Some(folder) = folder else {
            for archive in registry.archives.iter().filter(with_sources) {
                let id = &archive.id;
                (self.warn)(&format!(
                    "archive {id}: its sources are not downloaded, because [routing] names no folder for downloads"
                ));
            }
            return;
        };
        for archive in registry.archives.iter().filter(with_sources) {
            for source in &archive.sources {
                let place = installed(&folder, &archive.id, source);
                let key_file = archive.key_file.as_deref();
                if let Err(why) = self.install(source, &folder, &place, key_file) {
                    let id = &archive.id;
                    let last = match place.exists() {
                        true => "the last good summary stays",
                        false => "there is no summary",
                    };
                    (self.warn)(&format!("archive {id}: {source}: {why}; {last}"));
                }
            }
        }
    }

    /// Downloads one summary, checks and installs it.
    fn install(
        &self,
        source: &str,
        folder: &Path,
        place: &Path,
        key_file: Option<&Path>,
    ) -> Result<(), Warning> {
        let url = resolve(source)?;
        let text = |error: waypost_io::Error| error.to_string();
        let client = Client::new(ClientOptions::default()).map_err(text)?;
        let cache = Cache::new(client.clone(), &folder.join("downloads"));
        let fetched = mementomap::download(&client, &cache, &url, MOST_BYTES, |_| Ok(()));
        let fetched = fetched.map_err(text)?.path;
        check_size(&fetched)?;
        let parent = place.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| format!("cannot create a folder: {error}"))?;
        let is_map = kind_of_source(&Source::new(&fetched))
            .map_err(|error| error.to_string())?
            .is_some_and(|kind| kind == waypost_summary::Kind::Map);
        if is_map
            && let Some(companion) =
                mementomap::download_companion(&cache, &url, &fetched, MOST_BYTES).map_err(text)?
        {
            check_size(&companion)?;
            let beside = map::companion_at(&fetched, place).map_err(|error| error.to_string())?;
            copy(&companion, &beside.unwrap_or_default())?;
        }
        match snapshot::open(&fetched, &self.room, key_file) {
            Ok(_) => copy(&fetched, place),
            Err(Refusal::Changing) => Err("it changed while it was read".to_owned()),
            Err(Refusal::Unusable(_, why)) => Err(why),
        }
    }
}

/// Copies a file, unless the copy has the same content.
fn copy(from: &Path, to: &Path) -> Result<(), Warning> {
    let text = |error: waypost_io::Error| error.to_string();
    let io = |error: std::io::Error| format!("cannot copy to {}: {error}", to.display());
    let same = || -> std::io::Result<bool> {
        if fs::metadata(from)?.len() != fs::metadata(to)?.len() {
            return Ok(false);
        }
        let (mut a, mut b) = (File::open(from)?, File::open(to)?);
        let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let read = a.read(&mut left)?;
            if read == 0 {
                return Ok(true);
            }
            b.read_exact(&mut right[..read])?;
            if left[..read] != right[..read] {
                return Ok(false);
            }
        }
    };
    if same().unwrap_or(false) {
        // It was current just now, which counts for its age.
        let now = std::time::SystemTime::now();
        return File::open(to)
            .and_then(|file| file.set_modified(now))
            .map_err(io);
    }
    let mut file = AtomicFile::create(to).map_err(text)?;
    let mut source = File::open(from).map_err(io)?;
    std::io::copy(&mut source, &mut file).map_err(io)?;
    file.flush().map_err(io)?;
    file.commit().map_err(text)
}

/// Refuses files that are too large, also after decompression.
fn check_size(path: &Path) -> Result<(), Warning> {
    let mut stream = Source::new(path)
        .open()
        .map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0u64;
    loop {
        let (read, error) = stream.read_full(&mut buffer);
        if let Some(error) = error {
            return Err(error.to_string());
        }
        total += read as u64;
        if total > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// The summary at a URL, or the map that a page or host publishes, by a `Link` header, `<link
/// rel="mementomap">` or at `/.well-known/mementomap`. `None` if there is none. Blocks.
pub fn published_map(start: &str) -> Option<String> {
    let url = match waypost_net::is_url(start) {
        true => start.to_owned(),
        false => format!("https://{start}"),
    };
    let url = Url::parse(&url).ok()?;
    let summary = |url: &Url| -> Option<String> {
        let found = look(url).ok().filter(Looked::is_summary)?;
        found.whole(url).ok()
    };
    let found = match resolve(url.as_str()) {
        // The home page of a host is not a summary, whatever it looks like.
        Ok(found) if url.path() != "/" || found != url.as_str() => {
            summary(&Url::parse(&found).ok()?)
        }
        _ => None,
    };
    // The home page of a host need not be one.
    found.or_else(|| match url.path() {
        "/" => summary(&url.join(WELL_KNOWN).ok()?),
        _ => None,
    })
}

/// The URL of the summary that a source stands for: itself, or the map that a page or host names.
fn resolve(source: &str) -> Result<String, Warning> {
    let url = Url::parse(source).map_err(|error| format!("invalid URL: {error}"))?;
    let looked = look(&url)?;
    if !looked.is_page {
        return looked.whole(&url);
    }
    let at = &looked.at;
    let page = String::from_utf8_lossy(&looked.start);
    let named = linked(&looked.headers, "mementomap").map(|link| link.uri);
    let found = match named.or_else(|| map_in_page(&page)) {
        Some(link) => at.join(&link),
        None if at.path() == "/" => at.join(WELL_KNOWN),
        None => return Err("a page that names no map".to_owned()),
    };
    let found = found.map_err(|error| format!("invalid link to a map: {error}"))?;
    if !matches!(found.scheme(), "http" | "https") || found.host_str() != at.host_str() {
        return Err(format!("the page links to a map on another host: {found}"));
    }
    look(&found)?.whole(&found)
}

/// What is at a URL.
struct Looked {
    /// Where redirects led.
    at: Url,
    is_page: bool,
    headers: HeaderMap,
    /// The start of the body.
    start: Vec<u8>,
}

impl Looked {
    /// Whether it is a summary, and not an error page that is sent with 200.
    fn is_summary(&self) -> bool {
        let kind = || -> waypost_io::Result<_> {
            let folder = temporary::folder_in(&std::env::temp_dir())?;
            let start = folder.path().join("start");
            fs::write(&start, &self.start).doing("write", &start)?;
            publish::kind_of(&Source::new(&start))
        };
        // The start of a filter can't be opened.
        !self.is_page && !matches!(kind(), Ok(None))
    }

    /// The URL at which all of it is in one file, if its server sends it in pages.
    fn whole(&self, url: &Url) -> Result<String, Warning> {
        let Some(file) = mementomap::in_one_file(&self.headers) else {
            return Ok(url.to_string());
        };
        let whole = url
            .join(&file)
            .ok()
            .filter(|whole| whole.origin() == url.origin());
        whole
            .map(String::from)
            .ok_or_else(|| format!("a link to another host: {file}"))
    }
}

fn look(url: &Url) -> Result<Looked, Warning> {
    // Fails if there is a provider already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let look = async {
        let client = reqwest::Client::builder()
            .user_agent(concat!("Waypost/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let page = client.get(url.clone()).header(ACCEPT, "*/*").send();
        let mut page = page.await?.error_for_status()?;
        let media_type = page.headers().get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let is_page = media_type.is_some_and(|text| text.contains("html"));
        let most = if is_page { MOST_PAGE } else { MOST_START };
        let mut start = Vec::new();
        while start.len() < most {
            match page.chunk().await? {
                Some(chunk) => start.extend_from_slice(&chunk),
                None => break,
            }
        }
        Ok::<_, reqwest::Error>(Looked {
            at: page.url().clone(),
            is_page,
            headers: std::mem::take(page.headers_mut()),
            start,
        })
    };
    let looked = runtime.block_on(async { tokio::time::timeout(PATIENCE, look).await });
    looked
        .map_err(|_| "no answer in time".to_owned())?
        .map_err(|error| error.to_string())
}

/// The map in `<link rel="mementomap" href="…">`.
fn map_in_page(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower[from..].find("<link") {
        let start = from + at;
        let end = start + lower[start..].find('>')?;
        let tag = &page[start..end];
        let relations = attribute(tag, "rel")
            .unwrap_or_default()
            .to_ascii_lowercase();
        if relations.split_whitespace().any(|rel| rel == "mementomap") {
            return attribute(tag, "href").map(|href| href.replace("&amp;", "&"));
        }
        from = end;
    }
    None
}

/// The value of an attribute of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let lower = tag.to_ascii_lowercase();
    let mut from = 0;
    loop {
        let at = from + lower[from..].find(name)?;
        let before = lower[..at].chars().next_back();
        let rest = tag[at + name.len()..].trim_start();
        if before.is_some_and(char::is_whitespace)
            && let Some(value) = rest.strip_prefix('=')
        {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            return Some(match quote {
                Some(quote) => value[1..].split(quote).next()?.to_owned(),
                None => {
                    let end = value.find(|c: char| c.is_whitespace() || c == '>');
                    value[..end.unwrap_or(value.len())].to_owned()
                }
            });
        }
        from = at + name.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderValue, LINK};

    #[test]
    fn links_to_maps_are_found() {
        let named = |links: &'static str| {
            let headers = HeaderMap::from_iter([(LINK, HeaderValue::from_static(links))]);
            linked(&headers, "mementomap").map(|link| link.uri)
        };
        assert_eq!(
            named("<http://x/>; rel=\"original\", </m.ukvs>; rel=\"mementomap\"").as_deref(),
            Some("/m.ukvs")
        );
        let other = "<http://x/m>; rel=\"mementomap\"; anchor=\"http://other/\"";
        assert_eq!(named(other), None);
        for (page, expected) in [
            (
                "<html><LINK REL='mementomap' href=/static/a.ukvs></html>",
                Some("/static/a.ukvs"),
            ),
            (
                "<link href=\"a?b&amp;c\" data-rel=x rel=\"alternate MementoMap\">",
                Some("a?b&c"),
            ),
            ("<link rel=stylesheet href=a.css>", None),
            ("<link rel=mementomap href=", None),
            ("<link", None),
        ] {
            assert_eq!(map_in_page(page).as_deref(), expected, "{page}");
        }
    }

    #[test]
    fn installed_files_stay_in_their_folder() {
        let folder = Path::new("/f");
        for (archive, source) in [
            ("a", "http://x/.well-known/mementomap"),
            ("../../etc", "http://x/../../../passwd"),
            ("..", "http://x/.."),
            ("a/b", "http://x/%2e%2e/a?b=/../c"),
        ] {
            let place = installed(folder, archive, source);
            assert!(place.starts_with(folder), "{place:?}");
            let plain = |part| matches!(part, std::path::Component::Normal(_));
            assert!(place.components().skip(1).all(plain), "{place:?}");
            assert_eq!(place.components().count(), 4, "{place:?}");
        }
    }
}
