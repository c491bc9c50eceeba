//! `cargo bench -p waypost-surt`: the kernels, over URIs like those of a web index.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark may panic")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use waypost_surt::{Canonicalizer, Dialect, Policy, Surt};

/// Shapes of real URIs: plain ones, escapes, queries, ports, sessions, other scripts.
fn uris() -> Vec<String> {
    let shapes = [
        "https://www.example{}.com/",
        "http://blog.example{}.org/2024/11/15/a-post-with-a-long-title.html",
        "https://www.site{}.gov/archive/reports/2021/Annual-Report.pdf",
        "https://shop{}.example.co.uk/products/view?id=4711&color=Blue&size=XL",
        "http://example{}.net:8080/a/b/../c/./d//e",
        "https://de.example{}.org/wiki/M%C3%BCnchen_%28Stadt%29",
        "http://forum{}.example.com/thread.php?t=9&PHPSESSID=0123456789abcdef0123456789abcdef",
        "http://b\u{fc}cher{}.example/stra\u{df}e?q=\u{e9}",
        "http://192.168.0.{}/index.html",
        "https://cdn{}.example.com/assets/js/app.0f3e2d1c.js?v=3",
    ];
    (0..2_000)
        .map(|i| shapes[i % shapes.len()].replace("{}", &(i % 250).to_string()))
        .collect()
}

fn canonicalize(c: &mut Criterion) {
    let uris = uris();
    let mut group = c.benchmark_group("canonicalize");
    group.throughput(Throughput::Elements(uris.len() as u64));
    for dialect in Dialect::ALL {
        let mut canonicalizer = Canonicalizer::new(dialect);
        let mut surt = Vec::new();
        group.bench_function(dialect.name(), |b| {
            b.iter(|| {
                for uri in &uris {
                    surt.clear();
                    canonicalizer
                        .canonicalize(uri.as_bytes(), &mut surt)
                        .unwrap();
                    std::hint::black_box(&surt);
                }
            });
        });
    }
    group.finish();
}

fn cut(c: &mut Criterion) {
    let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
    let surts: Vec<Vec<u8>> = uris()
        .iter()
        .map(|uri| {
            let mut surt = Vec::new();
            canonicalizer
                .canonicalize(uri.as_bytes(), &mut surt)
                .unwrap();
            surt
        })
        .collect();
    let mut group = c.benchmark_group("cut");
    group.throughput(Throughput::Elements(surts.len() as u64));
    let mut key = Vec::new();
    for name in ["H3P0", "HxP1", "HxPx", "DDom", "DIni"] {
        let policy: Policy = name.parse().unwrap();
        group.bench_function(name, |b| {
            b.iter(|| {
                for surt in &surts {
                    key.clear();
                    policy.cut(&Surt::new(surt), &mut key);
                    std::hint::black_box(&key);
                }
            });
        });
    }
    group.bench_function("candidates", |b| {
        b.iter(|| {
            surts
                .iter()
                .map(|surt| Surt::new(surt).candidates().count())
                .sum::<usize>()
        });
    });
    group.finish();
}

criterion_group!(benches, canonicalize, cut);
criterion_main!(benches);
