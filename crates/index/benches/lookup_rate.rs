//! Looks URIs up one by one in an index that is open and in the page cache, and prints how long a
//! lookup takes: `lookup_rate INDEX FILE`, with a URI in each line of the file.

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use waypost_index::lookup::{Index, Lookup, Query, Wanted};
use waypost_index::range::{Match, ranges};
use waypost_surt::{Canonicalizer, Dialect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: lookup_rate INDEX FILE";
    // Cargo adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let index = Index::open(Path::new(&arguments.next().ok_or(usage)?))?;
    let uris = std::fs::read(arguments.next().ok_or(usage)?)?;
    let uris: Vec<&[u8]> = uris
        .split(|&b| b == b'\n')
        .filter(|uri| !uri.is_empty())
        .collect();
    let mut times = Vec::new();
    let (mut found, mut blocks) = (0, 0);
    // The first round fills the page cache; the second is measured.
    for measured in [false, true] {
        for uri in &uris {
            let start = Instant::now();
            let mut surt = Vec::new();
            Canonicalizer::new(Dialect::Ia).canonicalize(uri, &mut surt)?;
            let query = Query {
                ranges: ranges(uri, &surt, Match::Exact),
            };
            // A new lookup each time, so that no block is kept from the one before.
            let mut lookup = Lookup::new(&index, Wanted::default());
            lookup.one(&query, |_| Ok(()))?;
            if measured {
                times.push(start.elapsed().as_secs_f64() * 1000.0);
                found += lookup.stats().found;
                blocks += lookup.stats().blocks;
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let lookups = times.len() as f64;
    writeln!(
        io::stdout(),
        "{} lookups: median {:.3} ms, 99% under {:.3} ms, {:.3} blocks and {:.2} captures each",
        times.len(),
        at(0.5),
        at(0.99),
        blocks as f64 / lookups,
        found as f64 / lookups
    )?;
    Ok(())
}
