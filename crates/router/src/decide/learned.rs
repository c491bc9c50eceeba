//! What was learned from traffic: how often each archive had something, by parts of the key space.
//!
//! A lookup counts for an archive as a whole, for the top-level domain, for the registered domain and
//! for the host. What was seen long ago counts less: it halves with every half-life. The chance that an
//! archive has something is that of the most specific part, smoothed by that of the part above it, so
//! that one lookup changes little and a hundred much.
//!
//! The counts are in memory, up to a number of them; those that changed are written to a file now and
//! then, in one transaction. The file has hashes instead of hosts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use waypost_io::{Error, ErrorKind, IoContext};
use waypost_surt::Surt;
use xxhash_rust::xxh3::xxh3_64;

use super::seats::Seats;

/// Hits, misses, mementos and seconds, all decayed, and when.
type Stored = (f32, f32, f32, f32, u64);

/// By the hashes of part and archive.
const TALLIES: TableDefinition<(u64, u64), Stored> = TableDefinition::new("tallies by part");

/// How many parts are remembered. The ones that count least go first.
const MOST: usize = 1 << 20;

/// The weight of the part above, in lookups.
const PRIOR: f64 = 4.0;

/// How many lookups in a row count that are of one client, or for one host, and how long a row lasts in
/// seconds: nobody teaches the router alone.
const IN_A_ROW: u32 = 4;
const ROW: u64 = 3600;

/// What was learned from traffic.
pub(crate) struct Learned {
    half_life: Duration,
    state: RwLock<State>,
    database: Option<(PathBuf, Mutex<Option<Database>>)>,
    /// Seconds since 1970.
    clock: fn() -> u64,
}

/// The counts. A decision needs those of all archives for a few parts: so they are side by side.
#[derive(Default)]
struct State {
    /// By the hash of the part; in the order of archives.
    parts: HashMap<u64, Vec<(Seed, Tally)>, Mixing>,
    /// How many tallies there are.
    count: usize,
    changed: HashSet<(u64, Seed)>,
}

/// Hashes what is a hash already, in a way that nobody can foresee: hosts are chosen by others.
#[derive(Clone)]
struct Mixing(u64);

impl Default for Mixing {
    fn default() -> Mixing {
        Mixing(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Mixing {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed(self.0)
    }
}

struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What happened when an archive was asked for URIs of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    hits: f32,
    misses: f32,
    mementos: f32,
    /// Of hits and misses.
    seconds: f32,
    /// When this was true.
    at: u64,
    /// The last lookups, if they were of one client or for one host.
    row: Row,
}

/// Lookups that followed each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    /// Hashes; 0 if not known.
    client: u32,
    host: u32,
    length: u32,
    /// When the first one was, in seconds since 1970.
    since: u32,
}

impl Row {
    /// Adds a lookup. Whether it counts.
    fn add(&mut self, client: u32, host: u32, now: u64) -> bool {
        let same = (client != 0 && client == self.client) || (host != 0 && host == self.host);
        if !same || now.abs_diff(u64::from(self.since)) > ROW {
            (self.length, self.since) = (0, now as u32);
        }
        (self.client, self.host) = (client, host);
        self.length = self.length.saturating_add(1);
        self.length <= IN_A_ROW
    }
}

impl Tally {
    /// The tally as it counts at a later time. A clock that was set back changes nothing.
    fn decayed(self, now: u64, half_life: Duration) -> Tally {
        let halves = now.saturating_sub(self.at) as f64 / half_life.as_secs_f64().max(1.0);
        let factor = (-halves * std::f64::consts::LN_2).exp() as f32;
        Tally {
            hits: self.hits * factor,
            misses: self.misses * factor,
            mementos: self.mementos * factor,
            seconds: self.seconds * factor,
            at: now.max(self.at),
            row: self.row,
        }
    }

    fn lookups(&self) -> f64 {
        f64::from(self.hits + self.misses)
    }
}

