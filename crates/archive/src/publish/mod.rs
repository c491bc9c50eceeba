//! Publishing summaries: what a static web server needs besides the files themselves.
//!
//! | file | for |
//! |---|---|
//! | `manifest.json` | programs: kinds, sizes, checksums, metadata |
//! | `SHA256SUMS` | people: `sha256sum -c SHA256SUMS` |
//! | `sitemap.xml` | [discovery](crate::discover): URLs with Dublin Core |
//! | `sitemap-1.xml`, … | the same, if there are too many for one; `sitemap.xml` is then an index |
//!
//! Files of all kinds of summaries are listed; what they are is detected from their content.

mod file;
mod held;
mod manifest;
mod private;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waypost_index::Takedowns;
use waypost_io::{AtomicFile, Error, ErrorKind, IoContext, Result, Source};
use waypost_summary::open_source;

use crate::sitemap;

pub use file::{SummaryKind, kind_of};
pub use held::{HeldInput, prove};
pub use manifest::{Manifest, PublishedFile};

pub(crate) use file::sha256;

/// The name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// The name of the list of checksums.
pub const CHECKSUMS: &str = "SHA256SUMS";
/// The name of the sitemap.
pub const SITEMAP: &str = "sitemap.xml";

/// How to publish.
#[derive(Clone, Debug)]
pub struct PublishOptions {
    /// The URL of the folder on the Web.
    pub url: String,
    /// The publisher of files that do not name one.
    pub publisher: Option<String>,
    /// The description of files that do not have one.
    pub description: Option<String>,
    /// Whether to publish files of hashes, too, from which everybody can compute what is held.
    pub hashes: bool,
    /// What was taken down, so that no summary may hold it.
    pub takedowns: Option<Arc<Takedowns>>,
    /// Maximum number of entries of a sitemap: more than that make several, and an index of them.
    pub most_entries: usize,
}

impl Default for PublishOptions {
    fn default() -> PublishOptions {
        PublishOptions {
            url: String::new(),
            publisher: None,
            description: None,
            hashes: false,
            takedowns: None,
            most_entries: sitemap::MOST_ENTRIES,
        }
    }
}

/// What was published.
#[derive(Clone, Debug)]
pub struct Published {
    /// What is in the manifest.
    pub manifest: Manifest,
    /// Files that are not summaries.
    pub skipped: Vec<PathBuf>,
    /// Summaries that could not be checked for takedowns: filters with a secret, those of maps, classic
    /// filters as text.
    pub unchecked: Vec<String>,
    /// The number of sitemaps, without an index of them.
    pub sitemaps: usize,
}

/// Writes `manifest.json`, `SHA256SUMS` and `sitemap.xml` for all summaries in a folder and the
/// folders in it. The files themselves stay as they are.
///
/// # Errors
/// If the URL is invalid, a file cannot be read, is damaged or changes meanwhile, or there are none; if a
/// summary holds what was taken down, a map lacks its filter, or a file tells more than summaries do.
pub fn publish(folder: &Path, options: &PublishOptions) -> Result<Published> {
    publish_after(folder, options, |_| Ok(()))
}

