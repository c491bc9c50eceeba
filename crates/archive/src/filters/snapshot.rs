//! All archives as they are at one moment, and lookups in them.

use std::cell::RefCell;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use http::HeaderValue;
use waypost_io::Stamp;
use waypost_summary::filter::orestes::ClassicFilter;
use waypost_summary::filter::{Filter, Hash, Hasher, Keyer};
use waypost_summary::{Error, ErrorKind, Lookup, LookupBuffer, Summary};
use waypost_surt::{Dialect, Policy};

use super::live::LiveArchive;

/// One summary of an archive, and the files that it was opened from.
pub(crate) struct Part {
    pub(crate) summary: PartSummary,
    /// Identifies its content.
    pub(crate) identity: u64,
    pub(crate) rate: Option<f64>,
    pub(crate) keys: u64,
    pub(crate) modified: SystemTime,
    /// As they were.
    pub(crate) files: Vec<(File, Stamp)>,
}

pub(crate) enum PartSummary {
    /// A filter of all captures.
    Filter(Box<Filter>),
    /// URLs as they are spelled.
    Classic(Box<ClassicFilter>),
    /// Any other summary, which may not cover all captures.
    Other(Box<dyn Summary>),
}

impl Part {
    /// Whether its files are what they were. Nothing is absent in a file that was written to while it
    /// was read.
    ///
    /// # Errors
    /// If one of them is not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_same = |(file, stamp): &(File, Stamp)| {
            let now = file.metadata();
            now.is_ok_and(|now| Stamp::of(&now) == *stamp)
        };
        match self.files.iter().all(is_same) {
            true => Ok(()),
            false => Err(unknown("a file was overwritten while it was in use")),
        }
    }
}

fn unknown(why: &str) -> Error {
    Error::new(ErrorKind::Format(why.to_owned()))
}

/// A summary that is not in a file of the service, such as one in Redis or one of a router.
#[derive(Clone)]
pub struct RemoteSummary {
    /// The summary.
    pub summary: Arc<dyn Summary>,
    /// What it is at the moment.
    pub state: Arc<dyn Fn() -> RemoteState + Send + Sync>,
    /// Whether lookups wait for another server.
    pub waits: bool,
}

/// What a remote summary is at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteState {
    /// Identifies its content.
    pub identity: u64,
    /// Its false positive rate, if it is known.
    pub rate: Option<f64>,
    /// The number of its keys, if it is known.
    pub keys: Option<u64>,
    /// When it was last changed.
    pub modified: SystemTime,
}

/// An archive.
pub struct ServedArchive {
    pub(crate) id: String,
    /// Its files, each with the number of its keyer if it is a filter.
    pub(crate) parts: Vec<(Arc<Part>, usize)>,
    /// What is wrong with a file that no earlier version answers for.
    pub(crate) problem: Option<String>,
    /// A summary that is not in a file.
    pub(crate) remote: Option<RemoteSummary>,
    /// What was added, and the number of its keyer.
    pub(crate) live: Option<(Arc<LiveArchive>, usize)>,
    /// When its files were last modified.
    pub(crate) modified: SystemTime,
    /// Identifies its files.
    pub(crate) version: u64,
    /// The number of keys in its files.
    pub(crate) keys: u64,
    /// The false positive rate of its files; `None` if it is not known.
    pub(crate) rate: Option<f64>,
    /// Its description, if nothing but its files is looked up.
    pub(crate) described: OnceLock<Description>,
}

/// What answers say about an archive, as headers.
#[derive(Clone)]
pub(crate) struct Description {
    pub(crate) etag: HeaderValue,
    pub(crate) modified: HeaderValue,
    pub(crate) rate: Option<HeaderValue>,
}

impl ServedArchive {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The probability that an archive is said to hold a URI that it does not hold; `None` if a summary
    /// does not tell.
    pub fn rate(&self) -> Option<f64> {
        let live = self.live.as_ref().map_or(0.0, |(live, _)| live.rate());
        let remote = match &self.remote {
            Some(remote) => (remote.state)().rate?,
            None => 0.0,
        };
        Some(1.0 - (1.0 - self.rate?) * (1.0 - live) * (1.0 - remote))
    }

    /// What answers say about it. Made once, unless it can change.
    pub(crate) fn description(&self) -> Description {
        match self.live.is_none() && self.remote.is_none() {
            true => self.described.get_or_init(|| self.describe()).clone(),
            false => self.describe(),
        }
    }

    fn describe(&self) -> Description {
        // None of them has characters that headers cannot have.
        let value =
            |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        Description {
            etag: value(&self.etag()),
            modified: value(&httpdate::fmt_http_date(self.modified())),
            rate: self.rate().map(|rate| value(&format!("{rate:.3e}"))),
        }
    }

