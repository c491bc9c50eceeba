//! Statistics of small indexes, worked out by hand, and what they do not depend on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use waypost_index::Select;
use waypost_index::scan::Ranges;
use waypost_insight::numeric::histogram::Histogram;
use waypost_insight::stats::model::Place;
use waypost_insight::stats::{self, Counting, Estimating, Options, Statistics, compare};
use waypost_io::Source;
use waypost_summary::evaluate::Lookups;
use waypost_summary::holdings::{Input, Reading};
use waypost_summary::map::{self, SourceMap, fit};
use waypost_summary::{Archive, Classes};
use waypost_surt::Dialect;

const SMALL: &str = "\
com,example)/ 20040105000000 http://example.com/ text/html 200 A - - 100 0 a.warc.gz
com,example)/ 20040210000000 http://example.com/ text/html 200 B - - 100 0 a.warc.gz
com,example)/ 20050101000000 http://example.com/ text/html 404 C - - 50 0 a.warc.gz
com,example)/a 20040301000000 http://example.com/a text/html 200 D - - 200 0 a.warc.gz
com,example)/a-b 20050301000000 http://example.com/a-b image/gif 200 E - - 10 0 a.warc.gz
com,example)/a/b 20050302000000 http://example.com/a/b text/html 301 F - - 20 0 a.warc.gz
com,example)/a?x=1&y=2 20060101000000 http://example.com/a?x=1&y=2 text/html 200 G - - 30 0 a.warc.gz
com,example,blog)/ 20060102000000 http://blog.example.com/ warc/revisit - H - - 5 0 a.warc.gz
org,site)/p/q/r 20060103000000 http://site.org/p/q/r text/html 200 I - - 40 0 a.warc.gz
1,0,0,127)/ 20060104000000 http://127.0.0.1/ text/plain 500 J - - 7 0 a.warc.gz
dns:example.com 20060104000000 dns:example.com text/dns - K - - 7 0 a.warc.gz
this is not a capture
";

fn statistics(paths: &[PathBuf], options: &Options<'_>) -> Statistics {
    let input = Input::new(paths.iter().map(Source::new).collect());
    stats::statistics(&input, options, None).unwrap().0
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-5 * expected.abs().max(1.0)
}

/// Key, captures and URI-Rs of each.
fn triples(places: &[Place]) -> Vec<(&str, u64, u64)> {
    let places = places.iter();
    places
        .map(|place| (&place.key[..], place.captures, place.urirs))
        .collect()
}

