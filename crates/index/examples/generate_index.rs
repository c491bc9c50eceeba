//! Writes an index that looks like Common Crawl's to standard output:
//! `generate_index cdxj|cdx11 LINES [SEED]`.

use std::io::{self, BufWriter, Write};

use waypost_index::generate::{Generator, Kind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: generate_index cdxj|cdx11 LINES [SEED]";
    let mut arguments = std::env::args().skip(1);
    let kind = match arguments.next().as_deref() {
        Some("cdxj") => Kind::Cdxj,
        Some("cdx11") => Kind::Cdx11,
        _ => return Err(usage.into()),
    };
    let lines = arguments.next().ok_or(usage)?.parse()?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout());
    Generator::new(kind, lines, seed).write(&mut out)?;
    out.flush()?;
    Ok(())
}
