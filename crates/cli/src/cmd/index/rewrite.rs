//! Options and steps that `rekey` and `convert` share: every line is rewritten, and all are sorted again.

use std::path::Path;

use clap::Args;
use waypost_index::rekey::Options;
use waypost_index::scan::Outcome;
use waypost_io::{Source, sort, temporary};

use super::destination::{Destination, options, report_written};
use crate::args::{BadLines, Inputs, ResourceArgs};
use crate::cmd::profile::report_bad_lines;
use crate::exit::Exit;
use crate::printer::Printer;

/// What to rewrite, and where to.
#[derive(Args)]
pub(crate) struct Rewrite {
    #[command(flatten)]
    inputs: Inputs,
    /// Remove duplicate lines
    #[arg(short, long)]
    unique: bool,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    bad_lines: BadLines,
}

impl Rewrite {
    /// Rewrites the inputs into a temporary file with `rewrite`, and sorts that into the destination.
    /// `outcome` is the part of the result that says what was read; `report` prints the rest.
    pub(crate) fn run<T>(
        self,
        out: &Printer,
        rewrite: impl FnOnce(&[Source], Options<'_>, &Path) -> waypost_io::Result<T>,
        outcome: impl Fn(&mut T) -> &mut Outcome,
        report: impl FnOnce(&T, &Printer),
    ) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(self.destination.path())?;
        let folder = temporary::folder_in(&resources.temporary)?;
        let unsorted = folder.path().join("rewritten");
        let mut writer = self.destination.create(resources.threads)?;
        let mut rejects = self.bad_lines.file()?;
        let progress = out.progress();
        let scanning = Options {
            strict: self.bad_lines.strict,
            rejects: rejects.as_mut(),
            takedowns: None,
            progress: progress.clone(),
        };
        let mut rewritten = rewrite(&sources, scanning, &unsorted)?;
        let sorting = options(resources, self.unique, &progress);
        let mut sorted = sort::sort(&[Source::new(unsorted)], &sorting, &mut writer)?;
        sorted.damaged.append(&mut outcome(&mut rewritten).damage);
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        let written = writer.finish()?;
        report_bad_lines(&outcome(&mut rewritten).rejects, out);
        report(&rewritten, out);
        Ok(report_written(
            out,
            self.destination.name(),
            &sorted,
            &written,
        ))
    }
}
