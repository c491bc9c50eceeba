//! Queries: the rows of the server are those that a naive scan and filter finds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod serving;

use proptest::prelude::*;
use serde_json::Value;
use serving::{Running, encode, write_flat, write_zipnum};
use waypost_archive::{Api, Options, Query};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Capture {
    key: String,
    timestamp: String,
    url: String,
    mime: String,
    status: String,
    digest: String,
    number: usize,
}

impl Capture {
    fn cdxj(&self) -> String {
        let Capture {
            key,
            timestamp,
            url,
            mime,
            status,
            digest,
            number,
        } = self;
        format!(
            "{key} {timestamp} {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"status\": \"{status}\", \"digest\": \"{digest}\", \"length\": \"9\", \"offset\": \"{number}\", \"filename\": \"a.warc.gz\"}}"
        )
    }

    fn cdx(&self) -> String {
        let Capture {
            key,
            timestamp,
            url,
            mime,
            status,
            digest,
            number,
        } = self;
        format!("{key} {timestamp} {url} {mime} {status} {digest} - - 9 {number} a.warc.gz")
    }
}

const URLS: [(&str, &str); 8] = [
    ("com,a)/", "http://a.com/"),
    ("com,a)/x", "http://a.com/x"),
    ("com,a)/x/y", "http://a.com/x/y"),
    ("com,a)/x?q=1", "http://a.com/x?q=1"),
    ("com,a,sub)/", "http://sub.a.com/"),
    ("com,a:8080)/x", "http://a.com:8080/x"),
    ("com,ab)/", "http://ab.com/"),
    ("org,b)/", "http://b.org/"),
];

fn capture() -> impl Strategy<Value = Capture> {
    (
        0..URLS.len(),
        0..6u32,
        0..3usize,
        0..3usize,
        0..4usize,
        0..1000usize,
    )
        .prop_map(|(url, time, mime, status, digest, number)| Capture {
            key: URLS[url].0.to_owned(),
            url: URLS[url].1.to_owned(),
            timestamp: format!("20{}0{}03040506", 18 + time % 3, 1 + time),
            mime: ["text/html", "image/png", "warc/revisit"][mime].to_owned(),
            status: ["200", "404", "301"][status].to_owned(),
            digest: format!("D{digest}"),
            number,
        })
}

#[derive(Clone, Debug)]
struct Asked {
    url: usize,
    kind: usize,
    from: Option<u32>,
    to: Option<u32>,
    filter: usize,
    order: usize,
    collapse: usize,
    limit: Option<i64>,
    offset: u64,
    closest: u32,
}

fn asked() -> impl Strategy<Value = Asked> {
    let limits = prop::option::of(prop_oneof![0i64..6, -5i64..0]);
    let place = (
        0..URLS.len(),
        0..4usize,
        prop::option::of(17u32..22),
        prop::option::of(17u32..22),
    );
    let rest = (0..5usize, 0..3usize, 0..4usize, limits, 0u64..3, 17u32..22);
    (place, rest).prop_map(
        |((url, kind, from, to), (filter, order, collapse, limit, offset, closest))| Asked {
            url,
            kind,
            from,
            to,
            filter,
            order,
            collapse,
            limit,
            offset,
            closest,
        },
    )
}

const KINDS: [&str; 4] = ["exact", "prefix", "host", "domain"];
const FILTERS: [&str; 5] = ["", "=status:200", "!mime:html", "~url:.*x", "404"];
const COLLAPSE: [&str; 4] = ["", "digest", "timestamp:4", "urlkey"];

impl Asked {
    fn path(&self) -> String {
        let mut parameters = vec![
            ("url", URLS[self.url].1.to_owned()),
            ("matchType", KINDS[self.kind].to_owned()),
            ("output", "json".to_owned()),
        ];
        let mut add = |name, value: String| {
            if !value.is_empty() {
                parameters.push((name, value));
            }
        };
        add(
            "from",
            self.from.map_or(String::new(), |year| format!("20{year}")),
        );
        add(
            "to",
            self.to.map_or(String::new(), |year| format!("20{year}")),
        );
        add("filter", FILTERS[self.filter].to_owned());
        add("collapse", COLLAPSE[self.collapse].to_owned());
        match self.order {
            1 => add("sort", "reverse".to_owned()),
            2 => add("closest", format!("20{}0601", self.closest)),
            _ => {}
        }
        add(
            "limit",
            self.limit.map_or(String::new(), |limit| limit.to_string()),
        );
        add("offset", self.offset.to_string());
        format!("/test/cdx?{}", encode(&parameters))
    }

    fn matches(&self, key: &str) -> bool {
        let own = URLS[self.url].0;
        let host = |key: &str| key.split([')', ':']).next().unwrap().to_owned();
        match KINDS[self.kind] {
            "exact" => key == own,
            "prefix" => key.starts_with(own),
            // A port in the URL means that port.
            "host" if own.contains(':') => key.starts_with(&own[..own.find(')').unwrap() + 1]),
            "host" => host(key) == host(own),
            _ => host(key) == host(own) || key.starts_with(&format!("{},", host(own))),
        }
    }

