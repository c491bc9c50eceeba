//! Sample lookups, which weigh false positives, and the holdings that label them.

use std::path::PathBuf;

use clap::Args;
use waypost_index::input;
use waypost_io::{Progress, Resources, Source};
use waypost_report::count;
use waypost_summary::evaluate::Lookups;
use waypost_summary::holdings::{Holdings, Input};
use waypost_summary::map::sample::Sample;
use waypost_surt::Dialect;

use crate::args::Filters;
use crate::hint::Hint;
use crate::printer::Printer;

/// The lookups to learn from.
#[derive(Args)]
#[command(next_help_heading = "Lookups")]
pub(super) struct Priced {
    /// Lookups that weigh false positives: URIs, an access log, or a MemGator log
    #[arg(long, value_name = "FILE")]
    lookups: Option<PathBuf>,
    /// What the archive holds, to find misses and to build filters: indexes, lists of URIs or hashes
    /// [default: the keys of the map]
    #[arg(long, value_name = "INPUT")]
    holdings: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) filters: Filters,
}

impl Priced {
    /// The holdings, if they were given.
    pub(super) fn holdings(
        &self,
        dialect: Dialect,
        resources: &Resources,
        progress: &Progress,
    ) -> anyhow::Result<Option<Holdings>> {
        if self.holdings.is_empty() {
            return Ok(None);
        }
        Ok(Some(Holdings::new(Input {
            dialect,
            select: self.filters.of_summary()?,
            resources: resources.clone(),
            progress: progress.clone(),
            ..Input::new(input::expand(&self.holdings)?.sources)
        })))
    }

    pub(super) fn sample(
        &self,
        dialect: Dialect,
        resources: &Resources,
        holdings: Option<&Holdings>,
        out: &Printer,
    ) -> anyhow::Result<Option<Sample>> {
        let Some(path) = &self.lookups else {
            return Ok(None);
        };
        let lookups = Lookups::read_within(&Source::new(path), dialect, resources.memory)?;
        if lookups.is_empty() {
            return Err(anyhow::anyhow!("{}: no lookups", path.display()))
                .hint("name a list with one URI per line, or an access log");
        }
        if lookups.rejected(false) > 0 {
            out.note(format_args!(
                "{}: {} lookups have no SURT",
                path.display(),
                count(lookups.rejected(false))
            ));
        }
        let Some(holdings) = holdings else {
            return Ok(Some(Sample::new(&lookups, None)));
        };
        let samples = [lookups];
        let (held, _) = holdings.truth(&samples)?;
        Ok(Some(Sample::new(
            &samples[0],
            held.first().map(|held| &held[..]),
        )))
    }
}
