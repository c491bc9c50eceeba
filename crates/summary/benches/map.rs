//! `cargo bench -p waypost-summary --bench map -- …`, for `bench/map` and `bench/map-quality`:
//!
//! ```text
//! ways MAP SURTS     compares lookups by our table, in batches and one at a time, by a finite-state
//!                    transducer (crate fst), and by a binary search for each key that covers a lookup;
//!                    all are built from the same text and must give the same answers
//! tune MAP HOLDINGS PRICE JUDGE
//!                    measures the accuracy of maps of some sizes with each setting of the prior, priced
//!                    by one list of lookups and judged by another
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program of its own"
)]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use waypost_io::{Mapped, Resources, Source};
use waypost_summary::evaluate::Lookups;
use waypost_summary::holdings::{Holdings, Input};
use waypost_summary::map::sample::Sample;
use waypost_summary::map::{
    Budget, Finder, LeastCost, Map, Prior, Rule, SourceMap, Style, compact,
};
use waypost_summary::{Lookup, LookupBuffer};
use waypost_surt::{Dialect, Surt};

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["ways", map, surts] => ways(Path::new(map), Path::new(surts)),
        ["tune", map, holdings, price, judge] => tune(map, holdings, price, judge),
        _ => Err("usage: map ways MAP SURTS | tune MAP HOLDINGS PRICE JUDGE".into()),
    }
}

/// CPU time of this thread in nanoseconds, so that other processes don't count.
fn clock(since: Instant) -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| since.elapsed().as_nanos() as u64)
}

fn seconds<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let now = Instant::now();
    let start = clock(now);
    let made = run();
    ((clock(now) - start) as f64 / 1e9, made)
}

fn report(name: &str, made: f64, size: u64, opened: f64, asked: usize, took: f64, found: usize) {
    println!(
        "{name:<28} made in {made:>6.1} s  {:>6.1} MB  opened in {:>7.1} ms  {:>10.0} lookups/s  {found} found",
        size as f64 / 1e6,
        opened * 1e3,
        asked as f64 / took
    );
}

fn ways(path: &Path, asked: &Path) -> Done {
    let asked = std::fs::read(asked)?;
    let lines: Vec<&[u8]> = asked
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    let mut batch = LookupBuffer::new(Dialect::Ia);
    let batch = batch.fill(&lines);
    let lookups: Vec<Lookup<'_>> = batch.valid().collect();
    let surts: Vec<Surt<'_>> = lookups.iter().map(|lookup| *lookup.surt()).collect();
    let beside = path.with_file_name(format!(
        "{}.wmap",
        path.file_name().unwrap_or_default().to_string_lossy()
    ));
    let _ = std::fs::remove_file(&beside);
    let (made, map) = seconds(|| Map::open(path, &Resources::default()));
    drop(map?);
    waypost_summary::map::index(path, &Resources::default())?;
    let (opened, map) = seconds(|| Map::open(path, &Resources::default()));
    let map = map?;
    let size = std::fs::metadata(&beside).map_or(0, |metadata| metadata.len());
    for _ in 0..2 {
        let (took, found) = seconds(|| {
            let mut count = 0;
            Finder::new(&map).find_all(&lookups, None, |found| {
                count += usize::from(black_box(found).is_some());
            });
            count
        });
        report(
            "table, in batches",
            made,
            size,
            opened,
            surts.len(),
            took,
            found,
        );
    }
    let (took, found) = seconds(|| {
        let found = lookups
            .iter()
            .filter(|lookup| Finder::new(&map).find(lookup, None).is_some());
        found.count()
    });
    report(
        "table, one by one",
        made,
        size,
        opened,
        surts.len(),
        took,
        found,
    );
    transducer(path, &surts)?;
    halving(path, &surts)
}

/// The sizes at which settings are compared, as shares of the URI-Rs.
const SHARES: [f64; 5] = [0.01, 0.016, 0.03, 0.039, 0.043];

fn tune(map: &str, holdings: &str, price: &str, judge: &str) -> Done {
    let dialect = Dialect::default();
    let source = |path: &str| Source::new(Path::new(path));
    let samples = [
        Lookups::read(&source(price), dialect)?,
        Lookups::read(&source(judge), dialect)?,
    ];
    let truth = Holdings::new(Input::new(vec![source(holdings)]));
    let (held, _) = truth.truth(&samples)?;
    let sample = Sample::new(&samples[0], Some(&held[0]));
    let mut settings = Vec::new();
    for exponent in [0.5, 0.7, 0.85, 1.0, 1.15] {
        let name = format!("no lookups, exponent {exponent}");
        settings.push((name, None, Prior::power(0.02, exponent)));
    }
    for (strength, scale) in [
        (0.1, 2.0),
        (0.2, 2.0),
        (0.3, 2.0),
        (0.5, 2.0),
        (0.8, 2.0),
        (0.3, 1.0),
        (0.3, 4.0),
    ] {
        let name = format!("lookups, strength {strength}, scale {scale}");
        settings.push((name, Some(&sample), Prior::to_learn(strength, scale)));
    }
    let out = Path::new(map).with_extension("tuned");
    for (name, sample, prior) in settings {
        print!("{name:<36}");
        for share in SHARES {
            let rule = Rule::LeastCost(Box::new(LeastCost {
                budget: Budget::Share(share),
                sample: sample.cloned(),
                voids: false,
                prior: Some(prior.clone()),
                top: None,
            }));
            let mut given = SourceMap::open(&source(map), &Resources::default())?;
            compact(&mut given, &rule, Style::Published, &out, false)?;
            let made = Map::open(&out, &Resources::default())?;
            let surts = samples[1].lookups();
            let (mut right, mut lost, mut at) = (0, 0, 0);
            Finder::new(&made).find_all(&surts, None, |found| {
                let present = found.is_some_and(|found| !found.frequency.is_void());
                right += usize::from(present == held[1][at]);
                lost += usize::from(held[1][at] && !present);
                at += 1;
            });
            assert_eq!(lost, 0, "held, but called absent");
            let accuracy = 100.0 * right as f64 / surts.len() as f64;
            print!("  {:.1}%: {accuracy:.2}%", 100.0 * share);
            std::io::stdout().flush()?;
        }
        println!();
    }
    std::fs::remove_file(out)?;
    Ok(())
}

