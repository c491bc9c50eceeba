use clap::Args;
use waypost_index::rekey::{self, Rekeyed};
use waypost_report::count;
use waypost_surt::Dialect;

use super::rewrite::Rewrite;
use crate::args::dialects;
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
    /// The dialect of the new keys
    #[arg(long, value_name = "DIALECT", value_parser = dialects())]
    dialect: Dialect,
    #[command(flatten)]
    rewrite: Rewrite,
}

impl Rekey {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let dialect = self.dialect;
        self.rewrite.run(
            out,
            |sources, options, path| rekey::rekey(sources, dialect, options, path),
            |rekeyed| &mut rekeyed.outcome,
            |rekeyed, out| report(rekeyed, dialect, out),
        )
    }
}

fn report(rekeyed: &Rekeyed, dialect: Dialect, out: &Printer) {
    out.note(format_args!(
        "replaced {} of {} by SURTs of the dialect {}",
        count(rekeyed.replaced),
        plural::of(rekeyed.outcome.tally.captures, "key"),
        dialect
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
