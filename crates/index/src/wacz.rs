//! WACZ files: zip archives of a crawl, with its WARC files in `archive/` and their index in
//! `indexes/`.
//!
//! Both are read in place: what is stored in the archive is a section of the file, and what is
//! deflated is inflated while it is read.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use waypost_io::zip::{self, Entry};
use waypost_io::{Compression, Error, ErrorKind, InputKind, RangeRead, Result, Source, Zip};
use waypost_surt::Dialect;

use crate::input::is_index_name;
use crate::kind::FileKind;
use crate::warc::is_archive_name;
use crate::zipnum::Opener;

/// The dialect of keys in WACZ files, unless they tell otherwise.
pub const DIALECT: Dialect = Dialect::Webrecorder;

/// How much of `datapackage.json` is read.
const LARGEST_PACKAGE: u64 = 64 << 20;

/// The extension of their names.
pub(crate) const EXTENSION: &str = ".wacz";

/// A WACZ file.
pub struct Wacz {
    zip: Arc<Zip>,
    source: Source,
}

/// The names of files and folders in a WACZ file, and in no other kind of zip archive.
fn is_member(name: &[u8]) -> bool {
    name == b"datapackage.json"
        || [&b"archive/"[..], b"indexes/"]
            .iter()
            .any(|n| name.starts_with(n))
}

/// What a zip archive is, judging by its first bytes.
pub(crate) fn kind_of_start(start: &[u8]) -> Option<FileKind> {
    if !zip::is_zip(start) {
        return None;
    }
    let is_wacz =
        zip::first_name(start).is_some_and(|name| is_member(name) || name.starts_with(b"pages/"));
    Some(match is_wacz {
        true => FileKind::Wacz,
        false => FileKind::Zip,
    })
}

/// Whether a regular file is a zip archive, and therefore should be a WACZ file.
pub(crate) fn is_zip(source: &Source) -> Result<bool> {
    if source.kind()? != InputKind::Regular {
        return Ok(false);
    }
    let mut start = [0; 4];
    let (read, _) = source.open()?.read_full(&mut start);
    Ok(zip::is_zip(&start[..read]))
}

impl Wacz {
    /// Opens a WACZ file.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is another kind of zip archive.
    pub fn open(source: &Source) -> Result<Wacz> {
        let zip = Zip::open(source)?;
        let mut names = zip.entries().iter().map(|entry| entry.name.as_bytes());
        if !names.any(is_member) {
            return Err(FileKind::Zip.instead_of("a WACZ file").in_file(source));
        }
        Ok(Wacz {
            zip: Arc::new(zip),
            source: source.clone(),
        })
    }

    /// The name of the file.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    fn entries(&self, folder: &str, wanted: fn(&str) -> bool) -> Vec<&Entry> {
        let entries = self.zip.entries().iter();
        let mut entries: Vec<&Entry> = entries
            .filter(|entry| entry.name.strip_prefix(folder).is_some_and(wanted))
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    fn index_entries(&self) -> Result<Vec<&Entry>> {
        let entries = self.entries("indexes/", is_index_name);
        if entries.is_empty() {
            let kind = ErrorKind::WrongKind {
                found: "a WACZ file without an index",
                wanted: "an index",
            };
            return Err(Error::new(kind).in_file(&self.source));
        }
        Ok(entries)
    }

    /// The index files in `indexes/`, in the order of their names. Those of ZipNum are its data files.
    ///
    /// # Errors
    /// If the file has no index, or one cannot be read.
    pub fn indexes(&self) -> Result<Vec<Source>> {
        let entries = self.index_entries()?;
        entries
            .into_iter()
            .map(|entry| self.checked(entry))
            .collect()
    }

    /// The WARC files in `archive/`, in the order of their names.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn warcs(&self) -> Result<Vec<Source>> {
        let entries = self.entries("archive/", |name| is_archive_name(Path::new(name)));
        entries
            .into_iter()
            .map(|entry| self.checked(entry))
            .collect()
    }

    /// The WARC file that its index names, to be read at any offset. `None` if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn warc(&self, name: &str) -> Result<Option<Arc<dyn RangeRead>>> {
        match self.zip.entry(&format!("archive/{name}")) {
            Some(entry) => {
                let source = self.zip.source(entry)?;
                source.ranged(&std::env::temp_dir()).map(Some)
            }
            None => Ok(None),
        }
    }

    /// The content of an entry. The checksum of a stored one is compared, unless its content has a
    /// checksum of its own.
    fn checked(&self, entry: &Entry) -> Result<Source> {
        let source = self.zip.source(entry)?;
        if source.file()?.is_some() && source.open()?.compression() == Compression::Plain {
            self.zip.check(entry)?;
        }
        Ok(source)
    }

    /// The index to search, if there is one: the only one, or that of ZipNum.
    ///
    /// # Errors
    /// If the file does not have exactly one index, or it cannot be read.
    pub(crate) fn search(&self) -> Result<Search> {
        let entries = self.index_entries()?;
        let [entry] = entries[..] else {
            let message = "several indexes in this WACZ file: merge them first".to_owned();
            return Err(Error::new(ErrorKind::Format(message)).in_file(&self.source));
        };
        let source = self.zip.source(entry)?;
        if source.open()?.compression() == Compression::Plain {
            return Ok(Search::Flat(source));
        }
        let name = entry.name.strip_suffix(".gz").unwrap_or(&entry.name);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let Some(idx) = self.zip.entry(&format!("{stem}.idx")) else {
            return Ok(Search::Flat(source));
        };
        let zip = Arc::clone(&self.zip);
        // Messages show the name of the WACZ file, too, unless a part of it would be taken for a query.
        let path = self.path().join("").to_string_lossy().into_owned();
        let folder = match path.contains(['?', '#']) {
            true => String::new(),
            false => path,
        };
        let url = format!("{folder}{}", idx.name);
        let open: Opener = Arc::new(move |url: &str| {
            let name = url.strip_prefix(&folder).unwrap_or(url);
            let Some(entry) = zip.entry(name) else {
                let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(Error::io("open", Path::new(url), missing));
            };
            zip.source(entry)?.ranged(&std::env::temp_dir())
        });
        Ok(Search::ZipNum(url, open))
    }

    /// The dialect that its keys are likely to be of: that of Python's `surt` if py-wacz has written
    /// them, else that of Webrecorder's other tools.
    pub fn dialect(&self) -> Dialect {
        let software = || {
            let source = self.zip.source(self.zip.entry("datapackage.json")?).ok()?;
            let mut text = Vec::new();
            let stream = source.open().ok()?;
            stream.take(LARGEST_PACKAGE).read_to_end(&mut text).ok()?;
            let package: serde_json::Value = serde_json::from_slice(&text).ok()?;
            Some(package.get("software")?.as_str()?.to_owned())
        };
        match software() {
            Some(software) if software.contains("py-wacz") => Dialect::Ia,
            _ => DIALECT,
        }
    }
}

/// How the index of a WACZ file is searched.
pub(crate) enum Search {
    Flat(Source),
    /// The name of the `.idx` file, and what opens it and its data file.
    ZipNum(String, Opener),
}
