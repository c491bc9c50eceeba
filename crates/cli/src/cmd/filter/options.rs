//! Options and reports that the filter commands share: size, secret key, metadata.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use waypost_io::{Progress, Resources, Source};
use waypost_report::{bytes, count};
use waypost_summary::filter::{
    Budget, BuildReport, Filter, Input, Kind, Metadata, Reading, Recipe, Secret,
};

use crate::args::{BadLines, Filters, ResourceArgs, size};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::{Printer, SHOWN};

/// The filter to build.
#[derive(Args)]
pub(crate) struct Make {
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// ribbon (smallest), bloom (can be extended and merged) or hashes (exact, keep private)
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: Option<Kind>,
    /// False positive rate: 1%, 0.4%, 0.004 [default: one in 256]
    #[arg(long, value_name = "RATE", value_parser = rate, group = "size")]
    fpr: Option<f64>,
    /// Bits per key: 1 to 32 for ribbon, which adds 2%; the total bits per key for bloom
    #[arg(long, value_name = "N", group = "size")]
    bits: Option<f64>,
    /// Maximum size of the file: 200M
    #[arg(long, value_name = "SIZE", value_parser = size, group = "size")]
    bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    metadata: MetadataArguments,
}

/// How to read holdings.
#[derive(Args)]
pub(crate) struct Holdings {
    #[command(flatten)]
    pub(crate) filters: Filters,
    #[command(flatten)]
    pub(crate) bad_lines: BadLines,
}

impl Holdings {
    /// Passes the holdings in `sources` to `take` and saves bad lines.
    pub(crate) fn read<T>(
        &self,
        sources: &[Source],
        resources: Resources,
        progress: &Progress,
        take: impl FnOnce(Input<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut rejects = self.bad_lines.file()?;
        let taken = take(Input {
            select: self.filters.of_summary()?,
            resources,
            strict: self.bad_lines.strict,
            rejects: rejects.as_mut(),
            progress: progress.clone(),
            ..Input::new(sources)
        })?;
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        Ok(taken)
    }
}

/// Metadata of a filter, in Dublin Core.
#[derive(Args)]
#[command(next_help_heading = "Metadata")]
pub(crate) struct MetadataArguments {
    /// Title of the filter
    #[arg(long)]
    title: Option<String>,
    /// Publisher of the filter
    #[arg(long)]
    publisher: Option<String>,
    /// Date of the filter [default: the day of the newest capture]
    #[arg(long)]
    date: Option<String>,
    /// Any Dublin Core element: rights=CC0. May be repeated
    #[arg(long, value_name = "ELEMENT=TEXT")]
    dc: Vec<String>,
}

impl MetadataArguments {
    pub(crate) fn metadata(&self) -> anyhow::Result<Metadata> {
        let mut metadata = Metadata::default();
        let options = [
            ("title", &self.title),
            ("publisher", &self.publisher),
            ("date", &self.date),
        ];
        for (element, text) in options {
            if let Some(text) = text {
                metadata.add(element, text)?;
            }
        }
        for pair in &self.dc {
            let (element, text) = pair
                .split_once('=')
                .with_context(|| format!("--dc {pair}: missing `=`"))
                .hint("write a Dublin Core element and its text: --dc rights=CC0")?;
            metadata.add(element, text).context("--dc")?;
        }
        Ok(metadata)
    }
}

impl Make {
    /// `kind` is the default kind.
    pub(crate) fn recipe(
        &self,
        kind: Kind,
        capacity: u64,
        progress: &Progress,
    ) -> anyhow::Result<Recipe> {
        let kind = self.kind.unwrap_or(kind);
        let resources = self.resources.resources(Some(&self.output))?;
        let budget = match (self.fpr, self.bits, self.bytes) {
            (Some(rate), ..) => Some(Budget::Rate(rate)),
            (_, Some(bits), _) => Some(Budget::Bits(bits)),
            (.., Some(bytes)) => Some(Budget::Bytes(bytes)),
            _ => None,
        };
        if kind == Kind::Hashes && budget.is_some() {
            return Err(anyhow::anyhow!(
                "--fpr, --bits and --bytes do not apply to hashes"
            ))
            .hint("omit the option, or choose another kind with --kind ribbon");
        }
        Ok(Recipe {
            kind,
            budget: budget.unwrap_or_default(),
            capacity,
            metadata: self.metadata.metadata()?,
            resources,
            progress: progress.clone(),
        })
    }
}

/// Parses a kind of filter, and lists all of them for completions.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

/// The secret key.
#[derive(Args)]
pub(crate) struct KeyFile {
    /// A file with a secret key of 32 hexadecimal digits, which lookups then need
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
}

impl KeyFile {
    pub(crate) fn secret(&self) -> anyhow::Result<Option<Secret>> {
        self.key_file
            .as_deref()
            .map(Secret::read)
            .transpose()
            .hint("make one with `openssl rand -hex 16 > FILE`")
    }

