//! ZipNum and lookups: what is found is what a scan of all lines finds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use waypost_index::lookup::{
    BlockCache, Cursor, Direction, Filter, Form, Index, Lookup, Order, Query, Stats, Wanted,
};
use waypost_index::range::{Match, Range, ranges};
use waypost_index::timestamp::Time;
use waypost_index::zipnum::{self, Flavour, ZipNum, unzip};
use waypost_io::{Format, LineWriter, Progress};
use waypost_surt::Dialect;

fn write_flat(folder: &Path, lines: &[String]) -> PathBuf {
    let path = folder.join("flat.cdxj");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    path
}

fn write_zipnum(path: &Path, lines: &[String], options: zipnum::Options) -> zipnum::Options {
    let mut out = zipnum::create(path, &options, 2).unwrap();
    for line in lines {
        out.push(line.as_bytes()).unwrap();
    }
    let written = out.finish().unwrap();
    assert_eq!(written.lines, lines.len() as u64);
    options
}

fn find(path: &Path, queries: &[Query], wanted: &Wanted) -> (Vec<String>, Stats) {
    let index = Index::open(path).unwrap();
    let mut lookup = Lookup::new(&index, wanted.clone());
    let mut rows = Vec::new();
    let mut take = |row: &[u8]| {
        let row = row.strip_suffix(b"\n").unwrap();
        rows.push(String::from_utf8(row.to_vec()).unwrap());
        Ok(())
    };
    match queries {
        [query] => {
            lookup.one(query, &mut take).unwrap();
        }
        queries => lookup.batch(queries, &mut take).unwrap(),
    }
    let stats = lookup.stats().clone();
    (rows, stats)
}

fn one(range: Range) -> Query {
    Query {
        ranges: vec![range],
    }
}

fn host(name: &str) -> Query {
    let surt = format!("com,{name})/");
    Query {
        ranges: ranges(b"", surt.as_bytes(), Match::Host),
    }
}

/// Captures with few keys, so that ranges begin and end among equal ones, and odd keys among them.
fn captures() -> impl Strategy<Value = Vec<String>> {
    let capture = ("[ab]{0,2}[\u{1}\t!{%:]?[ab]?", 2000u32..2004).prop_map(|(key, year)| {
        format!(
            "com,{key})/ {year} {{\"url\": \"http://x/\", \"status\": \"{}\"}}",
            year % 3 + 200
        )
    });
    prop::collection::vec(capture, 0..60).prop_map(|mut lines| {
        lines.sort();
        lines
    })
}