#[test]
fn every_number_of_a_small_index_is_the_one_worked_out_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let index = write(folder.path(), "small.cdx", SMALL);
    let asked = "http://example.com/\nhttp://www.example.com\nhttp://example.com/missing\n\
        http://example.com/missing\nhttp://example.com/missing\nhttp://other.org/\n";
    let asked = write(folder.path(), "asked.txt", asked);
    let lookups = Lookups::read(&Source::new(asked), Dialect::Ia).unwrap();
    let classes = Classes::parse("example.com news\n").unwrap();
    let options = Options {
        lookups: Some(&lookups),
        classes: Some(&classes),
        ..Options::default()
    };
    let found = statistics(&[index], &options);
    let totals = &found.totals;
    assert_eq!(
        (totals.files, totals.lines, totals.bytes),
        (1, 12, SMALL.len() as u64)
    );
    assert_eq!(
        (totals.captures, totals.urirs, totals.hxpx_keys),
        (10, 8, 7)
    );
    assert_eq!((totals.hosts, totals.sites, totals.domains), (4, 4, 2));
    assert_eq!((totals.tlds, totals.addresses, totals.revisits), (2, 1, 1));
    assert_eq!(
        (totals.record_bytes, totals.undated, totals.without_host),
        (562, 0, 0)
    );
    assert_eq!(totals.first.as_deref(), Some("20040105000000"));
    assert_eq!(totals.last.as_deref(), Some("20060104000000"));
    assert_eq!(found.non_web.len(), 1);
    assert_eq!(
        (&found.non_web[0].kind[..], found.non_web[0].count),
        ("dns", 1)
    );
    assert_eq!(
        found.bad_lines.iter().map(|kind| kind.count).sum::<u64>(),
        1
    );

    // Captures per URI-R: 3 and seven times 1.
    let of = &found.distribution;
    assert_eq!((of.max, of.min, of.median, of.mean), (3, 1, 1.0, 1.25));
    assert!(close(of.deviation, 0.4375f64.sqrt()) && close(of.gini, 0.175));
    assert!(close(of.pareto.unwrap(), 4.0 / 9.0));
    assert_eq!(of.histogram, [(1, 7), (4, 1)]);
    assert_eq!(triples(&found.top_urirs)[0], ("com,example)/", 3, 1));
    assert_eq!(
        triples(&found.top_subtrees),
        [
            ("com,example,*", 8, 6),
            ("com,example)/*", 7, 5),
            ("com,example)/a/*", 3, 3)
        ]
    );
    assert_eq!(triples(&found.tlds), [("com", 8, 6), ("org", 1, 1)]);
    assert_eq!(
        triples(&found.domains),
        [("example.com", 8, 6), ("site.org", 1, 1)]
    );
    assert_eq!(triples(&found.hosts)[0], ("example.com", 7, 5));
    assert_eq!(found.hosts.len(), 4);

    let years: Vec<_> = found
        .years
        .iter()
        .map(|year| {
            (
                year.year,
                year.urirs,
                year.urirs_so_far,
                year.captures,
                year.captures_so_far,
            )
        })
        .collect();
    assert_eq!(
        years,
        [(2004, 2, 2, 3, 3), (2005, 3, 4, 3, 6), (2006, 4, 8, 4, 10)]
    );
    assert!(close(found.years[1].seen_before, 1.0 / 3.0) && found.years[2].seen_before == 0.0);
    assert!(close(found.years[0].gamma, 1.5) && close(found.years[2].gamma_so_far, 1.25));
    let statuses: Vec<[u64; 6]> = found
        .years
        .iter()
        .map(|year| year.statuses.counts())
        .collect();
    assert_eq!(
        statuses,
        [[3, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [2, 0, 0, 1, 0, 1]]
    );
    let heaps = found.growth.heaps.unwrap();
    assert!(
        close(heaps.exponent, 1.142_698) && close(heaps.factor, 0.553_387),
        "{heaps:?}"
    );
    assert!(close(
        found.growth.bytes_per_line,
        SMALL.len() as f64 / 12.0
    ));

    let html = found
        .media_types
        .iter()
        .find(|media| media.name == "text/html")
        .unwrap();
    assert_eq!(html.statuses.counts(), [5, 1, 1, 0, 0, 0]);
    let cells = found.path_query.iter();
    let cells: Vec<_> = cells
        .map(|cell| (cell.path, cell.query, cell.captures))
        .collect();
    assert_eq!(
        cells,
        [(0, 0, 5), (1, 0, 2), (1, 2, 1), (2, 0, 1), (3, 0, 1)]
    );

    let depths: Vec<_> = found
        .depths
        .iter()
        .map(|depth| (depth.depth, depth.hosts, depth.host_keys, depth.path_keys))
        .collect();
    assert_eq!(
        depths,
        [
            (0, 0, 0, 3),
            (1, 0, 0, 2),
            (2, 2, 5, 1),
            (3, 1, 1, 1),
            (4, 1, 1, 0)
        ]
    );
    // Depth, count, sum, max, parents, RedQ · 7.
    let layers: Vec<_> = found
        .host_tree
        .iter()
        .chain(&found.path_tree)
        .map(|layer| {
            let saved = (layer.redq * 7.0).round() as u64;
            (
                &layer.depth[..],
                layer.count,
                layer.sum,
                layer.max,
                layer.parents,
                saved,
            )
        })
        .collect();
    assert_eq!(
        layers,
        [
            ("H1", 3, 7, 5, 1, 4),
            ("H2", 3, 7, 5, 3, 4),
            ("H3", 2, 2, 1, 2, 0),
            ("H4", 1, 1, 1, 1, 0),
            ("P0", 4, 7, 4, 4, 3),
            ("P1", 3, 4, 2, 2, 1),
            ("P2", 2, 2, 1, 2, 0),
            ("P3", 1, 1, 1, 1, 0),
        ]
    );
    let top = &found.host_tree[0];
    assert!(close(top.mean, 7.0 / 3.0) && top.median == 1.0);
    assert!(close(top.deviation, (32.0f64 / 9.0).sqrt()));
    assert!(close(found.path_tree[1].mean_children, 1.5));

    let lookups = found.lookups.unwrap();
    assert_eq!((lookups.requests, lookups.urirs, lookups.held), (6, 3, 1));
    assert_eq!(lookups.held_requests, 2);
    assert_eq!(lookups.grid, [[None, Some(2)], [Some(7), Some(1)]]);
    let seeds = lookups.seeds.iter();
    let seeds: Vec<_> = seeds
        .map(|seed| (&seed.key[..], seed.requests, seed.host_is_held))
        .collect();
    assert_eq!(
        seeds,
        [("com,example)/missing", 3, true), ("org,other)/", 1, false)]
    );
    let classes = found.classes.iter();
    let classes: Vec<_> = classes
        .map(|class| (&class.name[..], class.hosts, class.urirs, class.captures))
        .collect();
    assert_eq!(classes, [("-", 2, 2, 2), ("news", 2, 6, 8)]);
    assert_eq!(found.defects, []);
}

