use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::rejects::Bad;
use crate::scan::tests::members;
use waypost_surt::Dialect;

fn check_texts(texts: &[&[u8]], options: Options<'_>) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let sources: Vec<Source> = texts
        .iter()
        .enumerate()
        .map(|(n, text)| {
            let path = folder.path().join(format!("{n}.cdx"));
            fs::write(&path, text).unwrap();
            Source::new(path)
        })
        .collect();
    check(&sources, options).unwrap()
}

fn check_text(text: &str) -> Report {
    check_texts(&[text.as_bytes()], Options::default())
}

const SORTED: &str = " CDX N b a m s k r M S V g
com,a)/ 20040101000000 http://a.com/ text/html 200 X - - 5 6 a.warc.gz
com,a)/ 20050101000000 http://www.a.com/ warc/revisit - X - - 5 7 a.warc.gz
com,a)/b 20030101000000 http://a.com/b text/html 200 Y - - 5 8 a.warc.gz
dns:a.com 20030101000000 dns:a.com text/dns - Z - - 5 9 a.warc.gz
";

#[test]
fn a_clean_index_is_clean() {
    let report = check_text(SORTED);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.layouts(), ["CDX 11 (N b a m s k r M S V g)"]);
    assert_eq!(report.outcome.tally.lines, 5);
    assert_eq!(report.outcome.tally.captures, 3);
    assert_eq!(report.outcome.tally.revisits, 1);
    assert_eq!(report.outcome.tally.non_web.iter().sum::<u64>(), 1);
    assert_eq!(report.uri_rs, 2);
    assert_eq!(report.first.unwrap().to_string(), "2003-01-01 00:00:00");
    assert_eq!(report.last.unwrap().to_string(), "2005-01-01 00:00:00");
}

#[test]
fn the_first_line_out_of_order_is_named() {
    let mut lines: Vec<&str> = SORTED.lines().collect();
    lines.swap(1, 3);
    let text = lines.join("\n") + "\n";
    for block in [None, Some(1), Some(100)] {
        let options = Options {
            block,
            ..Options::default()
        };
        let report = check_texts(&[text.as_bytes()], options);
        let violation = report.violation.as_ref().unwrap();
        assert_eq!(violation.at.line, 2);
        assert!(violation.before.starts_with(b"com,a)/b "));
        assert!(violation.here.starts_with(b"com,a)/ 2005"));
        assert_eq!(report.uri_rs, 2);
        assert!(!report.is_clean());
    }
}

#[test]
fn a_header_between_lines_is_out_of_order_and_one_for_each_file_is_not() {
    let report = check_texts(
        &[SORTED.as_bytes(), SORTED.replace("com,", "cop,").as_bytes()],
        Options::default(),
    );
    assert!(report.is_sorted(), "{:?}", report.violation);
    assert!(!report.files_in_order, "dns: stands before cop");
    for block in [None, Some(1), Some(30)] {
        let options = Options {
            block,
            ..Options::default()
        };
        let twice = [SORTED, SORTED].concat();
        let report = check_texts(&[twice.as_bytes()], options);
        assert_eq!(report.violation.unwrap().at.line, 5, "{block:?}");
    }
}

#[test]
fn equal_lines_are_counted_wherever_they_stand() {
    let lines: Vec<&str> = SORTED.lines().skip(1).collect();
    let adjacent = [lines[0], lines[0], lines[1], lines[1], lines[1]].join("\n");
    assert_eq!(check_text(&adjacent).duplicates, 3);
    let apart = [lines[1], lines[0], lines[1], lines[0], lines[2]].join("\n");
    let report = check_text(&apart);
    assert_eq!((report.duplicates, report.uri_rs), (2, 2));
}

#[test]
fn keys_that_are_no_surts_are_counted_by_their_surt() {
    let text = "example.com/a 2004 http://www.example.com/a text/html 200 X - - 5 6 a.warc.gz
example.com/a 2005 http://example.com/a/ text/html 200 X - - 5 6 a.warc.gz
www.example.com/a 2004 http://www.example.com/a text/html 200 X - - 5 6 a.warc.gz
";
    let report = check_text(text);
    assert_eq!(report.uri_rs, 1);
    assert_eq!(report.outcome.tally.captures, 3);
    assert!(
        report.layouts()[0].ends_with("keys not reversed"),
        "{:?}",
        report.layouts()
    );
}

