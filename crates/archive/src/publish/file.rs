//! What there is to say about a summary file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use waypost_io::{Error, ErrorKind, IoContext, Result, Source, Stamp};
use waypost_summary::filter::orestes::{ClassicFilter, Form};
use waypost_summary::filter::{self, Filter};
use waypost_summary::{Kind, Summary, Texts, kind_of_source, open_source};

use super::PublishOptions;
use super::manifest::PublishedFile;
use crate::sitemap::Entry;

/// The kinds of files that are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SummaryKind {
    /// A filter of this project.
    Filter,
    /// Hashes, of which filters are built.
    Hashes,
    /// Classic Bloom filters of Orestes, imported.
    Classic,
    /// Classic Bloom filters of Orestes, as text.
    ClassicText,
    /// A classic Bloom filter of Orestes, as JSON.
    ClassicJson,
    /// A map.
    Map,
    /// A profile.
    Profile,
}

impl SummaryKind {
    fn media_type(self) -> &'static str {
        match self {
            SummaryKind::Filter | SummaryKind::Hashes | SummaryKind::Classic => {
                "application/octet-stream"
            }
            SummaryKind::ClassicText => "text/csv",
            SummaryKind::ClassicJson => "application/json",
            SummaryKind::Map | SummaryKind::Profile => "text/plain",
        }
    }

    /// The name in manifests, sitemaps and reports.
    pub fn name(self) -> &'static str {
        match self {
            SummaryKind::Filter => "filter",
            SummaryKind::Hashes => "hashes",
            SummaryKind::Classic => "classic",
            SummaryKind::ClassicText => "classic-text",
            SummaryKind::ClassicJson => "classic-json",
            SummaryKind::Map => "map",
            SummaryKind::Profile => "profile",
        }
    }
}

/// The kind of a file; `None` if it is not a summary.
///
/// # Errors
/// If it can't be read.
pub fn kind_of(source: &Source) -> Result<Option<SummaryKind>> {
    Ok(
        match Form::of_source(source).map_err(waypost_summary::Error::into_io)? {
            Some(Form::Binary) => Some(SummaryKind::Classic),
            Some(Form::Text) => Some(SummaryKind::ClassicText),
            Some(Form::Json) => Some(SummaryKind::ClassicJson),
            None => match kind_of_source(source).map_err(waypost_summary::Error::into_io)? {
                Some(Kind::Filter) => {
                    let filter = Filter::of(source).map_err(waypost_summary::Error::into_io)?;
                    Some(match filter.head().kind {
                        filter::Kind::Hashes => SummaryKind::Hashes,
                        _ => SummaryKind::Filter,
                    })
                }
                Some(Kind::Map) => Some(SummaryKind::Map),
                Some(Kind::Profile) => Some(SummaryKind::Profile),
                _ => None,
            },
        },
    )
}

impl PublishedFile {
    /// Describes a file; `None` if it is not a summary.
    pub(super) fn read(
        folder: &Path,
        path: &Path,
        options: &PublishOptions,
    ) -> Result<Option<PublishedFile>> {
        let stamp = Stamp::of_path(path)?;
        let source = Source::new(path);
        let Some(kind) = kind_of(&source)? else {
            return Ok(None);
        };
        let invalid =
            |what: &str| Error::new(ErrorKind::Invalid(what.to_owned())).in_file(path.display());
        if kind == SummaryKind::Hashes && !options.hashes {
            return Err(invalid(
                "a file of hashes, which reveals more than a filter: it is not published unless that is requested",
            ));
        }
        let relative = path.strip_prefix(folder).unwrap_or(path);
        let relative = relative
            .to_str()
            .filter(|name| !name.chars().any(char::is_control))
            .ok_or_else(|| invalid("the name is not UTF-8, or has control characters"))?;
        let modified = std::fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .doing("read", path)?;
        let modified = Timestamp::try_from(modified)
            .map_err(|error| invalid(&error.to_string()))?
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let (sha256, bytes) = sha256(path)?;
        let mut file = PublishedFile {
            path: relative.to_owned(),
            kind: kind.name().to_owned(),
            media_type: kind.media_type().to_owned(),
            bytes,
            sha256,
            modified,
            publisher: options.publisher.clone(),
            description: options.description.clone(),
            ..PublishedFile::default()
        };
        file.describe(&source, kind)?;
        if Stamp::of_path(path)? != stamp {
            return Err(invalid("the file changed while it was read"));
        }
        Ok(Some(file))
    }

