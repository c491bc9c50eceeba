use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use waypost_io::{AtomicFile, Resources, Source};
use waypost_report::Curve;
use waypost_summary::map::{self, Budget, LeastCost, Papers, PowerLaw, Rule, SourceMap, Style};

use super::filtered::FilteredOptions;
use super::outcome;
use super::price::Priced;
use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;
use crate::progress::Bar;

/// Make a map smaller by rolling subtrees up into wildcard keys
///
/// By default, finds the map of least cost: of all maps of its size, the one with the fewest false
/// positives on the given or expected lookups. What the map calls present stays present.
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
    /// Also write the lookup table: see `waypost map index`
    #[arg(long)]
    table: bool,
    /// How to choose the subtrees to roll up
    #[arg(long, value_enum, default_value_t = RuleArgument::LeastCost)]
    rule: RuleArgument,
    /// Maximum number of keys, or their share of the URI-Rs, but at least 100: 100000, 1.5%
    #[arg(long, value_name = "N|N%", conflicts_with_all = ["bytes", "lambda"])]
    keys: Option<String>,
    /// Maximum size when gzipped, including filters: 200K, 1.5M
    #[arg(long, value_name = "SIZE", conflicts_with = "lambda", value_parser = crate::args::size)]
    bytes: Option<u64>,
    /// The price of a false positive, in keys, or in bytes with --filters
    #[arg(long, value_name = "PRICE")]
    lambda: Option<f64>,
    /// Allow zero keys for subtrees that are looked up but not held
    #[arg(long, requires = "lookups")]
    voids: bool,
    #[command(flatten)]
    priced: Priced,
    #[command(flatten)]
    filtered: FilteredOptions,
    #[command(flatten)]
    papers: PapersOptions,
    /// The style of keys and frequencies
    #[arg(long, value_enum, default_value_t = StyleArgument::Published)]
    style: StyleArgument,
    /// Write the numbers of keys read and written over time, tab-separated, and a plot next to the
    /// file, as .svg
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Also report λ, the unused budget, and the result of the papers' rule
    #[arg(short, long)]
    verbose: bool,
    /// Report format: sentences on standard error, or JSON on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuleArgument {
    /// Fewest false positives among all maps of the same size
    LeastCost,
    /// Roll up nodes with more children than a power law predicts, as published
    Papers,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StyleArgument {
    /// With headers and captures/URI-Rs
    Published,
    /// Like the papers' tool: no headers, only captures
    Reference,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suffixes {
    /// Roll them up, as published
    Roll,
    /// Never roll them up
    Keep,
}

/// The papers' rule.
#[derive(Args)]
#[command(next_help_heading = "The papers' rule")]
pub(super) struct PapersOptions {
    /// The weight of hosts; inf never rolls them up [default: 4]
    #[arg(long, value_name = "W")]
    wh: Option<f64>,
    /// The weight of paths [default: 2]
    #[arg(long, value_name = "W")]
    wp: Option<f64>,
    /// Children of a host at depth 1 [default: 16.329]
    #[arg(long, value_name = "A")]
    ha: Option<f64>,
    /// How fast that number falls with the depth [default: 0.714]
    #[arg(long, value_name = "K")]
    hk: Option<f64>,
    /// Children of a path at depth 1 [default: 24.546]
    #[arg(long, value_name = "A")]
    pa: Option<f64>,
    /// How fast that number falls with the depth [default: 1.429]
    #[arg(long, value_name = "K")]
    pk: Option<f64>,
    /// Maximum depth of hosts [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    hdepth: Option<u32>,
    /// Maximum depth of paths [default: 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pdepth: Option<u32>,
    /// What to do with public suffixes, such as uk,co [default: roll]
    #[arg(long, value_enum)]
    suffixes: Option<Suffixes>,
}

impl PapersOptions {
    /// The name of the first of these options that was given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("wh", self.wh.is_some()),
            ("wp", self.wp.is_some()),
            ("ha", self.ha.is_some()),
            ("hk", self.hk.is_some()),
            ("pa", self.pa.is_some()),
            ("pk", self.pk.is_some()),
            ("hdepth", self.hdepth.is_some()),
            ("pdepth", self.pdepth.is_some()),
            ("suffixes", self.suffixes.is_some()),
        ];
        given.iter().find(|(_, is)| *is).map(|(name, _)| *name)
    }

    fn papers(&self) -> anyhow::Result<Papers> {
        let number = |name: &str, value: Option<f64>, default: f64| {
            let value = value.unwrap_or(default);
            match value.is_nan() || value < 0.0 {
                true => Err(anyhow::anyhow!(
                    "--{name} must not be negative, but is {value}"
                )),
                false => Ok(value),
            }
        };
        let default = Papers::default();
        Ok(Papers {
            host_weight: number("wh", self.wh, default.host_weight)?,
            path_weight: number("wp", self.wp, default.path_weight)?,
            host: PowerLaw {
                a: number("ha", self.ha, default.host.a)?,
                k: number("hk", self.hk, default.host.k)?,
            },
            path: PowerLaw {
                a: number("pa", self.pa, default.path.a)?,
                k: number("pk", self.pk, default.path.k)?,
            },
            host_depth: self.hdepth.unwrap_or(default.host_depth),
            path_depth: self.pdepth.unwrap_or(default.path_depth),
            keep_suffixes: self.suffixes == Some(Suffixes::Keep),
        })
    }
}

