//! The archives in a folder, reopened when their files change.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use waypost_io::{Error, ErrorKind, IoContext, Result, Source, Stamp};
use waypost_summary::filter::orestes::ClassicFilter;
use waypost_summary::filter::{self, Filter, Hasher, Keyer, Secret};
use waypost_summary::{Kind, Summary, kind_of_source, map, open_source};
use waypost_surt::{Dialect, Policy};
use xxhash_rust::xxh3::Xxh3Default;

use super::files::{is_companion, is_recent, may_be_summary};
use super::live::{self, LiveArchive, LiveOptions};
use super::service::Catalogue;
use super::snapshot::{Part, PartSummary, RemoteSummary, ServedArchive, Snapshot, usual_keyer};
use crate::reply::lock;

/// Words that the server uses itself, so that no archive can have them as its id.
pub const RESERVED: [&str; 8] = [
    "add",
    "agg",
    "bloom",
    "health",
    "lookup",
    "metrics",
    "robots.txt",
    "favicon.ico",
];

/// Maximum length of an id.
const LONGEST_ID: usize = 64;

/// Checks the id of an archive, which is part of URLs.
///
/// # Errors
/// If it is not one.
pub fn check_id(id: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    let problem = if id.is_empty() || id.len() > LONGEST_ID {
        format!("it must have 1 to {LONGEST_ID} characters")
    } else if !id.chars().all(plain) || id.starts_with('.') {
        "use letters, digits, `-`, `_`, `+` and `.`, and do not start with `.`".to_owned()
    } else if RESERVED.iter().any(|word| id.eq_ignore_ascii_case(word)) {
        "the server uses this word itself".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid(format!(
        "`{id}` cannot be the id of an archive: {problem}"
    ))))
}

/// How archives are opened.
#[derive(Default)]
pub struct HoldingsOptions {
    /// The secret key of keyed filters.
    pub secret: Option<Secret>,
    /// Whether URIs can be added, and how.
    pub live: Option<LiveOptions>,
    /// Archives to create if there are none with these ids.
    pub create: Vec<String>,
    /// Summaries that are not in a folder, with the ids of their archives. Their lookups may take a
    /// while.
    pub remote: Vec<(String, RemoteSummary)>,
}

/// The archives in a folder: `ID.filter`, or all summaries in the folder `ID`, or both.
pub struct Holdings {
    folder: Option<PathBuf>,
    secret: Option<Secret>,
    remote: BTreeMap<String, RemoteSummary>,
    /// Writers, which outlive changes of other files.
    lives: BTreeMap<String, Arc<LiveArchive>>,
    current: RwLock<(Stamps, Arc<Snapshot>)>,
    kinds: Kinds,
    /// What was last read from each file, if anything was.
    known: Mutex<HashMap<PathBuf, Option<Arc<Part>>>>,
    /// Whether to read again what has not changed.
    pending: AtomicBool,
}

/// Which files are summaries, so that those that have not changed need not be read every time.
#[derive(Default)]
struct Kinds(Mutex<HashMap<PathBuf, (Stamp, bool)>>);

impl Kinds {
    /// Whether a file is a summary by its name or its content, or was one. What can't be read may be.
    fn is_summary(&self, path: &Path) -> Result<bool> {
        let stamp = Stamp::of_path(path)?;
        if may_be_summary(path) {
            return Ok(true);
        }
        let mut known = lock(&self.0);
        if let Some((before, is_summary)) = known.get(path)
            && *before == stamp
        {
            return Ok(*is_summary);
        }
        let Ok(kind) = kind_of_source(&Source::new(path)) else {
            return Ok(true);
        };
        let was_summary = known.get(path).is_some_and(|(_, was)| *was);
        let is_summary = was_summary || kind.is_some();
        known.insert(path.to_owned(), (stamp, is_summary));
        Ok(is_summary)
    }
}

/// The files of all archives, by which a change is noticed.
type Stamps = Vec<(PathBuf, Option<Stamp>)>;

