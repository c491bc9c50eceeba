//! Summaries know what they were built from; outside of that, the answer is unknown.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use waypost_index::Select;
use waypost_io::{Resources, Source};
use waypost_summary::evaluate::{Lookups, judge};
use waypost_summary::filter::{self, Filter};
use waypost_summary::holdings::{Holdings, Input};
use waypost_summary::profile::{self, Profile};
use waypost_summary::{Archive, Lookup, Presence, Scope, Summary, combine};
use waypost_summary::{map, map::Map};
use waypost_surt::{Dialect, Policy};

const INDEX: &str = "\
com,a)/image 20100101000000 {\"url\": \"http://a.com/image\", \"mime\": \"image/png\", \"status\": \"200\"}
com,a)/page 20100101000000 {\"url\": \"http://a.com/page\", \"mime\": \"text/html\", \"status\": \"200\"}
org,b)/page 20120101000000 {\"url\": \"http://b.org/page\", \"mime\": \"text/html\", \"status\": \"200\"}
";

fn select(change: impl FnOnce(&mut Select)) -> Select {
    let mut select = Select::new();
    change(&mut select);
    select
}

fn index(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("index.cdxj");
    std::fs::write(&path, INDEX).unwrap();
    path
}

fn build_map(index: &Path, select: Select, out: &Path) {
    let mut input = Input::new(vec![Source::new(index)]);
    input.select = select;
    map::build(&input, &Archive::default(), None, out).unwrap();
}

/// A map, a profile and a filter of the selected captures.
fn summaries(folder: &TempDir, select: &Select) -> Vec<Box<dyn Summary>> {
    let index = index(folder);
    let path = |name: &str| folder.path().join(name);
    build_map(&index, select.clone(), &path("m.ukvs"));
    let mut input = Input::new(vec![Source::new(&index)]);
    input.select = select.clone();
    let options = profile::Options {
        policies: vec![Policy::Whole],
        archive: Archive::default(),
        date: None,
        folder: Some(folder.path().to_owned()),
        name: "p".into(),
        gzip: false,
    };
    profile::build(&input, &options, None).unwrap();
    let sources = [Source::new(&index)];
    let mut input = filter::Input::new(&sources);
    input.select = select.clone();
    filter::build(input, &filter::Recipe::default(), &path("f.filter")).unwrap();
    vec![
        Box::new(Map::open(&path("m.ukvs"), &Resources::default()).unwrap()),
        Box::new(Profile::open(&path("p.URIR.cdxj")).unwrap()),
        Box::new(Filter::open(&path("f.filter")).unwrap()),
    ]
}

fn ask(summary: &dyn Summary, uri: &str, wanted: &Select) -> Presence {
    let wanted = Scope::of(wanted);
    let mut buffer = Vec::new();
    let lookup = Lookup::new(uri.as_bytes(), Dialect::Ia, &mut buffer).unwrap();
    let lookup = lookup.wanting(&wanted);
    let one = summary.lookup(&lookup).unwrap().presence();
    let all = summary.lookup_all(&[lookup]).unwrap();
    assert_eq!(one, all[0].presence());
    assert_eq!(one, summary.answer_all(&[lookup]).unwrap()[0].presence());
    one
}

#[test]
fn what_was_not_looked_at_is_unknown() {
    use Presence::{Absent, Present, Unknown};
    let all = select(|_| {});
    let pages = select(|select| {
        select.mime("text/html").unwrap().status("200").unwrap();
    });
    let of_com = select(|select| {
        select.include("com,").unwrap();
    });
    let without_com = select(|select| {
        select.exclude("com,").unwrap();
    });
    let until_2011 = select(|select| {
        select.to("2011").unwrap();
    });
    let in_2010 = select(|select| {
        select.from("2010").unwrap().to("2010").unwrap();
    });
    for (made_of, uri, wanted, expected) in [
        (&all, "http://a.com/image", &all, Present),
        (&all, "http://a.com/other", &all, Absent),
        (&pages, "http://a.com/page", &all, Present),
        (&pages, "http://a.com/image", &all, Unknown),
        (&pages, "http://a.com/image", &pages, Absent),
        (&of_com, "http://a.com/other", &all, Absent),
        (&of_com, "http://b.org/page", &all, Unknown),
        (&without_com, "http://a.com/page", &all, Unknown),
        (&without_com, "http://b.org/other", &all, Absent),
        (&until_2011, "http://b.org/page", &all, Unknown),
        (&until_2011, "http://a.com/page", &all, Present),
        (&until_2011, "http://b.org/page", &in_2010, Absent),
    ] {
        let folder = TempDir::new().unwrap();
        for summary in summaries(&folder, made_of) {
            let answer = ask(&*summary, uri, wanted);
            assert_eq!(answer, expected, "{} of {uri}", summary.kind());
        }
    }
}

#[test]
fn a_scope_survives_compacting_and_merging() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let pages = select(|select| {
        select.mime("text/html").unwrap();
    });
    let of_com = select(|select| {
        select.include("com,").unwrap();
    });
    let index = index(&folder);
    build_map(&index, pages, &path("pages.ukvs"));
    build_map(&index, of_com, &path("com.ukvs"));
    build_map(&index, Select::new(), &path("all.ukvs"));
    let rule = map::Rule::Papers(map::Papers::default());
    let source = Source::new(path("pages.ukvs"));
    let mut given = map::SourceMap::open(&source, &Resources::default()).unwrap();
    map::compact(
        &mut given,
        &rule,
        map::Style::Published,
        &path("small.ukvs"),
        false,
    )
    .unwrap();
    let maps = ["small.ukvs", "com.ukvs", "all.ukvs"].map(path);
    map::merge(
        &maps,
        map::Filters::Refuse,
        &Resources::default(),
        &path("merged.ukvs"),
    )
    .unwrap();
    let open = |name: &str| Map::open(&path(name), &Resources::default()).unwrap();
    let all = Select::new();
    assert_eq!(
        ask(&open("small.ukvs"), "http://a.com/image", &all),
        Presence::Unknown
    );
    let merged = open("merged.ukvs");
    assert_eq!(merged.about().scopes.iter().count(), 2);
    assert_eq!(ask(&merged, "http://a.com/other", &all), Presence::Unknown);
    let wanted = select(|select| {
        select.mime("text/html").unwrap();
    });
    assert_eq!(
        ask(&merged, "http://a.com/other", &wanted),
        Presence::Absent
    );
    assert_eq!(
        ask(&merged, "http://c.org/other", &wanted),
        Presence::Unknown
    );
}

