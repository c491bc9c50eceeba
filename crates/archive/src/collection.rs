//! A collection: one or more indexes that are searched as one, and reopened when they change.
//!
//! A search misses what is out of order or missing, so each index is checked: a sample when it is opened,
//! all of it in the background. A file that cannot be used is skipped; what it may hold is unknown, and so
//! is what a file may hold that was not read to its end yet.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread;

use waypost_index::input;
use waypost_index::layout::FileLayout;
use waypost_index::lookup::{BlockCache, Index};
use waypost_io::{Error, ErrorKind, Result, Stamp};
use waypost_surt::Dialect;

use crate::row::Origin;

/// An index of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A sorted file, the folder of a ZipNum index, or its `.idx` file.
    pub path: PathBuf,
    /// The dialect of its keys; `None` to detect it.
    pub dialect: Option<Dialect>,
    /// Whether data files outside the folder of a ZipNum index may be read.
    pub anywhere: bool,
    /// Whether all its lines are known to be in order.
    pub sorted: bool,
}

impl Source {
    /// The name that clients see: the path if it is below the working directory, else only the name of
    /// the file, because the folders of a server are nobody else's business.
    fn name(&self) -> String {
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        match !self.path.components().all(plain) {
            true => self.path.file_name().map(Path::new).unwrap_or(&self.path),
            false => &self.path,
        }
        .display()
        .to_string()
    }
}

/// Indexes that are searched as one.
#[derive(Debug)]
pub struct Collection {
    name: String,
    sources: Vec<Source>,
    cache: Arc<BlockCache>,
    slots: RwLock<Vec<Slot>>,
}

/// What there is of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// The version that is searched, if any can be.
    index: Option<Arc<OpenIndex>>,
    /// A newer version, which is searched once it was checked.
    next: Option<Arc<OpenIndex>>,
    /// Why the current version of the file cannot be used, or not all of it.
    problem: Option<String>,
    /// The files when that was noticed.
    seen: Vec<Option<Stamp>>,
    /// The file before it was truncated.
    whole: Option<Stamp>,
}

/// An index, as it was when it was opened.
pub(crate) struct OpenIndex {
    pub(crate) index: Index,
    pub(crate) layout: FileLayout,
    pub(crate) dialect: Dialect,
    pub(crate) origin: Origin,
    /// Its files, by which a change is noticed.
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    /// Why its last line is not whole.
    cut: Option<String>,
    /// Where the check in the background has found it out of order.
    unsorted: OnceLock<String>,
}

impl std::fmt::Debug for OpenIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenIndex")
            .field("origin", &self.origin)
            .field("stamps", &self.stamps)
            .finish_non_exhaustive()
    }
}

impl Collection {
    /// Opens the indexes of a collection. Those that cannot be used are among its [problems](Self::problems).
    pub fn open(name: &str, sources: Vec<Source>, cache: &Arc<BlockCache>) -> Collection {
        let slots = sources.iter().map(|source| {
            let mut slot = Slot::default();
            slot.look(name, source, cache);
            slot
        });
        Collection {
            name: name.to_owned(),
            slots: RwLock::new(slots.collect()),
            sources,
            cache: Arc::clone(cache),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether any of its indexes can be searched.
    pub fn is_usable(&self) -> bool {
        self.slots().iter().any(|slot| slot.index.is_some())
    }

    /// What is wrong with its indexes. URIs that are not found are unknown as long as there is something.
    pub fn problems(&self) -> Vec<String> {
        self.slots().iter().filter_map(Slot::problem).collect()
    }

    /// How many indexes were not read to their end yet.
    pub(crate) fn unchecked(&self) -> usize {
        let slots = self.slots();
        slots.iter().filter(|slot| slot.is_unchecked()).count()
    }

    /// Its indexes, as they are now. The caller can finish with them, even if they are replaced.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.clone()
    }

    /// Reopens the indexes whose files have changed. Returns how many.
    pub fn refresh(&self) -> usize {
        let mut reopened = 0;
        for (at, (source, mut slot)) in self.sources.iter().zip(self.slots()).enumerate() {
            reopened += usize::from(slot.look(&self.name, source, &self.cache));
            self.slots.write().unwrap_or_else(PoisonError::into_inner)[at] = slot;
        }
        reopened
    }
}

impl Slot {
    /// The index, unless it is out of order.
    pub(crate) fn usable(&self) -> Option<&Arc<OpenIndex>> {
        let index = self.index.as_ref();
        index.filter(|index| index.unsorted.get().is_none())
    }