fn bounds() -> impl Strategy<Value = Range> {
    let bound = "(com,)?[ab]{0,2}[\u{1}\t!{%:)]?[ab/]{0,2}( 200[0-4])?( \\{)?";
    (bound, bound).prop_map(|(a, b)| {
        let (a, b) = (a.into_bytes(), b.into_bytes());
        Range {
            start: a.clone().min(b.clone()),
            end: a.max(b),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_range_of_any_data_is_found_as_a_scan_finds_it(
        lines in captures(),
        asked in prop::collection::vec(bounds(), 1..5),
        block in 1u64..5,
        shards in 1u64..4,
        limit in prop::option::of(0u64..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let flat = write_flat(folder.path(), &lines);
        let cluster = folder.path().join("cluster");
        write_zipnum(&cluster, &lines, zipnum::Options { lines: block, shards, ..Default::default() });
        let wacz = folder.path().join("wacz");
        write_zipnum(&wacz, &lines, zipnum::Options { lines: block, flavour: Flavour::Wacz, ..Default::default() });
        let queries: Vec<Query> = asked.iter().cloned().map(one).collect();
        for path in [&flat, &cluster, &wacz] {
            for (range, query) in asked.iter().zip(&queries) {
                let expected: Vec<String> =
                    lines.iter().filter(|line| range.contains(line.as_bytes())).cloned().collect();
                let most = limit.map_or(expected.len(), |limit| (limit as usize).min(expected.len()));
                let wanted = Wanted { limit, ..Default::default() };
                prop_assert_eq!(&find(path, std::slice::from_ref(query), &wanted).0[..], &expected[..most]);
                let wanted = Wanted { limit, order: Order::Reverse, ..Default::default() };
                let reversed: Vec<String> = expected.iter().rev().take(most).cloned().collect();
                prop_assert_eq!(find(path, std::slice::from_ref(query), &wanted).0, reversed);
            }
            let expected: Vec<String> = lines
                .iter()
                .filter(|line| asked.iter().any(|range| range.contains(line.as_bytes())))
                .cloned()
                .collect();
            let missing: Vec<usize> = (0..asked.len())
                .filter(|&at| !lines.iter().any(|line| asked[at].contains(line.as_bytes())))
                .collect();
            if queries.len() > 1 {
                let (found, stats) = find(path, &queries, &Wanted::default());
                prop_assert_eq!(found, expected);
                prop_assert_eq!(stats.missing, missing);
            }
        }
    }

    #[test]
    fn unzip_gives_back_what_was_zipped(
        lines in prop::collection::vec("[a-c \t\r\u{0}]{0,6}", 0..50),
        block in 1u64..6,
        shards in 1u64..5,
    ) {
        let mut lines = lines;
        lines.sort();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zipnum");
        write_zipnum(&path, &lines, zipnum::Options { lines: block, shards, ..Default::default() });
        let zipnum = ZipNum::open(&path).unwrap();
        prop_assert_eq!(zipnum.blocks().unwrap(), (lines.len() as u64).div_ceil(block));
        let flat = folder.path().join("flat");
        let out = LineWriter::create(&flat, &Format::Plain, 1).unwrap();
        unzip(zipnum, 2, &Progress::default(), out).unwrap();
        let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
        prop_assert_eq!(String::from_utf8(fs::read(flat).unwrap()).unwrap(), expected);
    }
}

#[test]
fn a_cache_changes_how_much_is_inflated_and_never_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let lines = numbered(4000);
    let path = folder.path().join("zipnum");
    write_zipnum(
        &path,
        &lines,
        zipnum::Options {
            lines: 1500,
            ..Default::default()
        },
    );
    let cache = Arc::new(BlockCache::new(1 << 20));
    let index = Index::open(&path).unwrap().cached(&cache);
    let mut cursor = Cursor::new(&index);
    for times in 0..3 {
        for (from, to) in [
            (0, 1),
            (3, 9),
            (700, 703),
            (1499, 1501),
            (1400, 3100),
            (3999, 4000),
            (0, 4000),
        ] {
            let range = Range {
                start: lines[from].clone().into_bytes(),
                end: lines
                    .get(to)
                    .map_or(b"z".to_vec(), |line| line.clone().into_bytes()),
            };
            for direction in [Direction::Forward, Direction::Backward] {
                cursor.seek(range.clone(), direction).unwrap();
                let mut found = Vec::new();
                while cursor.advance().unwrap() {
                    found.push(String::from_utf8(cursor.line().to_vec()).unwrap());
                }
                if direction == Direction::Backward {
                    found.reverse();
                }
                assert_eq!(
                    found,
                    &lines[from..to],
                    "{from}..{to}, {direction:?}, {times}"
                );
            }
        }
    }
    assert!(cache.hits() > 0 && cache.bytes() > 0);
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_key() {
    let folder = tempfile::tempdir().unwrap();
    let lines = numbered(30);
    let path = write_flat(folder.path(), &lines);
    let text = [b"\xEF\xBB\xBF", &fs::read(&path).unwrap()[..]].concat();
    fs::write(&path, text).unwrap();
    let all = Range {
        start: b"com,site0000".to_vec(),
        end: b"d".to_vec(),
    };
    assert_eq!(find(&path, &[one(all)], &Wanted::default()).0, lines);
    assert!(
        Index::open(&path)
            .unwrap()
            .check_keys(Dialect::Ia)
            .unwrap()
            .fits()
    );
}

#[test]
fn blocks_split_a_range_into_parts_that_are_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let lines = numbered(9000);
    let flat = write_flat(folder.path(), &lines);
    let path = folder.path().join("zipnum");
    write_zipnum(
        &path,
        &lines,
        zipnum::Options {
            lines: 100,
            ..Default::default()
        },
    );
    let range = Range {
        start: b"com,site0100".to_vec(),
        end: b"com,site2000)".to_vec(),
    };
    let held: Vec<&String> = lines
        .iter()
        .filter(|line| range.contains(line.as_bytes()))
        .collect();
    for path in [flat, path] {
        let index = Index::open(&path).unwrap();
        let mut splits = Vec::new();
        let any: waypost_io::Result<bool> = index.each_split(&range, 1 << 12, |line| {
            splits.push(line.to_vec());
            Ok(())
        });
        assert!(any.unwrap());
        assert!(splits.is_sorted() && splits.len() > 20, "{}", splits.len());
        let mut edges = vec![range.start.clone()];
        edges.extend(splits);
        edges.push(range.end.clone());
        let mut cursor = Cursor::new(&index);
        let mut found = Vec::new();
        for pair in edges.windows(2) {
            let part = Range {
                start: pair[0].clone(),
                end: pair[1].clone(),
            };
            cursor.seek(part, Direction::Forward).unwrap();
            while cursor.advance().unwrap() {
                found.push(String::from_utf8(cursor.line().to_vec()).unwrap());
            }
        }
        assert!(found.iter().eq(held.iter().copied()));
        let nothing = Range {
            start: b"com,zzz".to_vec(),
            end: b"com,zzzz".to_vec(),
        };
        if index.zipnum().is_none() {
            let any: waypost_io::Result<bool> = index.each_split(&nothing, 4096, |_| Ok(()));
            assert!(!any.unwrap());
        }
    }
}

fn numbered(count: u32) -> Vec<String> {
    let line = |n| {
        format!(
            "com,site{:04})/ 2020{:010} {{\"status\": \"200\"}}",
            n / 3,
            n % 3
        )
    };
    (0..count).map(line).collect()
}

#[test]
fn one_lookup_inflates_one_block_and_a_batch_each_block_once() {
    let folder = tempfile::tempdir().unwrap();
    let lines = numbered(3000);
    let path = folder.path().join("z");
    write_zipnum(
        &path,
        &lines,
        zipnum::Options {
            lines: 100,
            shards: 3,
            ..Default::default()
        },
    );
    let query = |n: u32| {
        let surt = format!("com,site{n:04})/");
        Query {
            ranges: ranges(b"", surt.as_bytes(), Match::Exact),
        }
    };
    let (rows, stats) = find(&path, &[query(512)], &Wanted::default());
    assert_eq!((rows.len(), stats.blocks), (3, 1));
    // Every key, asked for backwards.
    let queries: Vec<Query> = (0..1000).rev().map(query).collect();
    let (rows, stats) = find(&path, &queries, &Wanted::default());
    assert_eq!(rows, lines);
    assert_eq!(stats.blocks, 30);
}

#[test]
fn shards_have_equally_many_blocks_and_rows_are_numbered_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("z");
    write_zipnum(
        &path,
        &numbered(950),
        zipnum::Options {
            lines: 100,
            shards: 3,
            ..Default::default()
        },
    );
    let idx = fs::read_to_string(path.join("cluster.idx")).unwrap();
    let rows: Vec<Vec<&str>> = idx.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0][0], "com,site0000)/ 20200000000000");
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row[4], (at + 1).to_string());
        let size = fs::metadata(path.join(row[1])).unwrap().len();
        let end: u64 = row[2].parse::<u64>().unwrap() + row[3].parse::<u64>().unwrap();
        assert!(end <= size);
    }
    let of = |part: &str| rows.iter().filter(|row| row[1] == part).count();
    assert_eq!(
        [of("cdx-00000.gz"), of("cdx-00001.gz"), of("cdx-00002.gz")],
        [3, 3, 4]
    );
    let mut files: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(
        files,
        [
            "cdx-00000.gz",
            "cdx-00001.gz",
            "cdx-00002.gz",
            "cluster.idx",
            "cluster.loc"
        ]
    );
}

