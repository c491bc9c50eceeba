//! Options and reports that the profile commands share: policies, dates, archive, bad lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use waypost_index::key::KeyCheck;
use waypost_index::rejects::Rejects;
use waypost_index::timestamp::Time;
use waypost_io::Source;
use waypost_report::count;
use waypost_summary::holdings::Reading;
use waypost_summary::{Archive, By, Classes, Texts};
use waypost_surt::Policy;

use crate::hint::Hint;
use crate::plural;
use crate::printer::{Printer, SHOWN};
use crate::time;

/// Parses a comma-separated list of policies; all 23 by default.
pub(crate) fn policies(list: Option<&str>) -> anyhow::Result<Vec<Policy>> {
    let Some(list) = list else {
        return Ok(Policy::ALL.to_vec());
    };
    let mut policies = Vec::new();
    for name in list.split(',') {
        let policy: Policy = name
            .trim()
            .parse()
            .context("cannot read --policy")
            .hint("name policies like `--policy H3P0,HxP1,DDom`")?;
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    Ok(policies)
}

/// The archive that is profiled.
#[derive(Args)]
#[command(next_help_heading = "About the archive")]
pub(crate) struct AboutOptions {
    /// A TOML file with id, name, description, home, timegate, timemap
    #[arg(long, value_name = "FILE")]
    about: Option<PathBuf>,
    /// A short name of the archive, used in file names
    #[arg(long)]
    id: Option<String>,
    /// The full name of the archive
    #[arg(long)]
    name: Option<String>,
    /// The home page of the archive
    #[arg(long, value_name = "URI")]
    home: Option<String>,
    /// The TimeGate, with {URI} as a placeholder
    #[arg(long, value_name = "URI")]
    timegate: Option<String>,
    /// The TimeMap, with {URI} as a placeholder
    #[arg(long, value_name = "URI")]
    timemap: Option<String>,
}

impl AboutOptions {
    pub(crate) fn archive(&self) -> anyhow::Result<Archive> {
        let mut archive = match &self.about {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                toml::from_str(&text)
                    .with_context(|| format!("invalid archive description {}", path.display()))
                    .hint("it may have id, name, description, home, timegate and timemap, like `name = \"My Archive\"`")?
            }
            None => Archive::default(),
        };
        for (field, option) in [
            (&mut archive.id, &self.id),
            (&mut archive.name, &self.name),
            (&mut archive.home, &self.home),
            (&mut archive.timegate, &self.timegate),
            (&mut archive.timemap, &self.timemap),
        ] {
            if let Some(text) = option {
                *field = Texts::from(text.clone());
            }
        }
        Ok(archive)
    }
}

/// The date of the profile.
#[derive(Args)]
pub(crate) struct DateOption {
    /// Date of the profile: 20240131, 2024-01-31 [default: SOURCE_DATE_EPOCH, else newest capture]
    #[arg(long, value_name = "TIME")]
    date: Option<String>,
}

impl DateOption {
    pub(crate) fn time(&self) -> anyhow::Result<Option<Time>> {
        if let Some(text) = &self.date {
            return Ok(Some(time::first_of(text).map_err(anyhow::Error::msg)?));
        }
        time::source_date_epoch()
    }
}

/// What to count by, besides the key.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ByArgument {
    /// The year of the capture
    #[value(alias = "year")]
    Time,
    /// The month of the capture
    Month,
    /// The first language of the page
    Language,
    /// The media type
    Mime,
    /// The class that --classes gives
    Class,
}

impl From<ByArgument> for By {
    fn from(by: ByArgument) -> By {
        match by {
            ByArgument::Time => By::Year,
            ByArgument::Month => By::Month,
            ByArgument::Language => By::Language,
            ByArgument::Mime => By::Mime,
            ByArgument::Class => By::Class,
        }
    }
}

/// What a file of classes contains.
const CLASSES_HINT: &str =
    "a line is a domain or SURT prefix and the name of its class: `bbc.co.uk news`";

/// Reads a file of classes.
pub(crate) fn read_classes(file: &Path) -> anyhow::Result<Classes> {
    Classes::read(&Source::new(file)).hint(CLASSES_HINT)
}

/// Reads `--classes`, which `--by class` needs and nothing else uses.
pub(crate) fn classes(
    by: Option<ByArgument>,
    file: Option<&Path>,
) -> anyhow::Result<Option<Arc<Classes>>> {
    match (by, file) {
        (Some(ByArgument::Class), Some(file)) => Ok(Some(Arc::new(read_classes(file)?))),
        (Some(ByArgument::Class), None) => {
            Err(anyhow::anyhow!("--by class needs --classes FILE")).hint(CLASSES_HINT)
        }
        (_, Some(_)) => {
            Err(anyhow::anyhow!("--classes is only used with --by class")).hint("add --by class")
        }
        _ => Ok(None),
    }
}

/// Reports bad lines and damage. Returns whether all of the input could be read.
pub(crate) fn report_rejects(reading: &Reading, out: &Printer) -> bool {
    let damage = reading.damage.iter();
    out.warn_some(damage.map(|damage| format!("{damage}; everything before it is counted")));
    for rejects in &reading.rejected {
        report_bad_lines(rejects, out);
    }
    if reading.bad_uris.count > 0 {
        out.warn(format_args!(
            "{} without a SURT",
            plural::of(reading.bad_uris.count, "line")
        ));
        for example in reading.bad_uris.examples.iter().take(SHOWN) {
            out.note(format_args!("  {example}"));
        }
    }
    report_keys(&reading.keys, out);
    reading.damage.is_empty()
}

/// Reports bad lines by kind, with the first few, if there are any.
pub(crate) fn report_bad_lines(rejects: &Rejects, out: &Printer) {
    if rejects.total() == 0 {
        return;
    }
    let kinds: Vec<String> = rejects
        .kinds()
        .map(|(kind, n)| format!("{} {}", count(n), kind.name()))
        .collect();
    out.warn(format_args!(
        "{}: {}",
        plural::of(rejects.total(), "bad line"),
        kinds.join(", ")
    ));
    for example in rejects.examples().iter().take(SHOWN) {
        out.note(format_args!(
            "  {} line {}: {}: {}",
            example.file,
            count(example.line),
            example.kind.meaning(),
            example.start
        ));
    }
}

/// Reports keys that are not the SURTs of their URLs.
pub(crate) fn report_keys(keys: &KeyCheck, out: &Printer) {
    let Some(example) = &keys.example else {
        return;
    };
    out.note(format_args!(
        "{} of {} are not the SURTs of their URLs ({} instead of {}); used the SURTs",
        count(keys.differ),
        plural::of(keys.compared, "key"),
        example.key,
        example.surt,
    ));
    if let Some(dialect) = keys.other_dialect() {
        out.note(format_args!(
            "they are SURTs of the dialect {dialect}; use --dialect {dialect} to keep them"
        ));
    }
}