impl Holdings {
    /// Opens all archives in a folder, and those that are elsewhere.
    ///
    /// # Errors
    /// If a file cannot be read, an id is invalid, or there are no archives.
    pub fn open(folder: Option<&Path>, options: HoldingsOptions) -> Result<Holdings> {
        let kinds = Kinds::default();
        let mut lives = BTreeMap::new();
        if let Some(folder) = folder {
            let mut ids: Vec<String> = list(folder, &kinds)?.into_keys().collect();
            for id in &options.create {
                check_id(id)?;
                if !ids.contains(id) {
                    let path = folder.join(id);
                    fs::create_dir_all(&path).doing("create the folder", &path)?;
                    ids.push(id.clone());
                }
            }
            for id in ids {
                let path = folder.join(&id);
                if options.live.is_some() || path.join(live::LOG).exists() {
                    let keyer = keyer_of(list(folder, &kinds)?.remove(&id), options.secret)?;
                    if options.live.is_some() {
                        fs::create_dir_all(&path).doing("create the folder", &path)?;
                    }
                    let live = LiveArchive::open(&path, &keyer, options.live.as_ref())?;
                    lives.insert(id, Arc::new(live));
                }
            }
        }
        for (id, _) in &options.remote {
            check_id(id)?;
        }
        let remote = options.remote.into_iter().collect();
        let mut holdings = Holdings {
            folder: folder.map(Path::to_owned),
            secret: options.secret,
            remote,
            lives,
            current: RwLock::new((Vec::new(), Arc::new(Snapshot::of([])))),
            kinds,
            known: Mutex::default(),
            pending: AtomicBool::new(false),
        };
        let (stamps, snapshot, _) = holdings.read(false)?;
        let can_answer = |archive: &ServedArchive| {
            archive.problem.is_none() || !archive.parts.is_empty() || archive.live.is_some()
        };
        if !snapshot.archives().iter().any(can_answer) {
            let none = "there are no summaries to serve";
            let problem = snapshot.problems().first().map_or(none, String::as_str);
            let error = Error::new(ErrorKind::Invalid(problem.to_owned()));
            return Err(match folder {
                Some(folder) => error.in_file(folder.display()),
                None => error,
            });
        }
        holdings.current = RwLock::new((stamps, Arc::new(snapshot)));
        Ok(holdings)
    }

    /// What was wrong with the logs of added URIs when they were opened.
    pub fn warnings(&self) -> impl Iterator<Item = &Error> {
        self.lives.values().filter_map(|live| live.warning())
    }

    /// Opens what has changed. Returns whether anything was opened or is gone. If `settle` is set, files
    /// that are being written at the moment are left for the next time.
    ///
    /// # Errors
    /// If a folder cannot be read. Then everything stays as it was.
    pub fn refresh(&self, settle: bool) -> Result<bool> {
        let stamps = stamps(&self.list()?);
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let before = current.0.len();
        let same = current.0 == stamps;
        drop(current);
        if same && !self.pending.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let (stamps, snapshot, opened) = self.read(settle)?;
        let changed = opened || stamps.len() != before;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = (stamps, Arc::new(snapshot));
        Ok(changed)
    }

    /// Ends the writers: what was added is written to filters.
    ///
    /// # Errors
    /// If a filter cannot be written. What was acknowledged is still in the log.
    pub fn close(&self) -> Result<()> {
        self.lives.values().try_for_each(|live| live.close())
    }

    /// The files of each archive, and those that have none.
    fn list(&self) -> Result<BTreeMap<String, Vec<PathBuf>>> {
        let mut files = match &self.folder {
            Some(folder) => list(folder, &self.kinds)?,
            None => BTreeMap::new(),
        };
        for id in self.remote.keys() {
            files.entry(id.clone()).or_default();
        }
        Ok(files)
    }

