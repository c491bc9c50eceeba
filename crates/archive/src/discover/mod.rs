//! Discovering summaries that others publish, and keeping copies up to date.
//!
//! ```text
//! host ─► robots.txt, sitemap.xml ─► entries ─► download what is new or changed ─► check ─► FOLDER
//! ```
//!
//! Nothing that a sitemap says is taken on trust: files must be on the host of the sitemap, within
//! the size limits, have the stated checksums, and be summaries. Copies mirror the servers
//! (`FOLDER/archive.example/summaries/a.filter`); they appear when they are complete and checked.

use std::collections::{HashMap, hash_map};
use std::io::Read;
use std::path::{Path, PathBuf};

use url::Url;
use waypost_io::{Error, ErrorKind, IoContext, Result, Source};
use waypost_net::{Cache, Client};

use crate::mementomap;
use crate::publish::{self, Manifest, SummaryKind};
use crate::sitemap::{self, Entry, Listing};

/// The limits of a discovery.
#[derive(Clone, Debug)]
pub struct DiscoverOptions {
    /// Maximum size of a file.
    pub most_bytes: u64,
    /// Maximum size of all files together.
    pub most_total: u64,
    /// Maximum number of files.
    pub most_files: usize,
    /// Whether a sitemap may list files and sitemaps on other hosts.
    pub other_hosts: bool,
}

impl Default for DiscoverOptions {
    fn default() -> DiscoverOptions {
        DiscoverOptions {
            most_bytes: 4 << 30,
            most_total: 64 << 30,
            most_files: 1000,
            other_hosts: false,
        }
    }
}

/// Maximum number of sitemaps that an index may list.
const MOST_SITEMAPS: usize = 100;

/// Maximum size of a manifest, and of a robots.txt.
const MOST_MANIFEST: usize = 128 << 20;
const MOST_ROBOTS: usize = 512 << 10;

/// A file that a sitemap lists.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its entry.
    pub entry: Entry,
    /// Its checksum, if the sitemap or the manifest has one.
    pub sha256: Option<String>,
}

/// What became of a file.
#[derive(Debug)]
pub enum Outcome {
    /// It was downloaded.
    Downloaded(PathBuf),
    /// The copy is up to date.
    Unchanged(PathBuf),
    /// It was not downloaded, or not accepted. An earlier copy stays.
    Refused(Error),
}

/// Finds the summaries that a sitemap lists: the URL of a sitemap, of a folder or of a host that has
/// one, or the path of a sitemap file.
///
/// # Errors
/// If there is no sitemap, or it is invalid.
pub fn find(client: &Client, start: &str, options: &DiscoverOptions) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    if !waypost_net::is_url(start) && Path::new(start).is_file() {
        read_local(Path::new(start), options, &mut found, 0)?;
        return Ok(found);
    }
    let (sitemaps, required) = sitemaps_of(client, start)?;
    let mut problems = Vec::new();
    let mut reading = Reading {
        client,
        options,
        manifests: HashMap::new(),
    };
    for url in sitemaps {
        match reading.read(&url, &mut found, 0) {
            Ok(()) => {}
            Err(error) if required => return Err(error),
            Err(error) => problems.push(error),
        }
    }
    match problems.into_iter().next() {
        Some(problem) if found.is_empty() => Err(problem),
        _ => Ok(found),
    }
}

/// The sitemaps that a URL stands for, and whether each of them must be there.
fn sitemaps_of(client: &Client, start: &str) -> Result<(Vec<Url>, bool)> {
    let absolute = match waypost_net::is_url(start) {
        true => start.to_owned(),
        false => format!("https://{start}"),
    };
    let url = Url::parse(&absolute)
        .map_err(|error| invalid(format!("invalid URL: {error}")).in_file(start))?;
    if url.path() != "/" {
        let sitemap = match url.path().ends_with('/') {
            true => join(&url, publish::SITEMAP)?,
            false => url,
        };
        return Ok((vec![sitemap], true));
    }
    let mut sitemaps = Vec::new();
    match client.get(join(&url, "robots.txt")?.as_str(), MOST_ROBOTS) {
        Ok(text) => {
            for line in String::from_utf8_lossy(&text).lines() {
                let Some((name, value)) = line.split_once(':') else {
                    continue;
                };
                if name.trim().eq_ignore_ascii_case("sitemap")
                    && sitemaps.len() < MOST_SITEMAPS
                    && let Ok(sitemap) = url.join(value.trim())
                {
                    sitemaps.push(sitemap);
                }
            }
        }
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(error),
    }
    let usual = join(&url, publish::SITEMAP)?;
    if !sitemaps.contains(&usual) {
        sitemaps.push(usual);
    }
    Ok((sitemaps, false))
}

/// Sitemaps that are being read.
struct Reading<'a> {
    client: &'a Client,
    options: &'a DiscoverOptions,
    /// The checksums in the manifests of folders, by URL.
    manifests: HashMap<Url, HashMap<Url, String>>,
}

