//! What an archive holds, from any input: its distinct URI-Rs in order, with their captures.
//!
//! ```text
//! indexes, lists ─► captures ─► rows of URI-Rs, as partials ─► merge ─► in order ─► profile, map, …
//! ```
//!
//! [`Gather`] is the scan job: its partials keep the URI-Rs with their counts as sorted, packed
//! runs, in memory or spilled. [`gather()`] runs it on this machine;
//! [`Ranges`](waypost_index::scan::Ranges) runs it in ranges, on any number of machines. Whatever
//! the order of the input, it is read once. The result, [`Held`], can be read as often as needed.

mod kept;
mod list;
mod partial;
mod reduce;
mod row;
mod run;
mod sniff;
mod sorted;
mod stream;
mod surts;

use std::sync::Arc;

use waypost_index::key::KeyCheck;
use waypost_index::rejects::{Rejects, RejectsFile};
use waypost_index::scan::{self, At, Job, Tally};
use waypost_index::select::Select;
use waypost_index::timestamp::Time;
use waypost_io::progress::{Phase, Progress};
use waypost_io::{Resources, Source};
use waypost_surt::Dialect;

use crate::about::By;
use crate::classes::Classes;
use crate::error::{Error, ErrorKind, Result};

pub(crate) use crate::lookup::escaped;
pub use crate::profile::records::Counts;
pub use kept::Holdings;
pub use list::BadUri;
pub(crate) use list::check_filters;
pub use partial::{Gather, Held};
pub use reduce::{Pass, Reduce, reduce};
pub use run::Run;
pub use sniff::Content;
pub(crate) use sniff::{content_of, tell};
pub(crate) use stream::stream;
pub use surts::Surts;

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct Input {
    /// Indexes and lists of URIs.
    pub sources: Vec<Source>,
    /// The dialect of SURTs made from URIs.
    pub dialect: Dialect,
    /// Which captures to include.
    pub select: Select,
    /// The second key.
    pub by: Option<By>,
    /// The classes that [`By::Class`] counts by.
    pub classes: Option<Arc<Classes>>,
    /// Whether each input is a separate source.
    pub each_a_source: bool,
    /// Limits on memory and threads, and the folder for temporary files.
    pub resources: Resources,
    /// Whether to stop at the first bad line.
    pub strict: bool,
    /// Where to report progress.
    pub progress: Progress,
    /// Bytes per block; `None` for the default. Small blocks let tests use little input.
    pub block: Option<usize>,
    /// What other machines have read, to be merged instead of reading the sources.
    pub pieces: Option<scan::Pieces>,
}

