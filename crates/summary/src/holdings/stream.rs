//! Reading the URI-Rs of a sorted index in order, without gathering them first.
//!
//! ```text
//! lines ─► workers: runs of one URI-R ─► a part of each block ─► another thread: parts in order
//! ```
//!
//! Nothing is kept but the parts. That the input is sorted is known only at its end: the first capture
//! whose SURT is out of order ends the attempt, and everything has to be gathered instead. A look at the
//! ends of the files shows whether the attempt is worth it. If few captures in a large index are out of
//! order, the first of them mostly comes early.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use waypost_index::key::KeyCheck;
use waypost_index::rejects::RejectsFile;
use waypost_index::scan::{At, Job};
use waypost_index::{Capture, Fields, Span};
use waypost_io::ErrorKind;

use super::reduce::{Block, Join, Reduce};
use super::row::{RowReader, RowTools};
use super::sorted::looks_sorted;
use super::{Input, Reading, scan_input};
use crate::error::{Error, Result};

/// How many blocks wait to be taken.
const WAITING: usize = 2;

/// Reads the URI-Rs of a sorted index in order. `take` receives the parts in order, each with the last
/// SURT in it. There are at most `most_parts` at a time, but at least a few.
///
/// `None` if the input is not sorted or can be read only once, or if `take` stops. Then what was taken and
/// rejected is incomplete, and the input has to be [gathered](super::gather).
///
/// # Errors
/// If the input can't be read, or `take` fails.
pub(crate) fn stream<R: Reduce>(
    input: &Input,
    reducer: &R,
    most_parts: usize,
    mut rejects: Option<&mut RejectsFile>,
    mut take: impl FnMut(R::Part, &[u8]) -> Result<ControlFlow<()>> + Send,
) -> Result<Option<Reading>> {
    let separate = input.each_a_source && input.sources.len() > 1;
    if separate || input.pieces.is_some() || !looks_sorted(input) {
        return Ok(None);
    }
    let mut rows = RowReader::new(input.dialect, input.by);
    rows.classes.clone_from(&input.classes);
    let mut give = |part: R::Part, last: &[u8]| match take(part, last) {
        Ok(ControlFlow::Continue(())) => Ok(()),
        Ok(ControlFlow::Break(())) => Err(Stop::Unsuitable),
        Err(error) => Err(Stop::Failed(error)),
    };
    let mut join = Join::new(reducer);
    let mut stop = None;
    let scan = |pass_on: PassOn<'_, R::Part>| {
        let job = |_| Streaming {
            rows: rows.clone(),
            reducer,
            most_parts: most_parts.saturating_sub(WAITING + 2),
            pass_on,
        };
        scan_input(input, job, rejects.as_deref_mut())
    };
    let scanned = with_consumer(scan, |block| {
        let added = match join.is_next(&block) {
            true => join.add(block, &mut give),
            false => Err(Stop::Unsuitable),
        };
        stop = added.err();
        stop.is_none()
    });
    if stop.is_none() && scanned.is_ok() {
        stop = join.end(&mut give).err();
    }
    match stop {
        None => {}
        Some(Stop::Failed(error)) => return Err(error),
        Some(Stop::Unsuitable) => return Ok(None),
    }
    let (streamed, mut reading) = scanned?;
    reading.urirs = join.urirs;
    (reading.first, reading.last) = (streamed.span.first, streamed.span.last);
    reading.keys.merge(&streamed.keys);
    Ok(Some(reading))
}

/// Why nothing more is taken.
enum Stop {
    /// The input has to be gathered.
    Unsuitable,
    Failed(Error),
}

/// Passes on a block. Returns whether more are wanted.
type PassOn<'a, P> = &'a (dyn Fn(Block<P>) -> bool + Sync);

/// Passes blocks from `scan` to `take`, which runs on a thread of its own until it returns `false`: what
/// it does on all cores does not keep the scan waiting.
fn with_consumer<P: Send, O>(
    scan: impl FnOnce(PassOn<'_, P>) -> O,
    mut take: impl FnMut(Block<P>) -> bool + Send,
) -> O {
    // A worker of a thread pool that waited here for others of that pool could deadlock.
    if rayon::current_thread_index().is_some() {
        let take = Mutex::new(take);
        return scan(&|block| take.lock().unwrap_or_else(PoisonError::into_inner)(block));
    }
    let (sender, blocks) = sync_channel(WAITING);
    thread::scope(|scope| {
        scope.spawn(move || blocks.into_iter().all(&mut take));
        let sender = sender;
        scan(&|block| sender.send(block).is_ok())
    })
}

/// The scan job.
struct Streaming<'a, R: Reduce> {
    rows: RowReader,
    reducer: &'a R,
    most_parts: usize,
    pass_on: PassOn<'a, R::Part>,
}

