//! How many URIs a second one core canonicalises:
//! `cargo bench -p waypost-surt --bench rate -- FILE [SECONDS] [DIALECT]`, one URI a line.
//! Prints the rate and nothing else; `bench/surt` compares it with Python's package.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use waypost_surt::{Canonicalizer, Dialect};

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let Some(path) = args.next() else {
        eprintln!("usage: rate FILE [SECONDS] [DIALECT]");
        return ExitCode::from(2);
    };
    let seconds = args
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3.0);
    let dialect = args
        .next()
        .and_then(|name| name.parse().ok())
        .unwrap_or(Dialect::Ia);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("error: cannot read {path}: {error}");
            return ExitCode::from(2);
        }
    };
    let uris: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter(|uri| !uri.is_empty())
        .collect();
    if uris.is_empty() {
        eprintln!("error: {path} has no URIs");
        return ExitCode::from(2);
    }

    let mut canonicalizer = Canonicalizer::new(dialect);
    let mut surt = Vec::new();
    let mut pass = || {
        let mut bytes = 0_usize;
        for uri in &uris {
            surt.clear();
            let _ = canonicalizer.canonicalize(uri, &mut surt);
            bytes += surt.len();
        }
        bytes
    };
    // The first pass warms the caches; the best of the others counts, because a machine that is
    // busy with something else only ever makes it slower.
    std::hint::black_box(pass());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut best = f64::MAX;
    while best == f64::MAX || Instant::now() < end {
        let start = Instant::now();
        std::hint::black_box(pass());
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:.0}", uris.len() as f64 / best);
    ExitCode::SUCCESS
}