#[test]
fn keys_are_compared_with_every_dialect() {
    let text = "com,example)/ 2004 {\"url\": \"http://www.www.example.com/\"}
com,example)/a 2004 {\"url\": \"http://example.com/a\"}
com,example,wrong)/a 2004 {\"url\": \"http://example.com/a\"}
com,port)/ 2004 {\"url\": \"http://port.com:99999999/\"}
";
    let options = Options {
        keys: true,
        ..Options::default()
    };
    let keys = check_texts(&[text.as_bytes()], options).keys.unwrap();
    assert_eq!(keys.compared, 4);
    assert_eq!(keys.refused[0], 1);
    assert_eq!(keys.differ(Dialect::Ia), 2);
    assert_eq!(keys.examples(Dialect::Ia)[0].1, "com,example,www)/");
    assert!(!keys.is_clean());
}

#[test]
fn damage_and_bad_lines_are_not_clean() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(SORTED.as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap();
    let report = check_texts(&[&bytes[..bytes.len() - 4]], Options::default());
    assert_eq!(report.outcome.damage.len(), 1);
    assert!(!report.is_clean());
    let report = check_text("com,a)/ 2004 {\"url\"=\"http://a.com/\"}\n");
    assert_eq!(report.outcome.rejects.count(Bad::Json), 1);
    assert!(!report.is_clean());
}

#[test]
fn memory_that_runs_out_before_the_violation_is_made_up_for_by_a_second_pass() {
    // More lines than fit the smallest memory, in order but for the last.
    let mut text: String = (0..5000)
        .map(|n| format!("com,a)/{n:06} 2004 {{\"url\": \"http://a.com/{n:06}\"}}\n"))
        .collect();
    text.push_str("com,a)/000007 2004 {\"url\": \"http://a.com/000007\"}\n");
    text.push_str("com,a)/000007 2005 {\"url\": \"http://a.com/000007\"}\n");
    for (memory, block) in [(0, None), (0, Some(1000)), (1 << 30, None)] {
        let options = Options {
            resources: Resources::default().with_memory(memory),
            block,
            ..Options::default()
        };
        let report = check_texts(&[text.as_bytes()], options);
        assert_eq!((report.uri_rs, report.duplicates), (5000, 1), "{memory}");
        assert_eq!(report.violation.unwrap().at.line, 5000);
    }
}

