//! The pages of `waypost lastmod report --html` and `waypost lastmod anomalies --html`.

use std::collections::BTreeSet;

use waypost_insight::lastmod::anomalies::Anomalies;
use waypost_insight::lastmod::uri::UriStats;
use waypost_report::{Axis, BarSeries, Bars, LineSeries, Lines, Page, Table, count};

use super::report::CrawlReport;

/// The page: plots of the paper's figures 7 to 13, and all tables.
pub(super) fn report_page(
    crawls: &[CrawlReport],
    tables: &[(String, Table)],
    (year, month): (i32, u8),
) -> Page {
    let mut page = Page::new("What Last-Modified shows");
    let names: Vec<&str> = crawls.iter().map(|crawl| crawl.name.as_str()).collect();
    page.subtitle(&names.join(", "));
    for crawl in crawls {
        let report = &crawl.report;
        page.lead(&format!(
            "{}: {} of {} captures have a Last-Modified time; {:.0}% of these are the second of the capture, {:.0}% are within three seconds of it.",
            crawl.name,
            count(report.with_lastmod),
            count(report.captures),
            100.0 * report.within(0) as f64 / report.with_lastmod as f64,
            100.0 * report.within(3) as f64 / report.with_lastmod as f64
        ));
    }
    page.section("When pages were modified");
    let by_year = |crawl: &CrawlReport| {
        let years = crawl.report.by_year().into_iter();
        years
            .map(|(year, count)| (f64::from(year), count as f64))
            .collect()
    };
    page.figure(
        &over_time("Captures by year of Last-Modified", "year", crawls, by_year),
        "",
    );
    let by_month = |crawl: &CrawlReport| {
        let months = crawl.report.by_month(year).into_iter();
        months
            .map(|(month, count)| (f64::from(month), count as f64))
            .collect()
    };
    page.figure(
        &over_time(
            &format!("Captures by month of {year}"),
            "month",
            crawls,
            by_month,
        ),
        "",
    );
    let by_day = |crawl: &CrawlReport| {
        let days = crawl.report.by_day(year, month).into_iter();
        days.map(|(day, count)| (f64::from(day), count as f64))
            .collect()
    };
    page.figure(
        &over_time(
            &format!("Captures by day of {year}-{month:02}"),
            "day",
            crawls,
            by_day,
        ),
        "",
    );
    page.section("Lengths of URIs");
    for crawl in crawls {
        page.figure(
            &lengths(crawl, false),
            "Mean lengths in bytes, over all captures of a year.",
        );
        page.figure(&lengths(crawl, true), "The two parts that vary.");
    }
    page.section("From Last-Modified to the capture");
    for crawl in crawls {
        let top = crawl.report.top_offsets(20);
        let svg = Bars {
            title: format!("Most frequent offsets, {}", crawl.name),
            x: "seconds from the capture to Last-Modified".into(),
            y: Axis::log("captures"),
            categories: top
                .iter()
                .map(|(offset, _)| format!("{offset:+}"))
                .collect(),
            series: vec![BarSeries {
                name: "captures".into(),
                values: top.iter().map(|(_, count)| *count as f64).collect(),
            }],
        };
        page.figure(&svg.svg(), "Whole hours are local times without a zone.");
    }
    page.section("Tables");
    for (title, table) in tables {
        page.table(title, table);
    }
    page
}

/// The most plots of ranges on a page.
const MOST_PLOTS: usize = 10;

/// What stands out: plots of the paper's figure 14, for each year with the two around it, and the tables.
pub(super) fn anomalies_page(
    found: &Anomalies,
    years: &BTreeSet<i32>,
    tables: &[(&str, Table)],
) -> Page {
    let mut page = Page::new("Last-Modified times that stand out");
    page.subtitle(&format!(
        "{} captures with a Last-Modified time",
        count(found.captures)
    ));
    page.lead(&match found.found.first() {
        None => "No value and no day holds an implausible share of its surroundings.".to_owned(),
        Some(first) => format!(
            "{}. The first, {} {}, has {} captures, {:.0}% of its year and {:.1} times the next.",
            match found.found.len() {
                1 => "One value or day stands out".to_owned(),
                many => format!("{many} values and days stand out"),
            },
            if first.is_day {
                "the day"
            } else {
                "the second"
            },
            super::shown(first.time),
            count(first.count),
            100.0 * first.share(),
            first.ratio()
        ),
    });
    if found.found.is_empty() {
        return page;
    }
    page.section("Ranges of 10,000 seconds");
    page.text("The largest ranges of a year beside those of the same rank in the years around it. A range that lies far above the line of its rank holds times that are not those of pages.");
    let odd: BTreeSet<i32> = found.found.iter().map(|anomaly| anomaly.year()).collect();
    for &year in odd.iter().take(MOST_PLOTS) {
        let around = years.range(year - 1..=year + 1);
        let series = around
            .filter_map(|around| Some((around, found.ranges.get(around)?)))
            .map(|(around, ranges)| LineSeries {
                name: around.to_string(),
                points: ranges
                    .iter()
                    .enumerate()
                    .map(|(rank, (_, count))| (rank as f64 + 1.0, *count as f64))
                    .collect(),
                dashed: false,
            })
            .collect();
        let plot = Lines {
            title: format!("Captures in the largest ranges of {year} and of the years around it"),
            x: Axis::years("rank of the range"),
            y: Axis::log("captures"),
            series,
        };
        page.figure(&plot.svg(), "The scale of captures is logarithmic.");
    }
    page.section("Tables");
    for (title, table) in tables {
        page.table(title, table);
    }
    page
}

fn over_time(
    title: &str,
    x: &str,
    crawls: &[CrawlReport],
    points: impl Fn(&CrawlReport) -> Vec<(f64, f64)>,
) -> String {
    Lines {
        title: title.to_owned(),
        x: Axis::years(x),
        y: Axis::log("captures"),
        series: crawls
            .iter()
            .map(|crawl| LineSeries {
                name: crawl.name.clone(),
                points: points(crawl),
                dashed: false,
            })
            .collect(),
    }
    .svg()
}

fn lengths(crawl: &CrawlReport, only_varying: bool) -> String {
    type Part = (&'static str, bool, fn(&UriStats) -> u64);
    const PARTS: [Part; 5] = [
        ("whole URI", false, |stats| stats.total),
        ("scheme", false, |stats| stats.scheme),
        ("host", false, |stats| stats.host),
        ("path", true, |stats| stats.path),
        ("query", true, |stats| stats.query),
    ];
    let series = PARTS
        .iter()
        .filter(|(_, varies, _)| *varies || !only_varying)
        .map(|(name, _, part)| LineSeries {
            name: (*name).to_owned(),
            points: crawl
                .report
                .years
                .iter()
                .map(|(year, stats)| (f64::from(*year), part(stats) as f64 / stats.count as f64))
                .collect(),
            dashed: false,
        })
        .collect();
    let what = if only_varying {
        "Path and query"
    } else {
        "URI and its parts"
    };
    Lines {
        title: format!("{what} by year, {}", crawl.name),
        x: Axis::years("year"),
        y: Axis::linear("mean length"),
        series,
    }
    .svg()
}
