//! The summaries of an archive: opened, watched, and replaced without a pause.
//!
//! Each archive has a [`Shelf`]. Lookups take what is on it; a watcher compares the files with what was
//! opened, and puts another set there when they change. A set is never changed while it is in use.
//!
//! | what happens to a file | until it is opened again |
//! |---|---|
//! | another file takes its place | the old content answers |
//! | it is overwritten or truncated | the archive is unknown |
//! | it vanishes or can't be trusted | the archive is unknown |

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use waypost_archive::filters::{is_recent, may_be_summary};
use waypost_io::Stamp;
use waypost_summary::{Kind, Summary};
use waypost_surt::Dialect;
use xxhash_rust::xxh3::xxh3_64;

use super::choice::Reason;
use super::snapshot::{self, Refusal, Snapshot};
use crate::Archive;

/// The summaries of an archive.
pub(crate) struct Shelf {
    current: RwLock<Arc<SummarySet>>,
    /// Grows whenever what is on a shelf changes.
    changes: Arc<AtomicU64>,
    /// Held while files are compared and opened.
    refreshing: Mutex<()>,
}

/// The summaries of an archive at some time.
#[derive(Default)]
pub(crate) struct SummarySet {
    pub(crate) entries: Vec<Entry>,
    /// Identifies the files that answer.
    pub(crate) identity: u64,
}

/// A file that the registry names, or one in a folder that it names.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) name: Arc<str>,
    pub(crate) state: State,
    /// What answered last: a file that is only the beginning of it was cut off.
    last: Option<Arc<OpenSummary>>,
}

#[derive(Clone)]
pub(crate) enum State {
    /// It answers.
    Open(Arc<OpenSummary>),
    /// It can't be used: as it was, and why.
    Refused(Option<Stamp>, Reason, Arc<str>),
}

impl State {
    fn damaged(stamp: Option<Stamp>, why: &str) -> State {
        State::Refused(stamp, Reason::Damaged, why.into())
    }
}

/// A summary that answers.
pub(crate) struct OpenSummary {
    pub(crate) summary: Box<dyn Summary>,
    pub(crate) dialect: Dialect,
    stamps: Vec<(PathBuf, Stamp)>,
    copy: fs::File,
    /// Its false positive rate, if it is a filter.
    pub(crate) rate: Option<f64>,
    /// The number of its keys, if it is a filter.
    pub(crate) keys: Option<u64>,
    /// The size of its files.
    bytes: u64,
    /// When it was built.
    built: SystemTime,
    opened: Instant,
    /// Its age when it was opened; `None` if it was built in the future.
    age: Option<Duration>,
}

impl OpenSummary {
    fn new(snapshot: Snapshot) -> OpenSummary {
        let Snapshot {
            summary,
            stamps,
            copy,
            rate,
            keys,
        } = snapshot;
        let sizes = stamps
            .iter()
            .filter_map(|(path, _)| fs::metadata(path).ok());
        let bytes = sizes.map(|metadata| metadata.len()).sum();
        let path = stamps.first().map(|(path, _)| path.clone());
        let modified = path.and_then(|path| fs::metadata(path).ok()?.modified().ok());
        let about = summary.about();
        // Without a date of its own, `updated` is only the time of the newest capture.
        let dated = about.updated.filter(|updated| about.last < Some(*updated));
        let dated = dated.and_then(|time| {
            let seconds = u64::try_from(time.unix()).ok()?;
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        });
        let built = dated.or(modified).unwrap_or(SystemTime::UNIX_EPOCH);
        OpenSummary {
            age: SystemTime::now().duration_since(built).ok(),
            opened: Instant::now(),
            dialect: about.dialect,
            summary,
            stamps,
            copy,
            rate,
            keys,
            bytes,
            built,
        }
    }

    /// Identifies its files.
    pub(crate) fn identity(&self) -> u64 {
        xxh3_64(format!("{:?}", self.stamps).as_bytes())
    }

    /// When it was built.
    pub(crate) fn built(&self) -> SystemTime {
        self.built
    }

