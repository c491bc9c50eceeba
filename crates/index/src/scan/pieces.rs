//! Pieces that other machines have read: a scan merges them instead of reading its sources.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use waypost_io::{Error, ErrorKind, Result, Source};

use super::{Job, Options, Outcome, Range, Ranges};

/// Returns the bytes of the piece with a number.
type Fetch = dyn Fn(usize) -> Result<Vec<u8>> + Send + Sync;

/// The pieces of all ranges of some files, serialised by [`Ranges::to_bytes`].
///
/// With [`Options::pieces`], a scan gives the same result as if it read the files itself, with the
/// same filters. It fetches one piece at a time.
#[derive(Clone)]
pub struct Pieces {
    fetch: Arc<Fetch>,
    /// The numbers of the pieces of each file, in order; a file may be named more than once.
    files: Arc<Mutex<HashMap<PathBuf, VecDeque<Vec<usize>>>>>,
}

impl Pieces {
    /// The pieces of consecutive ranges; `fetch` returns the piece of the range with a number.
    pub fn new(
        ranges: &[Range],
        fetch: impl Fn(usize) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Pieces {
        let mut files: HashMap<PathBuf, VecDeque<Vec<usize>>> = HashMap::new();
        for (number, range) in ranges.iter().enumerate() {
            let file = files.entry(range.path.clone()).or_default();
            match file.back_mut() {
                Some(numbers) if range.start > 0 => numbers.push(number),
                _ => file.push_back(vec![number]),
            }
        }
        Pieces {
            fetch: Arc::new(fetch),
            files: Arc::new(Mutex::new(files)),
        }
    }

    /// The numbers of the pieces of a file, which is not scanned again.
    fn take(&self, source: &Source) -> Result<Vec<usize>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = files.get_mut(source.path()).and_then(VecDeque::pop_front);
        numbers.ok_or_else(|| {
            Error::new(ErrorKind::Invalid("no range of this file was read".into())).in_file(source)
        })
    }

    /// The result of scanning `sources`.
    pub(super) fn scan<J: Job>(
        &self,
        sources: &[Source],
        job: &J,
        options: Options<'_>,
    ) -> Result<(J::Partial, Outcome)> {
        if options.rejects.is_some() {
            return Err(Error::new(ErrorKind::Invalid(
                "bad lines of ranges that were read elsewhere cannot be saved".to_owned(),
            )));
        }
        let mut ranges = Ranges::new(job, options.select);
        if options.list {
            ranges = ranges.of_lists();
        }
        if options.strict {
            ranges = ranges.strict();
        }
        let mut whole = None;
        for source in sources {
            for number in self.take(source)? {
                let bytes = (self.fetch)(number)?;
                options.progress.add(bytes.len() as u64);
                let piece = ranges.from_bytes(&bytes)?;
                whole = Some(match whole {
                    None => piece,
                    Some(earlier) => ranges.merge(earlier, piece)?,
                });
            }
        }
        match whole {
            Some(piece) => ranges.finish(piece),
            None => Ok((job.empty(), Outcome::default())),
        }
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}
