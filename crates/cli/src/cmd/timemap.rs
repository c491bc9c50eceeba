use std::io::Write as _;

use clap::Args;
use waypost_memento::{Datetime, Format};
use waypost_router::{Wanted, answer};

use crate::aggregation::{LookupOptions, datetime, format};
use crate::exit::Exit;
use crate::printer::Printer;

/// Print the mementos of a URI in many archives
///
/// Archives that do not answer before the deadline are named on stderr. The exit code is 1 if there
/// are no mementos.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost timemap http://library.example.org/ --archives archives.json\n\
    \x20 waypost timemap http://library.example.org/ -a archives.json \\\n\
    \x20     --format cdxj --from 2021 --limit 10")]
pub(crate) struct TimeMap {
    /// The original URI
    #[arg(value_name = "URI")]
    uri: String,
    #[command(flatten)]
    options: LookupOptions,
    /// link, json or cdxj
    #[arg(short, long, value_name = "FORMAT", default_value = "link", value_parser = format)]
    format: Format,
    /// Leave out mementos before this time
    #[arg(long, value_name = "TIME", value_parser = datetime)]
    from: Option<Datetime>,
    /// Leave out mementos after this time
    #[arg(long, value_name = "TIME", value_parser = datetime)]
    until: Option<Datetime>,
    /// Print only the first N mementos, or the last N if it is negative
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<i64>,
}

impl TimeMap {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let (uri, found) = self.options.look_up(&self.uri, Wanted::All, out)?;
        let mementos = &found.kept.aggregate.mementos;
        let places = answer::select(mementos, self.from, self.until, self.limit);
        let mementos = &mementos[places];
        if mementos.is_empty() {
            out.note("no mementos found");
            return Ok(Exit::No);
        }
        let addresses = self.options.addresses();
        let text = addresses.whole_timemap(&uri, self.format, mementos, true);
        out.data().write_all(&text)?;
        Ok(Exit::Yes)
    }
}