/// What is expected of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Expectation {
    /// The chance that it has something; `None` if it was never asked.
    pub(crate) chance: Option<f64>,
    /// Mementos per hit.
    pub(crate) mementos: Option<f64>,
    /// How long it takes to answer.
    pub(crate) seconds: Option<f64>,
    /// From how many lookups for the most specific part that is known.
    pub(crate) lookups: f64,
}

/// The hash of a client: of its network, if it may have many addresses.
fn network(client: IpAddr) -> u32 {
    let hash = match client.to_canonical() {
        IpAddr::V4(address) => xxh3_64(&address.octets()),
        IpAddr::V6(address) => xxh3_64(&address.octets()[..8]),
    };
    hash as u32
}

fn seconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

impl Learned {
    /// Nothing yet, and nothing on disk.
    pub(crate) fn new(half_life: Duration) -> Learned {
        Learned {
            half_life,
            state: RwLock::default(),
            database: None,
            clock: seconds_since_1970,
        }
    }

    /// Opens or creates a file. One that is damaged is set aside, and that is reported.
    ///
    /// # Errors
    /// If another process uses it, or it cannot be created.
    pub(crate) fn open(
        path: &Path,
        half_life: Duration,
        report: &mut dyn FnMut(String),
    ) -> waypost_io::Result<Learned> {
        let opened = try_open(path);
        let (database, state) = match opened {
            Ok(opened) => opened,
            Err(Problem::InUse) => {
                let text = "another process uses this file".to_owned();
                return Err(Error::new(ErrorKind::Invalid(text)).in_file(path.display()));
            }
            Err(Problem::Damaged(why)) if path.exists() => {
                let mut aside = path.as_os_str().to_owned();
                aside.push(".damaged");
                std::fs::rename(path, &aside).doing("rename", path)?;
                report(format!(
                    "{}: {why}; it is set aside as {} and learning starts anew",
                    path.display(),
                    Path::new(&aside).display()
                ));
                try_open(path).map_err(|problem| problem.at(path))?
            }
            Err(problem) => return Err(problem.at(path)),
        };
        Ok(Learned {
            state: RwLock::new(state),
            database: Some((path.to_owned(), Mutex::new(Some(database)))),
            ..Learned::new(half_life)
        })
    }

    /// Learns from one answer: whether an archive had mementos of a SURT, how many, and how long it
    /// took to say so. Of many lookups in a row of one client, few count; and above the host, of those
    /// for one host.
    pub(crate) fn add(
        &self,
        archive: Seed,
        parts: &Parts<'_>,
        client: Option<IpAddr>,
        mementos: u64,
        took: Option<Duration>,
    ) {
        let now = (self.clock)();
        let client = client.map_or(0, network);
        let own = parts.hashes().last();
        let mut state = self.state();
        for part in parts.hashes() {
            let tally = state.tally(part, archive);
            let host = own.filter(|own| *own != part).unwrap_or_default();
            if !tally.row.add(client, host as u32, now) {
                continue;
            }
            let mut counted = tally.decayed(now, self.half_life);
            match mementos {
                0 => counted.misses += 1.0,
                _ => counted.hits += 1.0,
            }
            counted.mementos += mementos as f32;
            let usual = counted.seconds / (counted.hits + counted.misses - 1.0).max(1.0);
            counted.seconds += took.map_or(usual, |took| took.as_secs_f32());
            *tally = counted;
            state.changed.insert((part, archive));
        }
        if state.count > MOST {
            state.forget(now, self.half_life);
        }
    }