    /// Whether what was not found in the index is certainly not in its file.
    pub(crate) fn is_certain(&self) -> bool {
        let index = self.usable();
        self.problem().is_none()
            && index.is_some_and(|index| index.index.is_checked() && !index.is_overwritten())
    }

    fn is_unchecked(&self) -> bool {
        let index = self.usable();
        index.is_some_and(|index| !index.index.is_checked()) || self.next.is_some()
    }

    fn problem(&self) -> Option<String> {
        let index = self.index.as_ref();
        let unsorted = index.and_then(|index| index.unsorted.get());
        let what = match self.usable() {
            Some(_) => "URIs that are not found are unknown",
            None => "skipping it: URIs that are not found elsewhere are unknown",
        };
        let problem = self.problem.as_ref().or(unsorted);
        problem.map(|problem| format!("{problem}\n  {what}"))
    }

    /// Opens the file if it has changed. Returns whether another version is searched from now on.
    fn look(&mut self, collection: &str, source: &Source, cache: &Arc<BlockCache>) -> bool {
        if let Some(next) = self.next.take() {
            match (next.unsorted.get(), next.index.is_checked()) {
                (Some(unsorted), _) => {
                    (self.problem, self.seen) = (Some(unsorted.clone()), files(&source.path));
                    return false;
                }
                (None, true) => {
                    self.seen = files(&source.path);
                    return self.replace(next);
                }
                (None, false) if next.is_current() => {
                    self.next = Some(next);
                    return false;
                }
                (None, false) => {}
            }
        }
        let known = match (&self.problem, &self.index) {
            (Some(_), _) => self.seen == files(&source.path),
            (None, Some(index)) => index.is_current(),
            (None, None) => false,
        };
        if known {
            return false;
        }
        let now = files(&source.path);
        match open(collection, source, cache) {
            Ok(new) => {
                start_checking(&new);
                let stays = self.usable().is_some_and(|old| !old.is_overwritten());
                if stays && !new.index.is_checked() {
                    self.next = Some(new);
                    return false;
                }
                self.seen = now;
                self.replace(new)
            }
            Err(error) => {
                // Nothing can be read from a file that was truncated. Others are what they were.
                if let Some(old) = self.index.take_if(|old| old.is_shorter()) {
                    self.whole = old.stamp().cloned();
                }
                (self.problem, self.seen) = (Some(error.to_string()), now);
                false
            }
        }
    }

    fn replace(&mut self, new: Arc<OpenIndex>) -> bool {
        let now = new.stamp();
        let before = self.index.as_ref().and_then(|old| old.stamp().cloned());
        let whole = self.whole.take().or(before);
        self.whole = whole.filter(|whole| {
            let is_shorter = |now: &Stamp| is_same_file(whole, now) && now.size < whole.size;
            now.is_some_and(is_shorter)
        });
        let truncated = || {
            let path = new.index_path();
            format!(
                "{path} was truncated while it was served: replace it by renaming another file to it"
            )
        };
        self.problem = new
            .cut
            .clone()
            .or_else(|| self.whole.is_some().then(truncated));
        self.index = Some(new);
        true
    }
}

/// The file, or the files in the folder of a ZipNum index.
fn files(path: &Path) -> Vec<Option<Stamp>> {
    let folder = match input::is_idx(&path.to_string_lossy()) {
        true => path.parent().unwrap_or(path),
        false => path,
    };
    match folder.read_dir() {
        Ok(entries) => entries
            .flatten()
            .map(|entry| Stamp::of_path(&entry.path()).ok())
            .collect(),
        Err(_) => vec![Stamp::of_path(path).ok()],
    }
}

/// Whether two stamps are of the same file, which was written to in between, and not of two that were
/// renamed to the same path.
fn is_same_file(one: &Stamp, other: &Stamp) -> bool {
    let file = |stamp: &Stamp| stamp.tag.rsplit_once('-').map(|(file, _)| file.to_owned());
    file(one) == file(other)
}

impl OpenIndex {
    fn is_current(&self) -> bool {
        let mut stamps = self.stamps.iter();
        stamps.all(|(path, stamp)| Stamp::of_path(path).ok() == *stamp)
    }

