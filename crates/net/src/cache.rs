//! A folder of downloaded files, which are downloaded again only if they have changed.
//!
//! The folder mirrors the servers: `FOLDER/data.example/indexes/cluster.idx`. Each file has its version
//! in a file next to it, is locked while it is downloaded, and appears when it is complete.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use reqwest::Url;
use reqwest::header::HeaderMap;
use waypost_io::{AtomicFile, IoContext, Result};

use crate::client::{Client, parse, shown};
use crate::download::{Download, Downloaded, meta_of, read_version, suffixed, write_version};

/// The longest name of a file, without suffixes.
const LONGEST_NAME: usize = 200;

/// A folder of downloaded files.
#[derive(Clone)]
pub struct Cache {
    client: Client,
    folder: PathBuf,
}

/// A file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it was downloaded just now.
    pub changed: bool,
}

impl Cache {
    /// A cache in `folder`, which is created when something is downloaded.
    pub fn new(client: Client, folder: &Path) -> Cache {
        Cache {
            client,
            folder: folder.to_owned(),
        }
    }

    /// The path of an up-to-date copy of the file at `url`, which is downloaded if the cache has none
    /// or an older version. Asks the server once in any case.
    ///
    /// # Errors
    /// If the server or the folder fails. A partial download stays, and is resumed the next time.
    pub fn fetch(&self, url: &str) -> Result<PathBuf> {
        let fetched = self.fetch_checked(url, u64::MAX, |_, _| Ok(()))?;
        Ok(fetched.path)
    }

    /// Like [`fetch`](Cache::fetch), for a file of at most `most` bytes. A new version replaces the old
    /// one only after `check` has accepted it, and is removed otherwise. `check` gets the headers of the
    /// answer, too, and may append what they say is missing; such a file is downloaded again each time.
    ///
    /// # Errors
    /// Also if the file is larger, or is not accepted.
    pub fn fetch_checked(
        &self,
        url: &str,
        most: u64,
        check: impl FnOnce(&Path, &HeaderMap) -> Result<()>,
    ) -> Result<Fetched> {
        let url = parse(url)?;
        let path = self.folder.join(relative(&url));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).doing("create the folder", folder)?;
        }
        let lock_path = suffixed(&path, ".lock");
        let lock = File::create(&lock_path).doing("create", &lock_path)?;
        lock.lock().doing("lock", &lock_path)?;
        let meta = meta_of(&path);
        let known = fs::read_to_string(&meta)
            .ok()
            .and_then(|text| read_version(&text, &url))
            .filter(|known| {
                let size = fs::metadata(&path).ok().map(|metadata| metadata.len());
                size.is_some() && size == known.size
            });
        let part = suffixed(&path, ".part");
        let download = Download {
            client: &self.client,
            url: &url,
            part: &part,
            known: known.as_ref(),
            most,
        };
        let downloaded = download.run().map_err(|error| error.in_file(shown(&url)))?;
        let changed = matches!(downloaded, Downloaded::Complete(..));
        if let Downloaded::Complete(version, headers) = downloaded {
            if let Err(error) = check(&part, &headers) {
                let _ = fs::remove_file(meta_of(&part));
                fs::remove_file(&part).doing("remove", &part)?;
                return Err(error.in_file(shown(&url)));
            }
            // Without a version, the file is downloaded again: no version ever describes another file.
            match fs::remove_file(&meta) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).doing("remove", &meta)?;
                }
                _ => {}
            }
            fs::rename(&part, &path).doing("rename", &part)?;
            let mut out = AtomicFile::create(&meta)?;
            out.write_all(write_version(&version, &url).as_bytes())
                .doing("write", &meta)?;
            out.commit()?;
            // Only tidiness: it describes a file that is gone.
            let _ = fs::remove_file(meta_of(&part));
        }
        Ok(Fetched { path, changed })
    }

    /// The path that the file at `url` has in the folder, whether it is there or not.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn path_of(&self, url: &str) -> Result<PathBuf> {
        Ok(self.folder.join(relative(&parse(url)?)))
    }
}

/// Whether a file of a cache is one of its own, and not a downloaded one.
pub fn is_own(path: &Path) -> bool {
    let own = ["lock", "meta", "part"];
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| own.contains(&extension))
}

/// The path of a URL in the folder.
fn relative(url: &Url) -> PathBuf {
    let mut host = url.host_str().unwrap_or_default().to_owned();
    if let Some(port) = url.port() {
        host += &format!("+{port}");
    }
    let mut path = PathBuf::from(name(&host, url));
    // A parsed URL has no `..`.
    let mut segments: Vec<String> = url
        .path_segments()
        .into_iter()
        .flatten()
        .map(|segment| name(segment, url))
        .collect();
    if let (Some(last), Some(query)) = (segments.last_mut(), url.query()) {
        *last = name(&format!("{last}+{query}"), url);
    }
    path.extend(segments);
    path
}

/// A file name for a part of a URL.
fn name(part: &str, url: &Url) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || ".-_+%=,~".contains(c);
    let mut name: String = part
        .chars()
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    // Nothing hidden, and neither `.` nor `..`.
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, '_');
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME - 17);
        name += &format!("-{:016x}", fnv(url.as_str().as_bytes()));
    }
    name
}

/// The FNV-1a hash.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mirror_urls_and_stay_in_the_folder() {
        let of = |url: &str| relative(&Url::parse(url).unwrap()).display().to_string();
        assert_eq!(
            of("https://data.example/a/cluster.idx"),
            "data.example/a/cluster.idx"
        );
        assert_eq!(of("http://h:8080/x?a=/b"), "h+8080/x+a=_b");
        assert_eq!(of("http://h/"), "h/_");
        for url in [
            "http://h/../../etc/passwd",
            "http://h/%2e%2e/%2e%2e/etc",
            "http://h/a%2f..%2f..%2fb",
            "http://h/..%5c..",
            "http://h/.ssh/..a",
        ] {
            let path = relative(&Url::parse(url).unwrap());
            assert!(
                path.components()
                    .all(|part| matches!(part, std::path::Component::Normal(_))),
                "{url}: {path:?}"
            );
        }
        let long = of(&format!("http://h/{}", "a".repeat(1000)));
        assert_eq!(long.len(), 2 + LONGEST_NAME);
    }
}
