//! `waypost map compact --filters`: a map whose rows may carry a filter.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use waypost_index::input;
use waypost_io::{Progress, Resources};
use waypost_report::count;
use waypost_summary::holdings::Input;
use waypost_summary::map::{self, Filtered, FilteredBudget, Growth, SourceMap};

use super::outcome;
use super::price::Priced;
use crate::args::Format;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;
use crate::progress::Bar;

/// Options of maps with filters.
#[derive(Args)]
#[command(next_help_heading = "Rows with filters")]
pub(super) struct FilteredOptions {
    /// Allow rows with filters, stored in a file next to the map; needs --holdings
    #[arg(long)]
    filters: bool,
    /// Drop the filters of the map
    #[arg(long, conflicts_with = "filters")]
    ignore_filter: bool,
    /// Find the smallest map with this accuracy on lookups like those given: 99%
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["bytes", "lambda", "keys"], value_parser = share)]
    accuracy: Option<f64>,
    /// Maximum width of filters, in bits
    #[arg(long, value_name = "BITS", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=16))]
    max_width: u8,
    /// An earlier index of the archive, to learn which subtrees grow
    #[arg(long, value_name = "INPUT", requires = "filters")]
    earlier: Vec<PathBuf>,
    /// The price of missing a future capture, in false positives
    #[arg(
        long,
        value_name = "PRICE",
        requires = "earlier",
        default_value_t = 1.0
    )]
    miss_price: f64,
}

impl FilteredOptions {
    pub(super) fn is_wanted(&self) -> bool {
        self.filters
    }

    pub(super) fn is_ignored(&self) -> bool {
        self.ignore_filter
    }

    /// Refuses options that need --filters.
    pub(super) fn must_not_be_given(&self) -> anyhow::Result<()> {
        if self.accuracy.is_some() {
            return Err(anyhow::anyhow!("--accuracy needs --filters")).hint("add --filters");
        }
        Ok(())
    }

    pub(super) fn budget(
        &self,
        bytes: Option<u64>,
        lambda: Option<f64>,
    ) -> anyhow::Result<FilteredBudget> {
        match (bytes, self.accuracy, lambda) {
            (Some(bytes), ..) => Ok(FilteredBudget::Bytes(bytes)),
            (_, Some(accuracy), _) => Ok(FilteredBudget::Accuracy(accuracy)),
            (.., Some(lambda)) if lambda.is_finite() && lambda >= 0.0 => {
                Ok(FilteredBudget::Lambda(lambda))
            }
            (.., Some(lambda)) => Err(anyhow::anyhow!(
                "--lambda must be a number and not negative, but is {lambda}"
            )),
            _ => Err(anyhow::anyhow!(
                "no budget for the size or accuracy of the map"
            ))
            .hint("use --bytes 200K, --accuracy 99% or --lambda 5"),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the options of one command")]
    pub(super) fn run(
        &self,
        given: &mut SourceMap,
        budget: FilteredBudget,
        priced: &Priced,
        resources: &Resources,
        progress: Bar,
        output: &Path,
        (format, verbose): (Format, bool),
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let dialect = given.dialect()?;
        let Some(holdings) = priced.holdings(dialect, resources, &progress)? else {
            return Err(anyhow::anyhow!("--filters needs --holdings"))
                .hint("name the holdings of the archive: --holdings archive.cdxj.gz");
        };
        let sample = priced.sample(dialect, resources, Some(&holdings), out)?;
        if matches!(budget, FilteredBudget::Accuracy(_)) && sample.is_none() {
            return Err(anyhow::anyhow!("--accuracy needs --lookups"))
                .hint("name a list or log of lookups: --lookups access.log");
        }
        let growth = self.growth(given, resources, &progress)?;
        if let Some(growth) = &growth {
            out.note(format_args!(
                "{} URI-Rs are new since the earlier index",
                count(growth.newcomers as u64)
            ));
        }
        let filtered = Filtered {
            budget,
            sample,
            prior: None,
            top: None,
            max_width: self.max_width,
            miss_price: match growth {
                Some(_) => self.miss_price,
                None => 0.0,
            },
            growth,
            holdings,
        };
        let built = map::compact_filtered(given, &filtered, output)?;
        drop(progress);
        if built.report.sorted {
            out.note("the map was not sorted or had duplicate keys; sorted it first");
        }
        priced.filters.takedowns.report(out);
        let whole = crate::cmd::profile::report_rejects(&built.reading, out);
        let allowed = match budget {
            FilteredBudget::Bytes(allowed) => Some(allowed),
            _ => None,
        };
        match format {
            Format::Table => outcome::report_filtered(&built, allowed, verbose, out),
            Format::Json => writeln!(out.data(), "{:#}", outcome::object_filtered(&built))?,
        }
        out.flush()?;
        Ok(if whole { Exit::Yes } else { Exit::No })
    }

    fn growth(
        &self,
        given: &mut SourceMap,
        resources: &Resources,
        progress: &Progress,
    ) -> anyhow::Result<Option<Growth>> {
        if self.earlier.is_empty() {
            return Ok(None);
        }
        if !self.miss_price.is_finite() || self.miss_price < 0.0 {
            return Err(anyhow::anyhow!(
                "--miss-price must be a number and not negative, but is {}",
                self.miss_price
            ));
        }
        let earlier = Input {
            dialect: given.dialect()?,
            resources: resources.clone(),
            progress: progress.clone(),
            ..Input::new(input::expand(&self.earlier)?.sources)
        };
        Ok(Some(map::growth(given, &earlier, resources)?))
    }
}

/// Parses `99%` or `0.99`.
fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("invalid share `{text}`: write 99% or 0.99");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => text.parse().map_err(|_| wrong())?,
    };
    if !(0.0..1.0).contains(&share) {
        return Err(wrong());
    }
    Ok(share)
}
