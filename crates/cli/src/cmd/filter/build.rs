use clap::{Args, ValueEnum};
use waypost_index::scan::Pieces;
use waypost_summary::filter::{self, Hasher, Hashing, Input, Keyer, Kind};
use waypost_surt::{Dialect, Policy};

use super::options::{Holdings, KeyFile, Make, report_rejects, report_written};
use crate::args::Inputs;
use crate::args::{default_dialect, dialects, number};
use crate::cmd::worker::{Divide, Task};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Build a filter from indexes or lists of URIs
///
/// The result does not depend on the order of the input. Unless the filter is built with --key-file,
/// anyone can look up the URIs that they can guess: see `waypost filter privacy`.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter build small.cdxj -o small.filter\n\
    \x20 waypost filter build lookups.txt --kind bloom --fpr 1% --room 10K \\\n\
    \x20   -o live.filter\n\
    \x20 waypost filter build small.cdxj --status 200 --policy HxPx --bytes 1K \\\n\
    \x20   -o pages.filter\n\
    \x20 waypost filter build small.cdxj --kind hashes --key-file secret \\\n\
    \x20   -o secret.hashes")]
pub(crate) struct Build {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    make: Make,
    /// The policy of the keys: URIR (whole SURT), HxPx (without query), H3P0, …
    #[arg(long, default_value_t = Policy::Whole)]
    policy: Policy,
    /// Canonicalisation rules [default: ia, or webrecorder for WACZ files]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    /// Make a Bloom filter large enough to grow to this many keys: 300M
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    room: u64,
    /// Add what the archive also finds by fuzzy rules, which ignore some parameters and queries
    #[arg(long, value_enum, value_name = "RULES")]
    fuzzy: Option<Fuzzy>,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    holdings: Holdings,
}

#[derive(Clone, Copy, ValueEnum)]
enum Fuzzy {
    /// The default rules of pywb
    Pywb,
}

impl Build {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let dialect = default_dialect(self.dialect, &sources, out);
        let progress = out.progress();
        let recipe = self.make.recipe(Kind::Ribbon, self.room, &progress)?;
        if self.fuzzy.is_some() && recipe.kind != Kind::Ribbon {
            return Err(anyhow::anyhow!("--fuzzy needs --kind ribbon"))
                .hint("other kinds can be changed, but what was added by fuzzy rules cannot");
        }
        let hasher = Hasher::new(self.key_file.secret()?);
        let (built, reading) =
            self.holdings
                .read(&sources, recipe.resources.clone(), &progress, |input| {
                    let mut input = Input {
                        dialect,
                        policy: self.policy,
                        hasher,
                        pieces: self.inputs.pieces.clone(),
                        ..input
                    };
                    input.select.fuzzy(self.fuzzy.is_some());
                    Ok(filter::build(input, &recipe, &self.make.output)?)
                })?;
        drop(progress);
        self.holdings.filters.takedowns.report(out);
        let exit = report_rejects(out, &reading);
        report_written(out, &self.make.output, &built);
        Ok(exit)
    }
}

impl Divide for Build {
    fn merge(&mut self, pieces: Pieces) {
        self.inputs.pieces = Some(pieces);
    }

    fn read(&self, task: &Task) -> anyhow::Result<Vec<u8>> {
        let dialect = self.dialect.unwrap_or_default();
        let hasher = Hasher::new(self.key_file.secret()?);
        let keyer = Keyer::new(dialect, self.policy, hasher);
        let job = Hashing::new(keyer, dialect, &self.make.resources.limits(None)?);
        let job = job.fuzzy(self.fuzzy.is_some());
        let mut select = self.holdings.filters.of_summary()?;
        select.dialect(dialect);
        task.read(&job, select, &self.holdings.bad_lines)
    }
}