    /// How old it is, at least. A clock that was set back does not make it younger. `None` if it was
    /// built in the future, so that its age can't be known.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.age_at(SystemTime::now(), Instant::now())
    }

    /// How old it is at a time that both clocks show.
    pub(crate) fn age_at(&self, clock: SystemTime, steady: Instant) -> Option<Duration> {
        let by_clock = clock.duration_since(self.built).ok()?;
        let since = steady.saturating_duration_since(self.opened);
        Some(by_clock.max(self.age? + since))
    }

    fn is_unchanged(&self) -> bool {
        self.stamps
            .iter()
            .all(|(path, stamp)| Stamp::of_path(path).ok().as_ref() == Some(stamp))
    }

    /// Whether the file at its path is still the one that was opened, but has changed.
    fn was_overwritten(&self) -> bool {
        let inode = |stamp: &Stamp| {
            stamp
                .tag
                .rsplit_once('-')
                .map(|(inode, _)| inode.to_owned())
        };
        self.stamps.iter().any(|(path, stamp)| {
            let now = Stamp::of_path(path).ok();
            now.is_some_and(|now| now != *stamp && inode(&now) == inode(stamp))
        })
    }
}

/// How a summary is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryState {
    /// Its file.
    pub path: PathBuf,
    /// The name of its file.
    pub name: String,
    /// Its kind, if it is used.
    pub kind: Option<Kind>,
    /// The size of its files.
    pub bytes: u64,
    /// How old it is, if that is known.
    pub age: Option<Duration>,
    /// Why it is not used.
    pub problem: Option<String>,
}

impl Entry {
    /// How it is doing.
    pub(crate) fn state(&self) -> SummaryState {
        let name = self.path.file_name().unwrap_or_default();
        let mut state = SummaryState {
            path: self.path.clone(),
            name: name.to_string_lossy().into_owned(),
            kind: None,
            bytes: 0,
            age: None,
            problem: None,
        };
        match &self.state {
            State::Open(open) => {
                state.kind = Some(open.summary.kind());
                state.bytes = open.bytes;
                state.age = open.age();
            }
            State::Refused(.., why) => state.problem = Some(why.to_string()),
        }
        state
    }
}

/// A warning about a summary.
pub(crate) type Warning = String;

impl Shelf {
    /// An empty shelf, which counts its changes.
    pub(crate) fn new(changes: Arc<AtomicU64>) -> Shelf {
        Shelf {
            current: RwLock::default(),
            changes,
            refreshing: Mutex::default(),
        }
    }