/// The captures of a block; or those of all blocks so far, without what was passed on.
struct Streamed<P> {
    block: Block<P>,
    span: Span,
    keys: KeyCheck,
    tools: Option<Box<RowTools>>,
}

impl<R: Reduce> Job for Streaming<'_, R> {
    type Partial = Streamed<R::Part>;

    fn fields(&self) -> Fields {
        self.rows.fields()
    }

    fn most_partials(&self) -> usize {
        self.most_parts
    }

    fn empty(&self) -> Streamed<R::Part> {
        Streamed {
            block: Block::new(),
            span: Span::default(),
            keys: KeyCheck::default(),
            tools: None,
        }
    }

    fn add(&self, streamed: &mut Streamed<R::Part>, capture: &Capture<'_>, _: At) {
        streamed.span.add(capture);
        let tools = (streamed.tools).get_or_insert_with(|| self.rows.tools());
        let (surt, second) = self.rows.of_capture(tools, capture);
        (streamed.block).add(self.reducer, &surt, second, 1, self.rows.source);
    }

    fn seal(&self, streamed: &mut Streamed<R::Part>) -> waypost_io::Result<()> {
        if let Some(tools) = streamed.tools.take() {
            streamed.keys.merge(tools.surts.check());
        }
        streamed.block.end(self.reducer);
        Ok(())
    }

    fn merge(
        &self,
        earlier: &mut Streamed<R::Part>,
        later: Streamed<R::Part>,
        _: At,
    ) -> waypost_io::Result<()> {
        earlier.span.merge(&later.span);
        earlier.keys.merge(&later.keys);
        if later.block.is_empty() || (self.pass_on)(later.block) {
            return Ok(());
        }
        // Nobody sees it: `stream` knows why nothing more is wanted.
        let message = "the scan was stopped";
        Err(waypost_io::Error::new(ErrorKind::Invalid(
            message.to_owned(),
        )))
    }

    fn to_bytes(&self, _: &Streamed<R::Part>) -> waypost_io::Result<Vec<u8>> {
        Err(not_divisible())
    }

    fn from_bytes(&self, _: &[u8]) -> waypost_io::Result<Streamed<R::Part>> {
        Err(not_divisible())
    }
}

