//! Building profiles of many policies in one pass.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use waypost_index::rejects::RejectsFile;
use waypost_index::timestamp::Time;
use waypost_io::Writers;
use waypost_io::partial::Spill;
use waypost_io::pipeline::Pool;
use waypost_io::progress::Phase;
use waypost_io::temporary::OutputFolder;
use waypost_surt::Policy;

use super::cut::{Cut, Used};
use super::order::{Order, Piece, always_waits};
use super::records::Counts;
use super::rows::{RowText, Rows};
use crate::about::{About, Archive, Texts};
use crate::error::{Error, Result};
use crate::frequency::Number;
use crate::holdings::{self, Content, Held, Input, Pass, Reading, Reduce, Run, reduce};
use crate::scope::Scopes;

/// Options for profiles.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policies.
    pub policies: Vec<Policy>,
    /// The archive.
    pub archive: Archive,
    /// The date to record, if not that of the newest capture.
    pub date: Option<Time>,
    /// The output folder; `None` to count without writing.
    pub folder: Option<PathBuf>,
    /// The prefix of file names.
    pub name: String,
    /// Whether to gzip the files.
    pub gzip: bool,
}

/// The result of building profiles.
#[derive(Debug)]
pub struct Report {
    /// What was read.
    pub reading: Reading,
    /// The profiles, in the order of the policies.
    pub profiles: Vec<PolicyReport>,
    /// How long it took.
    pub time: Duration,
}

/// One profile.
#[derive(Clone, Debug)]
pub struct PolicyReport {
    /// Its policy.
    pub policy: Policy,
    /// Its size.
    pub size: ProfileSize,
    /// The file, if one was written.
    pub path: Option<PathBuf>,
}

/// The size of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileSize {
    /// Keys.
    pub keys: u64,
    /// Size of the file in bytes, uncompressed.
    pub bytes: u64,
    /// Size in bytes, gzipped at level 6. `None` if it was only counted.
    pub gzip_bytes: Option<u64>,
    /// Whether that size is exact. For plain files larger than 128 KiB it is estimated from every
    /// 64th part.
    pub gzip_exact: bool,
}

/// Builds the profiles of all policies in one pass over the input.
///
/// # Errors
/// If the input can't be read or the files can't be written. No file is written before the whole
/// input has been read.
pub fn build(
    input: &Input,
    options: &Options,
    rejects: Option<&mut RejectsFile>,
) -> Result<Report> {
    let start = Instant::now();
    // Reports an unwritable folder before hours are spent.
    let _folder = make_folder(options)?;
    let (mut held, reading) = holdings::gather(input, rejects)?;
    let mut report = write(&mut held, reading, input, options)?;
    report.time = start.elapsed();
    Ok(report)
}

/// Builds profiles from gathered holdings.
///
/// # Errors
/// When the files cannot be written.
pub fn write(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    options: &Options,
) -> Result<Report> {
    let start = Instant::now();
    let _folder = make_folder(options)?;
    let about = about(input, options, &reading);
    // Which orders must wait until the end is known only when a key arrives late, as it may for
    // hosts that can't be registered. In that case the holdings are read again.
    let policies = options.policies.iter();
    let mut waits: Vec<bool> = policies.map(|policy| always_waits(*policy)).collect();
    let profiles = loop {
        let outputs = cut(held, &about, &waits, input, options)?;
        for (wait, output) in waits.iter_mut().zip(&outputs) {
            *wait |= output.order.is_late();
        }
        if outputs.iter().all(|output| !output.order.is_late()) {
            let finished: Vec<Result<PolicyReport>> =
                outputs.into_par_iter().map(Output::finish).collect();
            break finished.into_iter().collect::<Result<Vec<_>>>()?;
        }
    };
    Ok(Report {
        reading,
        profiles,
        time: start.elapsed(),
    })
}