    /// Opens the files of all archives that have changed. Returns whether there were any.
    fn read(&self, settle: bool) -> Result<(Stamps, Snapshot, bool)> {
        let files = self.list()?;
        // Before the content: a change in between is noticed the next time.
        let stamps = stamps(&files);
        let mut keyers = vec![usual_keyer()];
        let (mut archives, mut problems) = (Vec::new(), Vec::new());
        let (mut opened, mut pending) = (false, false);
        let mut known = lock(&self.known);
        let mut before = std::mem::take(&mut *known);
        for (id, paths) in files {
            let live = self.lives.get(&id);
            let remote = self.remote.get(&id).cloned();
            let mut archive = ServedArchive {
                remote,
                live: live.map(|live| (Arc::clone(live), number_of(&live.keyer(), &mut keyers))),
                id,
                parts: Vec::new(),
                problem: None,
                modified: SystemTime::UNIX_EPOCH,
                version: 0,
                keys: 0,
                rate: Some(0.0),
                described: OnceLock::new(),
            };
            let mut version = Xxh3Default::new();
            let mut miss = Some(1.0);
            for path in paths {
                let earlier = before.remove(&path);
                let is_new = earlier.is_none();
                let last = earlier.flatten().filter(|last| last.check().is_ok());
                let is_current = |last: &Arc<Part>| {
                    Stamp::of_path(&path).is_ok_and(|now| now == last.files[0].1)
                };
                let unsettled = settle && is_recent(&path);
                let read = match &last {
                    Some(last) if is_current(last) => Ok(None),
                    _ if unsettled && is_new => {
                        pending = true;
                        continue;
                    }
                    _ if unsettled => Err(format!("{}: it is being written", path.display())),
                    _ => self.part(&path).map_err(|error| error.to_string()),
                };
                opened |= matches!(read, Ok(Some(_)));
                pending |= read.is_err();
                let part = match (read, last) {
                    (Ok(part), last) => part.map(Arc::new).or(last),
                    (Err(why), Some(last)) => {
                        if !unsettled {
                            problems.push(format!("{why}; still using the previous version"));
                        }
                        Some(last)
                    }
                    (Err(why), None) => {
                        problems.push(format!("{why}; nothing is absent from {}", archive.id));
                        archive.problem = Some(why);
                        miss = None;
                        None
                    }
                };
                known.insert(path, part.clone());
                let Some(part) = part else { continue };
                version.update(&part.identity.to_le_bytes());
                miss = miss.zip(part.rate).map(|(miss, rate)| miss * (1.0 - rate));
                archive.keys += part.keys;
                archive.modified = archive.modified.max(part.modified);
                let keyer = match &part.summary {
                    PartSummary::Filter(filter) => {
                        let keyer = Keyer::of(filter).map_err(waypost_summary::Error::into_io)?;
                        number_of(&keyer, &mut keyers)
                    }
                    _ => 0,
                };
                archive.parts.push((part, keyer));
            }
            archive.rate = miss.map(|miss| 1.0 - miss);
            archive.version = version.digest();
            let has_some = archive.live.is_some() || archive.remote.is_some();
            if has_some || archive.problem.is_some() || !archive.parts.is_empty() {
                archives.push(archive);
            }
        }
        self.pending.store(pending, Ordering::Relaxed);
        Ok((stamps, Snapshot::new(archives, keyers, problems), opened))
    }

    /// Opens a file. `None` if it goes with another one.
    fn part(&self, path: &Path) -> waypost_summary::Result<Option<Part>> {
        let mut files = vec![opened(path)?];
        let modified = files[0]
            .0
            .metadata()
            .and_then(|metadata| metadata.modified());
        let source = Source::new(path);
        let kind = kind_of_source(&source)?.ok_or_else(|| {
            let kind = waypost_summary::ErrorKind::Format("this is not a summary".to_owned());
            waypost_summary::Error::new(kind).in_file(path.display())
        })?;
        let (summary, identity, rate, keys) = match kind {
            Kind::Filter if ClassicFilter::is(&source)? => {
                let filter = ClassicFilter::of(&source)?;
                let (identity, rate) = (filter.identity(), filter.lookup_rate());
                let keys = filter.urls().unwrap_or(0);
                let summary = match filter.about().scopes.is_everything() {
                    true => PartSummary::Classic(Box::new(filter)),
                    false => PartSummary::Other(Box::new(filter)),
                };
                (summary, identity, Some(rate), keys)
            }
            Kind::Filter => {
                let filter = Filter::of(&source)?.unlock(self.secret)?;
                // The companion of a map has several filters, which its map names.
                if is_companion(path) || filter.widths().len() > 1 {
                    return Ok(None);
                }
                let (identity, head) = (filter.identity(), filter.head());
                let (rate, keys) = (head.rate, head.count);
                let summary = match filter.about().scopes.is_everything() {
                    true => PartSummary::Filter(Box::new(filter)),
                    false => PartSummary::Other(Box::new(filter)),
                };
                (summary, identity, Some(rate), keys)
            }
            _ => {
                let mut table = path.as_os_str().to_owned();
                table.push(".wmap");
                let beside = [map::companion_of(path)?, Some(PathBuf::from(table))];
                for beside in beside.into_iter().flatten().filter(|path| path.is_file()) {
                    files.push(opened(&beside)?);
                }
                let summary = open_source(&source, false, None)?;
                let keys = summary.size().keys;
                let identity = xxhash_rust::xxh3::xxh3_64(format!("{:?}", files[0].1).as_bytes());
                (PartSummary::Other(summary), identity, None, keys)
            }
        };
        let part = Part {
            summary,
            identity,
            rate,
            keys,
            modified: modified.doing("read", path)?,
            files,
        };
        // What was opened is what was stamped.
        part.check()?;
        Ok(Some(part))
    }
}