#[test]
fn what_stands_out_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    let mut line = |key: &str, url: &str, time: u64, mime: &str, status: &str| {
        text += &format!("{key} {time} {url} {mime} {status} A - - 100 0 a.warc.gz\n");
    };
    // A blank image with every page, a year with next to nothing, a trap, odd types and statuses.
    for n in 0..3_000u64 {
        let year = 2004 + n % 3;
        if year != 2005 || n <= 30 {
            let time = (year * 10_000 + 101) * 1_000_000;
            line(
                &format!("com,a)/p{n}"),
                &format!("http://a.com/p{n}"),
                time,
                "text/html",
                "200",
            );
        }
    }
    for second in 0..1_000 {
        let time = 20_040_101_000_000 + second / 60 * 100 + second % 60;
        line(
            "com,a,icons)/blank.gif",
            "http://icons.a.com/blank.gif",
            time,
            "image/gif",
            "200",
        );
    }
    let time = 20_060_101_000_000;
    line(
        "com,b)/x/x/x/x",
        "http://b.com/x/x/x/x",
        time,
        "text/html",
        "200",
    );
    line("com,b)/m", "http://b.com/m", time, "texthtml", "200");
    line("com,b)/s", "http://b.com/s", time, "text/html", "999");
    for n in 0..1_500 {
        let (key, url) = (
            format!("com,b)/cal?d={n}"),
            format!("http://b.com/cal?d={n}"),
        );
        line(&key, &url, time, "text/html", "200");
    }
    let index = write(folder.path(), "odd.cdx", &text);
    let found = statistics(&[index], &Options::default());
    let evidence = |kind: &str| {
        let defect = found.defects.iter().find(|defect| defect.kind == kind);
        defect
            .unwrap_or_else(|| panic!("no {kind}"))
            .evidence
            .clone()
    };
    assert!(evidence("heavy-uri").contains("com,a,icons)/blank.gif (1,000)"));
    assert!(evidence("media-types").contains("`texthtml` (1)"));
    assert!(evidence("statuses").contains("999 (1)"));
    assert!(
        evidence("drop").contains("2005 has 10 captures"),
        "{}",
        evidence("drop")
    );
    assert!(evidence("trap").contains("com,b)/x/x/x/x"));
    assert!(evidence("queries").contains("com,b)/cal (1,500)"));
    assert!(found.defects.iter().all(|defect| !defect.advice.is_empty()));
}

#[test]
fn nothing_and_lists_have_statistics_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let empty = write(folder.path(), "empty.cdxj", "");
    let none = statistics(&[empty], &Options::default());
    assert_eq!((none.totals.captures, none.years.len()), (0, 0));
    assert!(stats::html(&none).contains("holds 0 captures"));
    let list = "http://example.com/\nhttp://example.com/a\nhttp://example.com/a\n";
    let list = write(folder.path(), "list.txt", list);
    let list = statistics(&[list], &Options::default());
    assert_eq!((list.totals.captures, list.totals.urirs), (3, 2));
    assert_eq!(list.totals.first, None);
    // The JSON is complete: it can be read again.
    let json = serde_json::to_string(&none).unwrap();
    assert_eq!(serde_json::from_str::<Statistics>(&json).unwrap(), none);
}

