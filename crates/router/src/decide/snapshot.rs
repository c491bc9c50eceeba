//! Private copies of summary files.
//!
//! The files of summaries belong to others, who may truncate them, overwrite them in place or remove
//! them at any time. A lookup in a file that is being overwritten could call a held URI absent, and no
//! check before or after the lookup would be sure to notice. So the router maps a copy of each file,
//! made in one go and removed from its folder at once: nobody else can change it, it costs no memory
//! beyond the page cache, and nothing is left behind, however the process ends. Where the file system
//! can share blocks between files, the copy takes no space either.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use waypost_io::{IoContext, Source, Stamp, temporary};
use waypost_summary::filter::orestes::ClassicFilter;
use waypost_summary::filter::{self, Filter, Secret};
use waypost_summary::{Error, ErrorKind, Kind, Summary, kind_of_source, map};

use super::choice::Reason;

/// A summary that was opened from a private copy of its files.
pub(super) struct Snapshot {
    pub(super) summary: Box<dyn Summary>,
    /// The files it was copied from, as they were.
    pub(super) stamps: Vec<(PathBuf, Stamp)>,
    /// The copy of the main file.
    pub(super) copy: File,
    /// The false positive rate and the number of keys of a filter.
    pub(super) rate: Option<f64>,
    pub(super) keys: Option<u64>,
}

/// Why a summary was not opened.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The file changed while it was copied: try again later.
    Changing,
    /// It can't be used.
    Unusable(Reason, String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Unusable(reason_of(&error), error.to_string())
    }
}

fn reason_of(error: &Error) -> Reason {
    match error.kind() {
        ErrorKind::NeedsSecret(_) => Reason::NeedsSecret,
        _ => Reason::Damaged,
    }
}

impl From<waypost_io::Error> for Refusal {
    fn from(error: waypost_io::Error) -> Refusal {
        Refusal::damaged(error.to_string())
    }
}

impl Refusal {
    fn damaged(why: impl Into<String>) -> Refusal {
        Refusal::Unusable(Reason::Damaged, why.into())
    }
}

/// Opens a summary through a copy in the folder `room`. The secret of a keyed filter is in `key_file`.
pub(super) fn open(path: &Path, room: &Path, key_file: Option<&Path>) -> Result<Snapshot, Refusal> {
    let folder = temporary::folder_in(room)?;
    let stamp = Stamp::of_path(path)?;
    let mut copies = Copies {
        folder: folder.path(),
        stamps: Vec::new(),
    };
    let copy = copies.add(path)?;
    let source = Source::new(&copy);
    let kind = kind_of_source(&source)?;
    let kind = kind.ok_or_else(|| Refusal::damaged("this is not a summary"))?;
    if kind != Kind::Filter {
        check_end(&copy)?;
    }
    let named = |error: Error| {
        // The copy has a name of its own, which means nothing to anyone.
        let (reason, text) = (reason_of(&error), error.to_string());
        let text = text.replace(&copy.display().to_string(), &path.display().to_string());
        Refusal::Unusable(reason, text.replace(&*folder.path().to_string_lossy(), ""))
    };
    let (mut rate, mut keys) = (None, None);
    let summary: Box<dyn Summary> = match kind {
        Kind::Filter if ClassicFilter::is(&source)? => {
            let filter = ClassicFilter::of(&source).map_err(named)?;
            filter.verify_all().map_err(named)?;
            (rate, keys) = (Some(filter.lookup_rate()), filter.urls());
            Box::new(filter)
        }
        Kind::Filter => {
            let filter = Filter::of(&source).map_err(named)?;
            let is_keyed = filter.head().fingerprint.is_some();
            let secret = key_file.filter(|_| is_keyed).map(Secret::read);
            let secret = secret.transpose().map_err(|error| {
                Refusal::Unusable(Reason::NeedsSecret, format!("needs a secret: {error}"))
            })?;
            let filter = filter.unlock(secret).map_err(named)?;
            if let Some(damage) = filter::check::check(&filter).damaged.pop() {
                return Err(named(damage));
            }
            (rate, keys) = (Some(filter.head().rate), Some(filter.head().count));
            Box::new(filter)
        }
        Kind::Map => {
            if let Some(companion) = map::companion_of(path)? {
                copies.add(&companion)?;
            }
            let mut table = path.as_os_str().to_owned();
            table.push(".wmap");
            let table = PathBuf::from(table);
            let indexed = table.is_file().then(|| copies.add(&table)).transpose()?;
            match (waypost_summary::open(&copy), indexed) {
                (Ok(map), _) => map,
                // A table of an earlier map only costs time: one is built instead.
                (Err(_), Some(table)) => {
                    fs::remove_file(&table).doing("remove", &table)?;
                    copies.stamps.pop();
                    waypost_summary::open(&copy).map_err(named)?
                }
                (Err(error), None) => return Err(named(error)),
            }
        }
        _ => waypost_summary::open(&copy).map_err(named)?,
    };
    let file = File::open(&copy).doing("open", &copy)?;
    let stamps = copies.stamps;
    drop(folder);
    if stamps.first().is_none_or(|(_, first)| *first != stamp)
        || stamps
            .iter()
            .any(|(path, stamp)| Stamp::of_path(path).ok().as_ref() != Some(stamp))
    {
        return Err(Refusal::Changing);
    }
    summary.set_private();
    Ok(Snapshot {
        summary,
        stamps,
        copy: file,
        rate,
        keys,
    })
}