/// The same. What will be published is passed to `announce` before anything is written.
///
/// # Errors
/// Those of [`publish`] and of `announce`.
pub fn publish_after(
    folder: &Path,
    options: &PublishOptions,
    announce: impl FnOnce(&Manifest) -> Result<()>,
) -> Result<Published> {
    let base = base_of(&options.url)?;
    let mut paths = Vec::new();
    list(folder, &mut paths, 0)?;
    paths.sort();
    let mut manifest = Manifest::default();
    let mut skipped = Vec::new();
    for path in paths {
        match PublishedFile::read(folder, &path, options)? {
            Some(file) => manifest.files.push(file),
            None => {
                private::check_other(&path, &Source::new(&path))?;
                skipped.push(path);
            }
        }
    }
    if manifest.files.is_empty() {
        let problem = "there are no summaries in this folder".to_owned();
        return Err(Error::new(ErrorKind::Invalid(problem)).in_file(folder.display()));
    }
    let mut unchecked = Vec::new();
    if let Some(list) = &options.takedowns {
        for file in &manifest.files {
            let source = Source::new(folder.join(&file.path));
            let checked = match open_source(&source, true, None) {
                Ok(summary) => {
                    private::check_takedowns(&source, &*summary, file.rate.unwrap_or(0.0), list)?
                }
                Err(_) => false,
            };
            if !checked {
                unchecked.push(file.path.clone());
            }
        }
    }
    announce(&manifest)?;
    let entries: Vec<sitemap::Entry> = manifest
        .files
        .iter()
        .map(|file| file.entry(&base))
        .collect();
    let sums: String = manifest
        .files
        .iter()
        .map(|file| format!("{}  {}\n", file.sha256, file.path))
        .collect();
    write(&folder.join(MANIFEST), &manifest.to_json())?;
    write(&folder.join(CHECKSUMS), &sums)?;
    let parts = sitemap::write_parts(
        &entries,
        options.most_entries.clamp(1, sitemap::MOST_ENTRIES),
    );
    let text = match &parts[..] {
        [only] => only.text.clone(),
        parts => {
            for (name, part) in part_names().zip(parts) {
                write(&folder.join(name), &part.text)?;
            }
            let locations = part_names().map(|name| format!("{base}{name}"));
            sitemap::write_index(locations.zip(parts))
        }
    };
    // Last, because it announces the others.
    write(&folder.join(SITEMAP), &text)?;
    // Those of an earlier publication that had more.
    let used = if parts.len() > 1 { parts.len() } else { 0 };
    for name in part_names().skip(used) {
        match fs::remove_file(folder.join(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
            removed => removed.doing("remove", folder.join(&name))?,
        }
    }
    Ok(Published {
        manifest,
        skipped,
        unchecked,
        sitemaps: parts.len(),
    })
}

/// The names of sitemaps that are parts of one: `sitemap-1.xml`, …
fn part_names() -> impl Iterator<Item = String> {
    (1..).map(|number: u32| format!("sitemap-{number}.xml"))
}

/// Whether a file is written by [`publish`].
fn is_own(name: &str) -> bool {
    let part = name
        .strip_prefix("sitemap-")
        .and_then(|name| name.strip_suffix(".xml"));
    [MANIFEST, CHECKSUMS, SITEMAP].contains(&name)
        || part.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(text.as_bytes()).doing("write", path)?;
    file.commit()
}

/// The URL of the folder, with a slash at its end.
fn base_of(url: &str) -> Result<String> {
    let wrong = |why: &str| Error::new(ErrorKind::Invalid(format!("invalid URL `{url}`: {why}")));
    let parsed = url::Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("only http and https are supported"));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(wrong("the URL of a folder has no query and no fragment"));
    }
    let text = parsed.to_string();
    Ok(match text.ends_with('/') {
        true => text,
        false => text + "/",
    })
}

/// Maximum depth of folders: links may form a circle.
const MOST_DEPTH: usize = 16;

/// The files that may be summaries.
fn list(folder: &Path, paths: &mut Vec<PathBuf>, depth: usize) -> Result<()> {
    if depth > MOST_DEPTH {
        let problem = "folders are nested too deeply".to_owned();
        return Err(Error::new(ErrorKind::Invalid(problem)).in_file(folder.display()));
    }
    for entry in fs::read_dir(folder).doing("read", folder)? {
        let entry = entry.doing("read", folder)?;
        let name = entry.file_name();
        let path = entry.path();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        let own = name.to_str().is_some_and(is_own);
        if hidden || own || waypost_net::cache::is_own(&path) {
            continue;
        }
        let metadata = fs::metadata(&path).doing("read", &path)?;
        if metadata.is_dir() {
            list(&path, paths, depth + 1)?;
        } else if metadata.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}