    /// When its files were last modified, or something was added.
    pub fn modified(&self) -> SystemTime {
        let live = self.live.as_ref().map(|(live, _)| live.modified());
        let remote = self.remote.as_ref().map(|remote| (remote.state)().modified);
        let times = [Some(self.modified), live, remote];
        times.into_iter().flatten().max().unwrap_or(self.modified)
    }

    /// Identifies what it holds, as an ETag.
    pub fn etag(&self) -> String {
        let mut etag = format!("\"{:016x}", self.version);
        if let Some((live, _)) = &self.live {
            etag += &format!("-{:x}", live.count());
        }
        if let Some(remote) = &self.remote {
            etag += &format!("+{:016x}", (remote.state)().identity);
        }
        etag + "\""
    }

    /// The number of keys, if it is known.
    pub fn keys(&self) -> Option<u64> {
        let remote = match &self.remote {
            Some(remote) => (remote.state)().keys?,
            None => 0,
        };
        let live = self.live.as_ref().map_or(0, |(live, _)| live.count());
        Some(self.keys + remote + live)
    }

    /// Whether lookups wait for another server.
    pub fn is_remote(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.waits)
    }

    /// Whether URIs can be added.
    pub fn is_writable(&self) -> bool {
        self.live
            .as_ref()
            .is_some_and(|(live, _)| live.is_writable())
    }

    fn may_hold(&self, uri: &[u8], hashes: &[Hash]) -> Result<bool, Error> {
        if let Some((live, keyer)) = &self.live
            && live.contains(hashes[*keyer])
        {
            return Ok(true);
        }
        for (part, keyer) in &self.parts {
            let found = match &part.summary {
                PartSummary::Filter(filter) => filter.contains(hashes[*keyer])?,
                PartSummary::Classic(filter) => filter.may_hold(uri)?.is_some(),
                PartSummary::Other(summary) => look_up(&**summary, uri)?,
            };
            if found {
                return Ok(true);
            }
            part.check()?;
        }
        match (&self.remote, &self.problem) {
            (Some(remote), _) if look_up(&*remote.summary, uri)? => Ok(true),
            (_, Some(problem)) => Err(unknown(problem)),
            (_, None) => Ok(false),
        }
    }

    /// The same for many: each of several passes over all URIs gives a list of answers.
    fn may_hold_all(
        &self,
        uris: &[&[u8]],
        hashes: &[Vec<Hash>],
        mut take: impl FnMut(&[bool]),
    ) -> Result<(), Error> {
        let mut answers = Vec::new();
        if let Some((live, keyer)) = &self.live {
            let segments = live.segments();
            answers.extend(hashes[*keyer].iter().map(|hash| segments.contains(*hash)));
            take(&answers);
        }
        for (part, keyer) in &self.parts {
            answers.clear();
            match &part.summary {
                PartSummary::Filter(filter) => {
                    filter.contains_all(&hashes[*keyer], &mut answers)?
                }
                PartSummary::Classic(filter) => {
                    for uri in uris {
                        answers.push(filter.may_hold(uri)?.is_some());
                    }
                }
                PartSummary::Other(summary) => look_up_all(&**summary, uris, &mut answers)?,
            }
            part.check()?;
            take(&answers);
        }
        if let Some(remote) = &self.remote {
            answers.clear();
            look_up_all(&*remote.summary, uris, &mut answers)?;
            take(&answers);
        }
        match &self.problem {
            Some(problem) => Err(unknown(problem)),
            None => Ok(()),
        }
    }
}

/// Whether a summary of any kind may hold a URI.
fn look_up(summary: &dyn Summary, uri: &[u8]) -> Result<bool, Error> {
    let mut buffer = Vec::new();
    match Lookup::new(uri, summary.about().dialect, &mut buffer) {
        Ok(lookup) => Ok(summary.lookup(&lookup)?.presence().is_possible()),
        // It has a SURT in another dialect: then better ask the archive.
        Err(_) => Ok(true),
    }
}

/// The same for many.
fn look_up_all(
    summary: &dyn Summary,
    uris: &[&[u8]],
    answers: &mut Vec<bool>,
) -> Result<(), Error> {
    let mut buffer = LookupBuffer::new(summary.about().dialect);
    let batch = buffer.fill(uris);
    let lookups: Vec<Lookup<'_>> = batch.valid().collect();
    let mut given = summary.lookup_all(&lookups)?.into_iter();
    answers.extend(batch.iter().map(|(_, lookup)| {
        lookup.is_err()
            || given
                .next()
                .is_none_or(|answer| answer.presence().is_possible())
    }));
    Ok(())
}

/// All archives at one moment.
pub struct Snapshot {
    /// Ordered by id.
    archives: Vec<ServedArchive>,
    /// The different ways to make hashes; never none, so that invalid URIs are noticed.
    keyers: Vec<Keyer>,
    /// What is wrong with files that can't be read.
    problems: Vec<String>,
    number: u64,
}

