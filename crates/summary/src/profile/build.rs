//! Making profiles of many policies in one pass.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use waypost_index::rejects::RejectsFile;
use waypost_index::timestamp::Time;
use waypost_surt::Policy;

use super::cut::Cut;
use super::order::{Mode, Order};
use super::records::{Counts, Records};
use crate::about::{About, Archive, Texts};
use crate::error::{Error, Result};
use crate::frequency::Number;
use crate::holdings::{self, Consumer, Content, Input, Reading, Run};
use crate::scope::Scopes;

/// What to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which profiles.
    pub policies: Vec<Policy>,
    /// Whose they are.
    pub archive: Archive,
    /// When they are made, if not the newest capture's time shall stand for it.
    pub date: Option<Time>,
    /// The folder to write to; `None` to count and not to write.
    pub folder: Option<PathBuf>,
    /// How file names begin.
    pub name: String,
    /// Whether to gzip the files.
    pub gzip: bool,
}

/// What was made.
#[derive(Debug)]
pub struct Report {
    /// What was read.
    pub reading: Reading,
    /// How large the profiles are, in the order of the policies.
    pub profiles: Vec<PolicyReport>,
    /// How long it took.
    pub time: Duration,
}

/// One profile.
#[derive(Clone, Debug)]
pub struct PolicyReport {
    /// Its policy.
    pub policy: Policy,
    /// What was written.
    pub made: Made,
    /// The file, if one was written.
    pub path: Option<PathBuf>,
}

/// How large a profile is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Keys.
    pub keys: u64,
    /// Bytes of the file, not compressed.
    pub bytes: u64,
    /// Bytes, gzipped at level 6. Not known of what was only counted.
    pub gzip_bytes: Option<u64>,
    /// Whether that is known to the byte. Of plain files of more than 8 MiB it is estimated from
    /// every eighth part.
    pub gzip_exact: bool,
}

/// Makes the profiles of all policies in one pass over the input.
///
/// # Errors
/// When the input cannot be read or the files cannot be written. No file is written before all of
/// the input was read.
pub fn build(
    input: &Input,
    options: &Options,
    rejects: Option<&mut RejectsFile>,
) -> Result<Report> {
    let start = Instant::now();
    if let Some(folder) = &options.folder {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::io("make the folder", folder, error))?;
    }
    let builder = Builder::new(input, options)?;
    let reading = holdings::read(input, rejects, &builder)?;
    let mut about = about(input, options, &reading);
    let mut state = builder
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    state.flush()?;
    let folder = options.folder.clone();
    let scratch = folder.clone().unwrap_or_else(|| input.temporary.clone());
    let mut profiles = Vec::new();
    let orders: Vec<(Order, Option<PathBuf>, Vec<u8>)> = state
        .orders
        .into_iter()
        .map(|order| {
            about.policy = Some(order.policy());
            let mut header = Vec::new();
            about.headers().write(&mut header);
            let path = folder
                .as_ref()
                .map(|folder| folder.join(file_name(options, input, order.policy())));
            (order, path, header)
        })
        .collect();
    let finished: Vec<Result<PolicyReport>> = orders
        .into_par_iter()
        .map(|(order, path, header)| {
            let policy = order.policy();
            let made = order.finish(&header, path.as_deref(), &scratch)?;
            Ok(PolicyReport {
                policy,
                made: Made {
                    keys: made.keys,
                    bytes: made.bytes,
                    gzip_bytes: made.gzip_bytes,
                    gzip_exact: made.gzip_exact,
                },
                path,
            })
        })
        .collect();
    for report in finished {
        profiles.push(report?);
    }
    Ok(Report {
        reading,
        profiles,
        time: start.elapsed(),
    })
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

/// How much is counted before it is put in order.
const BATCH: usize = 8 << 20;

/// Counts URI-Rs under all policies.
struct Builder<'a> {
    policies: &'a [Policy],
    by: bool,
    state: Mutex<State>,
    make: Box<dyn Fn() -> Result<Vec<Order>> + Sync + 'a>,
}

struct State {
    orders: Vec<Order>,
    /// For each policy, records that wait to be put in order.
    waiting: Vec<Vec<Records<Counts>>>,
    size: usize,
    /// The last SURT of those that wait.
    last: Vec<u8>,
}

impl<'a> Builder<'a> {
    fn new(input: &'a Input, options: &'a Options) -> Result<Builder<'a>> {
        let make = move || orders(input, options);
        let state = State::new(make()?);
        Ok(Builder {
            policies: &options.policies,
            by: input.by.is_some(),
            state: Mutex::new(state),
            make: Box::new(make),
        })
    }
}

fn orders(input: &Input, options: &Options) -> Result<Vec<Order>> {
    let mode = match (&options.folder, options.gzip) {
        (None, _) => Mode::Count,
        (Some(_), true) => Mode::Gzip,
        (Some(_), false) => Mode::Plain,
    };
    let folder: &Path = options.folder.as_deref().unwrap_or(&input.temporary);
    // Rows that were written say how many sources there are, not which.
    let most = if input.each_a_source && input.sources.len() > 1 {
        usize::MAX
    } else {
        (input.memory / 4 / options.policies.len().max(1)).max(64 << 10)
    };
    let fields = 1 + usize::from(input.by.is_some());
    options
        .policies
        .iter()
        .map(|policy| Order::new(*policy, fields, mode, most, folder))
        .collect()
}

impl State {
    fn new(orders: Vec<Order>) -> State {
        State {
            waiting: orders.iter().map(|_| Vec::new()).collect(),
            orders,
            size: 0,
            last: Vec::new(),
        }
    }

    /// Puts in order what waits, each policy by itself.
    fn flush(&mut self) -> Result<()> {
        self.size = 0;
        let last = &self.last;
        self.orders
            .par_iter_mut()
            .zip(self.waiting.par_iter_mut())
            .try_for_each(|(order, waiting)| order.take(std::mem::take(waiting), last))
    }
}

impl<'a> Consumer for Builder<'a> {
    type Part = Cut<'a>;

    fn part(&self) -> Cut<'a> {
        Cut::new(self.policies)
    }

    fn run(&self, part: &mut Cut<'a>, run: &Run) {
        if self.by {
            let seconds = run
                .seconds
                .iter()
                .map(|(second, counts)| (&second[..], *counts));
            part.add_by(&run.surt, seconds);
        } else {
            part.add(&run.surt, run.counts);
        }
    }

    fn take(&self, part: Cut<'a>, last: &[u8]) -> Result<()> {
        let Ok(mut state) = self.state.lock() else {
            return Err(Error::format("another thread has failed"));
        };
        for (waiting, records) in state.waiting.iter_mut().zip(part.finish()) {
            if !records.is_empty() {
                waiting.push(records);
            }
        }
        state.size = state.waiting.iter().flatten().map(Records::size).sum();
        state.last.clear();
        state.last.extend_from_slice(last);
        if state.size >= BATCH {
            state.flush()?;
        }
        Ok(())
    }

    fn restart(&self) -> Result<()> {
        let state = State::new((self.make)()?);
        if let Ok(mut old) = self.state.lock() {
            *old = state;
        }
        Ok(())
    }
}
