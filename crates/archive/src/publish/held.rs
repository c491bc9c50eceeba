//! Looking up all that an archive holds in what it publishes.

use std::fmt::Write;
use std::path::Path;

use waypost_index::key::Rekeyer;
use waypost_index::kind::{self, FileKind};
use waypost_index::scan::{self, At, Job, Options};
use waypost_index::{Capture, Field, Fields, Select};
use waypost_io::{Error, ErrorKind, Progress, Result, Source};
use waypost_summary::filter::orestes::ClassicFilter;
use waypost_summary::filter::{self, Filter, Secret};
use waypost_summary::map::is_companion;
use waypost_summary::{Answer, Kind, Lookup, Summary, SurtWriter, kind_of_source, open_source};

/// How many absent URIs are named.
const NAMED: usize = 3;

/// What an archive holds, and what is needed to look it up.
pub struct HeldInput {
    /// Indexes and lists of URIs.
    pub sources: Vec<Source>,
    /// The secret key of keyed filters.
    pub secret: Option<Secret>,
    /// Where to report progress.
    pub progress: Progress,
}

/// Looks up every URI of the holdings in each summary of a folder. A summary of some captures does not
/// know about the others, which is no fault. Returns the number of summaries.
///
/// # Errors
/// If a summary calls one absent, or if something cannot be read.
pub fn prove(folder: &Path, held: &HeldInput) -> Result<usize> {
    let mut paths = Vec::new();
    super::list(folder, &mut paths, 0)?;
    paths.sort();
    let mut summaries = Vec::new();
    for path in &paths {
        if let Some(summary) = open(path, held).map_err(waypost_summary::Error::into_io)? {
            summaries.push((path.as_path(), summary));
        }
    }
    let prover = Prover { summaries };
    let mut all = prover.empty();
    held.progress.read(&held.sources);
    for source in &held.sources {
        let options = Options {
            strict: true,
            list: matches!(kind::detect(source)?.kind, FileKind::List),
            progress: held.progress.clone(),
            ..Options::default()
        };
        let (found, _) = scan::scan(std::slice::from_ref(source), &prover, options)?;
        prover.merge(&mut all, found, At::default())?;
    }
    if let Some(error) = all.failed {
        return Err(error);
    }
    match prover
        .summaries
        .iter()
        .zip(&all.absent)
        .find(|(_, absent)| absent.count > 0)
    {
        Some(((path, _), absent)) => Err(absent.error(path)),
        None => Ok(prover.summaries.len()),
    }
}

/// Opens a summary. `None` if it can't be asked alone: hashes are not a summary, and a map opens its filter.
fn open(path: &Path, held: &HeldInput) -> waypost_summary::Result<Option<Box<dyn Summary>>> {
    let source = Source::new(path);
    match kind_of_source(&source)? {
        None => Ok(None),
        Some(_) if is_companion(path) => Ok(None),
        Some(Kind::Filter)
            if !ClassicFilter::is(&source)?
                && Filter::of(&source)?.head().kind == filter::Kind::Hashes =>
        {
            Ok(None)
        }
        Some(_) => open_source(&source, false, held.secret).map(Some),
    }
}

/// What a summary calls absent.
#[derive(Clone, Default)]
struct Absent {
    count: u64,
    /// The first of them.
    named: Vec<String>,
}

impl Absent {
    fn error(&self, path: &Path) -> Error {
        let mut what = format!("it calls {} captures absent that are held", self.count);
        for uri in &self.named {
            let _ = write!(what, "\n  {uri}");
        }
        Error::new(ErrorKind::Invalid(what)).in_file(path.display())
    }
}

/// The scan job.
struct Prover<'a> {
    summaries: Vec<(&'a Path, Box<dyn Summary>)>,
}

struct Found {
    /// For each summary.
    absent: Vec<Absent>,
    failed: Option<Error>,
    tools: Vec<Rekeyer>,
    buffer: Vec<u8>,
}

impl Prover<'_> {
    /// Looks up a SURT in a summary, or the URL that it is of, if the summary contains URLs.
    fn is_absent(
        summary: &dyn Summary,
        surt: &[u8],
        url: Option<&[u8]>,
        buffer: &mut Vec<u8>,
    ) -> waypost_summary::Result<bool> {
        let answer = summary.lookup(&Lookup::of_surt(surt, buffer))?;
        let answer = match url {
            Some(url) if answer == Answer::Unknown => {
                match Lookup::new(url, summary.about().dialect, buffer) {
                    Ok(lookup) => summary.lookup(&lookup)?,
                    Err(_) => answer,
                }
            }
            _ => answer,
        };
        Ok(answer == Answer::Absent)
    }

    fn look(&self, found: &mut Found, number: usize, surt: &[u8], url: Option<&[u8]>) {
        let (path, summary) = &self.summaries[number];
        match Prover::is_absent(&**summary, surt, url, &mut found.buffer) {
            Ok(false) => {}
            Ok(true) => {
                let absent = &mut found.absent[number];
                absent.count += 1;
                let uri = String::from_utf8_lossy(url.unwrap_or(surt)).into_owned();
                if absent.named.len() < NAMED && !absent.named.contains(&uri) {
                    absent.named.push(uri);
                }
            }
            Err(error) => {
                let error = error.in_file(path.display()).into_io();
                found.failed.get_or_insert(error);
            }
        }
    }
}

impl Job for Prover<'_> {
    type Partial = Found;

    fn fields(&self) -> Fields {
        Field::Url.into()
    }

    fn empty(&self) -> Found {
        Found {
            absent: vec![Absent::default(); self.summaries.len()],
            failed: None,
            tools: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn add(&self, found: &mut Found, capture: &Capture<'_>, _: At) {
        let mut tools = std::mem::take(&mut found.tools);
        if tools.is_empty() {
            let dialects = self
                .summaries
                .iter()
                .map(|(_, summary)| summary.about().dialect);
            tools.extend(dialects.map(Rekeyer::new));
        }
        let url = capture.url();
        for (number, rekeyer) in tools.iter_mut().enumerate() {
            self.look(found, number, rekeyer.surt(capture), url.as_deref());
        }
        found.tools = tools;
    }

    fn add_uri(
        &self,
        found: &mut Found,
        line: &[u8],
        _: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        for number in 0..self.summaries.len() {
            let mut surt = Vec::new();
            let dialect = self.summaries[number].1.about().dialect;
            SurtWriter::new(dialect).write(line, &mut surt)?;
            self.look(found, number, &surt, Some(line));
        }
        Ok(true)
    }

    fn merge(&self, earlier: &mut Found, later: Found, _: At) -> Result<()> {
        for (absent, more) in earlier.absent.iter_mut().zip(later.absent) {
            absent.count += more.count;
            absent.named.extend(more.named);
            absent.named.truncate(NAMED);
        }
        earlier.failed = earlier.failed.take().or(later.failed);
        Ok(())
    }

    fn to_bytes(&self, _: &Found) -> Result<Vec<u8>> {
        Err(not_divisible())
    }

    fn from_bytes(&self, _: &[u8]) -> Result<Found> {
        Err(not_divisible())
    }
}

fn not_divisible() -> Error {
    Error::new(ErrorKind::Invalid("this is done by one machine".to_owned()))
}