    /// Whether one of its files is not what it was when it was opened, though no other one replaced it.
    fn is_overwritten(&self) -> bool {
        self.stamps.iter().any(|(path, stamp)| {
            let (now, then) = (Stamp::of_path(path).ok(), stamp);
            let both = now.as_ref().zip(then.as_ref());
            both.is_some_and(|(now, then)| now != then && is_same_file(now, then))
        })
    }

    /// Whether its file was truncated.
    fn is_shorter(&self) -> bool {
        self.stamps.iter().any(|(path, then)| {
            let now = Stamp::of_path(path).ok();
            let both = now.as_ref().zip(then.as_ref());
            both.is_some_and(|(now, then)| now.size < then.size && is_same_file(now, then))
        })
    }

    /// Its first file.
    fn stamp(&self) -> Option<&Stamp> {
        self.stamps.first()?.1.as_ref()
    }

    fn index_path(&self) -> String {
        let path = self
            .stamps
            .first()
            .map(|(path, _)| path.display().to_string());
        path.unwrap_or_default()
    }
}

/// Reads all lines of an index in a thread of its own, one index at a time.
fn start_checking(open: &Arc<OpenIndex>) {
    static ONE: Mutex<()> = Mutex::new(());
    if open.index.is_checked() {
        return;
    }
    let open = Arc::clone(open);
    thread::spawn(move || {
        let _turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Until nobody else has it.
        if let Err(error) = open.index.check_order(|| Arc::strong_count(&open) > 1) {
            let _ = open.unsorted.set(error.to_string());
        }
    });
}

/// How often an index is opened again that changes meanwhile.
const ATTEMPTS: usize = 3;

fn open(collection: &str, source: &Source, cache: &Arc<BlockCache>) -> Result<Arc<OpenIndex>> {
    let mut attempt = 0;
    loop {
        // Stamps from before and after: what was opened is what they say.
        let before = stamps(&Index::open(&source.path)?);
        let index = Index::open(&source.path)?
            .anywhere(source.anywhere)
            .cached(cache);
        // The data files of a ZipNum index stay open, if they are replaced one after the other.
        index.keep_open()?;
        let cut = match index.check_sample() {
            // What is left of a file can be searched, but nothing is certainly absent.
            Err(error) if matches!(error.kind(), ErrorKind::EndsEarly) => Some(error.to_string()),
            checked => checked.map(|()| None)?,
        };
        if source.sorted {
            index.trust_order();
        }
        let layout = index.layout()?;
        let after = stamps(&index);
        attempt += 1;
        if before == after || attempt == ATTEMPTS {
            return Ok(Arc::new(OpenIndex {
                layout,
                dialect: dialect(&index, source)?,
                index,
                origin: Origin::new(source.name(), collection.to_owned()),
                stamps: before,
                cut,
                unsorted: OnceLock::new(),
            }));
        }
    }
}

/// The dialect of the keys of an index. With any other, nothing would be found.
fn dialect(index: &Index, source: &Source) -> Result<Dialect> {
    if let Some(dialect) = source.dialect {
        return Ok(dialect);
    }
    let usual = index.usual_dialect();
    let keys = index.check_keys(usual)?;
    if keys.fits() {
        return Ok(usual);
    }
    match keys.other_dialect() {
        Some(other) if index.check_keys(other)?.fits() => Ok(other),
        _ => {
            let why = "its keys are not the SURTs of its URLs".to_owned();
            Err(Error::new(ErrorKind::Format(why)).in_file(source.path.display()))
        }
    }
}

fn stamps(index: &Index) -> Vec<(PathBuf, Option<Stamp>)> {
    let stamp = |path: PathBuf| {
        let stamp = Stamp::of_path(&path).ok();
        (path, stamp)
    };
    index.own_files().into_iter().map(stamp).collect()
}
