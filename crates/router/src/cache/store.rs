//! Answers on disk, which survive restarts: a file of redb, up to a number of bytes; the one that was
//! stored first goes first.
//!
//! Entries are read by the threads for blocking work and written by a thread of its own, many at a
//! time, because each commit waits for the disk. A file that is damaged is set aside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use waypost_io::{Error, ErrorKind, IoContext};

use super::entry::{Entry, Key};

/// Key → the number under which it is in [`ORDER`], and the entry.
const ENTRIES: TableDefinition<&str, (u64, &[u8])> = TableDefinition::new("entries");
/// Number → key, in the order in which they were stored.
const ORDER: TableDefinition<u64, &str> = TableDefinition::new("order");
/// The sum of the lengths of keys and entries.
const TOTALS: TableDefinition<&str, u64> = TableDefinition::new("totals");

/// Memory of redb for pages.
const PAGES: usize = 8 << 20;

/// How long entries are collected before they are written.
const COLLECT: Duration = Duration::from_millis(200);

/// How many bytes of entries may wait to be written. More are dropped: they are only a cache.
const MOST_WAITING: usize = 32 << 20;

/// Answers on disk.
#[derive(Debug)]
pub(super) struct Store {
    shared: Arc<Shared>,
    sender: Option<Sender<(Key, Arc<Entry>)>>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    /// `None` if it cannot be used any more.
    database: RwLock<Option<Arc<Database>>>,
    limit: AtomicU64,
    /// Bytes that wait to be written.
    waiting: AtomicUsize,
    report: Box<dyn Fn(String) + Send + Sync>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("path", &self.path).finish()
    }
}

type Outcome<T> = Result<T, redb::Error>;

impl Store {
    /// Opens or creates a file. If it is damaged, it is set aside and that is reported.
    ///
    /// # Errors
    /// If another process uses it, or the file cannot be created.
    pub(super) fn open(
        path: &Path,
        limit: u64,
        report: Box<dyn Fn(String) + Send + Sync>,
    ) -> waypost_io::Result<Store> {
        let database = open_or_replace(path, &*report)?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            database: RwLock::new(Some(Arc::new(database))),
            limit: AtomicU64::new(limit),
            waiting: AtomicUsize::new(0),
            report,
        });
        let (sender, receiver) = channel();
        let writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("cache".to_owned())
            .spawn(move || writer.write_all(&receiver))
            .doing("start a thread for", path)?;
        Ok(Store {
            shared,
            sender: Some(sender),
            writer: Some(writer),
        })
    }

    /// Blocks for the disk.
    pub(super) fn get(&self, key: &str) -> Option<Entry> {
        let bytes = self.shared.attempt("read", |database| {
            let read = database.begin_read()?;
            let table = read.open_table(ENTRIES)?;
            let found = table.get(key)?;
            Ok(found.map(|found| found.value().1.to_vec()))
        });
        // One damaged entry is nothing: it will be replaced.
        Entry::from_bytes(&bytes??)
    }

    /// Stores an entry some time later.
    pub(super) fn put(&self, key: Key, entry: Arc<Entry>) {
        let bytes = entry.bytes();
        let waiting = self.shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        let full = waiting > 0 && waiting + bytes > MOST_WAITING;
        let sent = match &self.sender {
            Some(sender) if !full => sender.send((key, entry)).is_ok(),
            _ => false,
        };
        if !sent {
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.shared.limit.store(limit, Ordering::Relaxed);
    }
}