impl Input {
    /// All captures of these sources, in the default dialect, in 1 GiB of memory.
    pub fn new(sources: Vec<Source>) -> Input {
        Input {
            sources,
            dialect: Dialect::default(),
            select: Select::default(),
            by: None,
            classes: None,
            each_a_source: false,
            resources: Resources::default(),
            strict: false,
            progress: Progress::default(),
            block: None,
            pieces: None,
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Lines of indexes, by type.
    pub tally: Tally,
    /// Lines of indexes that aren't captures.
    pub rejected: Vec<Rejects>,
    /// Lines of lists that have no SURT.
    pub bad_uris: BadUri,
    /// Sources whose compression is damaged; what precedes the damage is counted.
    pub damage: Vec<waypost_io::Error>,
    /// The kind of each source.
    pub contents: Vec<(String, Content)>,
    /// Captures and list URIs that were counted.
    pub captures: u64,
    /// URI-Rs.
    pub urirs: u64,
    /// Total number of lines.
    pub lines: u64,
    /// Total number of bytes, decompressed.
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

/// The maximum number of sources that can be distinguished.
const MOST_SOURCES: usize = 64;

/// Reads the whole input, once.
///
/// # Errors
/// If it can't be read, or is neither an index nor a list.
pub fn gather(input: &Input, rejects: Option<&mut RejectsFile>) -> Result<(Held, Reading)> {
    let gather = Gather::new(input.dialect, input.by, &input.resources);
    let gather = gather.with_classes(input.classes.clone());
    let (mut held, mut reading) = scan_input(input, |source| gather.of_source(source), rejects)?;
    input.progress.begin(Phase::Sorting, None);
    reading.finish(&mut held)?;
    Ok((held, reading))
}

/// Scans the whole input once with any job. `job` returns the job for the captures of a source; it
/// is 0 for all of them if they are not counted separately. [`Reading::finish`] adds what the
/// gathered holdings say.
///
/// # Errors
/// If it can't be read, or is neither an index nor a list.
pub fn scan_input<J: Job>(
    input: &Input,
    job: impl Fn(usize) -> J,
    mut rejects: Option<&mut RejectsFile>,
) -> Result<(J::Partial, Reading)> {
    if input.each_a_source && input.sources.len() > MOST_SOURCES {
        return Err(Error::invalid(format!(
            "{} inputs are more sources than the {MOST_SOURCES} that can be told apart in one run: \
             profile them in groups and merge the profiles",
            input.sources.len()
        )));
    }
    let mut input = input.clone();
    input.select.dialect(input.dialect);
    let sniffed = sniff::sniff(&input)?;
    let contents = sniffed.contents;
    let first = job(0);
    let mut whole = first.empty();
    let mut reading = Reading {
        damage: sniffed.damages,
        ..Reading::default()
    };
    input.progress.read(&input.sources);
    let mut start = 0;
    while start < input.sources.len() {
        // Sources of one kind are read together, unless they are counted separately.
        let kind = |number: usize| std::mem::discriminant(&contents[number].1);
        let mut end = start + 1;
        while !input.each_a_source && end < input.sources.len() && kind(end) == kind(start) {
            end += 1;
        }
        let sources = &input.sources[start..end];
        let list = match &contents[start].1 {
            Content::Empty => {
                start = end;
                continue;
            }
            Content::Summary => {
                let kind = waypost_io::ErrorKind::WrongKind {
                    found: "a summary",
                    wanted: "an index or a list",
                };
                return Err(Error::new(ErrorKind::Io(kind)).in_file(&sources[0]));
            }
            Content::List => true,
            Content::Index(_) => false,
        };
        if list {
            check_filters(&input.select, &sources[0])?;
        }
        let job = match input.each_a_source {
            true => &job(start),
            false => &first,
        };
        let options = scan::Options {
            select: input.select.clone(),
            strict: input.strict,
            rejects: rejects.as_deref_mut(),
            list,
            progress: input.progress.clone(),
            block: input.block,
            pieces: input.pieces.clone(),
        };
        let (more, outcome) = scan::scan(sources, job, options)?;
        first.merge(&mut whole, more, At::default())?;
        reading.take(outcome, list);
        start = end;
    }
    reading.contents = contents;
    Ok((whole, reading))
}

/// Reads the whole input and returns its URI-Rs in order: see [`reduce()`].
pub(crate) fn read<R: Reduce>(
    input: &Input,
    reducer: &R,
    take: impl FnMut(R::Part, &[u8]) -> Result<()>,
) -> Result<Reading> {
    let (mut held, reading) = gather(input, None)?;
    reduce(&mut held, reducer, Pass::looking_up(input), take)?;
    Ok(reading)
}

impl Reading {
    /// The result of reading in ranges: all pieces of all files, merged. `list` says whether the
    /// files are lists of URIs.
    ///
    /// # Errors
    /// When spilled rows cannot be merged.
    pub fn of_ranges(outcome: scan::Outcome, list: bool, held: &mut Held) -> Result<Reading> {
        let mut reading = Reading::of_outcome(outcome, list);
        reading.finish(held)?;
        Ok(reading)
    }

    /// The same without what the holdings say.
    pub fn of_outcome(outcome: scan::Outcome, list: bool) -> Reading {
        let content = |file: &scan::FileReport| match (list, file.layout.shape()) {
            (true, _) => Content::List,
            (false, Some(shape)) => Content::Index(shape.to_string()),
            (false, None) => Content::Empty,
        };
        let files = outcome.files.iter();
        let mut reading = Reading {
            contents: files
                .map(|file| (file.name.clone(), content(file)))
                .collect(),
            ..Reading::default()
        };
        reading.take(outcome, list);
        reading
    }

    /// What is known of holdings that were not read from files: see [`Gather::collect`].
    ///
    /// # Errors
    /// When spilled rows cannot be merged.
    pub fn of_held(held: &mut Held) -> Result<Reading> {
        let mut reading = Reading {
            contents: vec![(String::new(), Content::List)],
            captures: held.captures(),
            ..Reading::default()
        };
        reading.finish(held)?;
        Ok(reading)
    }

    fn take(&mut self, outcome: scan::Outcome, list: bool) {
        self.lines += outcome.tally.lines;
        self.bytes += outcome.tally.bytes;
        self.captures += outcome.tally.selected + outcome.tally.uris;
        if list {
            self.bad_uris.add(&outcome.rejects);
        } else {
            self.tally.merge(&outcome.tally);
            self.rejected.push(outcome.rejects);
        }
        self.damage.extend(outcome.damage);
    }

    /// Adds what the gathered holdings say: URI-Rs, order, the oldest and the newest capture.
    ///
    /// # Errors
    /// When spilled rows cannot be merged.
    pub fn finish(&mut self, held: &mut Held) -> Result<()> {
        self.sorted = !held.in_order();
        self.urirs = held.urirs()?;
        (self.first, self.last) = (held.first(), held.last());
        self.keys.merge(held.keys());
        Ok(())
    }
}

/// The counts of one URI-R.
pub(crate) fn once(captures: u64, source: u64) -> Counts {
    Counts {
        captures,
        urirs: 1,
        sources: source,
    }
}