fn rows(text: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let mut start = 0;
    text.split(|&byte| byte == b'\n').filter_map(move |line| {
        let at = start;
        start += line.len() + 1;
        let end = memchr::memchr(b' ', line)?;
        (line[0] != b'!').then(|| (&line[..end], at))
    })
}

/// A transducer from keys to the offsets of their rows.
fn transducer(path: &Path, surts: &[Surt<'_>]) -> Done {
    let text = Mapped::open(path)?;
    let out = path.with_extension("fst");
    let (made, built) = seconds(|| -> Done {
        let mut builder = fst::MapBuilder::new(BufWriter::new(File::create(&out)?))?;
        for (key, at) in rows(&text) {
            builder.insert(key, at as u64)?;
        }
        builder.finish()?;
        Ok(())
    });
    built?;
    let (opened, map) = seconds(|| -> Result<_, Box<dyn std::error::Error>> {
        Ok(fst::Map::new(Mapped::open(&out)?)?)
    });
    let map = map?;
    let size = std::fs::metadata(&out)?.len();
    let mut key = Vec::new();
    let (took, found) = seconds(|| {
        let present = surts.iter().filter(|surt| {
            surt.candidates().any(|candidate| {
                key.clear();
                candidate.write(&mut key);
                map.get(&key)
                    .is_some_and(|at| black_box(text[at as usize]) > 0)
            })
        });
        present.count()
    });
    report(
        "transducer (fst), each key",
        made,
        size,
        opened,
        surts.len(),
        took,
        found,
    );
    // One walk down, remembering each position at which a wildcard would be final.
    let (took, found) = seconds(|| {
        surts
            .iter()
            .filter(|surt| walked(map.as_fst(), surt))
            .count()
    });
    report(
        "transducer (fst), one walk",
        made,
        size,
        opened,
        surts.len(),
        took,
        found,
    );
    std::fs::remove_file(out)?;
    Ok(())
}

/// Follows a SURT down the transducer and looks for wildcards on the way.
fn walked<D: AsRef<[u8]>>(fst: &fst::raw::Fst<D>, surt: &Surt<'_>) -> bool {
    let place = surt.without_query();
    let place = place.strip_suffix(b"/").unwrap_or(place);
    let authority = surt.authority().len();
    let ends = |node: fst::raw::Node<'_>, text: &[u8]| {
        let mut at = node.addr();
        text.iter().all(|&byte| {
            let node = fst.node(at);
            let next = node.find_input(byte).map(|next| node.transition_addr(next));
            at = next.unwrap_or(at);
            next.is_some()
        }) && fst.node(at).is_final()
    };
    let mut node = fst.root();
    let mut found = ends(node, b"*");
    for (at, &byte) in place.iter().enumerate() {
        if at > 0 && at <= authority && matches!(byte, b',' | b':' | b')') {
            found |= ends(node, b",*");
        } else if at > authority && byte == b'/' {
            found |= ends(node, b"/*");
        }
        let Some(next) = node.find_input(byte) else {
            return found;
        };
        node = fst.node(node.transition_addr(next));
    }
    found | ends(node, b"/*") | ends(node, b"/") | node.is_final()
}

/// A binary search of the text for each key.
fn halving(path: &Path, surts: &[Surt<'_>]) -> Done {
    let (opened, text) = seconds(|| Mapped::open(path));
    let text = text?;
    let mut key = Vec::new();
    // It is so slow that a tenth of them is enough.
    let surts = &surts[..surts.len() / 10];
    let (took, found) = seconds(|| {
        let present = surts.iter().filter(|surt| {
            surt.candidates().any(|candidate| {
                key.clear();
                candidate.write(&mut key);
                halved(&text, &key)
            })
        });
        present.count()
    });
    report(
        "binary search, each key",
        0.0,
        0,
        opened,
        surts.len(),
        took,
        found,
    );
    Ok(())
}

fn halved(text: &[u8], key: &[u8]) -> bool {
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = memchr::memrchr(b'\n', &text[low..middle]).map_or(low, |at| low + at + 1);
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at);
        let line = &text[start..end];
        let here = &line[..memchr::memchr(b' ', line).unwrap_or(line.len())];
        match here.cmp(key) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = end + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    false
}