impl Drop for Store {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    /// Does something with the database. If it is damaged, it is set aside. In any case it is opened
    /// again before the next write.
    fn attempt<T>(&self, doing: &str, work: impl FnOnce(&Database) -> Outcome<T>) -> Option<T> {
        let database = self.database.read();
        let database = database.unwrap_or_else(PoisonError::into_inner).clone()?;
        // Damaged pages may make redb panic.
        let result = catch_unwind(AssertUnwindSafe(|| work(&database)));
        let (why, damaged) = match result {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error @ (redb::Error::Io(_) | redb::Error::PreviousIo))) => {
                (error.to_string(), false)
            }
            Ok(Err(error)) => (error.to_string(), true),
            Err(_) => ("it is damaged".to_owned(), true),
        };
        let known = self.database.write();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &database))
        {
            *known = None;
            let path = self.path.display();
            (self.report)(format!("cannot {doing} the cache {path}: {why}"));
            match damaged.then(|| set_aside(&self.path)) {
                Some(Ok(aside)) => (self.report)(format!("set it aside as {}", aside.display())),
                Some(Err(error)) => (self.report)(error.to_string()),
                None => {}
            }
        }
        None
    }

    /// Opens the database again after an error.
    fn reopen(&self) {
        let known = self.database.write();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            match open_or_replace(&self.path, &*self.report) {
                Ok(database) => *known = Some(Arc::new(database)),
                Err(error) => (self.report)(format!("{error}; going on without this cache")),
            }
        }
    }

    fn write_all(&self, receiver: &Receiver<(Key, Arc<Entry>)>) {
        while let Ok(first) = receiver.recv() {
            let mut batch = vec![first];
            let end = Instant::now() + COLLECT;
            while let Ok(next) =
                receiver.recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                batch.push(next);
            }
            let bytes: usize = batch.iter().map(|(_, entry)| entry.bytes()).sum();
            self.reopen();
            self.attempt("write to", |database| self.write(database, &batch));
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn write(&self, database: &Database, batch: &[(Key, Arc<Entry>)]) -> Outcome<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let write = database.begin_write()?;
        {
            let mut entries = write.open_table(ENTRIES)?;
            let mut order = write.open_table(ORDER)?;
            let mut totals = write.open_table(TOTALS)?;
            let mut total = totals.get("bytes")?.map_or(0, |total| total.value());
            let mut number = order.last()?.map_or(0, |(number, _)| number.value());
            for (key, entry) in batch {
                let bytes = entry.to_bytes();
                let length = (key.len() + bytes.len()) as u64;
                if length > limit {
                    continue;
                }
                number += 1;
                order.insert(number, &key[..])?;
                let old = entries.insert(&key[..], (number, &bytes[..]))?;
                let old = old.map(|old| (old.value().0, old.value().1.len()));
                total += length;
                if let Some((number, bytes)) = old {
                    total = total.saturating_sub((key.len() + bytes) as u64);
                    order.remove(number)?;
                }
            }
            while total > limit {
                let Some((_, key)) = order.pop_first()? else {
                    total = 0;
                    break;
                };
                let removed = entries.remove(key.value())?;
                let bytes = removed.map_or(0, |removed| removed.value().1.len());
                total = total.saturating_sub((key.value().len() + bytes) as u64);
            }
            totals.insert("bytes", total)?;
        }
        write.commit()?;
        Ok(())
    }
}

fn open_or_replace(path: &Path, report: &dyn Fn(String)) -> waypost_io::Result<Database> {
    let invalid = |text: String| Error::new(ErrorKind::Invalid(text)).in_file(path.display());
    match open(path) {
        Ok(database) => return Ok(database),
        Err(DatabaseError::DatabaseAlreadyOpen) => {
            return Err(invalid("another process uses this cache".to_owned()));
        }
        // Not there, or not ours.
        Err(DatabaseError::Storage(redb::StorageError::Io(error)))
            if error.kind() != std::io::ErrorKind::InvalidData =>
        {
            return Err(error).doing("open", path);
        }
        Err(error) => {
            let aside = set_aside(path)?;
            report(format!(
                "the cache {} is damaged ({error}); set it aside as {}",
                path.display(),
                aside.display()
            ));
        }
    }
    open(path).map_err(|error| invalid(format!("cannot create the cache: {error}")))
}

