use clap::Args;
use waypost_index::rekey;
use waypost_io::{Source, sort, temporary};
use waypost_surt::Dialect;

use super::destination::{Destination, options, report_written};
use crate::args::{Inputs, ResourceArgs, dialects};
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Sort the lines of indexes by their bytes, like `LC_ALL=C sort`, in bounded memory
///
/// Inputs may be plain, gz, zst or bz2, and of any size. Whole lines are compared, which is the
/// order that lookups, merges and ZipNum need.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index sort --unique 2020.cdxj 2021.cdxj -o sorted.cdxj\n\
    \x20 waypost index sort --rekey ia 2020.cdxj -o rekeyed.cdxj\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was sorted.")]
pub(crate) struct Sort {
    #[command(flatten)]
    inputs: Inputs,
    /// Remove duplicate lines
    #[arg(short, long)]
    unique: bool,
    /// Replace every key by the SURT of its URL under this dialect
    #[arg(long, value_name = "DIALECT", value_parser = dialects())]
    rekey: Option<Dialect>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Sort {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(self.destination.path())?;
        let progress = out.progress();
        let folder;
        let mut damaged = Vec::new();
        if let Some(dialect) = self.rekey {
            folder = temporary::folder_in(&resources.temporary)?;
            let path = folder.path().join("rekeyed");
            let rekeyed = rekey::rekey(&sources, dialect, &progress, &path)?;
            out.note(format_args!(
                "replaced {} by the SURTs of their URLs",
                plural::of(rekeyed.replaced, "key")
            ));
            damaged = rekeyed.damage;
            sources = vec![Source::new(path)];
        }
        let mut writer = self.destination.create(resources.threads)?;
        let options = options(resources, self.unique, &progress);
        let mut report = sort::sort(&sources, &options, &mut writer)?;
        report.damaged.extend(damaged);
        drop(progress);
        let written = writer.finish()?;
        Ok(report_written(
            out,
            self.destination.name(),
            &report,
            &written,
        ))
    }
}