#[test]
fn data_is_found_where_the_loc_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("z");
    write_zipnum(
        &path,
        &numbered(30),
        zipnum::Options {
            lines: 10,
            ..Default::default()
        },
    );
    fs::create_dir(path.join("far")).unwrap();
    fs::rename(path.join("cdx-00000.gz"), path.join("far/data.gz")).unwrap();
    fs::write(
        path.join("cluster.loc"),
        "cdx-00000.gz\tnowhere.gz\tfar/data.gz\n",
    )
    .unwrap();
    assert_eq!(
        find(&path, &[host("site0003")], &Wanted::default()).0.len(),
        3
    );
    fs::write(
        path.join("cluster.loc"),
        "cdx-00000.gz\ts3://bucket/data.gz\n",
    )
    .unwrap();
    let index = Index::open(&path);
    let message = index.and_then(|index| {
        Lookup::new(&index, Wanted::default()).one(&host("site0003"), |_| Ok(()))
    });
    assert!(message.unwrap_err().to_string().contains("s3://bucket"));
}

#[test]
fn blocks_that_are_cut_or_corrupt_are_errors_that_name_file_and_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("z");
    write_zipnum(
        &path,
        &numbered(300),
        zipnum::Options {
            lines: 100,
            ..Default::default()
        },
    );
    let data = path.join("cdx-00000.gz");
    let good = fs::read(&data).unwrap();
    let index = Index::open(&path).unwrap();
    let mut corrupt = good.clone();
    corrupt[good.len() - 30] ^= 0xff;
    for bad in [good[..good.len() - 10].to_vec(), corrupt] {
        fs::write(&data, bad).unwrap();
        let mut lookup = Lookup::new(&index, Wanted::default());
        let error = lookup.one(&host("site0090"), |_| Ok(())).unwrap_err();
        assert!(error.is_damage(), "{error}");
        let place = error.place();
        assert!(place.byte.is_some() && place.file.as_ref().unwrap().contains("cdx-00000.gz"));
    }
    // A row that points into the middle of a block, and an invalid row.
    fs::write(&data, &good).unwrap();
    for idx in [
        "com,a)/ 2020\tcdx-00000.gz\t7\t100\n",
        "com,a)/ 2020\tcdx-00000.gz\tx\t1\n",
        "garbage\n",
    ] {
        fs::write(path.join("cluster.idx"), idx).unwrap();
        let found = Index::open(&path)
            .and_then(|index| Lookup::new(&index, Wanted::default()).one(&host("a"), |_| Ok(())));
        assert!(found.is_err(), "{idx}");
    }
}

