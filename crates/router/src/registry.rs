//! The archives that can be asked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use url::Url;
use waypost_io::{Error, ErrorKind, IoContext};
use waypost_memento::Replay;
use waypost_surt::Dialect;

use crate::decide::Rules;

/// The archives that can be asked, in the order of preference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    /// Archives that are to be asked; those with a higher priority first, then those with a higher
    /// probability, then in the order of the file. Their ids are unique.
    pub archives: Vec<Archive>,
}

/// An archive, where it answers, and how it wants to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    /// Unique name, used in logs.
    pub id: String,
    /// Name for people.
    pub name: Option<String>,
    /// The start of TimeMap URIs, to which the original URI is appended; ends with a slash.
    pub timemap: Option<String>,
    /// The start of TimeGate URIs, to which the original URI is appended; ends with a slash.
    pub timegate: Option<String>,
    /// The URI of a CDX server, which is asked with `?url=`.
    pub cdx: Option<String>,
    /// Where its captures are replayed, for answers that do not name memento URIs.
    pub replay: Option<Replay>,
    /// Archives with a higher priority come first, whatever their probability is.
    pub priority: i64,
    /// How likely it is that this archive has a memento.
    pub probability: f64,
    /// What may be asked of it, and how much of its answers is read.
    pub limits: ArchiveLimits,
    /// Whether it may redirect or link to private addresses, which the registry does not name.
    pub allow_private: bool,
    /// How it canonicalises URIs.
    pub dialect: Dialect,
    /// Whether it finds similar URIs by pywb's fuzzy rules.
    pub fuzzy: bool,
    /// Summaries of its holdings: files, and folders with such files.
    pub summaries: Vec<PathBuf>,
    /// Which lookups its summaries of pages answer.
    pub pages: ForPages,
    /// A page with statistics of its holdings, as `waypost stats --html` writes it.
    pub report: Option<PathBuf>,
    /// The file with the secret of its keyed filters.
    pub key_file: Option<PathBuf>,
    /// The URLs of summaries that are downloaded and kept up to date.
    pub sources: Vec<String>,
    /// Summaries that are older than this say nothing; by default as in the rest of the configuration.
    pub max_age: Option<Duration>,
    /// How long it usually takes to answer; used until that was learned.
    pub latency: Option<Duration>,
    /// Which URIs and datetimes it is asked for.
    pub rules: Rules,
}

/// Which lookups are for a page, so that summaries of pages can call them absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForPages {
    /// Those of clients that ask for a page.
    #[default]
    Asked,
    /// All of them: nothing else is wanted of this archive.
    Always,
    /// None.
    Never,
}

impl ForPages {
    /// All of them.
    pub const ALL: [ForPages; 3] = [ForPages::Asked, ForPages::Always, ForPages::Never];

    /// In lower case: `asked`, `always`, `never`.
    pub fn name(self) -> &'static str {
        match self {
            ForPages::Asked => "asked",
            ForPages::Always => "always",
            ForPages::Never => "never",
        }
    }
}

impl Archive {
    /// An archive without addresses, with the usual limits.
    pub fn new(id: impl Into<String>) -> Archive {
        Archive {
            id: id.into(),
            name: None,
            timemap: None,
            timegate: None,
            cdx: None,
            replay: None,
            priority: 0,
            probability: 0.0,
            limits: ArchiveLimits::default(),
            allow_private: false,
            dialect: Dialect::default(),
            fuzzy: false,
            summaries: Vec::new(),
            pages: ForPages::default(),
            report: None,
            key_file: None,
            sources: Vec::new(),
            max_age: None,
            latency: None,
            rules: Rules::default(),
        }
    }
}

/// What may be asked of an archive, and how much of its answers is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveLimits {
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    /// How long it may take until the headers of an answer have arrived.
    pub header_timeout: Duration,
    /// How long a request may take in all.
    pub total_timeout: Duration,
    /// Maximum size of the body of an answer, after decompression.
    pub max_body: u64,
    /// Maximum number of TimeMaps that are followed from an index or from page to page.
    pub max_pages: usize,
    /// Maximum number of mementos that are read.
    pub max_mementos: usize,
    /// Maximum number of requests at a time; more wait.
    pub concurrency: usize,
    /// Maximum number of requests a second; more wait.
    pub rate: Option<f64>,
    /// How often a request is repeated that failed with 429 or 503.
    pub retries: u32,
    /// The number of consecutive failures after which it is left alone for a while; 0 for never.
    pub max_failures: u32,
    /// How long it is left alone at first; twice as long each time that it fails again.
    pub cooling: Duration,
    /// The longest time for which it is left alone.
    pub max_cooling: Duration,
}

impl Default for ArchiveLimits {
    fn default() -> ArchiveLimits {
        ArchiveLimits {
            connect_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(60),
            max_body: 64 << 20,
            max_pages: 100,
            max_mementos: 1_000_000,
            concurrency: 32,
            rate: None,
            retries: 1,
            max_failures: 5,
            cooling: Duration::from_secs(30),
            max_cooling: Duration::from_secs(600),
        }
    }
}

/// An archive in MemGator's list. `null` is the same as a missing key, as in Go.
#[derive(Deserialize)]
struct Listed {
    id: Option<String>,
    name: Option<String>,
    timemap: Option<String>,
    timegate: Option<String>,
    probability: Option<f64>,
    ignore: Option<bool>,
}

