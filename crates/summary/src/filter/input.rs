//! From captures and URIs to hashes, on all cores.
//!
//! ```text
//! index ─► scan ─► captures ─► SURT ─► key ─► hash ─►
//! list  ─► blocks of lines ──► SURT ─► key ─► hash ─► partitions ─► a sorted run
//! ```

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use memchr::{memchr_iter, memrchr};
use waypost_index::input::{Compression, Source};
use waypost_index::key::Rekeyer;
use waypost_index::layout::FileLayout;
use waypost_index::rejects::{Rejects, RejectsFile, printable};
use waypost_index::scan::{self, At, Job, Tally};
use waypost_index::timestamp::Time;
use waypost_index::{Capture, Field, Fields, Select};
use waypost_surt::{Dialect, Policy};

use super::hash::{Hash, Hasher};
use super::partition::Partitions;
use super::run::Run;
use super::summary::Keyer;
use crate::error::{Error, ErrorKind, Result};
use crate::holdings::{Content, content_of};

/// Bytes of a list that are handed to a worker at a time.
const BLOCK: usize = 1 << 20;
/// Lines of lists that are longer are refused.
const LONGEST: usize = 16 << 20;
/// Bad lines of lists that are shown.
const EXAMPLES: usize = 3;

/// What to read, and how.
pub struct Input<'a> {
    /// Indexes and lists of URIs.
    pub sources: &'a [Source],
    /// Which captures count.
    pub select: Select,
    /// The rules for SURTs that must be made.
    pub dialect: Dialect,
    /// How keys are cut.
    pub policy: Policy,
    /// How they are hashed.
    pub hasher: Hasher,
    /// How much memory to use, in bytes.
    pub memory: usize,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Whether to stop at the first bad line.
    pub strict: bool,
    /// Keeps the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Counts the bytes of the sources that are done, as they are stored.
    pub progress: Option<&'a AtomicU64>,
}