    /// What a scan of all captures, in the order of their lines, finds.
    fn naive(&self, captures: &[(String, Capture)]) -> Vec<(String, String, usize)> {
        let mut rows: Vec<&(String, Capture)> = captures
            .iter()
            .filter(|(_, c)| self.matches(&c.key))
            .filter(|(_, c)| {
                self.from
                    .is_none_or(|from| c.timestamp >= format!("20{from}"))
            })
            .filter(|(_, c)| self.to.is_none_or(|to| c.timestamp <= format!("20{to}9")))
            .filter(|(line, c)| match FILTERS[self.filter] {
                "=status:200" => c.status == "200",
                "!mime:html" => !c.mime.contains("html"),
                "~url:.*x" => c.url.contains('x'),
                "404" => line.contains("404"),
                _ => true,
            })
            .collect();
        let mut last = None;
        rows.retain(|(_, c)| {
            let token = match COLLAPSE[self.collapse] {
                "digest" => c.digest.clone(),
                "timestamp:4" => c.timestamp[..4].to_owned(),
                "urlkey" => c.key.clone(),
                _ => return true,
            };
            let differs = last.as_ref() != Some(&token);
            last = Some(token);
            differs
        });
        // 0 is no limit, as in pywb.
        let limit = self.limit.filter(|limit| *limit != 0).unwrap_or(1_000_000);
        match self.order {
            1 => rows.reverse(),
            2 => {
                let days = |timestamp: &str| {
                    let date: jiff::civil::Date = timestamp[..8]
                        .parse::<String>()
                        .ok()
                        .and_then(|d| {
                            format!("{}-{}-{}", &d[..4], &d[4..6], &d[6..8])
                                .parse()
                                .ok()
                        })
                        .unwrap();
                    let hours: i64 = match timestamp.len() {
                        14 => 4 * 3600 + 5 * 60 + 6,
                        _ => 0,
                    };
                    let since = date.since(jiff::civil::date(2000, 1, 1)).unwrap();
                    i64::from(since.get_days()) * 86400 + hours
                };
                let wanted = days(&format!("20{}0601", self.closest));
                rows.sort_by_key(|(_, c)| (days(&c.timestamp) - wanted).abs());
            }
            _ => {}
        }
        let rows: Vec<&(String, Capture)> = if limit < 0 {
            let skip = rows.len().saturating_sub(limit.unsigned_abs() as usize);
            rows.into_iter().skip(skip).collect()
        } else {
            rows.into_iter()
                .skip(self.offset as usize)
                .take(limit as usize)
                .collect()
        };
        rows.iter()
            .map(|(_, c)| (c.key.clone(), c.timestamp.clone(), c.number))
            .collect()
    }
}

fn found(lines: &[String]) -> Vec<(String, String, usize)> {
    let rows = lines.iter().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (
            text("urlkey"),
            text("timestamp"),
            text("offset").parse().unwrap(),
        )
    });
    rows.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_those_of_a_naive_scan_and_filter(
        first in prop::collection::vec(capture(), 0..40),
        second in prop::collection::vec(capture(), 0..40),
        queries in prop::collection::vec(asked(), 1..12),
        block in 1u64..6,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut first: Vec<(String, Capture)> = first.into_iter().map(|c| (c.cdxj(), c)).collect();
        let mut second: Vec<(String, Capture)> = second.into_iter().map(|c| (c.cdx(), c)).collect();
        first.sort();
        second.sort();
        let lines = |captures: &[(String, Capture)]| -> Vec<String> {
            captures.iter().map(|(line, _)| line.clone()).collect()
        };
        let flat = write_flat(&folder.path().join("a.cdx"), &lines(&second));
        let zipnum = write_zipnum(&folder.path().join("zipnum"), &lines(&first), block);
        let server = Running::start(&[("test", &[zipnum, flat])], Options::default());
        let mut all = first;
        all.extend(second);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        for asked in &queries {
            let path = asked.path();
            if asked.limit.is_some_and(|limit| limit < 0) && asked.order != 0 {
                prop_assert_eq!(server.get(&path).status, 400);
                continue;
            }
            prop_assert_eq!(found(&server.lines(&path)), asked.naive(&all), "{}", path);
        }
    }

    #[test]
    fn any_query_string_is_a_query_or_an_error_that_says_why(text in "(url=|filter=|limit=|[a-z=&%+:~!0-9]|\\PC){0,40}") {
        for api in [Api::Pywb, Api::Wayback] {
            if let Err(error) = Query::parse(api, &text) {
                prop_assert!(!error.0.is_empty());
            }
        }
    }

    #[test]
    fn pages_and_resumed_answers_are_together_the_whole_answer(
        captures in prop::collection::vec(capture(), 1..60),
        block in 1u64..4,
        size in 1u64..4,
        limit in 1u64..7,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut lines: Vec<String> = captures.iter().map(Capture::cdxj).collect();
        lines.sort();
        let zipnum = write_zipnum(&folder.path().join("zipnum"), &lines, block);
        let server = Running::start(&[("test", &[zipnum])], Options::default());
        let query = "/test/cdx?url=*.a.com&output=json";
        let whole = server.lines(query);
        let pages = server.get(&format!("{query}&showNumPages=true&pageSize={size}"));
        let pages: Value = serde_json::from_str(pages.text()).unwrap();
        let pages = pages["pages"].as_u64().unwrap();
        let paged: Vec<String> = (0..pages)
            .flat_map(|page| server.lines(&format!("{query}&pageSize={size}&page={page}")))
            .collect();
        prop_assert_eq!(&paged, &whole);
        let beyond = server.get(&format!("{query}&pageSize={size}&page={}", pages.max(1)));
        prop_assert_eq!(beyond.status, 400);
        let mut resumed = Vec::new();
        let mut next = String::new();
        loop {
            let mut lines = server.lines(&format!("{query}&limit={limit}&showResumeKey=true{next}"));
            let key = lines.pop_if(|line| line.starts_with("{\"resumeKey\""));
            resumed.extend(lines);
            let Some(key) = key else { break };
            let key: Value = serde_json::from_str(&key).unwrap();
            next = format!("&resumeKey={}", key["resumeKey"].as_str().unwrap());
        }
        prop_assert_eq!(&resumed, &whole);
    }
}
