//! What the Last-Modified times of a generated index show.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;

use waypost_insight::calendar::Date;
use waypost_insight::generate::{Crawl, timestamp};
use waypost_insight::lastmod::report::{self, Report};
use waypost_insight::lastmod::uri::UriStats;
use waypost_insight::lastmod::{anomalies, date};
use waypost_io::Source;

/// A row with a URL in some domain.
fn row(domain: &str, url: &str, captured: i64, lastmod: i64) -> String {
    format!(
        "{domain})/{url} {} {{\"url\": \"http://x/{url}\", \"status\": \"200\", \"lastmod\": \"{lastmod}\", \"filename\": \"crawl-data/C/segments/{}/warc/x\"}}\n",
        timestamp(captured),
        url.len() % 3
    )
}

fn write(folder: &tempfile::TempDir, mut rows: Vec<String>) -> PathBuf {
    rows.sort();
    let path = folder.path().join("a.cdxj");
    fs::write(&path, rows.concat()).unwrap();
    path
}

const CAPTURED: i64 = 1_566_390_896;
const ODD: i64 = 1_114_316_977;

/// Ten pages a day for each of ten years, in 50 domains; 400 pages of one second of 2005, in 40; and a
/// day in 2007 with 200 pages at different seconds.
fn rows() -> Vec<String> {
    let start = Date {
        year: 2001,
        month: 1,
        day: 1,
    }
    .day_number();
    let mut rows = Vec::new();
    for day in 0..3650i64 {
        for page in 0..2i64 {
            let n = day * 2 + page;
            rows.push(row(
                &format!("com,site{:02}", n % 50),
                &format!("p{n}"),
                CAPTURED + n % 1000,
                (start + day) * 86_400 + n * 37 % 86_400,
            ));
        }
    }
    for n in 0..400 {
        rows.push(row(
            &format!("ru,odd{:02}", n / 10),
            &format!("o{n}"),
            CAPTURED,
            ODD,
        ));
    }
    let day = Date {
        year: 2007,
        month: 6,
        day: 5,
    }
    .day_number();
    for n in 0..200 {
        rows.push(row(
            "net,day",
            &format!("d{n}"),
            CAPTURED,
            day * 86_400 + n * 400,
        ));
    }
    // Made for the request, some in local time.
    for n in 0..3000 {
        let offset = [0, 0, 0, -1, 3600, -14_400][n as usize % 6];
        rows.push(row(
            "org,fresh",
            &format!("f{n}"),
            CAPTURED + n,
            CAPTURED + n + offset,
        ));
    }
    rows
}

#[test]
fn a_second_and_a_day_that_hold_too_much_are_found_with_their_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, rows());
    let found = anomalies(&[Source::new(&path)], &anomalies::Options::default()).unwrap();
    let [second, day] = &found.found[..] else {
        panic!("{:?}", found.found)
    };
    assert_eq!(
        (second.time, second.is_day, second.count, second.domains),
        (ODD, false, 400, Some(40))
    );
    assert_eq!(second.of_year, 400 + 730);
    assert!(second.ratio() >= 100.0 && (second.share() - 400.0 / 1130.0).abs() < 1e-9);
    assert!(day.is_day && day.count >= 200 && day.next == 2);
    assert_eq!(
        date::format(day.time, date::Form::Iso8601).unwrap(),
        "2007-06-05T00:00:00Z"
    );
    let ranges = &found.ranges[&2005];
    assert_eq!(ranges[0].0, ODD / 10_000 * 10_000);
    assert!(ranges[0].1 >= 400 && ranges[1].1 <= 2 && ranges.len() == 10);
    let clean: Vec<String> = rows()
        .into_iter()
        .filter(|row| !row.contains("odd") && !row.contains("net,day"))
        .collect();
    let path = write(&folder, clean);
    let found = anomalies(&[Source::new(&path)], &anomalies::Options::default()).unwrap();
    assert!(found.found.is_empty(), "{:?}", found.found);
}

fn report_of(path: &PathBuf, options: &report::Options) -> Report {
    waypost_insight::lastmod::report(&[Source::new(path)], options).unwrap()
}