    /// The file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.key_file.as_deref()
    }

    /// Opens a filter with the secret key.
    pub(crate) fn open(&self, path: &Path) -> anyhow::Result<Filter> {
        self.give(Filter::open(path)?)
    }

    /// Passes the secret key to a filter that needs it.
    pub(crate) fn give(&self, filter: Filter) -> anyhow::Result<Filter> {
        match self.secret()? {
            Some(secret) => Ok(filter.with_secret(secret)?),
            None => Ok(filter.unlock(None)?),
        }
    }
}

/// Parses a rate: `0.4%`, `0.004`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("invalid rate `{text}`: write 0.4% or 0.004");
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let rate: f64 = number.trim().parse().map_err(|_| wrong())?;
    let rate = rate / unit;
    if rate > 0.0 && rate < 1.0 {
        Ok(rate)
    } else {
        Err(wrong())
    }
}

/// Formats a rate as a percentage.
pub(crate) fn percent(rate: f64) -> String {
    if rate == 0.0 {
        "0%".to_owned()
    } else if rate < 1e-7 {
        format!("{rate:.1e}")
    } else {
        let digits = (1.0 - (rate * 100.0).log10().floor()).clamp(0.0, 7.0) as usize;
        format!("{:.digits$}%", rate * 100.0)
    }
}

/// Reports what was written.
pub(crate) fn report_written(out: &Printer, path: &Path, built: &BuildReport) {
    let head = &built.head;
    let about = if head.estimated { "about " } else { "" };
    let per_key = if head.count == 0 {
        String::new()
    } else {
        format!(", {:.2} bits a key", built.bits_per_key())
    };
    let limit = if head.rate > 0.0 && head.kind != Kind::Hashes {
        format!(" ({:.2} is the least possible)", -head.rate.log2())
    } else {
        String::new()
    };
    out.note(format_args!(
        "wrote {}: {}, {about}{}, {}{per_key}{limit}, false positives {}",
        path.display(),
        head.kind,
        plural::of(head.count, "key"),
        bytes(built.bytes),
        percent(head.rate),
    ));
}

/// Reports bad lines and damage. Damage gives `Exit::No`, because some of the input is missing.
pub(crate) fn report_rejects(out: &Printer, reading: &Reading) -> Exit {
    let bad: u64 = reading.rejects.iter().map(|rejects| rejects.total()).sum();
    if bad > 0 {
        out.warn(format_args!("skipped {}", plural::of(bad, "bad line")));
        let examples = reading
            .rejects
            .iter()
            .flat_map(|rejects| rejects.examples());
        for example in examples.take(SHOWN) {
            out.warn(format_args!(
                "{}: line {}: {}",
                example.file,
                count(example.line),
                example.kind.meaning()
            ));
        }
    }
    if reading.bad_uris.count > 0 {
        out.warn(format_args!(
            "skipped {} without a SURT",
            plural::of(reading.bad_uris.count, "line")
        ));
        for example in reading.bad_uris.examples.iter().take(SHOWN) {
            out.warn(example);
        }
    }
    crate::cmd::profile::report_keys(&reading.keys, out);
    let damage = reading.damage.iter();
    out.warn_some(damage.map(|error| format!("{error}; everything before it is included")));
    if reading.damage.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!(rate("0.4%"), Ok(0.004));
        assert_eq!(rate("1 %"), Ok(0.01));
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["", "%", "0", "100%", "-1%", "nan", "1"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentages_keep_their_digits() {
        assert_eq!(percent(1.0 / 256.0), "0.39%");
        assert_eq!(percent(0.01), "1.0%");
        assert_eq!(percent(0.5), "50%");
        assert_eq!(percent(0.5f64.powi(16)), "0.0015%");
        assert_eq!(percent(0.0), "0%");
    }
}