/// A file as it is now.
fn opened(path: &Path) -> Result<(File, Stamp)> {
    let file = File::open(path).doing("open", path)?;
    let stamp = Stamp::of(&file.metadata().doing("read", path)?);
    Ok((file, stamp))
}

impl Catalogue for Holdings {
    fn snapshot(&self) -> Arc<Snapshot> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.1)
    }

    fn live(&self, id: &str) -> Option<Arc<LiveArchive>> {
        let live = self.lives.get(id).filter(|live| live.is_writable());
        live.map(Arc::clone)
    }
}

/// The number of a keyer among the different ones.
fn number_of(keyer: &Keyer, keyers: &mut Vec<Keyer>) -> usize {
    let known = keyers
        .iter()
        .position(|known| known.parts() == keyer.parts());
    known.unwrap_or_else(|| {
        keyers.push(keyer.clone());
        keyers.len() - 1
    })
}

/// What makes the keys of an archive: that of its first filter, else the usual one.
fn keyer_of(files: Option<Vec<PathBuf>>, secret: Option<Secret>) -> Result<Keyer> {
    let io = waypost_summary::Error::into_io;
    for path in files.unwrap_or_default() {
        let source = Source::new(&path);
        let is_filter = kind_of_source(&source).map_err(io)? == Some(Kind::Filter);
        if is_filter && !ClassicFilter::is(&source).map_err(io)? {
            let head = filter::Filter::of(&source).map_err(io)?.head().clone();
            let hasher = Hasher::new(secret.filter(|_| head.fingerprint.is_some()));
            return Ok(Keyer::new(head.dialect, head.policy, hasher));
        }
    }
    Ok(Keyer::new(
        Dialect::default(),
        Policy::Whole,
        Hasher::new(secret),
    ))
}

/// The files of each archive. Those of a live archive are its own business.
fn list(folder: &Path, kinds: &Kinds) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut archives: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder).doing("read", folder)? {
        let path = entry.doing("read", folder)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            metadata => metadata.doing("read", &path)?,
        };
        if name.starts_with('.') || waypost_net::cache::is_own(&path) {
            continue;
        }
        if metadata.is_dir() {
            check_id(name).map_err(|error| error.in_file(path.display()))?;
            let files = archives.entry(name.to_owned()).or_default();
            inside(&path, files, 0, kinds)?;
        } else if metadata.is_file() && kinds.is_summary(&path)? {
            let id = name.split_once('.').map_or(name, |(id, _)| id);
            check_id(id).map_err(|error| error.in_file(path.display()))?;
            archives.entry(id.to_owned()).or_default().push(path);
        }
    }
    for files in archives.values_mut() {
        files.sort();
    }
    Ok(archives)
}

/// Maximum depth of folders: links may form a circle.
const MOST_DEPTH: usize = 16;

fn inside(folder: &Path, files: &mut Vec<PathBuf>, depth: usize, kinds: &Kinds) -> Result<()> {
    if depth > MOST_DEPTH {
        let problem = "folders are nested too deeply".to_owned();
        return Err(Error::new(ErrorKind::Invalid(problem)).in_file(folder.display()));
    }
    for entry in fs::read_dir(folder).doing("read", folder)? {
        let path = entry.doing("read", folder)?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || waypost_net::cache::is_own(&path) || live::is_own(&path) {
            continue;
        }
        if path.is_dir() {
            inside(&path, files, depth + 1, kinds)?;
        } else if path.is_file() && kinds.is_summary(&path)? {
            files.push(path);
        }
    }
    Ok(())
}

fn stamps(files: &BTreeMap<String, Vec<PathBuf>>) -> Stamps {
    let paths = files.values().flatten();
    paths
        .map(|path| (path.clone(), Stamp::of_path(path).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_not_words_of_the_server() {
        // The last as downloads from a host with a port are named.
        for id in ["haw", "haw.nsk.hr", "archive-2020_a", "127.0.0.1+80"] {
            assert!(check_id(id).is_ok(), "{id}");
        }
        for id in RESERVED {
            assert!(check_id(id).is_err(), "{id}");
            assert!(check_id(&id.to_uppercase()).is_err(), "{id}");
        }
        for id in ["", ".", "..", ".hidden", "a/b", "a b", "ä", &"a".repeat(65)] {
            assert!(check_id(id).is_err(), "{id}");
        }
    }
}