/// Builds the profile of one policy from gathered holdings, and writes it to `out`. The policies and
/// the folder of `options` are ignored.
///
/// # Errors
/// When the profile cannot be written.
pub fn write_to(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    policy: Policy,
    options: &Options,
    mut out: impl std::io::Write,
) -> Result<Report> {
    let temporary = &input.resources.temporary;
    let fail = |error| Error::io("write a temporary file in", temporary, error);
    // A key that arrives late starts the rows anew, so they are not written to `out` at once.
    let folder = tempfile::tempdir_in(temporary).map_err(fail)?;
    let options = Options {
        policies: vec![policy],
        folder: Some(folder.path().to_owned()),
        ..options.clone()
    };
    let mut report = write(held, reading, input, &options)?;
    for profile in &mut report.profiles {
        if let Some(path) = profile.path.take() {
            let mut file = std::fs::File::open(path).map_err(fail)?;
            std::io::copy(&mut file, &mut out).map_err(fail)?;
        }
    }
    Ok(report)
}

fn make_folder(options: &Options) -> Result<Option<OutputFolder>> {
    let folder = options.folder.as_deref().map(OutputFolder::create);
    Ok(folder.transpose()?)
}

/// A profile being written.
struct Output {
    order: Order<Counts>,
    rows: Rows,
    path: Option<PathBuf>,
}

impl Output {
    fn new(
        policy: Policy,
        about: &About,
        order: Order<Counts>,
        input: &Input,
        options: &Options,
        writers: &Arc<Writers>,
    ) -> Result<Output> {
        let about = About {
            policy: Some(policy),
            ..about.clone()
        };
        let mut header = Vec::new();
        about.headers().write(&mut header);
        let folder = options.folder.as_ref();
        let path = folder.map(|folder| folder.join(file_name(options, input, policy)));
        Ok(Output {
            order,
            rows: Rows::create(path.as_deref(), options.gzip, &header, writers)?,
            path,
        })
    }

