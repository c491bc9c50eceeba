use std::io::Write;

use clap::Args;
use serde_json::json;
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::filter::plan::{Way, Wish};

use super::options::{percent, rate};
use crate::args::{Format, number};
use crate::exit::Exit;
use crate::printer::Printer;

/// Estimate the size of filters of an archive, now and as it grows
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost filter plan --uris 800M --growth 200M --years 10 --fpr 1%")]
pub(crate) struct Plan {
    /// URI-Rs held now: 800M
    #[arg(long, value_name = "N", value_parser = number)]
    uris: u64,
    /// URI-Rs added per year: 200M
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    growth: u64,
    /// Years to look ahead
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    years: u32,
    /// False positive rate
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1%")]
    fpr: f64,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Plan {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let wish = Wish {
            uris: self.uris,
            growth: self.growth,
            years: self.years,
            rate: self.fpr,
        };
        let mut years = vec![0, self.years / 2, self.years];
        years.dedup();
        let ways = wish.ways(&years)?;
        match self.format {
            Format::Table => write!(out.data(), "{}", table(&wish, &years, &ways))?,
            Format::Json => writeln!(out.data(), "{:#}", object(&wish, &years, &ways))?,
        }
        Ok(Exit::Yes)
    }
}

fn table(wish: &Wish, years: &[u32], ways: &[Way]) -> Table {
    let mut columns = vec![("".to_owned(), Align::Left)];
    for &year in years {
        let when = match year {
            0 => "now".to_owned(),
            1 => "in 1 year".to_owned(),
            years => format!("in {years} years"),
        };
        columns.push((
            format!("{when}: {} URI-Rs", count(wish.keys(year))),
            Align::Right,
        ));
        columns.push(("false".to_owned(), Align::Right));
    }
    let columns: Vec<(&str, Align)> = columns
        .iter()
        .map(|(name, align)| (name.as_str(), *align))
        .collect();
    let mut table = Table::new(&columns);
    for way in ways {
        let cells = way
            .bytes
            .iter()
            .zip(&way.rates)
            .flat_map(|(&size, &rate)| [bytes(size), percent(rate)]);
        table.row(std::iter::once(way.name.clone()).chain(cells));
    }
    table
}

fn object(wish: &Wish, years: &[u32], ways: &[Way]) -> serde_json::Value {
    let ways: Vec<_> = ways
        .iter()
        .map(|way| json!({"name": way.name, "bytes": way.bytes, "rates": way.rates}))
        .collect();
    let keys: Vec<u64> = years.iter().map(|&year| wish.keys(year)).collect();
    json!({"years": years, "keys": keys, "ways": ways})
}
