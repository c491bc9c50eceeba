//! Sorts captures by SURT before they are written, if the input is not sorted.
//!
//! Captures of any layout are written as lines of CDXJ, because lines of different layouts cannot be sorted
//! together, with their SURTs as keys; these are sorted by their bytes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use waypost_index::key::Rekeyer;
use waypost_index::scan::{self, At, Job, Outcome};
use waypost_index::{Capture, Fields};
use waypost_io::{Format, LineWriter, Progress, Resources, Result, Source, sort};
use waypost_surt::Dialect;

use crate::line::push_capture;
use crate::write::not_sent;

/// Writes the captures of `sources`, sorted by SURT, to a file in `folder`.
pub(crate) fn sorted(
    sources: &[Source],
    dialect: Dialect,
    options: scan::Options<'_>,
    resources: &Resources,
    folder: &Path,
) -> Result<(PathBuf, Outcome)> {
    let progress = options.progress.clone();
    let unsorted = folder.join("unsorted.cdxj");
    let job = Collecting {
        dialect,
        out: Mutex::new(LineWriter::create(&unsorted, &Format::Plain, 1)?),
    };
    progress.read(sources);
    let (_, outcome) = scan::scan(sources, &job, options)?;
    let out = job.out.into_inner().unwrap_or_else(PoisonError::into_inner);
    out.finish()?;
    let path = folder.join("sorted.cdxj");
    let mut out = LineWriter::create(&path, &Format::Plain, 1)?;
    let options = sort::Options {
        resources: resources.clone(),
        unique: false,
        progress: Progress::new(),
    };
    sort::sort(&[Source::new(&unsorted)], &options, &mut out)?;
    out.finish()?;
    // Rows need the space.
    let _ = std::fs::remove_file(&unsorted);
    Ok((path, outcome))
}

struct Collecting {
    dialect: Dialect,
    out: Mutex<LineWriter>,
}

/// The lines of a block.
struct Lines {
    bytes: Vec<u8>,
    rekeyer: Option<Rekeyer>,
}

impl Job for Collecting {
    type Partial = Lines;

    fn fields(&self) -> Fields {
        Fields::ALL
    }

    fn empty(&self) -> Lines {
        Lines {
            bytes: Vec::new(),
            rekeyer: None,
        }
    }

    fn add(&self, lines: &mut Lines, capture: &Capture<'_>, _: At) {
        let rekeyer = lines
            .rekeyer
            .get_or_insert_with(|| Rekeyer::new(self.dialect));
        push_capture(&mut lines.bytes, rekeyer.surt(capture), capture);
    }

    fn merge(&self, _: &mut Lines, later: Lines, _: At) -> Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.push_lines(&later.bytes)
    }

    fn to_bytes(&self, _: &Lines) -> Result<Vec<u8>> {
        Err(not_sent())
    }

    fn from_bytes(&self, _: &[u8]) -> Result<Lines> {
        Err(not_sent())
    }
}