/// The keyer that notices invalid URIs.
pub(crate) fn usual_keyer() -> Keyer {
    Keyer::new(Dialect::default(), Policy::Whole, Hasher::Public)
}

/// Snapshots are numbered, so that threads notice when their keyers are outdated.
static NUMBER: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static KEYERS: RefCell<(u64, Vec<Keyer>)> = const { RefCell::new((0, Vec::new())) };
}

impl Snapshot {
    /// Archives, each with a summary that is not in a file of the service.
    pub fn of(summaries: impl IntoIterator<Item = (String, RemoteSummary)>) -> Snapshot {
        let archives = summaries.into_iter().map(|(id, remote)| ServedArchive {
            id,
            parts: Vec::new(),
            problem: None,
            remote: Some(remote),
            live: None,
            modified: SystemTime::UNIX_EPOCH,
            version: 0,
            keys: 0,
            rate: Some(0.0),
            described: OnceLock::new(),
        });
        Snapshot::new(archives.collect(), vec![usual_keyer()], Vec::new())
    }

    pub(crate) fn new(
        mut archives: Vec<ServedArchive>,
        keyers: Vec<Keyer>,
        problems: Vec<String>,
    ) -> Snapshot {
        archives.sort_by(|one, other| one.id.cmp(&other.id));
        Snapshot {
            archives,
            keyers,
            problems,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// What is wrong with files that can't be read.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// All archives, ordered by id.
    pub fn archives(&self) -> &[ServedArchive] {
        &self.archives
    }

    /// The archive with this id.
    pub fn archive(&self, id: &str) -> Option<&ServedArchive> {
        let at = self
            .archives
            .binary_search_by(|archive| archive.id.as_str().cmp(id));
        at.ok().map(|at| &self.archives[at])
    }

    /// Whether an archive may hold a URI.
    ///
    /// # Errors
    /// If the URI is invalid, or a summary cannot be read.
    pub fn may_hold(&self, archive: &ServedArchive, uri: &[u8]) -> Result<bool, LookupError> {
        self.with_hashes(uri, |hashes| Ok(archive.may_hold(uri, hashes)?))
    }

    /// The archives that may hold a URI.
    ///
    /// # Errors
    /// If the URI is invalid.
    pub fn holders(&self, uri: &[u8]) -> Result<Vec<&ServedArchive>, LookupError> {
        self.with_hashes(uri, |hashes| {
            let mut holders = Vec::new();
            for archive in &self.archives {
                // What can't be looked up may be held.
                if archive.may_hold(uri, hashes).unwrap_or(true) {
                    holders.push(archive);
                }
            }
            Ok(holders)
        })
    }

    /// For each of many URIs, which archives may hold it: a row of `archives` for each URI.
    pub(crate) fn holders_of_all(
        &self,
        uris: &[&[u8]],
        invalid: &mut Vec<bool>,
        found: &mut Vec<bool>,
    ) {
        let width = self.archives.len();
        invalid.clear();
        invalid.resize(uris.len(), false);
        found.clear();
        found.resize(uris.len() * width, false);
        let mut hashes: Vec<Vec<Hash>> = vec![Vec::with_capacity(uris.len()); self.keyers.len()];
        self.with_keyers(|keyers| {
            for (number, uri) in uris.iter().enumerate() {
                for (keyer, hashes) in keyers.iter_mut().zip(&mut hashes) {
                    hashes.push(match keyer.hash(uri) {
                        Ok(hash) => hash,
                        Err(_) => {
                            invalid[number] = true;
                            0
                        }
                    });
                }
            }
        });
        for (column, archive) in self.archives.iter().enumerate() {
            let known = archive.may_hold_all(uris, &hashes, |answers| {
                for (number, answer) in answers.iter().enumerate() {
                    found[number * width + column] |= answer;
                }
            });
            // What can't be looked up may be held.
            if known.is_err() {
                let column = found.iter_mut().skip(column).step_by(width);
                column.for_each(|found| *found = true);
            }
        }
    }

    fn with_hashes<T>(
        &self,
        uri: &[u8],
        take: impl FnOnce(&[Hash]) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let hashes = self.with_keyers(|keyers| {
            let hashes = keyers.iter_mut().map(|keyer| keyer.hash(uri));
            hashes.collect::<Result<Vec<Hash>, _>>()
        });
        take(&hashes.map_err(LookupError::Uri)?)
    }

    /// Passes the keyers of this thread.
    fn with_keyers<T>(&self, take: impl FnOnce(&mut [Keyer]) -> T) -> T {
        KEYERS.with_borrow_mut(|(number, keyers)| {
            if *number != self.number {
                keyers.clone_from(&self.keyers);
                *number = self.number;
            }
            take(keyers)
        })
    }
}

/// Why a lookup has no answer.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The URI has no SURT.
    #[error("{0}")]
    Uri(waypost_surt::Error),
    /// A summary cannot be read.
    #[error(transparent)]
    Summary(#[from] Error),
}
