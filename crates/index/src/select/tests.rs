use super::*;
use crate::layout::{FileLayout, Line};

fn capture(line: &str) -> Capture<'_> {
    let layout = FileLayout::detect(line.as_bytes());
    match layout.read(line.as_bytes(), Fields::ALL, true) {
        Line::Capture(capture, _) => capture,
        other => panic!("{line}: {other:?}"),
    }
}

const PAGE: &str =
    "com,example)/a 20040506070809 http://www.example.com/A text/html 200 AAA - - 5 9 x.warc.gz";
const REVISIT: &str =
    "com,example)/a 20050506070809 http://www.example.com/A warc/revisit - AAA - - 2 7 y.warc.gz";
const DNS: &str = "dns:example.com 20040506070809 dns:example.com text/dns - BBB - - 5 9 x.warc.gz";

fn accepts(line: &str, set: impl FnOnce(&mut Select)) -> bool {
    let mut select = Select::new();
    set(&mut select);
    select.accepts(&capture(line))
}

#[test]
fn each_filter_lets_through_what_it_says() {
    assert!(accepts(PAGE, |_| {}));
    for (status, expected) in [
        ("200", true),
        ("2xx", true),
        ("301,2XX", true),
        ("404,3xx", false),
    ] {
        assert_eq!(
            accepts(PAGE, |s| {
                s.status(status).unwrap();
            }),
            expected,
            "{status}"
        );
    }
    for (mime, expected) in [
        ("text/html", true),
        ("TEXT/*", true),
        ("image/*,text/html", true),
        ("text/htm", false),
    ] {
        assert_eq!(
            accepts(PAGE, |s| {
                s.mime(mime).unwrap();
            }),
            expected,
            "{mime}"
        );
    }
    for (from, to, expected) in [
        ("2004", "2004", true),
        ("20040506070809", "20040506070809", true),
        ("20040506070810", "2005", false),
        ("2003", "200404", false),
    ] {
        assert_eq!(
            accepts(PAGE, |s| {
                s.from(from).unwrap().to(to).unwrap();
            }),
            expected,
            "{from} {to}"
        );
    }
    for (include, expected) in [
        ("com,example)", true),
        ("com,example)/b", false),
        ("~/A$", true),
        ("~^https:", false),
    ] {
        assert_eq!(
            accepts(PAGE, |s| {
                s.include(include).unwrap();
            }),
            expected,
            "{include}"
        );
        assert_eq!(
            accepts(PAGE, |s| {
                s.exclude(include).unwrap();
            }),
            !expected,
            "{include}"
        );
    }
    assert!(accepts(PAGE, |s| {
        s.include("org,").unwrap().include("com,").unwrap();
    }));
}

#[test]
fn keys_that_are_no_surts_are_filtered_by_their_surt() {
    for key in [
        "example.com/a",
        "com,example,)/a",
        "http://(com,example,)/a",
    ] {
        let line = PAGE.replacen("com,example)/a", key, 1);
        assert!(
            accepts(&line, |s| {
                s.include("com,example)/").unwrap();
            }),
            "{key}"
        );
        assert!(
            !accepts(&line, |s| {
                s.exclude("com,example)").unwrap();
            }),
            "{key}"
        );
    }
}

#[test]
fn keys_that_are_urls_are_filtered_by_the_surt_of_the_dialect() {
    let line = "http://www2.example.com/A 20040506070809 http://www2.example.com/A text/html 200 AAA - - 5 9 x.warc.gz";
    for dialect in Dialect::ALL.into_iter().chain([Dialect::Ia]) {
        let excluded = |prefix: &str| {
            !accepts(line, |s| {
                s.exclude(prefix).unwrap().dialect(dialect);
            })
        };
        let mut surt = Vec::new();
        waypost_surt::Canonicalizer::new(dialect)
            .canonicalize(b"http://www2.example.com/A", &mut surt)
            .unwrap();
        assert!(excluded(std::str::from_utf8(&surt).unwrap()), "{dialect}");
    }
}

#[test]
fn lines_of_lists_are_filtered_by_surt_and_url() {
    let accepts = |include: &str, line: &str, surt: &str| {
        let mut select = Select::new();
        select.include(include).unwrap();
        let mut inverse = Select::new();
        inverse.exclude(include).unwrap();
        let (line, surt) = (line.as_bytes(), surt.as_bytes());
        assert_ne!(
            select.accepts_uri(line, surt),
            inverse.accepts_uri(line, surt)
        );
        select.accepts_uri(line, surt)
    };
    assert!(accepts("com,a)", "http://www.a.com/X", "com,a)/x"));
    assert!(!accepts("com,b)", "http://www.a.com/X", "com,a)/x"));
    assert!(accepts("~www", "http://www.a.com/X", "com,a)/x"));
    // A SURT stands for a URL without `www`.
    assert!(!accepts("~www", "com,a)/x", "com,a)/x"));
    assert!(accepts("~//a.com/x$", "com,a)/x", "com,a)/x"));
    let mut select = Select::new();
    assert_eq!(select.exclude("com,").unwrap().needs_captures(), None);
    assert!(select.from("2004").unwrap().needs_captures().is_some());
}

