use std::io::Write as _;

use clap::Args;
use jiff::Timestamp;
use waypost_memento::{Datetime, Format};
use waypost_router::Wanted;
use waypost_router::answer::Around;

use crate::aggregation::{LookupOptions, datetime, format};
use crate::exit::Exit;
use crate::printer::Printer;

/// Print the memento of a URI that is closest to a time
///
/// Prints the URI of the memento, or a description of it and of those around it if a format is
/// chosen. Archives that do not answer before the deadline are named on stderr. The exit code is 1 if
/// there are no mementos.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost memento http://library.example.org/ 2021 --archives archives.json\n\
    \x20 waypost memento http://library.example.org/ -a archives.json --format json")]
pub(crate) struct Memento {
    /// The original URI
    #[arg(value_name = "URI")]
    uri: String,
    /// The time, as 2021, 20210131 or 2021-01-31T12:00:00Z [default: now]
    #[arg(value_name = "DATETIME", value_parser = datetime)]
    datetime: Option<Datetime>,
    #[command(flatten)]
    options: LookupOptions,
    /// Print a description as link, json or cdxj
    #[arg(short, long, value_name = "FORMAT", value_parser = format)]
    format: Option<Format>,
}

impl Memento {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let datetime = match self.datetime {
            Some(datetime) => datetime,
            None => Datetime::new(Timestamp::now())
                .ok_or_else(|| anyhow::anyhow!("the clock is before the year 0"))?,
        };
        let wanted = Wanted::Closest(datetime);
        let (uri, found) = self.options.look_up(&self.uri, wanted, out)?;
        let mementos = &found.kept.aggregate.mementos;
        let Some(around) = Around::find(mementos, datetime) else {
            out.note("no mementos found");
            return Ok(Exit::No);
        };
        let text = match self.format {
            None => format!("{}\n", mementos[around.closest].memento.uri).into_bytes(),
            Some(format) => {
                let addresses = self.options.addresses();
                addresses.description(&uri, format, mementos, datetime)
            }
        };
        out.data().write_all(&text)?;
        Ok(Exit::Yes)
    }
}