    /// What is expected of each archive, in the order of the registry. Empty if nothing is known.
    pub(crate) fn expect_all(&self, seats: &Seats, parts: &Parts<'_>) -> Vec<Expectation> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.count == 0 {
            return Vec::new();
        }
        let now = (self.clock)();
        let mut expected = vec![Expectation::default(); seats.len()];
        for part in parts.hashes() {
            // Both lists are in the order of archives.
            let mut tallies = state.parts.get(&part).into_iter().flatten().peekable();
            for &(seed, place) in seats.by_seed() {
                while tallies.next_if(|(known, _)| *known < seed).is_some() {}
                if let Some((known, tally)) = tallies.peek()
                    && *known == seed
                {
                    expected[place].refine(&tally.decayed(now, self.half_life));
                }
            }
        }
        expected
    }

    /// What is expected of an archive.
    #[cfg(test)]
    pub(crate) fn expect(&self, archive: Seed, parts: &Parts<'_>) -> Expectation {
        let state = self.state();
        let mut expected = Expectation::default();
        for part in parts.hashes() {
            let tallies = state.parts.get(&part).into_iter().flatten();
            for (_, tally) in tallies.filter(|(seed, _)| *seed == archive) {
                expected.refine(&tally.decayed((self.clock)(), self.half_life));
            }
        }
        expected
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.state().count == 0
    }

    /// Writes what changed.
    ///
    /// # Errors
    /// If the file cannot be written. What changed is kept for the next time.
    pub(crate) fn flush(&self) -> waypost_io::Result<()> {
        let Some((path, database)) = &self.database else {
            return Ok(());
        };
        let changed: Vec<((u64, Seed), Option<Tally>)> = {
            let mut state = self.state();
            let changed = std::mem::take(&mut state.changed);
            let tally = |key: (u64, Seed)| (key, state.get(key.0, key.1));
            changed.into_iter().map(tally).collect()
        };
        if changed.is_empty() {
            return Ok(());
        }
        let database = database.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(database) = database.as_ref() else {
            return Ok(());
        };
        let write = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(TALLIES)?;
                for ((part, seed), tally) in &changed {
                    let key = (*part, seed.0);
                    match tally {
                        Some(t) => drop(
                            table.insert(key, (t.hits, t.misses, t.mementos, t.seconds, t.at))?,
                        ),
                        None => drop(table.remove(key)?),
                    }
                }
            }
            transaction.commit()?;
            Ok(())
        };
        // Damaged pages may make redb panic.
        let written = catch_unwind(AssertUnwindSafe(write));
        let why = match written {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the file is damaged".to_owned(),
        };
        self.state()
            .changed
            .extend(changed.iter().map(|(key, _)| key));
        Err(Error::new(ErrorKind::Format(format!("cannot write: {why}"))).in_file(path.display()))
    }

    fn state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expectation {
    /// Takes what happened in a more specific part into account.
    fn refine(&mut self, tally: &Tally) {
        let lookups = tally.lookups();
        let above = self.chance.unwrap_or(0.5);
        self.chance = Some((f64::from(tally.hits) + PRIOR * above) / (lookups + PRIOR));
        if tally.hits > 0.0 {
            self.mementos = Some(f64::from(tally.mementos / tally.hits));
        }
        if lookups > 0.0 {
            self.seconds = Some(f64::from(tally.seconds) / lookups);
        }
        self.lookups = lookups;
    }
}

impl State {
    /// The tally of a part and an archive, which is there afterwards.
    fn tally(&mut self, part: u64, archive: Seed) -> &mut Tally {
        let tallies = self.parts.entry(part).or_default();
        let at = match tallies.binary_search_by_key(&archive, |(seed, _)| *seed) {
            Ok(at) => at,
            Err(at) => {
                self.count += 1;
                tallies.insert(at, (archive, Tally::default()));
                at
            }
        };
        &mut tallies[at].1
    }

    fn get(&self, part: u64, archive: Seed) -> Option<Tally> {
        let tallies = self.parts.get(&part)?;
        let at = tallies.binary_search_by_key(&archive, |(seed, _)| *seed);
        at.ok().map(|at| tallies[at].1)
    }

    /// Forgets the half that counts least.
    fn forget(&mut self, now: u64, half_life: Duration) {
        let weight = |tally: &Tally| tally.decayed(now, half_life).lookups();
        let all = self.parts.values().flatten();
        let mut weights: Vec<f64> = all.map(|(_, tally)| weight(tally)).collect();
        let middle = weights.len() / 2;
        let (_, least, _) = weights.select_nth_unstable_by(middle, f64::total_cmp);
        let least = *least;
        let mut spare = self.count - middle;
        let State {
            parts,
            count,
            changed,
        } = self;
        parts.retain(|part, tallies| {
            tallies.retain(|(seed, tally)| {
                // Many weigh the same, above all 1.
                let forget = weight(tally) <= least && spare > 0;
                if forget {
                    spare -= 1;
                    *count -= 1;
                    changed.insert((*part, *seed));
                }
                !forget
            });
            !tallies.is_empty()
        });
    }
}