impl Compact {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        super::index::check(&self.output, self.table)?;
        let resources = self.resources.resources(Some(&self.output))?;
        let exit = self.compact(&resources, out)?;
        super::index::write_beside(&self.output, self.table, &resources, out)?;
        Ok(exit)
    }

    fn compact(&self, resources: &Resources, out: &mut Printer) -> anyhow::Result<Exit> {
        if self.rule != RuleArgument::Papers
            && let Some(name) = self.papers.given()
        {
            return Err(anyhow::anyhow!("--{name} belongs to the papers' rule"))
                .hint("add --rule papers, or omit the option");
        }
        if self.rule == RuleArgument::Papers
            && (self.keys.is_some() || self.bytes.is_some() || self.lambda.is_some() || self.voids)
        {
            return Err(anyhow::anyhow!(
                "--rule papers cannot be combined with a budget or --voids"
            ))
            .hint("its size follows from the weights: --wh 4 --wp 2");
        }
        let progress = out.progress();
        let given = SourceMap::open(&Source::new(&self.map), resources)?;
        let mut given = given.reporting_to(&progress);
        if self.filtered.is_wanted() {
            return self.run_filtered(&mut given, resources, progress, out);
        }
        self.filtered.must_not_be_given()?;
        if given.has_filters() && !self.filtered.is_ignored() {
            return Err(anyhow::anyhow!(
                "{}: compacting would lose the filters of its keys",
                self.map.display()
            ))
            .hint("use --filters --holdings INPUT to rebuild the filters, or --ignore-filter to drop them");
        }
        let dialect = given.dialect()?;
        let holdings = self.priced.holdings(dialect, resources, &progress)?;
        let rule = match self.rule {
            RuleArgument::Papers => Rule::Papers(self.papers.papers()?),
            RuleArgument::LeastCost => Rule::LeastCost(Box::new(LeastCost {
                budget: self.budget()?,
                sample: self
                    .priced
                    .sample(dialect, resources, holdings.as_ref(), out)?,
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
        drop(progress);
        if let Some(path) = &self.trace {
            write_trace(path, &report.trace)?;
        }
        if report.sorted {
            out.note("the map was not sorted or had duplicate keys; sorted it first");
        }
        match self.format {
            Format::Table => outcome::tell(&report, self.verbose, out),
            Format::Json => writeln!(out.data(), "{:#}", outcome::object(&report))?,
        }
        if report
            .allowed
            .is_some_and(|allowed| report.gzipped.unwrap_or(report.written.rows) > allowed)
        {
            out.warn("the budget cannot be met; this is the smallest map");
        }
        out.flush()?;
        Ok(Exit::Yes)
    }

    fn run_filtered(
        &self,
        given: &mut SourceMap,
        resources: &Resources,
        progress: Bar,
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
                return Err(anyhow::anyhow!("--filters cannot be combined with {name}"))
                    .hint("for a map with filters use --bytes 200K, --accuracy 99% or --lambda 5");
            }
        }
        let budget = self.filtered.budget(self.bytes, self.lambda)?;
        self.filtered.run(
            given,
            budget,
            &self.priced,
            resources,
            progress,
            &self.output,
            (self.format, self.verbose),
            out,
        )
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
            return Err(anyhow::anyhow!("no budget for the size of the map")).hint(
                "use --keys 1.5%, --keys 100000, --bytes 200K, --lambda 0.1 or --rule papers",
            );
        };
        let wrong =
            || anyhow::anyhow!("--keys: invalid number or share `{keys}`: write 100000 or 1.5%");
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
        title: "Growth of the map".into(),
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
