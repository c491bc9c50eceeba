//! Tabulating, ranking and predicting on generated crawls.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use waypost_index::scan::{self, Ranges};
use waypost_insight::generate::Crawl;
use waypost_insight::segments::counts::{self, LengthCut};
use waypost_insight::segments::location::Subset;
use waypost_insight::segments::predict::{Scale, predict};
use waypost_insight::segments::rank::{self, Ranking};
use waypost_insight::segments::tabulate::{self, Options, Tabulating, tabulate};
use waypost_insight::segments::{Property, overlap, table};
use waypost_io::{Progress, Resources, Source};

fn write(folder: &Path, name: &str, crawl: &Crawl) -> PathBuf {
    let path = folder.join(name);
    let mut text = Vec::new();
    crawl.write_index(true, &mut text).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn tabulated(path: &Path, options: Options<'_>) -> String {
    let out = path.with_extension("segments");
    tabulate(&[Source::new(path)], options, &out).unwrap();
    fs::read_to_string(out).unwrap()
}

/// A hundred segments, of which 17, 42 and 99 have other distributions than all others.
#[test]
fn rank_and_predict_find_three_skewed_segments_among_a_hundred() {
    let folder = tempfile::tempdir().unwrap();
    let crawl = Crawl {
        captures: 150_000,
        skewed: vec![17, 42, 99],
        ..Crawl::default()
    };
    let path = write(folder.path(), "crawl.cdxj", &crawl);
    let out = folder.path().join("crawl.segments.gz");
    tabulate(&[Source::new(&path)], Options::default(), &out).unwrap();
    let options = counts::Options {
        cut: LengthCut::Log,
        ..counts::Options::default()
    };
    let (all, _) = counts::read(&Source::new(&out), &[], options).unwrap();
    let rankings: Vec<Ranking> = all.iter().map(rank::rank).collect();
    assert_eq!(rankings.len(), 3);
    for ranking in &rankings {
        assert_eq!(ranking.segments.len(), 100);
        let mut worst = ranking.order[97..].to_vec();
        worst.sort_unstable();
        assert_eq!(worst, [17, 42, 99], "{}", ranking.property);
        let best_of_skewed = ranking.with_whole[ranking.order[97]].interval().1;
        let worst_of_others = ranking.with_whole[ranking.order[96]].interval().0;
        assert!(best_of_skewed < worst_of_others, "{}", ranking.property);
        assert!(ranking.normality.unwrap().p < 0.05, "{}", ranking.property);
    }
    let all: Vec<&Ranking> = rankings.iter().collect();
    let combined = rank::combine(&all).unwrap();
    let skewed: Vec<String> = crawl
        .skewed
        .iter()
        .map(|s| crawl.segment_name(*s))
        .collect();
    assert!(
        skewed
            .iter()
            .all(|name| combined.segments[97..].contains(name))
    );
    for scale in [Scale::Rank, Scale::Range] {
        let prediction = predict(&all, &all, 10, scale);
        assert_eq!((prediction.rows.len(), prediction.columns.len()), (6, 10));
        let recommended = prediction.recommendation.unwrap();
        assert!(
            recommended
                .segments
                .iter()
                .all(|name| !skewed.contains(name))
        );
        // With the skewed segments as the best of a basis, every prediction is at the bottom.
        let mut upside_down = rankings[0].clone();
        upside_down.order.reverse();
        let low = predict(&[&upside_down], &all, 3, scale);
        assert!(
            low.rows
                .iter()
                .flat_map(|row| &row.cells)
                .all(|cell| *cell <= 10.0),
            "{low:?}"
        );
    }
}

/// The table against one that is counted with maps of whole lines.
#[test]
fn every_capture_is_counted_once_under_its_segment_and_value() {
    let folder = tempfile::tempdir().unwrap();
    let crawl = Crawl {
        captures: 5000,
        segments: 7,
        ..Crawl::default()
    };
    let path = write(folder.path(), "crawl.cdxj", &crawl);
    let properties = [
        "status",
        "tld",
        "host",
        "domain",
        "protocol",
        "uri-length",
        "lastmod-year",
        "mime",
        "language",
    ];
    let options = Options {
        properties: properties.map(Property::parse).to_vec(),
        subset: None,
        ..Options::default()
    };
    tabulated(&path, options);
    let text = fs::read_to_string(&path).unwrap();
    let field = |line: &str, name: &str| -> Option<String> {
        let json: serde_json::Value =
            serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap();
        json.get(name)
            .map(|value| value.as_str().unwrap().to_owned())
    };
    let mut expected: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for line in text.lines() {
        let segment = field(line, "filename")
            .unwrap()
            .split('/')
            .nth(3)
            .unwrap()
            .to_owned();
        let url = field(line, "url").unwrap();
        let host = url
            .split('/')
            .nth(2)
            .unwrap()
            .trim_start_matches("www.")
            .to_owned();
        let surt: Vec<&str> = host.split('.').rev().collect();
        let (mime, detected) = (
            field(line, "mime").unwrap(),
            field(line, "mime-detected").unwrap(),
        );
        let year = field(line, "lastmod").map(|seconds| {
            waypost_insight::calendar::Date::of_unix(seconds.parse().unwrap())
                .year
                .to_string()
        });
        for (property, value) in [
            ("status", field(line, "status")),
            ("tld", Some(surt[0].to_owned())),
            ("host", Some(surt.join(","))),
            ("domain", Some(surt.join(","))),
            ("protocol", Some("https".to_owned())),
            ("uri-length", Some(url.len().to_string())),
            ("lastmod-year", year),
            (
                "mime",
                Some(format!(
                    "{mime} {}",
                    if mime == detected { "ditto" } else { &detected }
                )),
            ),
            (
                "language",
                field(line, "languages").map(|l| l.split(',').next().unwrap().to_owned()),
            ),
        ] {
            if let Some(value) = value {
                *expected
                    .entry((property.to_owned(), value, segment.clone()))
                    .or_default() += 1;
            }
        }
    }
    let mut reader =
        table::TableReader::open(&Source::new(path.with_extension("segments"))).unwrap();
    let names: Vec<String> = reader
        .header
        .segments
        .iter()
        .map(|s| s.name.clone())
        .collect();
    let mut found = BTreeMap::new();
    let mut row = table::Row::default();
    while let Some(property) = reader.next_property().unwrap() {
        while reader.next_row(&mut row).unwrap() {
            for (segment, count) in &row.cells {
                let value = String::from_utf8(row.value.clone()).unwrap();
                found.insert((property.clone(), value, names[*segment].clone()), *count);
            }
        }
    }
    assert_eq!(found, expected);
    let captures = reader.header.captures();
    let of = |subset: &str| {
        text.lines()
            .filter(|line| line.contains(&format!("/{subset}/")))
            .count() as u64
    };
    for subset in Subset::ALL {
        assert_eq!(captures[subset as usize], of(subset.name()));
    }
}

#[test]
fn captures_without_a_segment_are_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdxj");
    fs::write(&path, "com,a)/ 2004 {\"url\": \"http://a.com/\", \"filename\": \"a.warc.gz\"}\ncom,b)/ 2004 {\"url\": \"http://b.com/\", \"status\": \"200\", \"filename\": \"segments/1/x\"}\n").unwrap();
    let out = folder.path().join("t");
    let result = tabulate(&[Source::new(&path)], Options::default(), &out).unwrap();
    assert_eq!((result.header.without, result.counted), (1, 1));
    assert_eq!(result.header.segments[0].captures, [1, 0, 0]);
}