    fn take(&mut self, pieces: &mut Vec<Arc<Waiting>>, used: &Used) -> Result<()> {
        for waiting in pieces.drain(..) {
            (self.order).take(&waiting.piece, &waiting.last, &mut self.rows)?;
            // The last policy that shares it.
            if let Some(waiting) = Arc::into_inner(waiting)
                && let Some(used) = used.get(waiting.number)
            {
                used.put(waiting.piece.emptied());
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<PolicyReport> {
        let policy = self.order.policy();
        self.order.finish(&mut self.rows)?;
        let written = self.rows.finish()?;
        Ok(PolicyReport {
            policy,
            size: ProfileSize {
                keys: written.keys,
                bytes: written.bytes,
                gzip_bytes: written.gzip_bytes,
                gzip_exact: written.gzip_exact,
            },
            path: self.path,
        })
    }
}

/// A piece to be written, for one or several policies.
struct Waiting {
    piece: Piece<Counts>,
    /// Its number in the part.
    number: usize,
    /// The last SURT that it may have.
    last: Arc<[u8]>,
}

/// Cuts all URI-Rs under all policies.
fn cut(
    held: &mut Held,
    about: &About,
    waits: &[bool],
    input: &Input,
    options: &Options,
) -> Result<Vec<Output>> {
    let policies = options.policies.len().max(1);
    let most = (input.resources.memory / 8 / policies).max(64 << 10);
    let batch = (input.resources.memory / 16).clamp(1 << 20, BATCH);
    let spill = Spill::new(&input.resources.temporary);
    let writers = Arc::new(Writers::start(input.resources.threads)?);
    let mut outputs = Vec::new();
    for (policy, waits) in options.policies.iter().zip(waits) {
        let order = Order::new(*policy, most, *waits, &spill);
        let output = Output::new(*policy, about, order, input, options, &writers)?;
        outputs.push(output);
    }
    let used: Vec<Pool<Piece<Counts>>> = outputs.iter().map(|_| Pool::new()).collect();
    let cutter = Cutter {
        policies: &options.policies,
        waits,
        by: input.by.is_some(),
        used: &used,
    };
    // For each policy, pieces to be written.
    let mut waiting: Vec<Vec<Arc<Waiting>>> = outputs.iter().map(|_| Vec::new()).collect();
    let mut size = 0;
    let flush = |outputs: &mut Vec<Output>, waiting: &mut Vec<Vec<Arc<Waiting>>>| {
        outputs
            .par_iter_mut()
            .zip(waiting.par_iter_mut())
            .try_for_each(|(output, waiting)| output.take(waiting, &used))
    };
    // A block of rows has about 2,000 URI-Rs, each with a key of about 100 bytes per policy.
    let piece = (policies * 2_000 * 100).max(1 << 18);
    let pass = Pass {
        memory: input.resources.memory / 8,
        piece,
        phase: Phase::Writing,
        progress: &input.progress,
    };
    reduce(held, &cutter, pass, |part, last| {
        let last: Arc<[u8]> = last.into();
        size += part.pieces.iter().map(Piece::size).sum::<usize>();
        let pieces = part.pieces.into_iter().enumerate().map(|(number, piece)| {
            let last = Arc::clone(&last);
            Arc::new(Waiting {
                piece,
                number,
                last,
            })
        });
        let pieces: Vec<_> = pieces.collect();
        for (waiting, &number) in waiting.iter_mut().zip(&part.piece_of) {
            if !pieces[number].piece.is_empty() {
                waiting.push(Arc::clone(&pieces[number]));
            }
        }
        drop(pieces);
        if size >= batch {
            size = 0;
            flush(&mut outputs, &mut waiting)?;
        }
        Ok(())
    })?;
    flush(&mut outputs, &mut waiting)?;
    Ok(outputs)
}

/// `NAME.H3P1.cdxj.gz`; with a second key `NAME.H3P1.year.cdxj`.
fn file_name(options: &Options, input: &Input, policy: Policy) -> String {
    let by = input
        .by
        .map(|by| format!(".{}", by.name()))
        .unwrap_or_default();
    let end = if options.gzip { ".gz" } else { "" };
    format!("{}.{policy}{by}.cdxj{end}", options.name)
}

fn about(input: &Input, options: &Options, reading: &Reading) -> About {
    let source =
        reading
            .contents
            .iter()
            .fold(Texts::default(), |source, (_, content)| match content {
                Content::Index(_) => source.with("cdx"),
                Content::List => source.with("uris"),
                Content::Summary | Content::Empty => source,
            });
    About {
        archive: options.archive.clone(),
        policy: None,
        by: input.by,
        dialect: input.dialect,
        scopes: Scopes::of(&input.select),
        source,
        sources: if input.each_a_source {
            input.sources.len() as u64
        } else {
            1
        },
        first: reading.first,
        last: reading.last,
        updated: options.date.or(reading.last),
        captures: Some(Number::exact(reading.captures)),
        urirs: Some(Number::exact(reading.urirs)),
    }
}

/// How much is counted before it is sorted.
const BATCH: usize = 4 << 20;

/// Counts URI-Rs under all policies.
struct Cutter<'a> {
    policies: &'a [Policy],
    /// For each policy, whether its rows wait until the end.
    waits: &'a [bool],
    by: bool,
    used: &'a Used,
}

/// The counts of consecutive URI-Rs.
struct Part<'a> {
    /// Until all URI-Rs are counted.
    cut: Option<Cut<'a>>,
    pieces: Vec<Piece<Counts>>,
    /// For each policy, the number of its piece.
    piece_of: Vec<usize>,
}

impl<'a> Reduce for Cutter<'a> {
    type Part = Part<'a>;

    fn part(&self) -> Part<'a> {
        Part {
            cut: Some(Cut::new(self.policies, self.by, self.used)),
            pieces: Vec::new(),
            piece_of: Vec::new(),
        }
    }

    fn run(&self, part: &mut Part<'a>, run: &Run) {
        let Some(cut) = &mut part.cut else {
            return;
        };
        if self.by {
            let seconds = run
                .seconds
                .iter()
                .map(|(second, counts)| (&second[..], *counts));
            cut.add_by(&run.surt, seconds);
        } else {
            cut.add(&run.surt, run.counts);
        }
    }

    fn end(&self, part: &mut Part<'a>) {
        let Some(cut) = part.cut.take() else {
            return;
        };
        (part.pieces, part.piece_of) = cut.finish();
        let mut text = RowText::default();
        for (number, piece) in part.pieces.iter_mut().enumerate() {
            let mut waits = part.piece_of.iter().zip(self.waits);
            if waits.any(|(&of, waits)| of == number && !waits) {
                piece.write(|key, counts, out| text.write(key, counts, out));
            }
        }
    }
}
