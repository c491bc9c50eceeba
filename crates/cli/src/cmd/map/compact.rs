use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use waypost_index::input::Source;
use waypost_index::output::AtomicFile;
use waypost_report::{Align, Curve, Table, bytes, count};
use waypost_summary::map::{
    self, Budget, Given, LeastCost, Papers, PowerLaw, Report, Room, Rule, Style,
};

use super::filtered::FilteredOptions;
use super::price::Priced;
use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Make a map smaller by rolling subtrees up into wildcard keys
///
/// By default the map of least cost is made: of all maps of its size, the one with the fewest false
/// positives on the lookups given, or those to be expected. What the map called present stays
/// present.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost map compact full.ukvs --keys 10% -o small.ukvs\n\
    \x20 waypost map compact full.ukvs --bytes 2K --lookups lookups.txt \\\n\
    \x20   --holdings small.cdxj -o small.ukvs.gz\n\
    \x20 waypost map compact full.ukvs --filters --bytes 1K --lookups lookups.txt \\\n\
    \x20   --holdings small.cdxj -o filtered.ukvs\n\
    \x20 waypost map compact full.ukvs --rule papers --wh 4 --wp 2 -o papers.ukvs")]
pub(crate) struct Compact {
    /// The map to make smaller
    map: PathBuf,
    /// The map to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,
    /// Write the lookup table beside it, too: see `waypost map index`
    #[arg(long)]
    table: bool,
    /// How to choose what is rolled up
    #[arg(long, value_enum, default_value_t = RuleArgument::LeastCost)]
    rule: RuleArgument,
    /// As many keys as this, or as this share of the URI-Rs: 100000, 1.5%
    #[arg(long, value_name = "N|N%", conflicts_with_all = ["bytes", "lambda"])]
    keys: Option<String>,
    /// As many bytes as this, gzipped, filter and all: 200K, 1.5M; K is 1,000
    #[arg(long, value_name = "SIZE", conflicts_with = "lambda", value_parser = crate::args::size)]
    bytes: Option<u64>,
    /// What a false positive costs: in keys, and in bytes with --filters
    #[arg(long, value_name = "PRICE")]
    lambda: Option<f64>,
    /// Allow zero keys for subtrees that are asked for in vain
    #[arg(long, requires = "lookups")]
    voids: bool,
    #[command(flatten)]
    priced: Priced,
    #[command(flatten)]
    filtered: FilteredOptions,
    #[command(flatten)]
    papers: PapersOptions,
    /// How keys and frequencies are written
    #[arg(long, value_enum, default_value_t = StyleArgument::Published)]
    style: StyleArgument,
    /// Write how many keys were read and written on the way, tab-separated, and a plot of it beside
    /// the file, as .svg
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    resources: ResourceArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuleArgument {
    /// The fewest false positives of all maps of its size
    LeastCost,
    /// More children than a power law grants, as published
    Papers,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StyleArgument {
    /// Headers, and captures/URI-Rs
    Published,
    /// As the papers' tool writes: no headers, captures alone
    Reference,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suffixes {
    /// They may roll up, as published
    Roll,
    /// They never roll up
    Keep,
}

/// The papers' rule.
#[derive(Args)]
#[command(next_help_heading = "The papers' rule")]
pub(super) struct PapersOptions {
    /// The weight of hosts; inf: hosts never roll up
    #[arg(long, value_name = "W", default_value_t = 4.0)]
    wh: f64,
    /// The weight of paths
    #[arg(long, value_name = "W", default_value_t = 2.0)]
    wp: f64,
    /// Children of a host at depth 1
    #[arg(long, value_name = "A", default_value_t = 16.329)]
    ha: f64,
    /// How fast they become fewer with the depth
    #[arg(long, value_name = "K", default_value_t = 0.714)]
    hk: f64,
    /// Children of a path at depth 1
    #[arg(long, value_name = "A", default_value_t = 24.546)]
    pa: f64,
    /// How fast they become fewer with the depth
    #[arg(long, value_name = "K", default_value_t = 1.429)]
    pk: f64,
    /// Levels of hosts looked at
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    hdepth: u32,
    /// Levels of paths looked at
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pdepth: u32,
    /// What to do with public suffixes, such as uk,co
    #[arg(long, value_enum, default_value_t = Suffixes::Roll)]
    suffixes: Suffixes,
}

impl PapersOptions {
    pub(super) fn papers(&self) -> anyhow::Result<Papers> {
        for (name, value) in [
            ("wh", self.wh),
            ("wp", self.wp),
            ("ha", self.ha),
            ("hk", self.hk),
            ("pa", self.pa),
            ("pk", self.pk),
        ] {
            if value.is_nan() || value < 0.0 {
                return Err(anyhow::anyhow!(
                    "--{name} must not be negative, but is {value}"
                ));
            }
        }
        Ok(Papers {
            host_weight: self.wh,
            path_weight: self.wp,
            host: PowerLaw {
                a: self.ha,
                k: self.hk,
            },
            path: PowerLaw {
                a: self.pa,
                k: self.pk,
            },
            host_depth: self.hdepth,
            path_depth: self.pdepth,
            keep_suffixes: self.suffixes == Suffixes::Keep,
        })
    }
}

impl Compact {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        super::index::check(&self.output, self.table)?;
        let exit = self.compact(out)?;
        super::index::write_beside(&self.output, self.table, out)?;
        Ok(exit)
    }

    fn compact(&self, out: &mut Printer) -> anyhow::Result<Exit> {
        let room = self.resources.resources(Some(&self.output))?;
        let mut given = Given::open(&Source::new(&self.map), &room)?;
        if self.filtered.is_wanted() {
            return self.run_filtered(&mut given, &room, out);
        }
        self.filtered.must_not_be_given()?;
        if given.has_filters() && !self.filtered.is_ignored() {
            return Err(anyhow::anyhow!(
                "{}: its keys have filters, which would be lost",
                self.map.display()
            ))
            .hint("say --filters --holdings INPUT to make them anew, or --ignore-filter to go by the keys alone");
        }
        let rule = match self.rule {
            RuleArgument::Papers => Rule::Papers(self.papers.papers()?),
            RuleArgument::LeastCost => Rule::LeastCost(Box::new(LeastCost {
                budget: self.budget()?,
                sample: self.priced.sample(given.dialect()?, room.memory, out)?,
                voids: self.voids,
                prior: None,
                top: None,
            })),
        };
        let style = match self.style {
            StyleArgument::Published => Style::Published,
            StyleArgument::Reference => Style::Reference,
        };
        let report = map::compact(&mut given, &rule, style, &self.output, self.trace.is_some())?;
        if let Some(path) = &self.trace {
            write_trace(path, &report.trace)?;
        }
        if report.sorted {
            out.note("the map was not sorted, or had keys twice: it was put in order on the way");
        }
        let table = table(&report);
        out.note(table.to_string().trim_end());
        if report
            .allowed
            .is_some_and(|allowed| report.gzipped.unwrap_or(report.written.rows) > allowed)
        {
            out.warn("no map of these keys is as small as that: this is the smallest");
        }
        out.flush()?;
        Ok(Exit::Yes)
    }

    fn run_filtered(
        &self,
        given: &mut Given,
        room: &Room,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let unfit = [
            (self.rule == RuleArgument::Papers, "--rule papers"),
            (self.style == StyleArgument::Reference, "--style reference"),
            (self.keys.is_some(), "--keys"),
            (self.voids, "--voids"),
            (self.trace.is_some(), "--trace"),
        ];
        for (given, name) in unfit {
            if given {
                return Err(anyhow::anyhow!("--filters does not go with {name}"))
                    .hint("a map with filters is made at least cost in bytes: say --bytes 200K, --accuracy 99% or --lambda 5");
            }
        }
        let budget = self.filtered.budget(self.bytes, self.lambda)?;
        self.filtered
            .run(given, budget, &self.priced, room, &self.output, out)
    }

    fn budget(&self) -> anyhow::Result<Budget> {
        if let Some(lambda) = self.lambda {
            if !lambda.is_finite() || lambda < 0.0 {
                return Err(anyhow::anyhow!(
                    "--lambda must be a number and not negative, but is {lambda}"
                ));
            }
            return Ok(Budget::Lambda(lambda));
        }
        if let Some(bytes) = self.bytes {
            return Ok(Budget::Bytes(bytes));
        }
        let Some(keys) = &self.keys else {
            return Err(anyhow::anyhow!("how small should the map be?")).hint(
                "say --keys 1.5%, --keys 100000, --bytes 200K or --lambda 0.1; or --rule papers",
            );
        };
        let wrong = || {
            anyhow::anyhow!(
                "--keys: `{keys}` is neither a number nor a share: write 100000 or 1.5%"
            )
        };
        if let Some(share) = keys.strip_suffix('%') {
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if !share.is_finite() || share <= 0.0 {
                return Err(wrong());
            }
            return Ok(Budget::Share(share / 100.0));
        }
        Ok(Budget::Keys(
            keys.replace([',', '_'], "").parse().map_err(|_| wrong())?,
        ))
    }
}

/// Rows read against rows written, and the plot.
fn write_trace(path: &Path, trace: &[(u64, u64)]) -> anyhow::Result<()> {
    let mut file = AtomicFile::create(path)?;
    for (read, written) in trace {
        writeln!(file, "{read}\t{written}")?;
    }
    file.commit()?;
    let curve = Curve {
        title: "The map grows as it is made".into(),
        x: "keys read".into(),
        y: "keys written".into(),
        points: trace.iter().map(|&(x, y)| (x as f64, y as f64)).collect(),
    };
    if path.as_os_str() != "-" {
        let mut file = AtomicFile::create(&path.with_extension("svg"))?;
        file.write_all(curve.svg().as_bytes())?;
        file.commit()?;
    }
    Ok(())
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&[("compacted", Align::Left), ("", Align::Right)]);
    table.row(["keys before", &count(report.rows_in)]);
    table.row(["keys", &count(report.written.rows)]);
    if report.urirs > 0 {
        let share = 100.0 * report.written.rows as f64 / report.urirs as f64;
        table.row(["of URI-Rs", &format!("{share:.3}%")]);
    }
    if let Some(allowed) = report.allowed {
        let unused = allowed.saturating_sub(report.gzipped.unwrap_or(report.written.rows));
        let share = 100.0 * unused as f64 / allowed.max(1) as f64;
        let unused = match report.gzipped {
            Some(_) => bytes(unused),
            None => count(unused),
        };
        table.row(["unused of the budget", &format!("{unused} ({share:.1}%)")]);
    }
    table.row(["wildcards", &count(report.written.wildcards)]);
    if report.written.voids > 0 {
        table.row(["voids", &count(report.written.voids)]);
    }
    table.row(["bytes", &bytes(report.bytes)]);
    if let Some(gzipped) = report.gzipped {
        table.row(["gzipped", &bytes(gzipped)]);
    }
    if let Some(lambda) = report.lambda {
        table.row(["λ", &format!("{lambda:.4e}")]);
    }
    if let Some(false_positives) = report.false_positives {
        table.row(["false positives expected", &format!("{false_positives:.0}")]);
    }
    if let Some(papers) = report.papers {
        table.row([
            "the papers' rule at this size".to_owned(),
            format!(
                "{:.0} false positives, {} keys (--wh {} --wp {})",
                papers.false_positives,
                count(papers.rows),
                papers.host_weight,
                papers.path_weight
            ),
        ]);
    }
    if let Some(rolled) = report.rolled {
        table.row(["roll-ups", &count(rolled)]);
    }
    table
}