impl<'a> Input<'a> {
    /// All captures of these sources, whole, unkeyed, under the default dialect, in a gibibyte.
    pub fn new(sources: &'a [Source]) -> Input<'a> {
        Input {
            sources,
            select: Select::default(),
            dialect: Dialect::default(),
            policy: Policy::Whole,
            hasher: Hasher::Public,
            memory: 1 << 30,
            temporary: std::env::temp_dir(),
            strict: false,
            rejects: None,
            progress: None,
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Lines of indexes, by what they are.
    pub tally: Tally,
    /// Bad lines of indexes, for each.
    pub rejects: Vec<Rejects>,
    /// URIs of lists.
    pub uris: u64,
    /// Lines of lists that have no SURT.
    pub bad_uris: u64,
    /// The first of them: where, and what is wrong.
    pub bad_examples: Vec<String>,
    /// Sources that are cut or corrupt; what came before is in.
    pub damage: Vec<waypost_index::Error>,
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// What the sources were, by name: `cdx`, `uris`.
    pub kinds: Vec<&'static str>,
}

impl Reading {
    /// Captures and URIs that were hashed, repeated ones too.
    pub fn given(&self) -> u64 {
        self.tally.selected + self.uris
    }
}

/// Where hashes go. An error waits here until the reading stops.
struct Sink {
    partitions: Partitions,
    error: Option<Error>,
}

impl Sink {
    fn add(sink: &Mutex<Sink>, hashes: &[Hash]) {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.error.is_none()
            && let Err(error) = sink.partitions.add(hashes)
        {
            sink.error = Some(error);
        }
    }
}

/// Reads everything and sorts its hashes.
pub(crate) fn read(mut input: Input<'_>) -> Result<(Run, Reading)> {
    let sink = Mutex::new(Sink {
        partitions: Partitions::new(input.memory, &input.temporary),
        error: None,
    });
    let mut reading = Reading::default();
    for source in input.sources {
        let kind = match content(source)? {
            Content::Empty => continue,
            Content::Summary => {
                return Err(
                    Error::invalid("this is a summary, not an index or a list of URIs")
                        .in_file(source),
                );
            }
            Content::List => {
                let mut rejects = input.rejects.take();
                list(&input, source, rejects.as_deref_mut(), &sink, &mut reading)?;
                input.rejects = rejects;
                "uris"
            }
            Content::Index(_) => {
                index(&mut input, source, &sink, &mut reading)?;
                "cdx"
            }
        };
        if !reading.kinds.contains(&kind) {
            reading.kinds.push(kind);
        }
    }
    let sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
    match sink.error {
        Some(error) => Err(error),
        None => Ok((sink.partitions.finish()?, reading)),
    }
}

/// What a source holds, by its beginning. Of standard input only what is there is looked at, and
/// nothing is taken away.
fn content(source: &Source) -> Result<Content> {
    let start = match source {
        Source::Stdin => {
            let stdin = io::stdin();
            let mut stdin = stdin.lock();
            let start = stdin
                .fill_buf()
                .map_err(|error| Error::io("read", "-".as_ref(), error))?;
            if !start.is_empty() && Compression::detect(start) != Compression::Plain {
                return Ok(Content::Index("standard input".to_owned()));
            }
            start.to_vec()
        }
        Source::File(_) => {
            let mut start = vec![0; FileLayout::SAMPLE];
            let (length, error) = source.open()?.read_full(&mut start);
            match error {
                Some(error) if !error.is_damage() => return Err(error.into()),
                _ => start.truncate(length),
            }
            start
        }
    };
    if start.starts_with(b"WPFILTER") {
        return Err(Error::invalid(
            "this is a filter already: make another from hashes with `waypost filter merge`",
        )
        .in_file(source));
    }
    Ok(content_of(&start))
}

fn index(
    input: &mut Input<'_>,
    source: &Source,
    sink: &Mutex<Sink>,
    reading: &mut Reading,
) -> Result<()> {
    let job = Hashing {
        keyer: Keyer::new(input.dialect, input.policy, input.hasher),
        dialect: input.dialect,
        sink,
    };
    let options = scan::Options {
        select: input.select.clone(),
        strict: input.strict,
        rejects: input.rejects.as_deref_mut(),
        progress: input.progress,
        block: None,
    };
    let (found, outcome) = scan::scan(std::slice::from_ref(source), &job, options)?;
    let tally = &mut reading.tally;
    tally.lines += outcome.tally.lines;
    tally.bytes += outcome.tally.bytes;
    tally.headers += outcome.tally.headers;
    tally.captures += outcome.tally.captures;
    tally.selected += outcome.tally.selected;
    tally.revisits += outcome.tally.revisits;
    for (count, more) in tally.non_web.iter_mut().zip(outcome.tally.non_web) {
        *count += more;
    }
    reading.rejects.push(outcome.rejects);
    reading.damage.extend(outcome.damage);
    reading.first = [reading.first, found.first].into_iter().flatten().min();
    reading.last = [reading.last, found.last].into_iter().flatten().max();
    Ok(())
}

/// Hashes the captures of an index.
struct Hashing<'a> {
    keyer: Keyer,
    dialect: Dialect,
    sink: &'a Mutex<Sink>,
}

/// The hashes of some captures that follow each other.
struct Hashed {
    hashes: Vec<Hash>,
    tools: Option<(Rekeyer, Keyer)>,
    first: Option<Time>,
    last: Option<Time>,
    /// The timestamps of these, so that few must be understood.
    earliest: [u8; 14],
    latest: [u8; 14],
}

impl Job for Hashing<'_> {
    type Partial = Hashed;

    fn fields(&self) -> Fields {
        // For keys that are no SURTs.
        Field::Url.into()
    }

    fn partial(&self) -> Hashed {
        Hashed {
            hashes: Vec::new(),
            tools: None,
            first: None,
            last: None,
            earliest: [0xff; 14],
            latest: [0; 14],
        }
    }

    fn capture(&self, found: &mut Hashed, capture: &Capture<'_>, _: At) {
        let (rekeyer, keyer) = found
            .tools
            .get_or_insert_with(|| (Rekeyer::new(self.dialect), self.keyer.clone()));
        let hash = keyer.hash_surt(rekeyer.surt(capture));
        // Captures of one URI-R mostly stand together.
        if found.hashes.last() != Some(&hash) {
            found.hashes.push(hash);
        }
        let news = match <&[u8; 14]>::try_from(capture.timestamp()) {
            Ok(digits) => {
                let news = *digits < found.earliest || *digits > found.latest;
                found.earliest = found.earliest.min(*digits);
                found.latest = found.latest.max(*digits);
                news
            }
            Err(_) => true,
        };
        if news {
            let time = capture.time();
            found.first = [found.first, time].into_iter().flatten().min();
            found.last = [found.last, time].into_iter().flatten().max();
        }
    }

    fn merge(&self, earlier: &mut Hashed, later: Hashed, _: At) {
        Sink::add(self.sink, &later.hashes);
        earlier.first = [earlier.first, later.first].into_iter().flatten().min();
        earlier.last = [earlier.last, later.last].into_iter().flatten().max();
    }
}

/// Lines of a list, on their way to a worker.
struct Lines {
    bytes: Vec<u8>,
    first: u64,
}

/// What the workers found, together.
#[derive(Default)]
struct Found {
    uris: u64,
    bad: u64,
    /// The first bad lines: their numbers and what is wrong.
    examples: Vec<(u64, String)>,
}

/// Keeps the bad lines of blocks that are done in any order, in the order of the list.
struct Kept<'a> {
    file: &'a mut RejectsFile,
    /// The first line of the block that comes next.
    next: u64,
    /// How many lines the blocks behind it have, and which of them are bad.
    waiting: BTreeMap<u64, (u64, Vec<Vec<u8>>)>,
    error: Option<Error>,
}

impl Kept<'_> {
    fn add(&mut self, first: u64, lines: u64, bad: Vec<Vec<u8>>) {
        self.waiting.insert(first, (lines, bad));
        while let Some((lines, bad)) = self.waiting.remove(&self.next) {
            self.next += lines;
            for line in bad {
                if let Err(error) = self.file.write(&line) {
                    self.error.get_or_insert(error.into());
                }
            }
        }
    }
}