#[test]
fn times_between_which_nothing_lies_are_refused() {
    let mut select = Select::new();
    assert!(select.from("2024").unwrap().to("2020").is_err());
    assert!(
        Select::new()
            .to("2020")
            .unwrap()
            .from("2021-01-01")
            .is_err()
    );
    assert!(Select::new().to("2020").unwrap().from("2020-12-31").is_ok());
    let mut iso = Select::new();
    iso.from("2004-05-06").unwrap().to("2004-05-06").unwrap();
    assert!(iso.accepts(&capture(PAGE)));
    iso = Select::new();
    iso.from("2004-05-07").unwrap();
    assert!(!iso.accepts(&capture(PAGE)));
}

#[test]
fn a_key_that_is_not_the_surt_of_its_url_is_filtered_by_the_surt() {
    let line = "com,example)/a%2fb 20040506070809 http://www.example.com/a%2Fb text/html 200 AAA - - 5 9 x.warc.gz";
    assert!(!accepts(line, |s| {
        s.exclude("com,example)/a/b").unwrap();
    }));
    assert!(accepts(line, |s| {
        s.include("com,example)/a/").unwrap();
    }));
}

#[test]
fn rows_not_of_the_web_and_revisits_are_chosen_apart() {
    assert!(!accepts(DNS, |_| {}));
    assert!(accepts(DNS, |s| {
        s.include_non_web(true);
    }));
    assert!(accepts(REVISIT, |_| {}));
    assert!(!accepts(REVISIT, |s| {
        s.revisits(Revisits::Drop);
    }));
    assert!(!accepts(REVISIT, |s| {
        s.status("200").unwrap();
    }));
}

#[test]
fn revisits_that_may_repeat_what_is_selected_can_be_kept() {
    let pages = |select: &mut Select| {
        select.pages().unwrap().keep_unresolved(true);
    };
    let revisit = |mime: &str, status: &str| {
        let line = REVISIT.replace("warc/revisit -", &format!("{mime} {status}"));
        accepts(&line, pages)
    };
    assert!(accepts(REVISIT, pages));
    assert!(revisit("warc/revisit", "200"));
    assert!(revisit("warc/revisit", "304"));
    assert!(!revisit("warc/revisit", "404"));
    // What has a type of its own, such as a resolved revisit, is nothing else.
    assert!(!revisit("image/png", "200"));
    assert!(!revisit("text/html", "-"));
    assert!(!accepts(REVISIT, |s| {
        pages(s);
        s.revisits(Revisits::Drop);
    }));
}

#[test]
fn pages_are_html_that_is_not_for_robots() {
    let is_page = |uri: &str, mime: &str, status: &str| {
        let line = format!("com,a)/ 20040506070809 {uri} {mime} {status} AAA - - 5 9 x.warc.gz");
        accepts(&line, |s| {
            s.pages().unwrap();
        })
    };
    assert!(is_page("http://a.com/", "text/html", "200"));
    assert!(!is_page("http://a.com/", "text/html", "301"));
    assert!(!is_page("http://a.com/", "image/png", "200"));
    assert!(!is_page("http://a.com/Robots.txt", "text/html", "200"));
    assert!(!is_page("http://a.com/b/sitemap.xml?c", "text/html", "200"));
    assert!(is_page("http://a.com/robots.txt/", "text/html", "200"));
    // The SURT does not have the fragment.
    assert!(is_page("http://a.com/#/robots.txt", "text/html", "200"));
}

#[test]
fn what_makes_no_sense_is_refused_with_an_example() {
    let mut select = Select::new();
    for error in [
        select.status("20").unwrap_err(),
        select.status("abc").unwrap_err(),
        select.mime("html").unwrap_err(),
        select.from("soon").unwrap_err(),
        select.include("example.com").unwrap_err(),
        select.include("~(").unwrap_err(),
        select.exclude("http://example.com/").unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    }
}

#[test]
fn a_revisit_takes_over_what_its_original_has() {
    let mut resolver = crate::revisit::Resolver::default();
    assert_eq!(resolver.see(&capture(PAGE)), None);
    let revisit = capture(REVISIT);
    let resolved = resolver.see(&revisit).unwrap().stand_in_for(&revisit);
    assert_eq!(resolved.status(), Some(200));
    assert_eq!(resolved.mime().as_deref(), Some(&b"text/html"[..]));
    assert_eq!(
        resolved.raw(Field::OriginalFilename),
        Some(&b"x.warc.gz"[..])
    );
    assert_eq!(resolved.raw(Field::Filename), Some(&b"y.warc.gz"[..]));
    // Another URI-R knows nothing of it.
    let other = REVISIT.replace("com,example)/a", "com,example)/b");
    assert_eq!(resolver.see(&capture(&other)), None);
}
