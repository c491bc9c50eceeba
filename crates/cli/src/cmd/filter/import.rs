use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use waypost_io::quantity::number;
use waypost_report::bytes;
use waypost_summary::filter::orestes::{
    ClassicFilter, ImportOptions, MOST_HASHES, Method, Shape, Split, import,
};

use super::export::splits;
use super::options::{MetadataArguments, percent};
use super::store;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Import classic Bloom filters of Orestes
///
/// Reads the text form, the JSON of one filter, a folder of JSON files named after the first digits of
/// the MD5, or the layout that Orestes has in Redis. The imported file contains URLs as their archive spelled them; lookups try the most
/// frequent spellings of a URL (http and https, with and without www, …).
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter import classic.csv -o haw.orestes\n\
    \x20 waypost filter lookup haw.orestes http://library.example.org/\n\
    \n\
    From Redis, the filters haw:0 to haw:f:\n\
    \x20 waypost filter import redis://127.0.0.1/ --name 'haw:{}' -o haw.orestes")]
pub(crate) struct Import {
    /// The text file, JSON file or folder, or redis://HOST/
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(super) input: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// The hash method, if the file does not say it
    #[arg(long, value_name = "METHOD", value_parser = methods())]
    hash: Option<Method>,
    /// Number of bits (m) of a filter in a text file without a header
    #[arg(long, value_name = "M", value_parser = number, requires = "hashes")]
    bits: Option<u64>,
    /// Number of hash functions (k) of a filter in a text file without a header
    #[arg(long, value_name = "K", requires = "bits", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_HASHES)))]
    hashes: Option<u32>,
    /// Name of the filter in Redis; `{}` stands for the digits of the MD5 of several filters
    #[arg(long, value_name = "NAME", default_value = "{}")]
    name: String,
    /// Number of filters in Redis
    #[arg(long, value_name = "N", default_value = "16", value_parser = splits())]
    filters: Split,
    #[command(flatten)]
    metadata: MetadataArguments,
}

fn methods() -> impl TypedValueParser<Value = Method> {
    PossibleValuesParser::new(Method::ALL.map(Method::name)).try_map(|name| name.parse::<Method>())
}

impl Import {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        if let Some(url) = self.input.to_str().filter(|input| store::is_store(input)) {
            let (name, metadata) = (&self.name, self.metadata.metadata()?);
            store::import(url, name, self.filters, metadata, &self.output)?;
            return report_imported(out, &self.output);
        }
        let options = ImportOptions {
            method: self.hash,
            shape: self
                .bits
                .zip(self.hashes)
                .map(|(bits, hashes)| Shape { bits, hashes }),
            metadata: self.metadata.metadata()?,
        };
        import(&self.input, &options, &self.output)
            .hint_otherwise("give the size with --bits and --hashes if the file has no header")?;
        report_imported(out, &self.output)
    }
}

/// Reports what was imported.
pub(super) fn report_imported(out: &Printer, path: &std::path::Path) -> anyhow::Result<Exit> {
    let filter = ClassicFilter::open(path)?;
    let urls = match filter.urls() {
        Some(urls) => plural::of(urls, "URL"),
        None => "an unknown number of URLs".to_owned(),
    };
    out.note(format_args!(
        "wrote {}: {}, {}, {urls}, false positives {}",
        path.display(),
        plural::of(filter.split().filters() as u64, "filter"),
        bytes(filter.length()),
        percent(filter.rate()),
    ));
    Ok(Exit::Yes)
}