#[test]
fn an_unsorted_flat_file_is_refused_where_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = numbered(300);
    lines.swap(150, 151);
    let path = write_flat(folder.path(), &lines);
    let index = Index::open(&path).unwrap();
    let mut lookup = Lookup::new(&index, Wanted::default());
    let error = lookup.one(
        &one(Range {
            start: b"com".to_vec(),
            end: b"con".to_vec(),
        }),
        |_| Ok(()),
    );
    assert!(error.unwrap_err().to_string().contains("not sorted"));
}

#[test]
fn a_compressed_flat_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdxj.gz");
    let mut out = LineWriter::create(&path, &Format::of_name(&path), 1).unwrap();
    out.push(b"com,a)/ 2020 {}").unwrap();
    out.finish().unwrap();
    let error = Index::open(&path).err().unwrap().to_string();
    assert!(error.contains("gzip data cannot be searched"), "{error}");
}

const ROWS: &[&str] = &[
    r#"com,a)/ 20200101000000 {"url": "http://a.com/", "mime": "text/html", "status": "200", "digest": "D1", "length": "10", "offset": "5", "filename": "w1"}"#,
    r#"com,a)/ 20200601000000 {"url": "http://a.com/", "mime": "warc/revisit", "status": "-", "digest": "D1", "length": "3", "offset": "9", "filename": "w2"}"#,
    r#"com,a)/ 20210101000000 {"url": "http://a.com/", "mime": "text/html", "status": "404", "digest": "D2", "length": "4", "offset": "1", "filename": "w3"}"#,
    r#"com,a)/ 20220101000000 {"url": "http://a.com/", "mime": "text/html", "status": "200", "digest": "D3", "length": "4", "offset": "1", "filename": "w4"}"#,
    r#"com,a:8080)/ 20220101000000 {"url": "http://a.com:8080/", "mime": "image/png", "status": "200", "digest": "D4", "length": "4", "offset": "1", "filename": "w5"}"#,
];