impl Registry {
    /// Reads MemGator's list of archives. Unknown keys are ignored, and what is missing is empty, as
    /// in MemGator. Each archive gets these limits.
    ///
    /// # Errors
    /// If it is not such a list, or an address in it is not an HTTP URL.
    pub fn from_json(text: &[u8], limits: &ArchiveLimits) -> waypost_io::Result<Registry> {
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let invalid = |text: String| Error::new(ErrorKind::Invalid(text));
        let listed: Vec<Listed> = serde_json::from_slice(text).map_err(|error| {
            let line = error.line() as u64;
            invalid(format!("not a list of archives: {error}")).at_line(line)
        })?;
        let mut archives = Vec::new();
        let asked = listed
            .into_iter()
            .filter(|one| !one.ignore.unwrap_or(false));
        for one in asked {
            let id = one.id.unwrap_or_default();
            let address = |text: Option<String>, key: &str| match text.as_deref() {
                None | Some("") => Ok(None),
                Some(text) => prefix(text)
                    .map(Some)
                    .map_err(|problem| invalid(format!("archive {id}: {key}: {problem}"))),
            };
            archives.push(Archive {
                timemap: address(one.timemap, "timemap")?,
                timegate: address(one.timegate, "timegate")?,
                name: one.name.filter(|name| !name.is_empty()),
                probability: one.probability.unwrap_or(0.0),
                limits: limits.clone(),
                ..Archive::new(id)
            });
        }
        Ok(Registry::new(archives))
    }

    /// Reads a file with MemGator's list of archives.
    ///
    /// # Errors
    /// If it cannot be read; see [`from_json`](Registry::from_json).
    pub fn read_json(path: &Path, limits: &ArchiveLimits) -> waypost_io::Result<Registry> {
        let text = std::fs::read(path).doing("read", path)?;
        Registry::from_json(&text, limits).map_err(|error| error.in_file(path.display()))
    }

    /// Puts archives in the order of preference. An id that is taken already gets a number.
    pub fn new(mut archives: Vec<Archive>) -> Registry {
        archives.sort_by(|a, b| {
            let probability = b.probability.total_cmp(&a.probability);
            b.priority.cmp(&a.priority).then(probability)
        });
        let mut taken = HashSet::new();
        for archive in &mut archives {
            let id = archive.id.clone();
            let mut number = 2;
            while !taken.insert(archive.id.clone()) {
                archive.id = format!("{id}-{number}");
                number += 1;
            }
        }
        Registry { archives }
    }

    /// The place of the archive with this id.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.archives.iter().position(|archive| archive.id == id)
    }
}

/// Checks an address to which original URIs are appended, and adds the slash if it is missing.
pub(crate) fn prefix(text: &str) -> Result<String, String> {
    let url = address(text)?;
    match text.ends_with('/') || url.query().is_some() {
        true => Ok(text.to_owned()),
        false => Ok(format!("{text}/")),
    }
}

/// Checks the address of an archive.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("invalid URL `{text}`: {error}"))?;
    match url.scheme() {
        "http" | "https" if url.fragment().is_none() => Ok(url),
        "http" | "https" => Err(format!("`{text}` has a fragment, which is never sent")),
        other => Err(format!("`{text}` is not an HTTP URL but `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> waypost_io::Result<Registry> {
        Registry::from_json(text.as_bytes(), &ArchiveLimits::default())
    }

    #[test]
    fn a_list_is_read_as_memgator_reads_it() {
        let registry = read(
            r#"[
                {"id": "a", "name": "", "timemap": "http://a.example/tm", "extra": {"x": [1]}},
                {"id": "b", "name": "B", "timegate": "https://b.example/mp_/", "probability": 0.5},
                {"id": "gone", "timemap": "http://c.example/", "ignore": true},
                {"id": "c", "timemap": "http://c.example/timemap/*/", "ignore": false, "timegate": ""},
                {"id": "a", "timemap": null, "probability": 0.5}
            ]"#,
        )
        .unwrap();
        let seen: Vec<_> = registry
            .archives
            .iter()
            .map(|archive| {
                let Archive {
                    id,
                    name,
                    timemap,
                    timegate,
                    ..
                } = archive;
                (
                    &id[..],
                    name.as_deref(),
                    timemap.as_deref(),
                    timegate.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("b", Some("B"), None, Some("https://b.example/mp_/")),
                ("a", None, None, None),
                ("a-2", None, Some("http://a.example/tm/"), None),
                ("c", None, Some("http://c.example/timemap/*/"), None),
            ]
        );
        assert_eq!(registry.position("c"), Some(3));
        assert_eq!(registry.position("gone"), None);
    }

    #[test]
    fn errors_name_line_or_archive() {
        let error = read("[\n{\"id\": \"a\",\n\"timemap\": 5}]").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("line 3: not a list of archives: "),
            "{text}"
        );
        let error = read(r#"[{"id": "a", "timemap": "ftp://a.example/"}]"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "archive a: timemap: `ftp://a.example/` is not an HTTP URL but `ftp`"
        );
        let error = Registry::read_json(Path::new("/nowhere.json"), &ArchiveLimits::default());
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("/nowhere.json: ")
        );
    }
}
