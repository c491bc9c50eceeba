use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, json};
use waypost_io::Source;
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::filter::orestes::ClassicFilter;
use waypost_summary::filter::{Filter, Kind};

use super::classic;
use super::options::percent;
use crate::args::Format;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;

/// Show the kind, number of keys, size and metadata of a filter
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost filter info small.filter")]
pub(crate) struct Info {
    /// The filter
    filter: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Info {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let source = Source::new(&self.filter);
        if ClassicFilter::is(&source)? {
            return classic::show(&ClassicFilter::of(&source)?, self.format, out);
        }
        let filter = Filter::open(&self.filter)?;
        match self.format {
            Format::Table => write!(out.data(), "{}", table(&filter))?,
            Format::Json => writeln!(out.data(), "{:#}", object(&filter))?,
        }
        Ok(Exit::Yes)
    }
}

/// The kind with its details: widths or blocks.
fn detail(filter: &Filter) -> String {
    match filter.head().kind {
        Kind::Ribbon => match filter.widths()[..] {
            [_] => {
                let bits = format!("{:.2}", filter.bits());
                let bits = bits.trim_end_matches('0').trim_end_matches('.');
                format!("ribbon, {bits} bits")
            }
            ref several => {
                let widths: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!("ribbon, {} bits", widths.join(", "))
            }
        },
        Kind::Bloom => format!("bloom, {} blocks of 512 bits", count(filter.blocks())),
        Kind::Hashes => "hashes of 128 bits".to_owned(),
    }
}

fn table(filter: &Filter) -> Table {
    let head = filter.head();
    let mut table = Table::new(&[("filter", Align::Left), (filter.name(), Align::Left)]);
    table.row(["kind", &detail(filter)]);
    let about = if head.estimated { "about " } else { "" };
    table.row(["keys", &format!("{about}{}", count(head.count))]);
    if head.kind == Kind::Bloom {
        table.row(["made for", &plural::of(head.capacity, "key")]);
    }
    table.row(["size", &bytes(filter.length())]);
    if head.count > 0 {
        let bits = filter.length() as f64 * 8.0 / head.count as f64;
        table.row(["bits a key", &format!("{bits:.2}")]);
        if head.rate > 0.0 && head.kind != Kind::Hashes {
            let least = -head.rate.log2();
            let over = (bits / least - 1.0) * 100.0;
            table.row([
                "least possible",
                &format!("{least:.2}: this is {over:.0}% more"),
            ]);
        }
    }
    table.row(["false positives", &percent(head.rate)]);
    table.row(["policy", &head.policy.to_string()]);
    table.row(["dialect", head.dialect.name()]);
    table.row(["hash", head.hash.name()]);
    let key = head
        .fingerprint
        .map_or("none: anyone can look up".to_owned(), |key| key.to_string());
    table.row(["key", &key]);
    table.row(["shards", &count(filter.shards() as u64)]);
    for (element, value) in filter.metadata().iter() {
        table.row([element, value]);
    }
    table
}

fn object(filter: &Filter) -> serde_json::Value {
    let head = filter.head();
    let mut metadata = Map::new();
    for (element, value) in filter.metadata().iter() {
        let list = metadata.entry(element).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value.into());
        }
    }
    json!({
        "filter": filter.name(),
        "kind": head.kind.name(),
        "widths": filter.widths(),
        "blocks": filter.blocks(),
        "keys": head.count,
        "estimated": head.estimated,
        "capacity": head.capacity,
        "bytes": filter.length(),
        "false_positive_rate": head.rate,
        "policy": head.policy.to_string(),
        "dialect": head.dialect.name(),
        "hash": head.hash.name(),
        "key_fingerprint": head.fingerprint.map(|key| key.to_string()),
        "shards": filter.shards(),
        "metadata": metadata,
    })
}