/// Copies into a folder, under the same names, so that the files of a map find each other.
struct Copies<'a> {
    folder: &'a Path,
    stamps: Vec<(PathBuf, Stamp)>,
}

impl Copies<'_> {
    fn add(&mut self, path: &Path) -> Result<PathBuf, Refusal> {
        let name = path
            .file_name()
            .ok_or_else(|| Refusal::damaged(format!("{} has no name", path.display())))?;
        let stamp = Stamp::of_path(path)?;
        if !path.is_file() {
            return Err(Refusal::damaged("not a regular file"));
        }
        let copy = self.folder.join(name);
        fs::copy(path, &copy).doing("copy", path)?;
        self.stamps.push((path.to_owned(), stamp));
        Ok(copy)
    }
}

/// Refuses a plain text that ends in the middle of a line: it was cut off.
fn check_end(copy: &Path) -> Result<(), Refusal> {
    let mut start = [0; 4];
    let mut file = File::open(copy).doing("open", copy)?;
    let length = file.read(&mut start).doing("read", copy)?;
    let compressed = start.starts_with(&[0x1f, 0x8b])
        || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || start.starts_with(b"BZh");
    if compressed || length == 0 {
        return Ok(());
    }
    use std::os::unix::fs::FileExt as _;
    let mut last = [0];
    let size = file.metadata().doing("read", copy)?.len();
    file.read_exact_at(&mut last, size - 1)
        .doing("read", copy)?;
    match last {
        [b'\n'] => Ok(()),
        _ => Err(Refusal::damaged(
            "it ends in the middle of a line: it was cut off",
        )),
    }
}

/// Whether a file is only the beginning of an earlier one.
pub(super) fn is_cut_off(path: &Path, earlier: &File) -> bool {
    let compare = || -> std::io::Result<bool> {
        use std::os::unix::fs::FileExt as _;
        let now = File::open(path)?;
        let (length, before) = (now.metadata()?.len(), earlier.metadata()?.len());
        if length >= before {
            return Ok(false);
        }
        let (mut ours, mut theirs) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut at = 0;
        while at < length {
            let part = (length - at).min(1 << 16) as usize;
            now.read_exact_at(&mut ours[..part], at)?;
            earlier.read_exact_at(&mut theirs[..part], at)?;
            if ours[..part] != theirs[..part] {
                return Ok(false);
            }
            at += part as u64;
        }
        Ok(true)
    };
    compare().unwrap_or(false)
}