fn open(path: &Path) -> Result<Database, DatabaseError> {
    let attempt = || {
        let database = Database::builder().set_cache_size(PAGES).create(path)?;
        // Tables are there from the start, so that reading never fails for want of them.
        let tables = || {
            let write = database.begin_write()?;
            write.open_table(ENTRIES)?;
            write.open_table(ORDER)?;
            write.open_table(TOTALS)?;
            Outcome::Ok(write.commit()?)
        };
        match tables() {
            Ok(()) => Ok(database),
            Err(error) => Err(damaged(error.to_string())),
        }
    };
    catch_unwind(AssertUnwindSafe(attempt))
        .unwrap_or_else(|_| Err(damaged("it cannot be opened".to_owned())))
}

fn damaged(why: String) -> DatabaseError {
    DatabaseError::Storage(redb::StorageError::Corrupted(why))
}

/// Renames a damaged file, in place of the one before it.
fn set_aside(path: &Path) -> waypost_io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    std::fs::rename(path, &aside).doing("set aside", path)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::cache::tests::entry;

    type Reports = Arc<Mutex<Vec<String>>>;

    fn store(path: &Path, limit: u64) -> (Store, Reports) {
        let reports = Reports::default();
        let kept = Arc::clone(&reports);
        let report = Box::new(move |text| kept.lock().unwrap().push(text));
        (Store::open(path, limit, report).unwrap(), reports)
    }

    #[test]
    fn entries_survive_a_restart_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let one = Arc::new(entry(1, 20));
        let length = "key 1".len() + one.to_bytes().len();
        let (first, _) = store(&path, 3 * length as u64 + 10);
        for number in 1..=3 {
            first.put(format!("key {number}").into(), Arc::clone(&one));
        }
        drop(first);
        let (second, reports) = store(&path, 3 * length as u64 + 10);
        assert_eq!(second.get("key 1").as_ref(), Some(&*one));
        // Stored anew, the first is the youngest.
        second.put("key 1".into(), Arc::clone(&one));
        drop(second);
        let (third, _) = store(&path, 3 * length as u64 + 10);
        third.put("key 4".into(), Arc::clone(&one));
        third.put("too large".into(), Arc::new(entry(2, 20_000)));
        drop(third);
        let (fourth, _) = store(&path, 1 << 20);
        let kept: Vec<bool> = (1..=4)
            .map(|number| fourth.get(&format!("key {number}")).is_some())
            .collect();
        assert_eq!(kept, [true, false, true, true]);
        assert!(fourth.get("too large").is_none());
        assert!(reports.lock().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let garbage: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &garbage).unwrap();
        let (new, reports) = store(&path, 1 << 20);
        new.put("a".into(), Arc::new(entry(1, 1)));
        drop(new);
        assert!(reports.lock().unwrap()[0].contains("is damaged"));
        assert_eq!(
            std::fs::read(folder.path().join("cache.redb.damaged")).unwrap(),
            garbage
        );
        let (again, reports) = store(&path, 1 << 20);
        assert!(again.get("a").is_some());
        assert!(reports.lock().unwrap().is_empty());
        let other = Store::open(&path, 1, Box::new(|_| {}));
        let text = other.unwrap_err().to_string();
        assert!(text.ends_with("another process uses this cache"), "{text}");
    }

    #[test]
    fn damage_anywhere_is_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let (new, _) = store(&path, 1 << 20);
        let right = Arc::new(entry(1, 50));
        for number in 0..20 {
            new.put(format!("{number}").into(), Arc::clone(&right));
        }
        drop(new);
        let whole = std::fs::read(&path).unwrap();
        for step in 0..60 {
            let mut bytes = whole.clone();
            let at = step * bytes.len() / 60;
            let end = (at + 700).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x5A);
            if step % 5 == 0 {
                bytes.truncate(end);
            }
            std::fs::write(&path, &bytes).unwrap();
            let (damaged, _) = store(&path, 1 << 20);
            for number in 0..20 {
                let found = damaged.get(&format!("{number}"));
                assert!(found.is_none_or(|found| found == *right), "{at}");
            }
            damaged.put("new".into(), Arc::clone(&right));
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let path = Path::new("/nowhere/cache.redb");
        let text = Store::open(path, 1, Box::new(|_| {}))
            .unwrap_err()
            .to_string();
        assert_eq!(text, "/nowhere/cache.redb: cannot open");
    }
}