/// Why a file can't be opened.
enum Problem {
    InUse,
    Damaged(String),
}

impl Problem {
    fn at(self, path: &Path) -> Error {
        let why = match self {
            Problem::InUse => "another process uses this file".to_owned(),
            Problem::Damaged(why) => why,
        };
        Error::new(ErrorKind::Invalid(why)).in_file(path.display())
    }
}

fn try_open(path: &Path) -> Result<(Database, State), Problem> {
    let read = || -> Result<(Database, State), redb::Error> {
        let database = Database::create(path)?;
        let transaction = database.begin_write()?;
        transaction.open_table(TALLIES)?;
        transaction.commit()?;
        let mut state = State::default();
        let table = database.begin_read()?.open_table(TALLIES)?;
        for row in table.iter()?.take(2 * MOST) {
            let (key, value) = row?;
            let (hits, misses, mementos, seconds, at) = value.value();
            let numbers = [hits, misses, mementos, seconds];
            if numbers.iter().all(|n| n.is_finite() && *n >= 0.0) {
                let (part, seed) = key.value();
                *state.tally(part, Seed(seed)) = Tally {
                    hits,
                    misses,
                    mementos,
                    seconds,
                    at,
                    row: Row::default(),
                };
            }
        }
        drop(table);
        Ok((database, state))
    };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(Problem::InUse),
        Ok(Err(error)) => Err(Problem::Damaged(error.to_string())),
        Err(_) => Err(Problem::Damaged("the file is damaged".to_owned())),
    }
}

/// The parts of the key space that a SURT belongs to, from all of it to its host.
pub(crate) struct Parts<'a> {
    authority: &'a [u8],
    lengths: [usize; 4],
}