fn in_rows(wanted: &Wanted) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = ROWS.iter().map(ToString::to_string).collect();
    let flat = write_flat(folder.path(), &lines);
    let zipped = folder.path().join("z");
    write_zipnum(
        &zipped,
        &lines,
        zipnum::Options {
            lines: 2,
            ..Default::default()
        },
    );
    let found = find(&flat, &[host("a")], wanted).0;
    assert_eq!(found, find(&zipped, &[host("a")], wanted).0);
    found
}

fn times(rows: &[String]) -> Vec<&str> {
    rows.iter()
        .map(|row| &row.split(' ').nth(1).unwrap()[..6])
        .collect()
}

#[test]
fn captures_are_chosen_by_time_and_filter() {
    let time = |digits: &str| Time::first_of(digits.as_bytes());
    let wanted = Wanted {
        from: time("202006"),
        to: Time::last_of(b"2021"),
        ..Default::default()
    };
    assert_eq!(times(&in_rows(&wanted)), ["202006", "202101"]);
    let filters = vec![
        Filter::parse("=status:200").unwrap(),
        Filter::parse("!mime:image").unwrap(),
    ];
    let wanted = Wanted {
        filters,
        ..Default::default()
    };
    assert_eq!(times(&in_rows(&wanted)), ["202001", "202201"]);
    let wanted = Wanted {
        order: Order::Closest(time("20200701").unwrap()),
        limit: Some(3),
        ..Default::default()
    };
    assert_eq!(times(&in_rows(&wanted)), ["202006", "202001", "202101"]);
}

#[test]
fn revisits_are_resolved_before_filters_see_them() {
    let filters = vec![Filter::parse("=status:200").unwrap()];
    let from = Time::first_of(b"202002");
    let wanted = Wanted {
        filters,
        from,
        to: Time::last_of(b"2020"),
        resolve: true,
        ..Default::default()
    };
    let expected = r#"com,a)/ 20200601000000 {"url": "http://a.com/", "mime": "text/html", "status": "200", "digest": "D1", "length": "3", "offset": "9", "filename": "w2", "orig.length": "10", "orig.offset": "5", "orig.filename": "w1"}"#;
    assert_eq!(in_rows(&wanted), [expected]);
    let wanted = Wanted {
        order: Order::Reverse,
        ..wanted
    };
    assert_eq!(in_rows(&wanted), [expected]);
    let wanted = Wanted {
        form: Form::Text,
        ..wanted
    };
    assert_eq!(
        in_rows(&wanted),
        ["com,a)/ 20200601000000 http://a.com/ text/html 200 D1 3 9 w2 10 5 w1"]
    );
}