#[test]
fn times_are_counted_by_year_month_day_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, rows());
    let all = report_of(&path, &report::Options::default());
    assert_eq!(all.captures, 7300 + 400 + 200 + 3000);
    assert_eq!(all.with_lastmod, all.captures);
    assert_eq!(all.by_year()[&2002], 730);
    assert_eq!(all.by_year()[&2005], 730 + 400);
    assert_eq!(all.by_month(2005)[&4], 60 + 400);
    assert_eq!(all.by_day(2005, 4)[&24], 2 + 400);
    assert_eq!(all.outstanding_year(), Some(2005));
    let zoom = all.zoom(2005);
    assert_eq!((zoom.year, zoom.month, zoom.day), (2005, 4, 24));
    assert_eq!(
        zoom.years.iter().map(|year| year.0).collect::<Vec<_>>(),
        [2003, 2004, 2005, 2006, 2007]
    );
    assert_eq!(zoom.days[2], (24, 402));
    assert_eq!(
        all.top_offsets(4),
        [(0, 1500), (-1, 500), (3600, 500), (-14_400, 500)]
    );
    let peaks: Vec<i64> = all.hour_peaks(5.0).into_iter().map(|peak| peak.0).collect();
    assert_eq!(peaks, [-14_400, 3600]);
    assert_eq!((all.within(0), all.within(3)), (1500, 2000));
    assert_eq!(all.classes[1].count, 1500);
    assert_eq!(all.classes[0].count, 500);
    assert_eq!(
        all.classes.iter().map(|class| class.count).sum::<u64>(),
        all.captures
    );

    let options = report::Options {
        exclude: HashSet::from([ODD]),
        ..report::Options::default()
    };
    let corrected = report_of(&path, &options);
    assert_eq!((corrected.excluded, corrected.by_year()[&2005]), (400, 730));
    let options = report::Options {
        segments: Some(HashSet::from(["1".to_owned()])),
        ..report::Options::default()
    };
    let some = report_of(&path, &options);
    let expected = rows()
        .iter()
        .filter(|row| row.contains("/segments/1/"))
        .count() as u64;
    assert_eq!(some.captures, expected);
}

/// §6.2 of the paper: domains with many captures and long queries distort the mean of a year.
#[test]
fn domains_with_many_long_queries_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let time = Date {
        year: 2006,
        month: 3,
        day: 3,
    }
    .day_number()
        * 86_400;
    let mut rows: Vec<String> = (0..500)
        .map(|n| {
            row(
                &format!("com,site{n:03}"),
                &format!("p{n}?q=1"),
                CAPTURED,
                time + n,
            )
        })
        .collect();
    let long = "x".repeat(300);
    rows.extend((0..150).map(|n| {
        row(
            &format!("com,long,sub{n}"),
            &format!("p?{long}{n}"),
            CAPTURED,
            time,
        )
    }));
    // Too few, and too short.
    rows.extend((0..90).map(|n| row("com,few", &format!("p?{long}{n}"), CAPTURED, time)));
    rows.extend((0..150).map(|n| row("com,short", &format!("p?q={n}"), CAPTURED, time)));
    let path = write(&folder, rows);
    let found = report_of(&path, &report::Options::default());
    let [outlier] = &found.outliers[..] else {
        panic!("{:?}", found.outliers)
    };
    assert_eq!(
        (&*outlier.domain, outlier.year, outlier.stats.count),
        ("com,long", 2006, 150)
    );
    let mean = |stats: &UriStats| stats.query as f64 / stats.count as f64;
    assert_eq!(
        found.without_outliers[&2006].count,
        found.years[&2006].count - 150
    );
    assert!(mean(&found.years[&2006]) > 80.0 && mean(&found.without_outliers[&2006]) < 40.0);
}

/// The same results from an index in one file, in many, and in blocks of another size.
#[test]
fn a_report_does_not_depend_on_how_the_index_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let crawl = Crawl {
        captures: 6000,
        segments: 4,
        ..Crawl::default()
    };
    let mut text = Vec::new();
    crawl.write_index(true, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let whole = folder.path().join("whole.cdxj");
    fs::write(&whole, &text).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let parts: Vec<Source> = lines
        .chunks(777)
        .enumerate()
        .map(|(n, lines)| {
            let path = folder.path().join(format!("part{n}.cdxj"));
            fs::write(&path, lines.concat()).unwrap();
            Source::new(path)
        })
        .collect();
    let options = report::Options {
        outlier_captures: 0,
        outlier_query: 5,
        ..report::Options::default()
    };
    let one = report_of(&whole, &options);
    let many = waypost_insight::lastmod::report(&parts, &options).unwrap();
    assert_eq!(
        (&one.days, &one.years, &one.classes),
        (&many.days, &many.years, &many.classes)
    );
    assert_eq!(
        (&one.without_outliers, &one.outliers),
        (&many.without_outliers, &many.outliers)
    );
    assert!(!one.outliers.is_empty());
    assert_eq!(
        one.offsets.iter().collect::<BTreeMap<_, _>>(),
        many.offsets.iter().collect::<BTreeMap<_, _>>()
    );
    let options = anomalies::Options {
        share: 0.0,
        ratio: 0.0,
        least: 1,
        ..anomalies::Options::default()
    };
    let one = anomalies(&[Source::new(&whole)], &options).unwrap();
    let many = anomalies(&parts, &options).unwrap();
    assert_eq!((one.found, one.ranges), (many.found, many.ranges));
}