impl Reading<'_> {
    /// Reads a sitemap, and those that it lists.
    fn read(&mut self, url: &Url, found: &mut Vec<Found>, depth: usize) -> Result<()> {
        let in_file = |error: Error| error.in_file(url);
        let text = self.client.get(url.as_str(), sitemap::MOST_BYTES)?;
        let text = inflated(text).map_err(in_file)?;
        let entries = match sitemap::parse(&text).map_err(in_file)? {
            Listing::Sitemaps(urls) => {
                check_index(urls.len(), depth).map_err(in_file)?;
                for other in urls {
                    let other = checked(url, &other, self.options).map_err(in_file)?;
                    self.read(&other, found, depth + 1)?;
                }
                return Ok(());
            }
            Listing::Files(entries) => entries,
        };
        let entries: Vec<Entry> = entries.into_iter().filter(is_summary).collect();
        check_count(found.len() + entries.len(), self.options).map_err(in_file)?;
        if entries.is_empty() {
            return Ok(());
        }
        let checksums = self.checksums(&join(url, ".")?)?;
        for mut entry in entries {
            // A relative URL is resolved, which some sitemaps have against the rules.
            let location = url.join(&entry.location);
            let location = location.map_err(|error| {
                in_file(invalid(format!("invalid URL {}: {error}", entry.location)))
            })?;
            entry.location = location.to_string();
            let sha256 = match (entry.checksum(), checksums.get(&location)) {
                (Some(one), Some(other)) if one != *other => {
                    let location = entry.location;
                    return Err(in_file(invalid(format!(
                        "the manifest has another checksum of {location}"
                    ))));
                }
                (one, other) => one.or(other.cloned()),
            };
            found.push(Found { entry, sha256 });
        }
        Ok(())
    }

    /// The checksums in the manifest of a folder, if it has one.
    fn checksums(&mut self, folder: &Url) -> Result<&HashMap<Url, String>> {
        Ok(match self.manifests.entry(folder.clone()) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(unknown) => {
                let manifest = manifest_of(self.client, folder)?.unwrap_or_default();
                let files = manifest.files.into_iter().filter_map(|file| {
                    let url = folder.join(&file.path).ok()?;
                    Some((url, file.sha256.to_ascii_lowercase()))
                });
                unknown.insert(files.collect())
            }
        })
    }
}

/// Reads a sitemap file. Those that it lists are next to it, whatever their URLs are.
fn read_local(
    path: &Path,
    options: &DiscoverOptions,
    found: &mut Vec<Found>,
    depth: usize,
) -> Result<()> {
    let in_file = |error: Error| error.in_file(path.display());
    let size = std::fs::metadata(path).doing("read", path)?.len();
    if size > sitemap::MOST_BYTES as u64 {
        return Err(in_file(invalid(format!("a sitemap of {size} bytes"))));
    }
    let text = inflated(std::fs::read(path).doing("read", path)?).map_err(in_file)?;
    let entries = match sitemap::parse(&text).map_err(in_file)? {
        Listing::Sitemaps(urls) => {
            check_index(urls.len(), depth).map_err(in_file)?;
            for url in urls {
                let name = url.rsplit('/').next().filter(|name| {
                    let plain =
                        |byte| matches!(byte, b'-' | b'_' | b'.') || byte.is_ascii_alphanumeric();
                    !name.starts_with('.') && !name.is_empty() && name.bytes().all(plain)
                });
                let name = name.ok_or_else(|| in_file(invalid(format!("invalid URL {url}"))))?;
                read_local(&path.with_file_name(name), options, found, depth + 1)?;
            }
            return Ok(());
        }
        Listing::Files(entries) => entries,
    };
    let entries: Vec<Entry> = entries.into_iter().filter(is_summary).collect();
    check_count(found.len() + entries.len(), options).map_err(in_file)?;
    found.extend(entries.into_iter().map(|entry| {
        let sha256 = entry.checksum();
        Found { entry, sha256 }
    }));
    Ok(())
}

/// Refuses an index in an index, and one of too many sitemaps.
fn check_index(sitemaps: usize, depth: usize) -> Result<()> {
    if depth > 0 {
        return Err(invalid("an index of sitemaps in an index of sitemaps"));
    }
    match sitemaps > MOST_SITEMAPS {
        true => Err(invalid(format!(
            "an index of more than {MOST_SITEMAPS} sitemaps"
        ))),
        false => Ok(()),
    }
}

/// Refuses too many files.
fn check_count(files: usize, options: &DiscoverOptions) -> Result<()> {
    match files > options.most_files {
        true => Err(invalid(format!(
            "more than {} summaries",
            options.most_files
        ))),
        false => Ok(()),
    }
}