#[test]
fn a_report_has_every_section_and_names_cannot_break_it() {
    let folder = tempfile::tempdir().unwrap();
    let evil = format!(
        "{SMALL}com,example)/<script> 20060105000000 http://example.com/<script> <b>x</b> 200 A - - 7 0 a.warc.gz\n"
    );
    let index = write(folder.path(), "small.cdx", &evil);
    let options = Options {
        name: "<i>".into(),
        ..Options::default()
    };
    let found = statistics(&[index], &options);
    let html = stats::html(&found);
    for heading in [
        "Totals",
        "Worth a look",
        "Captures per URI",
        "Where from",
        "By year",
        "What kind",
        "The tree of URIs",
    ] {
        assert!(html.contains(&format!(">{heading}</h2>")), "{heading}");
    }
    assert!(!html.contains("<b>x</b>") && !html.contains("<i>"));
    assert_eq!(html.matches("<script>").count(), 1);
    let both = compare::html(&[found.clone(), found.clone()]);
    assert!(both.contains("Captures by year") && !both.contains("<i>"));
    let (title, table) = &compare::tables(&[found.clone(), found])[0];
    assert_eq!(*title, "Totals");
    assert!(
        table.csv().contains("captures,11,11,+0.0%"),
        "{}",
        table.csv()
    );
}

/// The numbers of the MementoMap paper's table 8: depth, count, sum, mean, RedQ.
const TABLE_8: [(&str, u64, u64, f64, f64); 20] = [
    ("H1", 973, 1_138_923_169, 1_170_527.41, 1.0),
    ("H2", 2_068_333, 1_138_916_690, 550.64, 0.99818),
    ("H3", 2_158_880, 630_309_184, 291.96, 0.55153),
    ("H4", 1_329_137, 201_308_887, 151.46, 0.17559),
    ("H5", 245_881, 39_396_636, 160.23, 0.03438),
    ("H6", 103_579, 17_571_552, 169.64, 0.01534),
    ("H7", 34_380, 9_636_427, 280.29, 0.00843),
    ("H8", 69_829, 6_383_484, 91.42, 0.00554),
    ("H9", 55_811, 2_660_591, 47.67, 0.00229),
    ("P0", 5_841_503, 1_138_923_169, 194.97, 0.99487),
    ("P1", 145_687_459, 1_134_466_338, 7.79, 0.86817),
    ("P2", 290_761_965, 1_021_443_935, 3.51, 0.64156),
    ("P3", 392_635_328, 795_954_162, 2.03, 0.35412),
    ("P4", 215_251_988, 461_498_975, 2.14, 0.21621),
    ("P5", 158_256_277, 287_069_088, 1.81, 0.11310),
    ("P6", 91_334_214, 159_584_909, 1.75, 0.05993),
    ("P7", 60_099_825, 91_006_216, 1.51, 0.02714),
    ("P8", 31_101_768, 45_186_916, 1.45, 0.01237),
    ("P9", 18_601_197, 23_008_116, 1.24, 0.00387),
    ("P10", 6_817_122, 7_455_014, 1.09, 0.00056),
];

#[test]
fn our_definitions_give_the_numbers_that_the_paper_published() {
    let keys = 1_138_923_169;
    for (depth, count, sum, mean, redq) in TABLE_8 {
        // As many nodes with as many keys as published, spread evenly over two sizes.
        let mut sizes = Histogram::default();
        let (size, more) = (sum / count, sum % count);
        sizes.add_times(size, count - more);
        sizes.add_times(size + 1, more);
        assert_eq!((sizes.count(), sizes.sum()), (count, sum));
        assert!(
            (sizes.mean() - mean).abs() < 0.006,
            "{depth}: {}",
            sizes.mean()
        );
        let all = sizes.reduction(keys).last().unwrap().1;
        assert!((all - redq).abs() < 0.000_006, "{depth}: {all}");
    }
}

