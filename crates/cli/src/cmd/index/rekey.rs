use clap::Args;
use waypost_index::rekey::{self, Options, Rekeyed};
use waypost_io::{Source, sort, temporary};
use waypost_report::count;
use waypost_surt::Dialect;

use super::destination::{Destination, options, report_written};
use crate::args::{BadLines, Inputs, ResourceArgs, dialects};
use crate::cmd::profile::report_bad_lines;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Replace the keys of indexes by the SURTs of their URLs, and sort the lines again
///
/// Nothing but the keys changes. Captures without a URL, rows that are not captures of the Web and bad
/// lines are copied unchanged. The key of a POST request is computed from the method and the body in
/// its JSON; if the JSON lacks them, the key is kept.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost index rekey 2020.cdxj --dialect webrecorder -o rekeyed.cdxj\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was written.")]
pub(crate) struct Rekey {
    #[command(flatten)]
    inputs: Inputs,
    /// The dialect of the new keys
    #[arg(long, value_name = "DIALECT", value_parser = dialects())]
    dialect: Dialect,
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

impl Rekey {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let sources = self.inputs.sources(out)?;
        let resources = self.resources.resources(self.destination.path())?;
        let folder = temporary::folder_in(&resources.temporary)?;
        let unsorted = folder.path().join("rekeyed");
        let mut writer = self.destination.create(resources.threads)?;
        let mut rejects = self.bad_lines.file()?;
        let progress = out.progress();
        let rekeying = Options {
            strict: self.bad_lines.strict,
            rejects: rejects.as_mut(),
            progress: progress.clone(),
        };
        let mut rekeyed = rekey::rekey(&sources, self.dialect, rekeying, &unsorted)?;
        let sorting = options(resources, self.unique, &progress);
        let mut report = sort::sort(&[Source::new(unsorted)], &sorting, &mut writer)?;
        report.damaged.append(&mut rekeyed.outcome.damage);
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        let written = writer.finish()?;
        self.report(&rekeyed, out);
        Ok(report_written(
            out,
            self.destination.name(),
            &report,
            &written,
        ))
    }

    fn report(&self, rekeyed: &Rekeyed, out: &Printer) {
        report_bad_lines(&rekeyed.outcome.rejects, out);
        out.note(format_args!(
            "replaced {} of {} by SURTs of the dialect {}",
            count(rekeyed.replaced),
            plural::of(rekeyed.outcome.tally.captures, "key"),
            self.dialect
        ));
        for example in &rekeyed.examples {
            out.note(format_args!(
                "  {} is now {} ({})",
                example.key, example.surt, example.url
            ));
        }
        for (kept, why) in [
            (rekeyed.without_url, "without a URL"),
            (rekeyed.without_surt, "whose URL has no SURT"),
            (
                rekeyed.requests,
                "of requests whose body is not in the line",
            ),
        ] {
            if kept > 0 {
                out.note(format_args!(
                    "kept the keys of {} {why}",
                    plural::of(kept, "capture")
                ));
            }
        }
        let others: u64 = rekeyed.outcome.tally.non_web.iter().sum();
        if others > 0 {
            out.note(format_args!(
                "kept the keys of {} not of the Web",
                plural::of(others, "row")
            ));
        }
    }
}