fn list(
    input: &Input<'_>,
    source: &Source,
    rejects: Option<&mut RejectsFile>,
    sink: &Mutex<Sink>,
    reading: &mut Reading,
) -> Result<()> {
    let workers = rayon::current_num_threads();
    let found = Mutex::new(Found::default());
    let kept = rejects.map(|file| {
        Mutex::new(Kept {
            file,
            next: 1,
            waiting: BTreeMap::new(),
            error: None,
        })
    });
    let stop = AtomicBool::new(false);
    let (sender, receiver) = sync_channel::<Lines>(workers);
    let receiver = Mutex::new(receiver);
    let fed = thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| worker(input, &receiver, sink, &found, kept.as_ref(), &stop));
        }
        let fed = feed(input, source, &stop, |lines| sender.send(lines).is_ok());
        drop(sender);
        fed
    });
    if let Some(error) = kept.and_then(|kept| {
        let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        kept.error
    }) {
        return Err(error);
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let example = |(line, what): &(u64, String)| {
        Error::new(ErrorKind::Syntax(what.clone()))
            .in_file(source)
            .at_line(*line)
    };
    if let Some(first) = found.examples.first().filter(|_| input.strict) {
        return Err(example(first));
    }
    reading.damage.extend(fed?);
    reading.uris += found.uris;
    reading.bad_uris += found.bad;
    let room = EXAMPLES.saturating_sub(reading.bad_examples.len());
    let examples = found.examples.iter().take(room);
    reading
        .bad_examples
        .extend(examples.map(|bad| example(bad).to_string()));
    Ok(())
}

/// Cuts a list into blocks of whole lines. Returns the damage that ended it, if any did.
fn feed(
    input: &Input<'_>,
    source: &Source,
    stop: &AtomicBool,
    send: impl Fn(Lines) -> bool,
) -> Result<Option<waypost_index::Error>> {
    let mut stream = source.open()?;
    let mut rest: Vec<u8> = Vec::new();
    let mut first = 1;
    loop {
        let mut bytes = std::mem::take(&mut rest);
        let kept = bytes.len();
        if kept > LONGEST {
            return Err(Error::format("a line is longer than 16 MiB")
                .in_file(source)
                .at_line(first));
        }
        bytes.resize(kept + BLOCK, 0);
        let before = stream.source_position();
        let (length, error) = stream.read_full(&mut bytes[kept..]);
        bytes.truncate(kept + length);
        if let Some(progress) = input.progress {
            progress.fetch_add(stream.source_position() - before, Ordering::Relaxed);
        }
        let damage = match error {
            Some(error) if error.is_damage() && !input.strict => Some(error),
            Some(error) => return Err(error.into()),
            None => None,
        };
        let ended = length == 0 && damage.is_none();
        if !ended {
            // Half a line waits for the other half; of a damaged file that never comes.
            let end = memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
            rest.extend_from_slice(&bytes[end..]);
            bytes.truncate(end);
        }
        let lines = memchr_iter(b'\n', &bytes).count() as u64;
        if !bytes.is_empty() && !send(Lines { bytes, first }) {
            return Ok(None);
        }
        first += lines;
        if ended || damage.is_some() || stop.load(Ordering::Relaxed) {
            return Ok(damage);
        }
    }
}

fn worker(
    input: &Input<'_>,
    receiver: &Mutex<Receiver<Lines>>,
    sink: &Mutex<Sink>,
    found: &Mutex<Found>,
    kept: Option<&Mutex<Kept<'_>>>,
    stop: &AtomicBool,
) {
    let mut keyer = Keyer::new(input.dialect, input.policy, input.hasher);
    let mut hashes = Vec::new();
    loop {
        let lines = {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv()
        };
        let Ok(lines) = lines else {
            return;
        };
        let mut here = Found::default();
        let mut bad = Vec::new();
        hashes.clear();
        let bytes = lines.bytes.strip_suffix(b"\n").unwrap_or(&lines.bytes);
        let mut start = 0;
        for (number, end) in (lines.first..).zip(memchr_iter(b'\n', bytes).chain([bytes.len()])) {
            let line = bytes[start..end].trim_ascii();
            start = end + 1;
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match keyer.hash(line) {
                Ok(hash) => {
                    here.uris += 1;
                    hashes.push(hash);
                }
                Err(error) => {
                    here.bad += 1;
                    if kept.is_some() {
                        bad.push(line.to_vec());
                    }
                    if here.examples.len() < EXAMPLES {
                        here.examples
                            .push((number, format!("{error}: {}", printable(line))));
                    }
                }
            }
        }
        Sink::add(sink, &hashes);
        if let Some(kept) = kept {
            let count = memchr_iter(b'\n', &lines.bytes).count() as u64;
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.add(lines.first, count, bad);
        }
        if input.strict && here.bad > 0 {
            stop.store(true, Ordering::Relaxed);
        }
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.uris += here.uris;
        found.bad += here.bad;
        found.examples.extend(here.examples);
        // Blocks are done in any order; the first lines are those to be shown.
        found.examples.sort();
        found.examples.truncate(EXAMPLES);
    }
}