#[test]
fn keys_and_laws_are_those_of_a_map_of_the_same_holdings() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for n in 0..400u32 {
        let (a, b, c) = (n % 7, n % 11, n % 13);
        let host = ["com,x", "com,x,y", "org,z", "uk,co,w,v"][n as usize % 4];
        text += &format!("{host}{a})/p{b}/q{c}/r{n} 2004 {{}}\n{host}{a})/p{b} 2005 {{}}\n");
    }
    let index = write(folder.path(), "a.cdxj", &text);
    let found = statistics(std::slice::from_ref(&index), &Options::default());
    let out = folder.path().join("a.ukvs");
    let input = Input::new(vec![Source::new(&index)]);
    let built = map::build(&input, &Archive::default(), None, &out).unwrap();
    assert_eq!(found.totals.hxpx_keys, built.rows);
    let mut map = SourceMap::open(&Source::new(&out), &input.resources).unwrap();
    let fitted = fit::fit(&mut map).unwrap();
    for (law, fitted) in [
        (found.laws.host, fitted.host),
        (found.laws.path, fitted.path),
    ] {
        let (law, fitted) = (law.unwrap(), fitted.unwrap());
        assert!(
            close(law.a, fitted.a) && close(law.k, fitted.k),
            "{law:?} {fitted:?}"
        );
    }
}

/// Estimates of an index with more URI-Rs than a sample has, beside its exact statistics.
#[test]
fn estimates_are_as_good_as_their_error_says_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = Vec::new();
    for n in 0..240_000u64 {
        let (tld, year) = (
            ["com", "org", "net"][(n * n % 7 % 3) as usize],
            2010 + n % 5,
        );
        let site = n % 3_000;
        lines.push(format!(
            "{tld},site{site},www)/a{}/{n} {year}0102030405 {{\"mime\": \"text/html\", \"status\": \"200\"}}\n",
            n % 90
        ));
        // Every third is captured again, two years later.
        if n % 3 == 0 {
            let again =
                lines[lines.len() - 1].replace(&format!(" {year}"), &format!(" {}", year + 2));
            lines.push(again);
        }
    }
    lines.sort();
    let sorted = write(folder.path(), "sorted.cdxj", &lines.concat());
    let exact = statistics(std::slice::from_ref(&sorted), &Options::default());
    let estimating = Options {
        approximate: true,
        ..Options::default()
    };
    let estimates = statistics(&[sorted], &estimating);
    let approximation = estimates.approximation.clone().unwrap();
    assert!((0.008..0.0082).contains(&approximation.distinct_error));
    assert!((20_000..=65_536).contains(&approximation.sampled_urirs));
    let near = |what: &str, found: f64, exact: f64, error: f64| {
        assert!(
            (found / exact - 1.0).abs() < error,
            "{what}: {found} instead of {exact}"
        );
    };
    let (ours, true_ones) = (&estimates.totals, &exact.totals);
    assert_eq!(ours.captures, true_ones.captures);
    for (what, found, exact) in [
        ("URI-Rs", ours.urirs, true_ones.urirs),
        ("keys", ours.hxpx_keys, true_ones.hxpx_keys),
        ("hosts", ours.hosts, true_ones.hosts),
        ("domains", ours.domains, true_ones.domains),
        ("TLDs", ours.tlds, true_ones.tlds),
    ] {
        near(
            what,
            found as f64,
            exact as f64,
            4.0 * approximation.distinct_error,
        );
    }
    near(
        "γ",
        estimates.distribution.mean,
        exact.distribution.mean,
        0.04,
    );
    near(
        "Gini",
        estimates.distribution.gini,
        exact.distribution.gini,
        0.05,
    );
    assert_eq!(estimates.distribution.median, exact.distribution.median);
    assert_eq!(estimates.years.len(), exact.years.len());
    for (ours, exact) in estimates.years.iter().zip(&exact.years) {
        assert_eq!((ours.year, ours.captures), (exact.year, exact.captures));
        near(
            "URI-Rs of a year",
            ours.urirs as f64,
            exact.urirs as f64,
            0.06,
        );
        assert!((ours.seen_before - exact.seen_before).abs() < 0.03);
    }
    for (ours, exact) in estimates.tlds.iter().zip(&exact.tlds) {
        assert_eq!(ours.key, exact.key);
        near(
            "captures of a TLD",
            ours.captures as f64,
            exact.captures as f64,
            0.06,
        );
    }
    assert!(estimates.top_urirs.is_empty() && estimates.path_tree.is_empty());
    assert_eq!(estimates.media_types, exact.media_types);
    assert!(stats::html(&estimates).contains("are estimates with a standard error of 0.8%"));

    // The same in another order and from other files.
    lines.reverse();
    let (some, others) = lines.split_at(100_000);
    let paths = [
        write(folder.path(), "b.cdxj", &others.concat()),
        write(folder.path(), "a.cdxj", &some.concat()),
    ];
    let mut other = statistics(&paths, &estimating);
    other.totals.files = 1;
    assert_eq!(other, estimates);
}