/// The smallest memory: counts spill, and the table has the same bytes.
#[test]
fn a_table_does_not_depend_on_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let crawl = Crawl {
        captures: 20_000,
        segments: 20,
        ..Crawl::default()
    };
    let path = write(folder.path(), "crawl.cdxj", &crawl);
    let options = |memory| Options {
        properties: vec![Property::Host, Property::Length, Property::parse("digest")],
        resources: Resources {
            memory,
            ..Resources::default()
        },
        ..Options::default()
    };
    let large = tabulated(&path, options(1 << 30));
    assert_eq!(tabulated(&path, options(1 << 16)), large);
    assert!(large.lines().count() > 15_000);
}

#[test]
fn the_overlap_of_two_crawls_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let line = |n: u32, digest: u32| {
        format!(
            "com,a)/{n} 20200101000000 {{\"url\": \"http://a.com/{n}\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"sha1:D{digest}\", \"filename\": \"x\"}}\n"
        )
    };
    let write = |name: &str, lines: Vec<String>| {
        let path = folder.path().join(name);
        fs::write(&path, lines.concat()).unwrap();
        vec![Source::new(path)]
    };
    // Each URI twice; digests shared by every three.
    let first = write("a", (0..300).map(|n| line(n / 2, n / 3)).collect());
    let second = write("b", (200..600).map(|n| line(n / 2, n / 3)).collect());
    let resources = Resources {
        memory: 1 << 16,
        ..Resources::default()
    };
    let found = overlap::overlap(
        [&first, &second],
        Some(Subset::Warc),
        &resources,
        &Progress::default(),
    )
    .unwrap();
    assert_eq!(
        (found.uris.first, found.uris.second, found.uris.both),
        (150, 200, 50)
    );
    assert_eq!(
        (
            found.digests.first,
            found.digests.second,
            found.digests.both
        ),
        (100, 134, 34)
    );
    assert!((found.uris.similarity() - 50.0 / 300.0).abs() < 1e-12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// An index cut anywhere into tables that are merged, and into ranges whose partials are merged in
    /// any grouping, gives the table of the whole.
    #[test]
    fn tables_and_partials_of_pieces_merge_to_those_of_the_whole(
        seed in any::<u64>(),
        cuts in prop::collection::vec(0usize..400, 1..4),
        size in 2000u64..60_000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let crawl = Crawl { captures: 400, segments: 9, seed, ..Crawl::default() };
        let path = write(folder.path(), "whole.cdxj", &crawl);
        let whole = tabulated(&path, Options::default());
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut cuts = cuts;
        cuts.extend([0, lines.len()]);
        cuts.sort_unstable();
        let mut tables = Vec::new();
        for (number, pair) in cuts.windows(2).enumerate() {
            let piece = folder.path().join(format!("piece{number}.cdxj"));
            fs::write(&piece, lines[pair[0]..pair[1]].concat()).unwrap();
            tabulated(&piece, Options::default());
            tables.push(Source::new(piece.with_extension("segments")));
        }
        let merged = folder.path().join("merged.segments");
        table::merge(&tables, &merged, 1).unwrap();
        prop_assert_eq!(&fs::read_to_string(&merged).unwrap(), &whole);

        let job = Tabulating::new(Property::USUAL.to_vec(), Some(Subset::Warc), &Resources::default());
        let ranges = Ranges::new(&job, Default::default());
        let mut total = None;
        for range in scan::ranges(&path, size).unwrap() {
            let piece = ranges.from_bytes(&ranges.to_bytes(&ranges.read(&range).unwrap()).unwrap()).unwrap();
            total = Some(match total {
                None => piece,
                Some(earlier) => ranges.merge(earlier, piece).unwrap(),
            });
        }
        let (partial, _) = ranges.finish(total.unwrap()).unwrap();
        let mut counted = job.finish(partial).unwrap();
        let (mut direct, _) = tabulate::count(&[Source::new(&path)], Options::default()).unwrap();
        prop_assert_eq!(&counted.header, &direct.header);
        let options = counts::Options::default();
        let same = counts::of_counted(&mut counted, options, "").unwrap();
        // NaN is not equal to itself.
        prop_assert_eq!(format!("{same:?}"), format!("{:?}", counts::of_counted(&mut direct, options, "").unwrap()));
    }

    #[test]
    fn a_damaged_table_is_an_error_and_never_a_panic(at in 0usize..4000, byte in any::<u8>()) {
        let folder = tempfile::tempdir().unwrap();
        let crawl = Crawl { captures: 60, segments: 3, ..Crawl::default() };
        let path = write(folder.path(), "whole.cdxj", &crawl);
        let mut bytes = tabulated(&path, Options::default()).into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let damaged = folder.path().join("damaged");
        fs::write(&damaged, bytes).unwrap();
        let source = Source::new(&damaged);
        let _ = counts::read(&source, &[], counts::Options::default());
        let _ = table::merge(&[source], &folder.path().join("out"), 1);
    }
}