    /// What the summary says about itself.
    fn describe(&mut self, source: &Source, kind: SummaryKind) -> Result<()> {
        let io = waypost_summary::Error::into_io;
        let metadata = match kind {
            SummaryKind::ClassicJson => return Ok(()),
            SummaryKind::Filter | SummaryKind::Hashes => {
                let filter = Filter::of(source).map_err(io)?;
                let head = filter.head();
                self.keys = Some(head.count);
                self.urls = (head.policy == waypost_surt::Policy::Whole).then_some(head.count);
                self.rate = Some(head.rate);
                self.policy = Some(head.policy.to_string());
                self.dialect = Some(head.dialect.name().to_owned());
                self.key_fingerprint = head.fingerprint.map(|key| key.to_string());
                filter.metadata().clone()
            }
            SummaryKind::Classic | SummaryKind::ClassicText => {
                let filter = ClassicFilter::of(source).map_err(io)?;
                self.keys = filter.urls();
                self.urls = filter.urls();
                self.rate = Some(filter.rate());
                filter.metadata().clone()
            }
            SummaryKind::Map | SummaryKind::Profile => {
                // With the filter of a map: the map cannot be used without it.
                let summary = open_source(source, false, None).map_err(io)?;
                self.of_summary(&*summary);
                return Ok(());
            }
        };
        let first = |element: &str| metadata.get(element).first().cloned();
        self.archive = first("identifier");
        self.title = first("title");
        self.publisher = first("publisher").or(self.publisher.take());
        self.date = first("date");
        self.description = first("description").or(self.description.take());
        Ok(())
    }

    fn of_summary(&mut self, summary: &dyn Summary) {
        let about = summary.about();
        let text = |texts: &Texts| texts.first().map(str::to_owned);
        self.keys = Some(summary.size().keys);
        self.urls = about.urirs.map(|urirs| urirs.value);
        self.policy = about.policy.map(|policy| policy.to_string());
        self.dialect = Some(about.dialect.name().to_owned());
        self.archive = text(&about.archive.id);
        self.title = text(&about.archive.name);
        self.description = text(&about.archive.description).or(self.description.take());
        self.date = about.updated.map(|time| time.to_string()[..10].to_owned());
    }

    /// Its entry in the sitemap of a folder with this URL.
    pub(super) fn entry(&self, base: &str) -> Entry {
        let mut entry = Entry {
            location: format!("{base}{}", encode(&self.path)),
            modified: Some(self.modified.clone()),
            ..Entry::default()
        };
        let elements = [
            ("title", &self.title),
            ("publisher", &self.publisher),
            ("date", &self.date),
            ("description", &self.description),
        ];
        for (element, text) in elements {
            // Consumers expect a title.
            let text = match (element, text) {
                ("title", None) => Some(&self.path),
                (_, text) => text.as_ref(),
            };
            if let Some(text) = text {
                entry.elements.push((element.to_owned(), text.clone()));
            }
        }
        entry.elements.push(("type".to_owned(), self.kind.clone()));
        entry.add_format(&self.media_type, self.urls, self.bytes);
        entry.add_checksum(&self.sha256);
        entry
    }
}

/// Percent-encodes a path.
fn encode(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// The SHA-256 checksum of a file, and its size.
pub(crate) fn sha256(path: &Path) -> Result<(String, u64)> {
    let mut file = File::open(path).doing("open", path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer).doing("read", path)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
    }
    let digest = hasher.finalize();
    let digits = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((digits, bytes))
}