#[test]
fn only_files_that_look_sorted_are_checked_without_hashes() {
    let job = Checking::of_sorted(false, &Resources::default());
    let folder = tempfile::tempdir().unwrap();
    let look = |texts: &[&str]| {
        let write = |(number, text): (usize, &&str)| {
            let path = folder.path().join(format!("{number}.cdx"));
            fs::write(&path, text).unwrap();
            Source::new(path)
        };
        let sources: Vec<Source> = texts.iter().enumerate().map(write).collect();
        look_sorted(&sources, &job, &Select::default(), None)
    };
    let later = SORTED.replace("com,", "edu,").replace("dns:a", "edu,z)/");
    assert!(look(&[""]));
    assert!(look(&[SORTED]));
    assert!(look(&[SORTED, &later]));
    assert!(!look(&[&later, SORTED]));
    let mut lines: Vec<&str> = SORTED.lines().collect();
    lines.swap(1, 3);
    assert!(!look(&[SORTED, &(lines.join("\n") + "\n")]));
    let (mut part, _) = scan::scan(
        &[Source::new(folder.path().join("0.cdx"))],
        &job,
        scan::Options::default(),
    )
    .unwrap();
    // Another file than the one that was read at first.
    assert!(part.add_hashes(job.empty()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn counts_are_those_of_sets_and_depend_on_nothing_else(
        keys in proptest::collection::vec((0u8..30, 0u8..3), 0..200),
        sorted in any::<bool>(),
        cut in 0usize..200,
        block in 1usize..2000,
    ) {
        let mut lines: Vec<String> = keys.iter()
            .map(|(key, year)| format!("com,a)/{key} 200{year} {{\"url\": \"http://a.com/{key}\"}}"))
            .collect();
        if sorted { lines.sort(); }
        let cut = cut.min(lines.len());
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (one, two) = (text(&lines[..cut]), text(&lines[cut..]));
        let uri_rs: BTreeSet<u8> = keys.iter().map(|(key, _)| *key).collect();
        let distinct: BTreeSet<&String> = lines.iter().collect();
        for (memory, block) in [(0, Some(block)), (1 << 30, None)] {
            let options = Options { resources: Resources::default().with_memory(memory), block, ..Options::default() };
            let report = check_texts(&[one.as_bytes(), two.as_bytes()], options);
            prop_assert_eq!(report.uri_rs, uri_rs.len() as u64);
            prop_assert_eq!(report.duplicates, (lines.len() - distinct.len()) as u64);
            let expected = lines[..cut].is_sorted() && lines[cut..].is_sorted();
            prop_assert_eq!(report.is_sorted(), expected);
        }
    }
}

fn summary(report: &Report) -> String {
    let Report {
        uri_rs,
        duplicates,
        violation,
        files_in_order,
        first,
        last,
        keys,
        outcome,
    } = report;
    let tally = &outcome.tally;
    format!(
        "{uri_rs} {duplicates} {violation:?} {files_in_order} {first:?} {last:?} {keys:?} {tally:?}"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// In a block, lines and keys are compared with those before them; blocks of one byte have only one
    /// line, so that whole partials are compared instead.
    #[test]
    fn lines_of_one_block_are_compared_like_blocks_of_one_line(
        lines in prop::collection::vec(
            prop_oneof![
                9 => (
                    prop::sample::select(&[
                        "com,a)", "com,a)/", "com,a)/b", "com,a)/b/c?d=1&e=a-long-value-so-that-the-key-has-more-than-64-bytes",
                        "com,a)/b/c?d=1&e=a-long-value-so-that-the-key-has-more-than-64-bytes,2", "com,ab)/", "com,a,)/b",
                        "com,a):80/b", "com,a:80)/b", "a.com/b", "dns:a.com", "(com,a,)/", "com,a(b)/",
                    ][..]),
                    prop::sample::select(&["20040131000000", "20040229235959", "2004", "20041301000000", "20041232240000"][..]),
                    prop::sample::select(&["{\"url\": \"http://a.com/b\"}", "{\"url\": \"dns:a.com\"}", "{\"url\":\"http://a.com/\"}", "{\"url\": \"http://a.com/", "{\"m\": \"warc/revisit\"}"][..]),
                ).prop_map(|(key, time, json)| format!("{key} {time} {json}")),
                1 => prop::sample::select(&[" CDX N b a", "!meta {\"a\": \"b\"}", "nonsense", "", "com,a)/b 2004"][..])
                    .prop_map(str::to_owned),
            ],
            0..60,
        ),
        sorted: bool,
        keys: bool,
    ) {
        let mut lines = lines;
        if sorted {
            lines.sort();
        }
        let text = lines.join("\n") + "\n";
        let reports = [Some(1), Some(200), None].map(|block| {
            summary(&check_texts(&[text.as_bytes()], Options { block, keys, ..Options::default() }))
        });
        prop_assert_eq!(&reports[0], &reports[2]);
        prop_assert_eq!(&reports[1], &reports[2]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_ranges_in_any_grouping_give_the_same_report(
        files in prop::collection::vec(prop::collection::vec((0..30u8, 0..3u8), 0..60), 1..4),
        sorted: bool,
        headed: bool,
        zipped: bool,
        memory in prop_oneof![Just(0usize), Just(1 << 20)],
        random: u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, captures) in files.iter().enumerate() {
            let mut lines: Vec<String> = captures
                .iter()
                .map(|(path, year)| format!("com,a)/{path} 200{year} {{\"url\": \"http://a.com/{path}\"}}"))
                .collect();
            if sorted {
                lines.sort();
            }
            if headed {
                lines.insert(0, " CDX N b a m s k r M S V g".to_owned());
            }
            let text = lines.join("\n") + "\n";
            let path = folder.path().join(format!("{number}.cdxj"));
            let bytes = if zipped { members(text.as_bytes(), &[70, 300, 11]) } else { text.into_bytes() };
            fs::write(&path, bytes).unwrap();
            paths.push(path);
        }
        let sources: Vec<Source> = paths.iter().cloned().map(Source::new).collect();
        let resources = Resources {
            memory,
            temporary: folder.path().to_owned(),
            ..Resources::default()
        };
        let options = Options { resources: resources.clone(), keys: true, ..Options::default() };
        let whole = check(&sources, options).unwrap();
        let job = Checking::new(true, &resources);
        let scan = scan::Ranges::new(&job, Select::default());
        let paths: Vec<&std::path::Path> = paths.iter().map(|path| &**path).collect();
        let (part, outcome) = scan.read_at_random(&paths, random).unwrap();
        let found = job.report(part, outcome).unwrap();
        prop_assert_eq!(summary(&found), summary(&whole));
    }
}
