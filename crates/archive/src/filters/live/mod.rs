//! Adding URIs while the server runs, as crawlers do that share what they have.
//!
//! ```text
//! add ─► log (synced) ─► filter in memory ─► acknowledged
//!           └ when it is long, when the filter is full, and at the end ─► live-000001.filter
//! ```
//!
//! What was acknowledged is in the log or in a filter on the disk, so that it survives a crash at any
//! moment. Batches that arrive at the same time share one sync.

mod log;
mod segments;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::SystemTime;

use tokio::sync::oneshot;
use waypost_io::{Error, ErrorKind, IoContext, Result};
use waypost_summary::filter::{Hash, Keyer, LiveFilter};

use log::Log;
pub(crate) use segments::Segments;

/// The name of the log.
pub(crate) const LOG: &str = "live.wal";

/// Locked by the process that writes.
const LOCK: &str = "live.lock";

/// Whether a file belongs to a live archive.
pub(crate) fn is_own(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == LOG || name == LOCK || segments::number_of(name).is_some())
}

/// How URIs are added.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The number of URIs that the first filter is made for. The next has twice as many.
    pub capacity: u64,
    /// The false positive rate of each filter.
    pub rate: f64,
    /// The size of the log at which a filter is written.
    pub most_log: u64,
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions {
            capacity: 1_000_000,
            rate: 0.001,
            most_log: 64 << 20,
        }
    }
}

/// What was added to an archive.
pub struct LiveArchive {
    keyer: Keyer,
    shared: Arc<Shared>,
    /// `None` if nothing can be added.
    sender: Mutex<Option<Sender<Batch>>>,
    writer: Mutex<Option<JoinHandle<Result<()>>>>,
    writable: bool,
    warning: Option<Error>,
}

struct Shared {
    segments: RwLock<Arc<Segments>>,
    /// Seconds since 1970.
    modified: AtomicU64,
}

/// Hashes to add, and who waits for them.
struct Batch {
    hashes: Vec<Hash>,
    done: oneshot::Sender<Result<Vec<bool>, String>>,
}

impl LiveArchive {
    /// Opens what was added to the archive in a folder. Without options, nothing more can be added.
    ///
    /// # Errors
    /// If a file is damaged, or another process writes to the archive.
    pub fn open(
        folder: &Path,
        keyer: &Keyer,
        options: Option<&LiveOptions>,
    ) -> Result<LiveArchive> {
        let path = folder.join(LOG);
        let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
        let defaults = LiveOptions::default();
        // Before anything is read or written.
        let lock = match options {
            Some(_) => Some(lock_folder(folder)?),
            None => None,
        };
        let writable = options.is_some();
        let segments = Segments::open(folder, keyer, options.unwrap_or(&defaults), writable)?;
        let (mut log, mut warning) = (None, None);
        let insert = |hash| {
            segments.insert(hash);
        };
        match options {
            Some(_) => {
                let log = log.insert(Log::open(&path, keyer, insert)?);
                warning = log.warning.take();
            }
            None if path.exists() => (_, warning) = log::replay(&path, keyer, insert)?,
            None => {}
        }
        segments.measure();
        let shared = Arc::new(Shared {
            segments: RwLock::new(Arc::new(segments)),
            modified: AtomicU64::new(seconds(modified)),
        });
        let (mut sender, mut writer) = (None, None);
        if let (Some(options), Some(log), Some(lock)) = (options, log, lock) {
            let (sending, batches) = mpsc::channel();
            let worker = Writer {
                folder: folder.to_owned(),
                keyer: keyer.clone(),
                options: options.clone(),
                log,
                shared: Arc::clone(&shared),
                _lock: lock,
            };
            let thread = std::thread::Builder::new().name("waypost-add".to_owned());
            let thread = thread.spawn(move || worker.run(&batches));
            writer = Some(thread.doing("start a thread for", folder)?);
            sender = Some(sending);
        }
        Ok(LiveArchive {
            keyer: keyer.clone(),
            shared,
            writable: sender.is_some(),
            sender: Mutex::new(sender),
            writer: Mutex::new(writer),
            warning,
        })
    }

    /// What was wrong with its log when it was opened.
    pub fn warning(&self) -> Option<&Error> {
        self.warning.as_ref()
    }

    /// What makes its keys.
    pub fn keyer(&self) -> Keyer {
        self.keyer.clone()
    }

    /// Whether URIs can be added.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Adds hashes. When this returns, they are on the disk. Returns which of them were new; with
    /// many clients, a hash is new for one of them.
    ///
    /// # Errors
    /// If they could not be written, or the archive was closed.
    pub async fn add(&self, hashes: Vec<Hash>) -> Result<Vec<bool>> {
        let closed = || Error::new(ErrorKind::Invalid("nothing can be added".to_owned()));
        let (done, acknowledged) = oneshot::channel();
        {
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
            let sender = sender.as_ref().ok_or_else(closed)?;
            let batch = Batch { hashes, done };
            sender.send(batch).map_err(|_| closed())?;
        }
        match acknowledged.await {
            Ok(Ok(new)) => Ok(new),
            Ok(Err(problem)) => Err(Error::new(ErrorKind::Invalid(problem))),
            Err(_) => Err(closed()),
        }
    }