fn captures() -> impl Strategy<Value = Vec<(String, u32, usize)>> {
    let surt = "(com,(a|b|a,x)|org,a|1,2,3,4)(:81)?\\)/((a|b|a-b)(/(a|b)){0,2}(\\?[ab]=1)?)?";
    prop::collection::vec((surt, 1996u32..2006, 0usize..5), 0..120)
}

/// Media type and status of captures.
const KINDS: [(&str, &str); 5] = [
    ("text/html", "200"),
    ("image/gif", "200"),
    ("text/html", "404"),
    ("-", "-"),
    ("TEXT/HTML", "301"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn statistics_do_not_depend_on_threads_order_files_memory_or_ranges(
        captures in captures(),
        threads in 1usize..5,
        files in 1usize..4,
        reverse: bool,
        memory in prop_oneof![Just(1usize), Just(1 << 30)],
        random: u64,
    ) {
        let line = |(surt, year, kind): &(String, u32, usize)| {
            let (mime, status) = KINDS[*kind];
            format!("{surt} {year}0102030405 - {mime} {status} AAAA - - 5 9 x.warc.gz\n")
        };
        let mut lines: Vec<String> = captures.iter().map(line).collect();
        lines.sort();
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "whole.cdx", &lines.concat());
        let whole = statistics(&[path], &Options::default());
        if reverse {
            lines.reverse();
        }
        let mut paths = Vec::new();
        for file in 0..files {
            let some = lines.iter().skip(file).step_by(files);
            let some: Vec<&str> = some.map(|line| &line[..]).collect();
            paths.push(write(folder.path(), &format!("{file}.cdx"), &some.concat()));
        }
        let mut input = Input::new(paths.iter().map(Source::new).collect());
        input.resources.memory = memory;
        let options = Options { memory, ..Options::default() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (mut found, _) = pool.install(|| stats::statistics(&input, &options, None)).unwrap();
        found.totals.files = 1;
        prop_assert_eq!(&found, &whole);

        // A sample of everything has exact statistics.
        let estimating = Options { approximate: true, ..options.clone() };
        let (mut estimated, _) = stats::statistics(&input, &estimating, None).unwrap();
        estimated.totals.files = 1;
        let approximation = estimated.approximation.take().unwrap();
        prop_assert_eq!(approximation.distinct_error, 0.0);
        prop_assert_eq!(&estimated, &whole);
        let job = Estimating::new(Dialect::Ia, &input.resources);
        let scan = Ranges::new(&job, Select::default());
        let (estimated, outcome) = scan.read_at_random(&paths, random).unwrap();
        let mut reading = Reading::of_outcome(outcome, false);
        let mut ranges = stats::of_estimated(estimated, &mut reading, &estimating).unwrap();
        ranges.totals.files = 1;
        ranges.totals.stored_bytes = whole.totals.stored_bytes;
        ranges.approximation = None;
        prop_assert_eq!(&ranges, &whole);

        let counting = Counting::new(Dialect::Ia, &input.resources);
        let scan = Ranges::new(&counting, Select::default());
        let (mut counted, outcome) = scan.read_at_random(&paths, random).unwrap();
        let reading = Reading::of_ranges(outcome, false, counted.held()).unwrap();
        let mut ranges = stats::of_counted(counted, &reading, &options).unwrap();
        ranges.totals.files = 1;
        ranges.totals.stored_bytes = whole.totals.stored_bytes;
        prop_assert_eq!(ranges, whole);
    }
}
