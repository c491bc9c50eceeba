//! Measures reading: `read_rate scan FILE [BLOCK]` reads every capture for key, status and media type;
//! `read_rate check FILE` checks every line; `read_rate inflate FILE` inflates the members of a gzip file
//! and does nothing else. Prints the bytes, decompressed, and the seconds. `RAYON_NUM_THREADS` sets the
//! number of threads.
#![allow(clippy::print_stdout, reason = "it is a program of its own")]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use rayon::prelude::*;
use waypost_index::check::{self, check};
use waypost_index::scan::{self, At, Job, Options};
use waypost_index::{Capture, Field, Fields};
use waypost_io::Source;
use waypost_io::partial::{Decoder, Encoder};

/// Adds up something of each field, so that none can be left out.
struct Sum;

impl Job for Sum {
    type Partial = [u64; 3];

    fn fields(&self) -> Fields {
        Field::Status | Field::Mime
    }
    fn empty(&self) -> [u64; 3] {
        [0; 3]
    }
    fn add(&self, sum: &mut [u64; 3], capture: &Capture<'_>, _: At) {
        sum[0] += capture.key().len() as u64;
        sum[1] += u64::from(capture.status().unwrap_or(0));
        sum[2] += capture.mime().map_or(0, |mime| mime.len() as u64);
    }
    fn merge(&self, earlier: &mut [u64; 3], later: [u64; 3], _: At) -> waypost_io::Result<()> {
        for (sum, more) in earlier.iter_mut().zip(later) {
            *sum += more;
        }
        Ok(())
    }
    fn to_bytes(&self, sum: &[u64; 3]) -> waypost_io::Result<Vec<u8>> {
        let mut out = Encoder::new("sum", 1);
        sum.iter().for_each(|number| out.number(*number));
        Ok(out.finish())
    }
    fn from_bytes(&self, bytes: &[u8]) -> waypost_io::Result<[u64; 3]> {
        let mut from = Decoder::new(bytes, "sum", 1)?;
        Ok([from.number()?, from.number()?, from.number()?])
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: read_rate scan|check|inflate FILE [BLOCK]";
    // Cargo adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let what = arguments.next().ok_or(usage)?;
    let path = PathBuf::from(arguments.next().ok_or(usage)?);
    let (bytes, seconds) = match &*what {
        "scan" => {
            let start = Instant::now();
            let options = Options {
                block: arguments.next().map(|size| size.parse()).transpose()?,
                ..Options::default()
            };
            let (sum, outcome) = scan::scan(&[Source::new(path)], &Sum, options)?;
            let seconds = start.elapsed().as_secs_f64();
            println!("{} captures {sum:?}", outcome.tally.captures);
            (outcome.tally.bytes, seconds)
        }
        "check" => {
            let start = Instant::now();
            let report = check(&[Source::new(path)], check::Options::default())?;
            let seconds = start.elapsed().as_secs_f64();
            println!("{} captures", report.outcome.tally.captures);
            (report.outcome.tally.bytes, seconds)
        }
        "inflate" => inflate(&path)?,
        _ => return Err(usage.into()),
    };
    println!(
        "{bytes} bytes {seconds:.4} seconds {:.3} GB/s",
        bytes as f64 / seconds / 1e9
    );
    Ok(())
}

fn inflate(path: &PathBuf) -> Result<(u64, f64), Box<dyn std::error::Error>> {
    // Where the members are is found out before the clock starts.
    let mut bytes = Vec::new();
    let mut file = File::open(path)?;
    file.read_to_end(&mut bytes)?;
    let mut starts: Vec<usize> = memchr::memmem::find_iter(&bytes, b"\x1f\x8b\x08\x00").collect();
    starts.push(bytes.len());
    let members: Vec<(usize, usize)> = starts.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
    drop(bytes);
    let start = Instant::now();
    let inflated: Result<Vec<usize>, String> = members
        .par_iter()
        .map_init(
            || {
                (
                    libdeflater::Decompressor::new(),
                    Vec::new(),
                    vec![0; 16 << 20],
                )
            },
            |(decompressor, stored, out), (offset, len)| {
                stored.resize(*len, 0);
                file.read_exact_at(stored, *offset as u64)
                    .map_err(|error| error.to_string())?;
                decompressor
                    .gzip_decompress(stored, out)
                    .map_err(|error| error.to_string())
            },
        )
        .collect();
    let bytes: usize = inflated?.iter().sum();
    Ok((bytes as u64, start.elapsed().as_secs_f64()))
}
