//! Measures filters on generated URIs, for bench/filter:
//!
//! ```text
//! filter uris N            writes N different URIs to standard output
//! filter lookup FILE       looks keys up in a filter: nanoseconds for each, one by one and in batches
//! filter peers N           builds and asks xorf and fastbloom with N hashes
//! filter rates N TRIES     builds every kind and width from N URIs, looks all of them up and TRIES
//!                          others, and says how many sigma the rate is from the promised one
//! ```
#![allow(clippy::print_stdout, reason = "it is a program of its own")]

use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use waypost_index::Source;
use waypost_summary::filter::check::check_holdings;
use waypost_summary::filter::{self, Budget, Filter, Hash, Hasher, Input, Kind, Recipe};

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let usage = "usage: filter uris N | lookup FILE | peers N | rates N TRIES";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["uris", count] => uris(count.parse()?, std::io::stdout().lock()),
        ["lookup", path] => lookup(Path::new(path)),
        ["peers", count] => peers(count.parse()?),
        ["rates", count, tries] => rates(count.parse()?, tries.parse()?),
        _ => Err(usage.into()),
    }
}

/// SplitMix64.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The URI of a number: 75 bytes or so, on one of two million hosts, all different.
fn uri(n: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
    const SCHEMES: [(&str, &str); 4] = [
        ("https", "www."),
        ("https", ""),
        ("http", "www."),
        ("http", ""),
    ];
    const TLDS: [&str; 8] = ["com", "org", "de", "co.uk", "hr", "net", "fr", "gov"];
    const WORDS: [&str; 8] = [
        "news", "article", "images", "Product", "wiki", "download", "user", "category",
    ];
    let r = mixed(n);
    let (scheme, www) = SCHEMES[(r & 3) as usize];
    let (tld, word) = (TLDS[(r >> 2 & 7) as usize], WORDS[(r >> 5 & 7) as usize]);
    let host = r >> 8 & 0x1f_ffff;
    write!(
        out,
        "{scheme}://{www}site{host:x}.{tld}/{word}/{:08x}/page-{n}",
        r >> 32
    )?;
    match r >> 29 & 7 {
        0 => write!(out, ".html?id={}&lang=en", r >> 40),
        1 => write!(out, "?utm_source=feed&View=full"),
        2 => write!(out, "/index.php"),
        _ => write!(out, ".html"),
    }
}

fn uris(count: u64, out: impl Write) -> Done {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut line = Vec::new();
    for n in 0..count {
        line.clear();
        uri(n, &mut line)?;
        line.push(b'\n');
        out.write_all(&line)?;
    }
    out.flush()?;
    Ok(())
}

fn hashes(count: u64, from: u64) -> Vec<Hash> {
    (from..from + count)
        .map(|n| Hasher::Public.hash(&mixed(n).to_le_bytes()))
        .collect()
}

/// Nanoseconds that this thread has run, so that others on the machine do not count; where the system does
/// not tell, those that went by.
fn clock(since: Instant) -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| since.elapsed().as_nanos() as u64)
}

/// Nanoseconds for each of `count`, best of some tries.
fn best(count: usize, mut run: impl FnMut() -> usize) -> (f64, usize) {
    let mut best = f64::MAX;
    let mut found = 0;
    for _ in 0..5 {
        let now = Instant::now();
        let start = clock(now);
        found = run();
        best = best.min((clock(now) - start) as f64 / count as f64);
    }
    (best, found)
}

fn lookup(path: &Path) -> Done {
    measure_lookups("mapped", &Filter::open(path)?);
    measure_lookups("loaded", &Filter::load(path)?);
    Ok(())
}

