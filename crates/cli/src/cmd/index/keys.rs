//! Checks before a lookup that the keys of an index can be searched.

use std::path::Path;

use clap::Args;
use waypost_index::lookup::Index;
use waypost_surt::Dialect;

use crate::args::dialects;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// How the keys of an index are searched.
#[derive(Args)]
pub(crate) struct KeyArgs {
    /// The dialect of the index's SURTs [default: detected]
    #[arg(long, value_parser = dialects())]
    dialect: Option<Dialect>,
    /// Search an index even if some of its keys are not the SURTs of their URLs
    #[arg(long)]
    trust_keys: bool,
}

impl KeyArgs {
    /// The dialect that cannot be detected, or need not be.
    pub(crate) fn given(&self) -> Option<Dialect> {
        self.dialect.or(self.trust_keys.then(Dialect::default))
    }

    /// The dialect to search an index with. Unless the keys are trusted, a sample of them is compared
    /// with their URLs.
    pub(crate) fn dialect_of(
        &self,
        index: &Index,
        path: &Path,
        out: &Printer,
    ) -> anyhow::Result<Dialect> {
        match self.trust_keys {
            true => Ok(self.dialect.unwrap_or_else(|| index.usual_dialect())),
            false => dialect_of(index, path, self.dialect, out),
        }
    }
}

/// The dialect of an index's keys, detected unless it is given. An index whose keys are not the SURTs
/// of its URLs is refused, because lookups would miss captures.
pub(crate) fn dialect_of(
    index: &Index,
    path: &Path,
    given: Option<Dialect>,
    out: &Printer,
) -> anyhow::Result<Dialect> {
    let asked = given.unwrap_or(index.usual_dialect());
    let keys = index.check_keys(asked)?;
    let name = path.display();
    let Some(example) = &keys.example else {
        if given.is_none() && asked != Dialect::default() {
            out.note(format_args!(
                "the keys of {name} are of the dialect {asked}"
            ));
        }
        return Ok(asked);
    };
    if let Some(other) = keys.other_dialect()
        && index.check_keys(other)?.fits()
    {
        if given.is_none() {
            out.note(format_args!(
                "the keys of {name} are of the dialect {other}"
            ));
            return Ok(other);
        }
        return Err(anyhow::anyhow!(
            "the keys of {name} are of the dialect {other}, not {asked}: {} instead of {}",
            example.key,
            example.surt
        ))
        .hint(format!("look up with --dialect {other}"));
    }
    Err(anyhow::anyhow!(
        "{} of {} sampled from {name} are not the SURTs of their URLs: {} instead of {}",
        waypost_report::count(keys.differ),
        plural::of(keys.compared, "key"),
        example.key,
        example.surt
    ))
    .hint(format!(
        "replace the keys with `waypost index rekey {name} --dialect {asked} -o FILE`, or find only the \
         captures whose key is the SURT with `waypost index lookup --trust-keys`"
    ))
}