    /// Whether a hash may have been added.
    pub fn contains(&self, hash: Hash) -> bool {
        self.segments().contains(hash)
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        self.shared.segments()
    }

    /// The number of hashes.
    pub fn count(&self) -> u64 {
        self.segments().count()
    }

    /// The false positive rate.
    pub fn rate(&self) -> f64 {
        self.segments().rate()
    }

    /// When something was last added.
    pub fn modified(&self) -> SystemTime {
        let seconds = self.shared.modified.load(Ordering::Relaxed);
        SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)
    }

    /// Writes everything to filters and adds nothing more.
    ///
    /// # Errors
    /// If a filter cannot be written. What was acknowledged is still in the log.
    pub fn close(&self) -> Result<()> {
        drop(
            self.sender
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match writer.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::new(ErrorKind::Invalid(
                "the thread that adds URIs has ended unexpectedly".to_owned(),
            ))),
        }
    }
}

impl Shared {
    fn segments(&self) -> Arc<Segments> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&segments)
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn lock_folder(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let lock = File::create(&path).doing("create", &path)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => {
            let problem = "another process adds to this archive".to_owned();
            Err(Error::new(ErrorKind::Invalid(problem)).in_file(folder.display()))
        }
        Err(fs::TryLockError::Error(error)) => Err(error).doing("lock", &path),
    }
}

/// The thread that adds.
struct Writer {
    folder: PathBuf,
    keyer: Keyer,
    options: LiveOptions,
    log: Log,
    shared: Arc<Shared>,
    _lock: File,
}

/// Maximum number of hashes that share a sync.
const MOST_AT_ONCE: usize = 1 << 20;

impl Writer {
    fn run(mut self, batches: &Receiver<Batch>) -> Result<()> {
        while let Ok(first) = batches.recv() {
            let mut together = vec![first];
            let mut count = together[0].hashes.len();
            while count < MOST_AT_ONCE
                && let Ok(batch) = batches.try_recv()
            {
                count += batch.hashes.len();
                together.push(batch);
            }
            self.add(together);
        }
        self.save()
    }

    fn add(&mut self, batches: Vec<Batch>) {
        let mut segments = self.shared.segments();
        let all = batches.iter().flat_map(|batch| &batch.hashes);
        let missing: Vec<Hash> = all
            .copied()
            .filter(|&hash| !segments.contains(hash))
            .collect();
        if !missing.is_empty()
            && let Err(error) = self.log.append(&missing)
        {
            for batch in batches {
                let _ = batch.done.send(Err(error.to_string()));
            }
            return;
        }
        let (mut left, mut may_grow) = (missing.len() as u64, true);
        for batch in batches {
            let mut new = Vec::with_capacity(batch.hashes.len());
            for &hash in &batch.hashes {
                if may_grow && segments.needs_another(left) && !segments.contains(hash) {
                    match self.grow(&segments, left) {
                        Ok(next) => segments = next,
                        // Rather too many false positives than nothing; everything is in the log.
                        Err(_) => may_grow = false,
                    }
                }
                let is_new = segments.insert(hash);
                left -= u64::from(is_new);
                new.push(is_new);
            }
            // Who asked may be gone.
            let _ = batch.done.send(Ok(new));
        }
        segments.measure();
        let now = seconds(SystemTime::now());
        self.shared.modified.store(now, Ordering::Relaxed);
        if segments.needs_another(0) || self.log.bytes() > self.options.most_log {
            // If it fails, everything is still in the log, and the next batch tries again.
            let _ = self.save();
        }
    }

    /// Adds to another filter from now on, which has room for this many hashes. Both are on the disk
    /// before: whenever the log is read again, the same filters must contain its hashes.
    fn grow(&self, segments: &Segments, most: u64) -> Result<Arc<Segments>> {
        segments.write_last(&self.folder)?;
        let next = Arc::new(segments.with_another(&self.keyer, &self.options, most));
        next.write_last(&self.folder)?;
        let current = self.shared.segments.write();
        *current.unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        Ok(next)
    }

    /// Writes the filter, and then clears the log.
    fn save(&mut self) -> Result<()> {
        if self.log.bytes() == 0 {
            return Ok(());
        }
        let segments = self.shared.segments();
        match segments.needs_another(0) {
            true => drop(self.grow(&segments, 0)?),
            false => segments.write_last(&self.folder)?,
        }
        self.log.clear()
    }
}

/// A filter of added hashes.
type Segment = Arc<LiveFilter>;