    /// What answers now.
    pub(crate) fn current(&self) -> Arc<SummarySet> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a file was read, or refused, before.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.current()
            .entries
            .iter()
            .any(|entry| entry.path == path)
    }

    fn put(&self, entries: Vec<Entry>) {
        let open = entries.iter().filter_map(|entry| match &entry.state {
            State::Open(open) => Some(open.identity()),
            State::Refused(..) => None,
        });
        let identity = xxh3_64(format!("{:?}", open.collect::<Vec<u64>>()).as_bytes());
        let set = SummarySet { entries, identity };
        {
            let current = self.current.write();
            *current.unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        }
        // Afterwards: whoever sees the number sees the set.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Compares the files with what was opened, and opens what is new. If `settle` is set, a file that
    /// is being written at the moment is left for the next time.
    pub(crate) fn refresh(
        &self,
        archive: &Archive,
        paths: &[PathBuf],
        room: &Path,
        settle: bool,
        warn: &mut dyn FnMut(Warning),
    ) {
        let key_file = archive.key_file.as_deref();
        let archive = &archive.id;
        // A filter that was refused may be opened when the key file has changed.
        let stamp_of = |path: &Path| {
            let mut stamp = Stamp::of_path(path).ok()?;
            if let Some(key) = key_file.and_then(|key| Stamp::of_path(key).ok()) {
                stamp.tag += &key.tag;
            }
            Some(stamp)
        };
        let guard = self.refreshing.lock();
        let _guard = guard.unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let files = files_of(paths);
        let known = |path: &Path| before.entries.iter().find(|entry| entry.path == path);
        let unchanged = |path: &PathBuf| match known(path).map(|entry| &entry.state) {
            Some(State::Open(open)) => open.is_unchanged(),
            Some(State::Refused(stamp, ..)) => *stamp == stamp_of(path),
            None => false,
        };
        if files.len() == before.entries.len() && files.iter().all(unchanged) {
            return;
        }
        // First, what can no longer be trusted; opening takes a while.
        let mut entries: Vec<Entry> = Vec::new();
        let mut distrusted = false;
        for path in &files {
            let name: Arc<str> = path.display().to_string().into();
            let last = known(path).and_then(|entry| entry.last.clone());
            let state = match known(path).map(|entry| entry.state.clone()) {
                Some(State::Open(open)) if open.was_overwritten() || !path.exists() => {
                    distrusted = true;
                    State::damaged(None, "it was changed in place")
                }
                Some(state) => state,
                None => State::damaged(None, "not read yet"),
            };
            entries.push(Entry {
                path: path.clone(),
                name,
                state,
                last,
            });
        }
        if distrusted || entries.len() != before.entries.len() {
            self.put(entries.clone());
        }
        for entry in &mut entries {
            if unchanged(&entry.path) {
                continue;
            }
            let stamp = stamp_of(&entry.path);
            if stamp.is_none() {
                let why = "the file is missing";
                warn(warning(archive, entry, why));
                entry.state = State::damaged(None, why);
                continue;
            }
            if settle && is_recent(&entry.path) {
                continue;
            }
            let last = entry.last.as_ref();
            if last.is_some_and(|open| snapshot::is_cut_off(&entry.path, &open.copy)) {
                let why = "it is only the beginning of what it was";
                warn(warning(archive, entry, why));
                entry.state = State::damaged(stamp, why);
                continue;
            }
            match snapshot::open(&entry.path, room, key_file) {
                Ok(snapshot) => {
                    let open = Arc::new(OpenSummary::new(snapshot));
                    entry.last = Some(Arc::clone(&open));
                    entry.state = State::Open(open);
                }
                // The next check opens it.
                Err(Refusal::Changing) => {}
                Err(Refusal::Unusable(reason, mut why)) => {
                    if reason == Reason::NeedsSecret {
                        why += "; name its key file in `key_file` of the archive";
                    }
                    warn(warning(archive, entry, &why));
                    entry.state = State::Refused(stamp, reason, why.into());
                }
            }
        }
        self.put(entries);
    }

    /// Takes a summary that failed during a lookup out of use.
    pub(crate) fn distrust(&self, failed: &Arc<OpenSummary>, why: &str) {
        let mut entries = self.current().entries.clone();
        for entry in &mut entries {
            if let State::Open(open) = &entry.state
                && Arc::ptr_eq(open, failed)
            {
                let stamp = open.stamps.first().map(|(_, stamp)| stamp.clone());
                entry.state = State::damaged(stamp, why);
            }
        }
        self.put(entries);
    }
}

fn warning(archive: &str, entry: &Entry, why: &str) -> Warning {
    let path = entry.path.display().to_string();
    let why = why.strip_prefix(&path).unwrap_or(why);
    let why = why.trim_start_matches([':', ' ']);
    format!(
        "archive {archive}: cannot use {path}: {why}; the archive is asked for everything that no other summary rules out"
    )
}

/// The files that paths stand for: themselves, or those in a folder that may be summaries.
fn files_of(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        list(path, &mut inside, 0);
        inside.sort();
        files.extend(inside);
    }
    files.dedup();
    files
}

/// Maximum depth of folders: links may form a circle.
const MOST_DEPTH: usize = 8;

/// The files in a folder, and in folders in it, that may be summaries.
fn list(folder: &Path, files: &mut Vec<PathBuf>, depth: usize) {
    let Ok(listed) = fs::read_dir(folder) else {
        return;
    };
    for path in listed.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() && depth < MOST_DEPTH {
            list(&path, files, depth + 1);
        } else if path.is_file() && may_be_summary(&path) {
            files.push(path);
        }
    }
}
