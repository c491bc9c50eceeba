use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use waypost_index::convert::{self, Converted, Target};

use super::rewrite::Rewrite;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::TakedownArgs;

/// Convert indexes between CDX and CDXJ, and sort the lines again
///
/// Every field that the target can hold is kept, and the names of all others are printed. Keys and
/// timestamps stay as they are. Bad lines are left out.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index convert archive.cdx --to cdxj -o archive.cdxj\n\
    \x20 waypost index convert 2020.cdxj --to cdx11 -o 2020.cdx\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was converted.")]
pub(crate) struct Convert {
    /// The layout to write
    #[arg(long, value_name = "LAYOUT", value_enum)]
    to: Layout,
    #[command(flatten)]
    takedowns: TakedownArgs,
    #[command(flatten)]
    rewrite: Rewrite,
}

#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    /// CDX with the columns N b a m s k r M S V g
    Cdx11,
    /// A key, a timestamp and a JSON object
    Cdxj,
}

/// How many fields are named.
const NAMED: usize = 20;

impl Convert {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let (target, name) = match self.to {
            Layout::Cdx11 => (Target::Cdx11, "CDX 11"),
            Layout::Cdxj => (Target::Cdxj, "CDXJ"),
        };
        let takedowns = self.takedowns.list()?;
        self.rewrite.run(
            out,
            |sources, mut options, path| {
                options.takedowns = takedowns;
                convert::convert(sources, target, options, path)
            },
            |converted| &mut converted.outcome,
            |converted, out| {
                self.takedowns.report(out);
                report(converted, name, out);
            },
        )
    }
}

fn report(converted: &Converted, name: &str, out: &Printer) {
    if !converted.lost.is_empty() {
        out.warn(format_args!(
            "left out what {name} cannot hold: {}",
            fields(&converted.lost)
        ));
    }
    if !converted.escaped.is_empty() {
        out.note(format_args!(
            "percent-escaped spaces in {}",
            fields(&converted.escaped)
        ));
    }
}

/// `charset (3 lines), languages (1 line)`.
fn fields(counts: &BTreeMap<String, u64>) -> String {
    let mut names: Vec<String> = counts
        .iter()
        .take(NAMED)
        .map(|(name, count)| format!("{name} ({})", plural::of(*count, "line")))
        .collect();
    if let Some(more) = counts.len().checked_sub(NAMED).filter(|more| *more > 0) {
        names.push(format!("and {}", plural::of(more as u64, "other field")));
    }
    names.join(", ")
}