#[test]
fn captures_are_written_as_cdxj_json_and_text_from_any_layout() {
    let folder = tempfile::tempdir().unwrap();
    let cdx = [
        " CDX N b a m s k r M S V g",
        "com,a)/ 20200101000000 http://a.com/?\"q\" text/html 200 D1 - - 10 5 w1",
    ];
    let path = write_flat(folder.path(), &cdx.map(str::to_owned));
    let row = |form| {
        find(
            &path,
            &[host("a")],
            &Wanted {
                form,
                ..Default::default()
            },
        )
        .0
        .join("|")
    };
    assert_eq!(
        row(Form::Cdxj),
        r#"com,a)/ 20200101000000 {"url": "http://a.com/?\"q\"", "mime": "text/html", "status": "200", "digest": "D1", "length": "10", "offset": "5", "filename": "w1"}"#
    );
    assert_eq!(
        row(Form::Json),
        r#"{"urlkey": "com,a)/", "timestamp": "20200101000000", "url": "http://a.com/?\"q\"", "mime": "text/html", "status": "200", "digest": "D1", "length": "10", "offset": "5", "filename": "w1"}"#
    );
    assert_eq!(
        row(Form::Text),
        r#"com,a)/ 20200101000000 http://a.com/?"q" text/html 200 D1 10 5 w1"#
    );
    let json = in_rows(&Wanted {
        form: Form::Json,
        limit: Some(1),
        ..Default::default()
    });
    assert_eq!(
        json,
        [format!(
            "{{\"urlkey\": \"com,a)/\", \"timestamp\": \"20200101000000\", {}",
            &ROWS[0][24..]
        )]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_line_is_written_the_same_whatever_layouts_stand_beside_it(
        captures in prop::collection::vec((0..4, 2000u32..2020, "[a-z]{1,3}"), 1..12),
        form in prop::sample::select(vec![Form::Cdxj, Form::Json, Form::Text]),
        order in prop::sample::select(vec![Order::Forward, Order::Reverse, Order::Closest(Time::first_of(b"2010").unwrap())]),
        zipped: bool,
    ) {
        let header = " CDX N b a m s k r M S V g";
        let lines = captures.iter().map(|(layout, year, name)| match layout {
            0 => format!("com,a)/ {year} http://a.com/ text/{name} 200 D{year} - - 10 5 w"),
            1 => format!("com,a)/ {year} http://a.com/ text/{name} 200 D{year} - 5 w"),
            2 => format!("com,a)/ {year} {{\"url\": \"http://a.com/\", \"mime\": \"text/{name}\"}}"),
            _ => format!("com,a)/ {year} {{\"original\": \"http://a.com/\", \"m\": \"text/{name}\", \"x\": [1]}}"),
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines.dedup();
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted { form, order, ..Default::default() };
        let query = [host("a")];
        let mut expected: Vec<String> = Vec::new();
        for line in &lines {
            let alone = write_flat(folder.path(), &[header.to_owned(), line.clone()]);
            expected.extend(find(&alone, &query, &wanted).0);
        }
        prop_assert_eq!(expected.len(), lines.len());
        prop_assert!(expected.iter().all(|row| row.contains("http://a.com/") && row.contains("text/")));
        let all: Vec<String> = [header.to_owned()].into_iter().chain(lines).collect();
        let path = if zipped {
            let path = folder.path().join("zipped");
            write_zipnum(&path, &all, zipnum::Options { lines: 2, ..Default::default() });
            path
        } else {
            write_flat(folder.path(), &all)
        };
        let mut found = find(&path, &query, &wanted).0;
        match order {
            Order::Forward => {}
            Order::Reverse => found.reverse(),
            Order::Closest(_) => {
                found.sort();
                expected.sort();
            }
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn keys_are_compared_with_urls_all_over_an_index() {
    let folder = tempfile::tempdir().unwrap();
    for (at, of) in [(0, 1), (0, 5000), (2500, 5000), (4999, 5000)] {
        let foreign = "com,example)/0%2f 2020 {\"url\": \"http://example.com/0%2F\"}";
        let mut lines: Vec<String> = (0..of)
            .map(|n| {
                if n == at {
                    foreign.replace("/0%2", &format!("/{n:05}%2"))
                } else {
                    format!("com,example)/{n:05} 2020 {{\"url\": \"http://example.com/{n:05}\"}}")
                }
            })
            .collect();
        lines.sort();
        let zipped = folder.path().join(format!("z{at}-{of}"));
        let options = zipnum::Options {
            lines: 1000,
            ..Default::default()
        };
        write_zipnum(&zipped, &lines, options);
        let check = Index::open(&zipped)
            .unwrap()
            .check_keys(Dialect::Ia)
            .unwrap();
        assert!(check.compared > 0);
        let flat = write_flat(folder.path(), &lines);
        let check = Index::open(&flat).unwrap().check_keys(Dialect::Ia).unwrap();
        assert!(check.compared >= (of as u64).min(1500), "{check:?}");
        // One line in five thousand may be missed; a mixture is not.
        let mixed: Vec<String> = lines
            .iter()
            .enumerate()
            .map(|(n, line)| match n % 50 {
                0 => line.replace(")/", ")/other-"),
                _ => line.clone(),
            })
            .collect();
        let flat = write_flat(folder.path(), &mixed);
        let check = Index::open(&flat).unwrap().check_keys(Dialect::Ia).unwrap();
        assert!(!check.fits(), "{at} of {of}");
        assert_eq!(check.other_dialect(), None);
    }
}

#[test]
fn empty_indexes_answer_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let flat = write_flat(folder.path(), &[]);
    let zipped = folder.path().join("z");
    write_zipnum(
        &zipped,
        &[],
        zipnum::Options {
            shards: 4,
            ..Default::default()
        },
    );
    for path in [&flat, &zipped] {
        assert!(find(path, &[host("a")], &Wanted::default()).0.is_empty());
    }
}