/// Other machines gather, because only one can write a file in order.
pub(super) fn not_divisible() -> waypost_io::Error {
    let message = "this scan cannot be divided among machines";
    waypost_io::Error::new(ErrorKind::Invalid(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use waypost_io::Source;
    use waypost_io::gzip::Gzip;

    use super::*;
    use crate::about::By;
    use crate::holdings::{Pass, Run, gather, reduce};

    /// Collects URI-Rs.
    struct Collect;

    impl Reduce for Collect {
        type Part = Vec<Run>;

        fn part(&self) -> Vec<Run> {
            Vec::new()
        }

        fn run(&self, part: &mut Vec<Run>, run: &Run) {
            part.push(run.clone());
        }
    }

    /// What is streamed, with its URI-Rs; or `None`.
    fn streamed(input: &Input) -> Option<(Vec<Run>, Reading)> {
        let mut runs: Vec<Run> = Vec::new();
        let reading = stream(input, &Collect, 8, None, |part, last| {
            assert!(!part.is_empty());
            for run in part {
                assert!(runs.last().is_none_or(|before| before.surt < run.surt));
                assert!(*run.surt <= *last);
                runs.push(run);
            }
            Ok(ControlFlow::Continue(()))
        });
        Some((runs, reading.unwrap()?))
    }

    fn gathered(input: &Input) -> (Vec<Run>, Reading) {
        let mut runs = Vec::new();
        let (mut held, reading) = gather(input, None).unwrap();
        reduce(&mut held, &Collect, Pass::looking_up(input), |part, _| {
            runs.extend(part);
            Ok(())
        })
        .unwrap();
        (runs, reading)
    }

    fn line((surt, year, mime): &(String, u32, String)) -> String {
        format!("{surt} {year}0102030405 - {mime} 200 AAAA - - 5 9 x.warc.gz\n")
    }

    fn captures() -> impl Strategy<Value = Vec<(String, u32, String)>> {
        let surt = "(com|org),[ab]{1,2}\\)/[ab]{0,2}";
        prop::collection::vec((surt, 2000..2003u32, "text/[ab]"), 0..80)
    }

    /// Files with the lines between the cuts, gzipped in members of a few lines or not.
    fn files(
        folder: &std::path::Path,
        lines: &[String],
        cuts: &[usize],
        gzip: bool,
    ) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let mut start = 0;
        for end in cuts.iter().copied().chain([lines.len()]) {
            let end = end.clamp(start, lines.len());
            let path = folder.join(paths.len().to_string());
            let mut file = std::fs::File::create(&path).unwrap();
            let mut member = Vec::new();
            for some in lines[start..end].chunks(3) {
                let text = some.concat();
                match gzip {
                    true => Gzip::new(1).compress(text.as_bytes(), &mut member).unwrap(),
                    false => member = text.into_bytes(),
                }
                file.write_all(&member).unwrap();
            }
            start = end;
            paths.push(path);
        }
        paths
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_streamed_is_what_is_gathered(
            captures in captures(),
            cuts in prop::collection::btree_set(0usize..80, 0..4),
            block in 1usize..1000,
            by in prop::option::of(prop_oneof![Just(By::Year), Just(By::Mime)]),
            gzip: bool,
            swap in prop::option::weighted(0.3, (0usize..80, 0usize..80)),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut lines: Vec<String> = captures.iter().map(line).collect();
            lines.sort();
            let sorted = lines.clone();
            if let Some((a, b)) = swap && a.max(b) < lines.len() {
                lines.swap(a, b);
            }
            let cuts: Vec<usize> = cuts.into_iter().collect();
            let paths = files(folder.path(), &lines, &cuts, gzip);
            let sources = paths.into_iter().map(Source::new).collect();
            let input = Input { by, block: Some(block), ..Input::new(sources) };
            let surt = |line: &String| line.split(' ').next().unwrap().to_owned();
            let in_order = lines.iter().map(surt).eq(sorted.iter().map(surt));
            let (expected, gathered) = gathered(&input);
            match streamed(&input) {
                Some((runs, reading)) => {
                    prop_assert!(in_order);
                    prop_assert_eq!(runs, expected);
                    prop_assert_eq!(reading.urirs, gathered.urirs);
                    prop_assert_eq!(reading.captures, gathered.captures);
                    prop_assert_eq!((reading.lines, reading.bytes), (gathered.lines, gathered.bytes));
                    prop_assert_eq!((reading.first, reading.last), (gathered.first, gathered.last));
                    prop_assert_eq!(reading.contents, gathered.contents);
                    prop_assert_eq!(reading.keys.to_bytes(), gathered.keys.to_bytes());
                }
                // An empty file is not known to be one of gzip members.
                None => {
                    let some_empty = cuts.iter().any(|&cut| cut == 0 || cut >= lines.len());
                    prop_assert!(!in_order || (gzip && some_empty));
                }
            }
        }
    }

    #[test]
    fn a_worker_of_a_pool_streams_too() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (100..300)
            .map(|n| line(&(format!("com,a)/{n}"), 2000, "text/a".to_owned())))
            .collect();
        let paths = files(folder.path(), &lines, &[100], false);
        let sources = paths.into_iter().map(Source::new).collect();
        let input = Input {
            block: Some(50),
            ..Input::new(sources)
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let streamed = pool.unwrap().install(|| streamed(&input));
        assert_eq!(streamed.unwrap().0.len(), 200);
    }

    #[test]
    fn an_error_of_the_taker_ends_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (1000..9000)
            .map(|n| line(&(format!("com,a)/{n}"), 2000, "text/a".to_owned())))
            .collect();
        let paths = files(folder.path(), &lines, &[], false);
        let input = Input {
            block: Some(50),
            ..Input::new(paths.into_iter().map(Source::new).collect())
        };
        let full = |_: Vec<Run>, _: &[u8]| Err(Error::invalid("the disk is full"));
        let error = stream(&input, &Collect, 8, None, full).unwrap_err();
        assert_eq!(error.to_string(), "the disk is full");
        let enough = |_: Vec<Run>, _: &[u8]| Ok(ControlFlow::Break(()));
        assert!(stream(&input, &Collect, 8, None, enough).unwrap().is_none());
    }
}