impl<'a> Parts<'a> {
    pub(crate) fn of(surt: &Surt<'a>) -> Parts<'a> {
        let authority = surt.authority();
        let top = memchr::memchr(b',', authority).unwrap_or(authority.len());
        let domain = surt.registered_domain().len().min(authority.len());
        Parts {
            authority,
            lengths: [0, top, domain.max(top), authority.len()],
        }
    }

    /// The hashes of the parts.
    fn hashes(&self) -> impl Iterator<Item = u64> {
        let Parts { authority, lengths } = *self;
        let mut before = usize::MAX;
        lengths
            .into_iter()
            .filter(move |length| std::mem::replace(&mut before, *length) != *length)
            .map(move |length| xxh3_64(&authority[..length]))
    }
}

/// The hash of an archive's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn of(archive: &str) -> Seed {
        Seed(xxh3_64(archive.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn parts(text: &str) -> Parts<'_> {
        Parts::of(&Surt::new(text.as_bytes()))
    }

    fn expect(learned: &Learned, archive: &str, surt: &str) -> Expectation {
        learned.expect(Seed::of(archive), &parts(surt))
    }

    #[test]
    fn what_was_seen_changes_what_is_expected_of_its_neighbours() {
        let learned = Learned::new(30 * DAY);
        let (news, shop) = ("pt,sapo,news)/a", "com,shop)/");
        assert_eq!(expect(&learned, "pwa", news).chance, None);
        for _ in 0..50 {
            learned.add(
                Seed::of("pwa"),
                &parts(news),
                None,
                8,
                Some(Duration::from_secs(2)),
            );
            learned.add(
                Seed::of("pwa"),
                &parts(shop),
                None,
                0,
                Some(Duration::from_secs(1)),
            );
        }
        let chance = |uri: &str| expect(&learned, "pwa", uri).chance.unwrap();
        assert!(chance("pt,sapo,news)/b") > 0.9);
        assert!(chance("pt,sapo)/") > 0.85, "another host of the domain");
        assert!(chance("pt,other)/") > 0.7, "another domain of .pt");
        assert!(chance("com,shop)/b") < 0.1);
        let at_news = expect(&learned, "pwa", news);
        assert!((at_news.mementos.unwrap() - 8.0).abs() < 1e-3);
        assert!((at_news.seconds.unwrap() - 2.0).abs() < 1e-3);
        assert_eq!(expect(&learned, "ia", news).chance, None);
    }

    #[test]
    fn what_was_seen_long_ago_counts_less_and_a_clock_set_back_changes_nothing() {
        let tally = Tally {
            hits: 8.0,
            misses: 4.0,
            mementos: 16.0,
            seconds: 2.0,
            at: 100 * 86_400,
            row: Row::default(),
        };
        let later = tally.decayed(tally.at + 60 * 86_400, 30 * DAY);
        assert!((later.hits - 2.0).abs() < 1e-4 && (later.misses - 1.0).abs() < 1e-4);
        assert_eq!(tally.decayed(0, 30 * DAY), tally);
    }

    #[test]
    fn one_client_or_one_host_teaches_little() {
        let learned = Learned::new(30 * DAY);
        let add = |surt: &str, client: u32, mementos| {
            let client = Some(IpAddr::from(client.to_be_bytes()));
            learned.add(Seed::of("a"), &parts(surt), client, mementos, None);
        };
        let chance = || expect(&learned, "a", "com,unseen)/").chance.unwrap();
        for number in 0..20 {
            add(&format!("com,site{number})/"), number, 1);
        }
        let before = chance();
        assert!(before > 0.9);
        // A flood from one client, for URIs of many hosts that the archive does not hold.
        for number in 0..34_102 {
            add(&format!("com,flood{number})/"), 1000, 0);
        }
        // And one of many clients, for one host.
        for number in 0..10_000 {
            add("com,popular)/", 2000 + number, 0);
        }
        assert!(chance() > 0.65, "{}", chance());
        assert!(expect(&learned, "a", "com,popular)/").chance.unwrap() < 0.01);
        let same = |one: &str, other: &str| {
            network(one.parse().unwrap()) == network(other.parse().unwrap())
        };
        assert!(same("2001:db8::1", "2001:db8::2") && !same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1") && !same("192.0.2.1", "192.0.2.2"));
    }

    #[test]
    fn what_was_learned_survives_and_a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.redb");
        let mut reports = Vec::new();
        let mut report = |text: String| reports.push(text);
        let learned = Learned::open(&path, 30 * DAY, &mut report).unwrap();
        learned.add(Seed::of("a"), &parts("com,a)/"), None, 3, None);
        learned.flush().unwrap();
        let expected = expect(&learned, "a", "com,a)/").chance.unwrap();
        assert!(
            Learned::open(&path, 30 * DAY, &mut report).is_err(),
            "in use"
        );
        drop(learned);
        let learned = Learned::open(&path, 30 * DAY, &mut report).unwrap();
        let again = expect(&learned, "a", "com,a)/").chance.unwrap();
        assert!((expected - again).abs() < 1e-3);
        drop(learned);
        std::fs::write(&path, b"garbage, and more of it than fits a header").unwrap();
        let learned = Learned::open(&path, 30 * DAY, &mut report).unwrap();
        assert!(learned.is_empty());
        assert!(path.with_extension("redb.damaged").exists());
        assert_eq!(reports.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut state = State::default();
        for key in 0..1000 {
            state.tally(key / 3, Seed(key % 3)).hits = (key % 7) as f32;
        }
        state.forget(0, DAY);
        assert!(state.count <= 501, "{}", state.count);
        let left: Vec<Tally> = state
            .parts
            .values()
            .flatten()
            .map(|(_, tally)| *tally)
            .collect();
        assert_eq!(left.len(), state.count);
        assert!(left.iter().any(|tally| tally.hits == 6.0));
    }
}
