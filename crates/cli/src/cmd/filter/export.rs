use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use waypost_report::bytes;
use waypost_summary::filter::orestes::{self, ExportOptions, Form, MOST_HASHES, Split};

use super::options::{Holdings, MetadataArguments, percent, rate, report_rejects};
use super::store::StoreArgs;
use crate::args::{Inputs, ResourceArgs, default_dialect, number};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Export URLs as classic Bloom filters that other tools read
///
/// The scheme is the published one of Los Alamos and Zagreb: every URL is in one of 16 filters by
/// the first digit of its MD5, and sets bits as in the Java library Orestes. The filters contain URLs
/// as the index spells them, not SURTs.
///
/// With --store, uploads a filter of any kind but hashes to Redis instead, where
/// `waypost filter lookup --store` and `waypost filter serve --store` use it.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter export small.cdxj --scheme lanl -o small.csv\n\
    \x20 waypost filter export small.cdxj --form json --filters 32 -o small-json\n\
    \x20 waypost filter export small.cdxj --form binary --room 10K -o small.orestes\n\
    \n\
    A filter to Redis:\n\
    \x20 waypost filter export small.filter --store redis://127.0.0.1/ --archive small")]
pub(crate) struct Export {
    #[command(flatten)]
    inputs: Inputs,
    /// The scheme
    #[arg(long, value_enum, default_value_t = Scheme::Lanl)]
    scheme: Scheme,
    /// The file to write, or the folder for JSON
    #[arg(short, long, value_name = "FILE", required_unless_present = "store")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Text with a row for each filter, the JSON of Orestes, or a file for lookups
    #[arg(long, value_enum, default_value_t = FormArgument::Text)]
    form: FormArgument,
    /// Number of filters
    #[arg(long, value_name = "N", default_value = "16", value_parser = splits())]
    filters: Split,
    /// False positive rate when full: 1%, 0.01
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1%")]
    fpr: f64,
    /// Number of hash functions: 5 as published, or 0 for the number that takes the least space
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_HASHES)))]
    hashes: u32,
    /// Make the filters large enough for this many URLs in all: 3200M
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    room: u64,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    metadata: MetadataArguments,
    #[command(flatten)]
    holdings: Holdings,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scheme {
    /// Filters by the first digits of the MD5, with the hashes of Orestes
    Lanl,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormArgument {
    /// A row for each filter, with its bits in base64
    Text,
    /// A folder with a file for each filter, as Orestes writes it
    Json,
    /// The bits as they are, which lookups read
    Binary,
}

pub(super) fn splits() -> impl TypedValueParser<Value = Split> {
    PossibleValuesParser::new(["1", "16", "32", "256"]).try_map(|text| {
        let filters = text.parse().unwrap_or(0);
        Split::of(filters)
    })
}

impl Export {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let Some(output) = &self.output else {
            return self.store.upload(self.inputs.paths(), out);
        };
        let Scheme::Lanl = self.scheme;
        let sources = self.inputs.sources(out)?;
        let dialect = default_dialect(None, &sources, out);
        let resources = self.resources.resources(Some(output))?;
        let options = ExportOptions {
            split: self.filters,
            rate: self.fpr,
            hashes: Some(self.hashes).filter(|&hashes| hashes > 0),
            capacity: self.room,
            form: match self.form {
                FormArgument::Text => Form::Text,
                FormArgument::Json => Form::Json,
                FormArgument::Binary => Form::Binary,
            },
            metadata: self.metadata.metadata()?,
        };
        let progress = out.progress();
        let (report, reading) =
            self.holdings
                .read(&sources, resources, &progress, |mut input| {
                    input.dialect = dialect;
                    orestes::export(input, &options, output)
                        .hint_otherwise("choose more filters with --filters 256, or a higher --fpr")
                })?;
        drop(progress);
        self.holdings.filters.takedowns.report(out);
        let exit = report_rejects(out, &reading);
        if reading.without_url > 0 {
            out.warn(format_args!(
                "left out {} without a URL: the filters contain URLs, and a SURT stands for many",
                plural::of(reading.without_url, "line")
            ));
        }
        out.note(format_args!(
            "wrote {}: {} of {} each, {} hash functions, {}, false positives {}",
            output.display(),
            plural::of(report.split.filters() as u64, "filter"),
            bytes(report.shape.bytes()),
            report.shape.hashes,
            plural::of(report.urls, "URL"),
            percent(report.rate),
        ));
        Ok(if reading.without_url > 0 {
            Exit::No
        } else {
            exit
        })
    }
}
