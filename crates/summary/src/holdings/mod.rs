//! What an archive holds, from any input: its URI-Rs in order, each once, with their captures.
//!
//! ```text
//! sorted index ───────────────────────────────────────► runs of one URI-R ─► consumer
//! anything else ─► one line a URI-R ─► external sort ─►
//! ```
//!
//! An index in the order of its keys is read once and nothing of it is kept. What is not in order
//! (several indexes, lists of URIs, keys that are no SURTs) is written down as short lines, sorted
//! within the memory that is granted, and read again.

mod list;
mod run;
mod sniff;
mod spool;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use waypost_index::input::Source;
use waypost_index::key::KeyCheck;
use waypost_index::rejects::{Rejects, RejectsFile};
use waypost_index::scan::{self, Tally};
use waypost_index::select::Select;
use waypost_index::timestamp::Time;
use waypost_surt::Dialect;

use crate::about::By;
use crate::error::{Error, Result};
use crate::profile::records::Counts;

pub(crate) use crate::lookup::escaped;
pub use list::BadUri;
pub(crate) use list::{List, check_filters};
pub(crate) use run::Run;
use run::{Collect, Joiner};
pub use sniff::Content;
pub(crate) use sniff::{content_of, tell};

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct Input {
    /// Indexes and lists of URIs.
    pub sources: Vec<Source>,
    /// The rules for SURTs that must be made.
    pub dialect: Dialect,
    /// Which captures count.
    pub select: Select,
    /// The second key.
    pub by: Option<By>,
    /// Whether each input is a source of its own.
    pub each_a_source: bool,
    /// How much memory to use, in bytes.
    pub memory: usize,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Whether to stop at the first bad line.
    pub strict: bool,
    /// Counts the bytes of the sources that are read, as they are stored.
    pub progress: Arc<AtomicU64>,
}

impl Input {
    /// All captures of these sources, under the default dialect, in a gibibyte.
    pub fn new(sources: Vec<Source>) -> Input {
        Input {
            sources,
            dialect: Dialect::default(),
            select: Select::default(),
            by: None,
            each_a_source: false,
            memory: 1 << 30,
            temporary: std::env::temp_dir(),
            strict: false,
            progress: Arc::default(),
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Lines of indexes, by what they are.
    pub tally: Tally,
    /// Lines of indexes that are no captures.
    pub rejected: Vec<Rejects>,
    /// Lines of lists that have no SURT.
    pub bad_uris: BadUri,
    /// Sources whose compression is damaged; what came before is counted.
    pub damage: Vec<waypost_index::Error>,
    /// What each source is.
    pub contents: Vec<(String, Content)>,
    /// Captures that were counted, and URIs of lists.
    pub captures: u64,
    /// URI-Rs.
    pub urirs: u64,
    /// All lines.
    pub lines: u64,
    /// All bytes, decompressed.
    pub bytes: u64,
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// Whether the input had to be sorted.
    pub sorted: bool,
    /// How the keys of indexes compare with their URLs.
    pub keys: KeyCheck,
}

/// Takes in URI-Rs in order.
pub(crate) trait Consumer: Sync {
    /// What some URI-Rs that follow each other give.
    type Part: Send;

    /// Nothing yet.
    fn part(&self) -> Self::Part;

    /// A URI-R, larger than the one before.
    fn run(&self, part: &mut Self::Part, run: &Run);

    /// Parts come in order, on one thread.
    fn take(&self, part: Self::Part, last: &[u8]) -> Result<()>;

    /// All that came was in vain: the input is not in order and will come again.
    fn restart(&self) -> Result<()>;
}

/// How many sources can be told apart.
const MOST_SOURCES: usize = 64;

/// Reads all of the input and gives its URI-Rs to `consumer`.
pub(crate) fn read<C: Consumer>(
    input: &Input,
    rejects: Option<&mut RejectsFile>,
    consumer: &C,
) -> Result<Reading> {
    if input.each_a_source && input.sources.len() > MOST_SOURCES {
        return Err(Error::invalid(format!(
            "{} inputs are more sources than the {MOST_SOURCES} that can be told apart in one run: \
             profile them in groups and merge the profiles",
            input.sources.len()
        )));
    }
    let mut input = input.clone();
    input.select.dialect(input.dialect);
    let input = &input;
    // Input that is not in order is read twice.
    for source in &input.sources {
        source.keep(&input.temporary)?;
    }
    let sniffed = sniff::sniff(input)?;
    let mut reading = Reading {
        contents: sniffed.contents,
        ..Reading::default()
    };
    let one_source = input.sources.len() == 1 || !input.each_a_source;
    if sniffed.in_order
        && one_source
        && rejects.is_none()
        && directly(input, consumer, &mut reading)?
    {
        return Ok(reading);
    }
    let contents = std::mem::take(&mut reading.contents);
    let mut reading = Reading {
        contents,
        damage: sniffed.damages,
        ..Reading::default()
    };
    spool::read(input, rejects, consumer, &mut reading)?;
    Ok(reading)
}

/// Reads sorted indexes. `false` if they are not sorted.
fn directly<C: Consumer>(input: &Input, consumer: &C, reading: &mut Reading) -> Result<bool> {
    let job = Collect {
        consumer,
        by: input.by,
        dialect: input.dialect,
        joiner: Mutex::new(Joiner::default()),
    };
    let options = scan::Options {
        select: input.select.clone(),
        strict: input.strict,
        progress: Some(&input.progress),
        ..scan::Options::default()
    };
    let (_, outcome) = scan::scan(&input.sources, &job, options)?;
    let joiner = job
        .joiner
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(joined) = joiner.finish(consumer)? else {
        consumer.restart()?;
        input.progress.store(0, Ordering::Relaxed);
        return Ok(false);
    };
    reading.take(outcome);
    reading.urirs = joined.urirs;
    reading.captures = reading.tally.selected;
    (reading.first, reading.last) = (joined.span.first, joined.span.last);
    reading.keys = joined.keys;
    Ok(true)
}

impl Reading {
    fn take(&mut self, outcome: scan::Outcome) {
        self.lines += outcome.tally.lines;
        self.bytes += outcome.tally.bytes;
        self.tally.merge(&outcome.tally);
        self.rejected.push(outcome.rejects);
        self.damage.extend(outcome.damage);
    }
}

/// What one URI-R is counted as.
pub(crate) fn once(captures: u64, source: u64) -> Counts {
    Counts {
        captures,
        urirs: 1,
        sources: source,
    }
}