/// The manifest of a folder, if it has one.
fn manifest_of(client: &Client, folder: &Url) -> Result<Option<Manifest>> {
    let url = join(folder, publish::MANIFEST)?;
    match client.get(url.as_str(), MOST_MANIFEST) {
        Ok(text) => Manifest::parse(&text)
            .map(Some)
            .map_err(|error| error.in_file(&url)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an entry is one of a summary: other pages have neither a format nor such a name.
fn is_summary(entry: &Entry) -> bool {
    let name = entry.location.split(['?', '#']).next().unwrap_or_default();
    let extensions = [
        ".filter", ".hashes", ".orestes", ".ukvs", ".cdxj", ".ukvs.gz", ".cdxj.gz",
    ];
    entry.bytes().is_some()
        || entry.urls().is_some()
        || extensions.iter().any(|extension| name.ends_with(extension))
}

/// Downloads a file, unless the copy in `folder` is up to date. `sitemap` is the URL that it was found
/// with, and `total` the size of all copies so far.
pub fn fetch(
    client: &Client,
    folder: &Path,
    start: &str,
    found: &Found,
    options: &DiscoverOptions,
    total: &mut u64,
) -> Outcome {
    let fetched = (|| {
        let url = &found.entry.location;
        if waypost_net::is_url(start) || !Path::new(start).is_file() {
            let start = match waypost_net::is_url(start) {
                true => start.to_owned(),
                false => format!("https://{start}"),
            };
            let start = Url::parse(&start).map_err(|error| invalid(error.to_string()))?;
            checked(&start, url, options)?;
        }
        let left = options.most_total.saturating_sub(*total);
        let most = options.most_bytes.min(left);
        if let Some(bytes) = found.entry.bytes().filter(|&bytes| bytes > most) {
            return Err(invalid(format!(
                "{bytes} bytes: at most {most} are downloaded"
            )));
        }
        let cache = Cache::new(client.clone(), folder);
        let fetched = mementomap::download(client, &cache, url, most, |path| accept(path, found))?;
        let size = |path: &Path| Ok(std::fs::metadata(path).doing("read", path)?.len());
        *total += size(&fetched.path)?;
        if publish::kind_of(&Source::new(&fetched.path))? == Some(SummaryKind::Map) {
            let most = options
                .most_bytes
                .min(options.most_total.saturating_sub(*total));
            let filter = mementomap::download_companion(&cache, url, &fetched.path, most)?;
            *total += filter.as_deref().map_or(Ok(0), size)?;
        }
        Ok(fetched)
    })();
    match fetched {
        Ok(fetched) if fetched.changed => Outcome::Downloaded(fetched.path),
        Ok(fetched) => Outcome::Unchanged(fetched.path),
        Err(error) => Outcome::Refused(error.in_file(&found.entry.location)),
    }
}

/// Checks a download against what was said about it.
fn accept(path: &Path, found: &Found) -> Result<()> {
    let (sha256, bytes) = publish::sha256(path)?;
    if let Some(expected) = found.entry.bytes().filter(|&expected| expected != bytes) {
        return Err(invalid(format!(
            "the file has {bytes} bytes, not the stated {expected}"
        )));
    }
    if let Some(expected) = found
        .sha256
        .as_ref()
        .filter(|&expected| *expected != sha256)
    {
        return Err(invalid(format!(
            "the file has the SHA-256 checksum {sha256}, not the stated {expected}"
        )));
    }
    // Text of other tools, whose header is not known.
    let is_text = found.entry.media_type() == Some("text/csv");
    if !is_text && publish::kind_of(&Source::new(path))?.is_none() {
        return Err(invalid("the file is not a summary"));
    }
    Ok(())
}

/// A URL that a sitemap lists, if it may be followed.
fn checked(from: &Url, listed: &str, options: &DiscoverOptions) -> Result<Url> {
    let url = from
        .join(listed)
        .map_err(|error| invalid(format!("invalid URL {listed}: {error}")))?;
    let host = |url: &Url| {
        (
            url.host_str().map(str::to_owned),
            url.port_or_known_default(),
        )
    };
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "only http and https are supported"
    } else if !url.username().is_empty() || url.password().is_some() {
        "a URL with a password"
    } else if from.scheme() == "https" && url.scheme() == "http" {
        "an HTTP URL in a sitemap on HTTPS"
    } else if !options.other_hosts && host(from) != host(&url) {
        "the sitemap lists files on another host"
    } else {
        return Ok(url);
    };
    Err(invalid(format!("{listed}: {problem}")))
}

fn join(url: &Url, path: &str) -> Result<Url> {
    url.join(path)
        .map_err(|error| invalid(format!("invalid URL: {error}")).in_file(url))
}

/// A sitemap may be gzipped.
fn inflated(bytes: Vec<u8>) -> Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..])
        .take(sitemap::MOST_BYTES as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|error| invalid(format!("cannot inflate the sitemap: {error}")))?;
    Ok(text)
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid(what.into()))
}