#[test]
fn the_summary_that_covers_a_lookup_decides() {
    let folder = TempDir::new().unwrap();
    let of_pages = select(|select| {
        select.mime("text/html").unwrap();
    });
    let pages = summaries(&folder, &of_pages);
    let other = TempDir::new().unwrap();
    let all = summaries(&other, &Select::new());
    for (uri, expected) in [
        ("http://a.com/image", Presence::Present),
        ("http://a.com/other", Presence::Absent),
    ] {
        let mut buffer = Vec::new();
        let lookup = Lookup::new(uri.as_bytes(), Dialect::Ia, &mut buffer).unwrap();
        let answers = |summaries: &[&dyn Summary]| {
            let answers: Vec<_> = summaries
                .iter()
                .map(|summary| (summary.about(), summary.lookup(&lookup).unwrap()))
                .collect();
            combine(answers).presence()
        };
        assert_eq!(answers(&[&*pages[0], &*all[0]]), expected);
        assert_eq!(answers(&[&*all[0], &*pages[0]]), expected);
        assert_eq!(answers(&[&*pages[0]]), Presence::Unknown);
    }
}

#[test]
fn unknown_lookups_are_sent_on_and_counted_by_themselves() {
    let folder = TempDir::new().unwrap();
    let pages = select(|select| {
        select.mime("text/html").unwrap();
    });
    let summaries = summaries(&folder, &pages);
    let asked = folder.path().join("asked.txt");
    std::fs::write(
        &asked,
        "http://a.com/image\nhttp://a.com/page\nhttp://a.com/other\n",
    )
    .unwrap();
    let lookups = vec![Lookups::read(&Source::new(&asked), Dialect::Ia).unwrap()];
    let holdings = Holdings::new(Input::new(vec![Source::new(
        folder.path().join("index.cdxj"),
    )]));
    let (held, _) = holdings.truth(&lookups).unwrap();
    for summary in summaries {
        let verdict = judge(&*summary, &lookups[0], &held[0], false, &[]).unwrap();
        let confusion = verdict.confusion;
        assert_eq!((confusion.unknown, confusion.lookups()), (2, 3));
        assert_eq!(
            (confusion.true_positives, confusion.false_positives),
            (2, 1)
        );
        assert_eq!(confusion.recall(), Some(1.0));
        assert!(verdict.false_negatives.is_empty());
    }
}
