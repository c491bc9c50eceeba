//! What `filter info` shows of classic Bloom filters.

use std::io::Write;

use serde_json::{Map, json};
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::filter::orestes::ClassicFilter;

use super::options::percent;
use crate::args::Format;
use crate::exit::Exit;
use crate::printer::Printer;

pub(super) fn show(
    filter: &ClassicFilter,
    format: Format,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let arrays = filter.arrays();
    let bits: u64 = arrays.iter().map(|array| array.shape.bits).sum();
    let hashes: Vec<u32> = arrays.iter().map(|array| array.shape.hashes).collect();
    let hashes = hashes.iter().max().copied().unwrap_or(0);
    if format == Format::Json {
        let metadata: Map<String, serde_json::Value> = filter
            .metadata()
            .iter()
            .map(|(element, text)| (element.to_owned(), text.into()))
            .collect();
        let object = json!({
            "kind": "classic",
            "filters": arrays.len(),
            "hash": filter.method().name(),
            "hashes": hashes,
            "bits": bits,
            "urls": filter.urls(),
            "bytes": filter.length(),
            "rate": filter.rate(),
            "metadata": metadata,
        });
        writeln!(out.data(), "{object:#}")?;
        return Ok(Exit::Yes);
    }
    let mut table = Table::new(&[("filter", Align::Left), (filter.name(), Align::Left)]);
    table.row(["kind", &format!("classic Bloom, {} filters", arrays.len())]);
    table.row(["URLs", &filter.urls().map_or("unknown".to_owned(), count)]);
    table.row(["size", &bytes(filter.length())]);
    table.row(["bits", &count(bits)]);
    table.row(["hash functions", &hashes.to_string()]);
    table.row(["hash", filter.method().name()]);
    table.row(["false positives", &percent(filter.rate())]);
    for (element, text) in filter.metadata().iter() {
        table.row([element, text]);
    }
    write!(out.data(), "{table}")?;
    Ok(Exit::Yes)
}