fn measure_lookups(how: &str, filter: &Filter) {
    // Every shard is checked when it is first looked at; that is not what is measured.
    filter::check::check(filter);
    let asked = hashes(4_000_000, 1 << 40);
    let (one, found) = best(asked.len(), || {
        black_box(&asked)
            .iter()
            .filter(|&&hash| filter.contains(hash).unwrap_or(true))
            .count()
    });
    // Each lookup waits for the answer of the one before, as when a router asks now and then.
    let (waiting, _) = best(asked.len(), || {
        let mut found = 0;
        for &hash in &asked {
            found += usize::from(filter.contains(hash ^ (found as u128 & 1)).unwrap_or(true));
        }
        found
    });
    let mut answers = Vec::with_capacity(asked.len());
    let (batched, _) = best(asked.len(), || {
        answers.clear();
        let _ = filter.contains_all(&asked, &mut answers);
        answers.iter().filter(|&&present| present).count()
    });
    println!(
        "{:<6} {how} {:>11} keys: random {one:.1} ns, each after the one before {waiting:.1} ns, batched \
         {batched:.1} ns, {:.4}% present",
        filter.head().kind.name(),
        filter.head().count,
        found as f64 * 100.0 / asked.len() as f64
    );
}

fn peers(count: u64) -> Done {
    use xorf::Filter as _;
    let held: Vec<u64> = hashes(count, 0)
        .into_iter()
        .map(|hash| hash as u64)
        .collect();
    let asked: Vec<u64> = hashes(4_000_000, 1 << 40)
        .into_iter()
        .map(|hash| hash as u64)
        .collect();
    let say = |name: &str, seconds: f64, bits: usize, one: f64, found: usize| {
        println!(
            "{name}, one thread, hashes in memory: {seconds:.2} s, {:.3} bits a key, {one:.1} ns, {:.4}% present",
            bits as f64 / count as f64,
            found as f64 * 100.0 / asked.len() as f64
        );
    };
    let start = Instant::now();
    let fuse = xorf::BinaryFuse8::try_from(&held)?;
    let seconds = start.elapsed().as_secs_f64();
    let (one, found) = best(asked.len(), || {
        black_box(&asked)
            .iter()
            .filter(|key| fuse.contains(key))
            .count()
    });
    say("xorf BinaryFuse8", seconds, fuse.len() * 8, one, found);
    drop(fuse);
    let start = Instant::now();
    let mut bloom = fastbloom::BloomFilter::with_false_pos(1.0 / 256.0)
        .seed(&1)
        .expected_items(count as usize);
    for key in &held {
        bloom.insert(key);
    }
    let seconds = start.elapsed().as_secs_f64();
    let (one, found) = best(asked.len(), || {
        black_box(&asked)
            .iter()
            .filter(|key| bloom.contains(*key))
            .count()
    });
    say("fastbloom at 0.39%", seconds, bloom.num_bits(), one, found);
    Ok(())
}

fn rates(count: u64, tries: u64) -> Done {
    let folder = tempfile::tempdir()?;
    let list = folder.path().join("uris");
    uris(count, std::fs::File::create(&list)?)?;
    let sources = [Source::new(&list)];
    let master = folder.path().join("hashes");
    let recipe = |kind, bits| Recipe {
        kind,
        budget: Budget::Bits(bits),
        ..Recipe::default()
    };
    filter::build(Input::new(&sources), &recipe(Kind::Hashes, 1.0), &master)?;
    let ribbon = (1..=16).map(|width| (Kind::Ribbon, f64::from(width)));
    let bloom = [6.0, 8.0, 10.94, 12.0, 12.2, 16.0, 20.0].map(|bits| (Kind::Bloom, bits));
    let mut wrong = 0;
    for (kind, bits) in ribbon.chain(bloom).chain([(Kind::Hashes, 1.0)]) {
        let path = folder.path().join("filter");
        filter::merge(&[Filter::open(&master)?], &recipe(kind, bits), &path)?;
        let filter = Filter::open(&path)?;
        let found = check_holdings(&filter, Input::new(&sources), tries)?;
        let promised = filter.head().rate;
        let sigmas = found.sigmas(promised);
        println!(
            "{:<6} {bits:>5} bits: {:>6.3} bits a key, {} of {} missing, {} of {tries} false, {:.5}% for \
             {:.5}%, {sigmas:+.2} sigma",
            kind.name(),
            filter.length() as f64 * 8.0 / filter.head().count as f64,
            found.missing,
            found.keys,
            found.false_positives,
            found.rate() * 100.0,
            promised * 100.0
        );
        wrong += u64::from(found.missing > 0 || (sigmas.abs() > 3.0 && found.false_positives > 0));
    }
    if wrong > 0 {
        return Err(format!("{wrong} filters are not what they promise").into());
    }
    Ok(())
}
