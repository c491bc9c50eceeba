//! Summaries of a part of the captures, evaluated and routed by.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::world::{Served, World};
use super::{oracles, peers};

/// What an archive holds, by what it is.
const HELD: [(&str, &str, &str); 8] = [
    ("page", "text/html", "200"),
    ("report", "TEXT/HTML;charset=utf-8", "200"),
    ("image.png", "image/png", "200"),
    ("moved", "text/html", "301"),
    ("gone", "text/html", "404"),
    ("robots.txt", "text/html", "200"),
    // Whatever they repeat, it was captured elsewhere.
    ("revisit", "warc/revisit", "-"),
    ("unchanged", "warc/revisit", "304"),
];

/// Pages, also those that may be some.
const PAGES: [&str; 4] = ["page", "report", "revisit", "unchanged"];

const BUILDERS: [(&str, &str); 6] = [
    ("pages.ukvs", "map build"),
    ("pages.filter", "filter build"),
    ("keyed.filter", "filter build --key-file secret"),
    ("pages.csv", "filter export"),
    ("pages.orestes", "filter export --form binary"),
    (
        "compact.ukvs",
        "map compact full.ukvs --filters --bytes 2K --holdings",
    ),
];

fn uri(host: usize, name: &str) -> String {
    format!("http://host{host}.example.org/{name}")
}

/// An index of 40 hosts that all have the same kinds of captures.
fn index(world: &World, name: &str) {
    let mut rows = String::new();
    for host in 0..40 {
        for (held, mime, status) in HELD {
            let uri = uri(host, held);
            rows += &format!(
                "x)/ 20200101000000 {{\"url\": \"{uri}\", \"mime\": \"{mime}\", \"status\": \"{status}\", \"digest\": \"A\"}}\n"
            );
        }
    }
    world.write("unkeyed.cdxj", rows);
    world.ok(&format!(
        "--quiet index rekey --dialect ia unkeyed.cdxj -o {name}"
    ));
}

/// An index `held.cdxj` and summaries of its pages, with the options to look up in them.
fn summaries(world: &World, preset: &str) -> Vec<String> {
    index(world, "held.cdxj");
    world.write("secret", "00112233445566778899aabbccddeeff");
    world.ok(&format!(
        "--quiet map build held.cdxj {preset} -o full.ukvs"
    ));
    world.ok(&format!(
        "--quiet profile held.cdxj {preset} --policy URIR,HxPx --id pages -o ."
    ));
    let mut files = vec!["pages.URIR.cdxj".to_owned(), "pages.HxPx.cdxj".to_owned()];
    for (name, words) in BUILDERS {
        world.ok(&format!("--quiet {words} held.cdxj {preset} -o {name}"));
        let key = if name == "keyed.filter" {
            " --key-file secret"
        } else {
            ""
        };
        // A CSV is not looked up.
        if name != "pages.csv" {
            files.push(format!("{name}{key}"));
        }
    }
    files
}

/// The answers to all lookups of a kind, of which a few may be wrong.
fn usual(answers: Vec<String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(*most.1 >= 30, "{counts:?}");
    most.0.clone()
}

fn uris(name: &str) -> Vec<String> {
    (0..40).map(|host| uri(host, name)).collect()
}

#[test]
fn summaries_of_pages_answer_lookups_for_pages() {
    let world = World::new();
    for preset in ["--preset pages", "--status 200 --mime text/html"] {
        for file in summaries(&world, preset) {
            for page in PAGES {
                let found = world.lookup(&format!("{file} --for pages"), &uris(page));
                assert!(
                    found.iter().all(|answer| answer == "present"),
                    "{file} {page}: {found:?}"
                );
            }
            // Nothing is known about anything else.
            for other in ["image.png", "moved", "never"] {
                let found = world.lookup(&file, &uris(other));
                assert!(
                    !found.contains(&"absent".to_owned()),
                    "{file} {other}: {found:?}"
                );
                let found = usual(world.lookup(&format!("{file} --for pages"), &uris(other)));
                assert_eq!(found, "absent", "{file} {other}");
            }
            // It is HTML with status 200, though no page.
            let robots = world.lookup(&format!("{file} --for pages"), &uris("robots.txt"));
            assert!(!robots.contains(&"absent".to_owned()), "{file}: {robots:?}");
        }
    }
}

#[test]
fn summaries_of_pages_are_evaluated_on_lookups_for_pages() {
    let world = World::new();
    let files = summaries(&world, "--preset pages");
    let mut asked = Vec::new();
    for (held, ..) in HELD {
        asked.extend(uris(held));
    }
    for never in 0..10 {
        asked.extend(uris(&format!("never/{never}")));
    }
    world.write("asked.txt", asked.join("\n"));
    for file in files.iter().filter(|file| !file.contains(' ')) {
        let evaluate = format!(
            "--quiet evaluate {file} --holdings held.cdxj --lookups asked.txt --format json"
        );
        let rows = |more: &str| -> Value {
            serde_json::from_str(&world.ok(&format!("{evaluate}{more}"))).unwrap()
        };
        let pages = &rows(" --for pages")[0];
        assert_eq!(pages["recall"], 1.0, "{file}");
        assert_eq!(pages["false_negatives"], 0, "{file}");
        assert!(pages["accuracy"].as_f64().unwrap() > 0.9, "{file}: {pages}");
        // Of 720 lookups, 200 are for what may be a page or for robots.
        assert!(
            pages["requests_saved"].as_f64().unwrap() > 0.6,
            "{file}: {pages}"
        );
        let all = &rows("")[0];
        assert_eq!(all["requests_saved"], 0.0, "{file}");
        assert_eq!(all["recall"], 1.0, "{file}");
    }
}

/// What browsers send when they open a page.
const BROWSER: (&str, &str) = (
    "Accept",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
);

const ANYTHING: (&str, &str) = ("Accept", "*/*");

/// Archives, and when they captured everything.
const ARCHIVES: [(&str, &str); 3] = [("a", "2010"), ("b", "2015"), ("c", "2020")];

/// Archives with 40 pages and 40 pictures of their own, maps of their pages, and a configuration.
/// Of `http://cdn.example.net/`, all but the last have `shared`, and the second has `single`.
fn archives(world: &World, more: [&str; 3]) -> Served {
    let mut words = "index serve --listen 127.0.0.1:0".to_owned();
    for (id, year) in ARCHIVES {
        let mut rows = String::new();
        let mut row = |uri: &str, mime: &str| {
            rows += &format!(
                "x)/ {year}0101000000 {{\"url\": \"{uri}\", \"mime\": \"{mime}\", \"status\": \"200\"}}\n"
            );
        };
        for number in 0..40 {
            row(&held(id, "page", number), "text/html");
            row(&held(id, "picture", number), "image/png");
            row(&held(id, "icon.png", number), "image/png");
        }
        if id != "c" {
            row("http://cdn.example.net/shared", "image/png");
        }
        if id == "b" {
            row("http://cdn.example.net/single", "image/png");
        }
        world.write("unkeyed.cdxj", &rows);
        fs::create_dir_all(world.at("truth")).unwrap();
        world.ok(&format!(
            "--quiet index rekey --dialect ia unkeyed.cdxj -o truth/{id}.cdxj"
        ));
        world.ok(&format!(
            "--quiet map build truth/{id}.cdxj --preset pages -o {id}.ukvs"
        ));
        words += &format!(" -c {id}=truth/{id}.cdxj");
    }
    words += " --replay https://archive.example/{timestamp}/{url}";
    let served = world.serve(&words);
    let mut config = "[server]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    for ((id, _), more) in ARCHIVES.into_iter().zip(more) {
        let timemap = served.url(&format!("/{id}/timemap/link/"));
        config += &format!(
            "[[archive]]\nid = \"{id}\"\ntimemap = \"{timemap}\"\nsummaries = [\"{id}.ukvs\"]\n{more}\n"
        );
    }
    world.write("waypost.toml", config);
    served
}

fn held(id: &str, kind: &str, number: usize) -> String {
    format!("http://{id}.example.org/{number}/{kind}")
}

/// The ids of the archives that a router would ask.
fn asked(router: &Served, uri: &str, accept: (&str, &str)) -> Vec<String> {
    let reply = router.get_with(&format!("/explain/json/{uri}"), &[accept]);
    let json: Value = serde_json::from_str(reply.text()).unwrap();
    let archives = json["archives"].as_array().unwrap().iter();
    let asked = archives.filter(|archive| archive["asked"] == true);
    let mut ids: Vec<String> = asked
        .map(|archive| archive["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[test]
fn a_router_asks_for_pages_only_where_they_are() {
    let world = World::new();
    let _archives = archives(&world, ["", "", ""]);
    let router = world.serve("serve --config waypost.toml");
    let (mut requests, mut lookups) = (0, 0);
    for (id, _) in ARCHIVES {
        for number in (0..40).step_by(4) {
            let uri = held(id, "page", number);
            assert_eq!(asked(&router, &uri, BROWSER), [id]);
            assert_eq!(asked(&router, &uri, ANYTHING), ["a", "b", "c"]);
            let found = router.get_with(&format!("/timemap/link/{uri}"), &[BROWSER]);
            assert_eq!(found.status, 200, "{uri}");
            let never = held(id, "never", number);
            requests += asked(&router, &uri, BROWSER).len() + asked(&router, &never, BROWSER).len();
            lookups += 2;
        }
    }
    // Half of the lookups are held by one archive of three, the other half by none.
    assert_eq!(requests * 6, lookups * ARCHIVES.len());
    // A person opens the router's own page in a browser.
    let page = |uri: &str| router.get_with(&format!("/?url={uri}"), &[BROWSER]).status;
    assert_eq!(page(&held("b", "page", 1)), 200);
    assert_eq!(page(&held("b", "never", 1)), 404);
    // A picture is no page. That it is absent as a page is not kept for those who ask for anything.
    let picture = format!("/timemap/link/{}", held("a", "picture", 1));
    assert_eq!(router.get_with(&picture, &[BROWSER]).status, 404);
    assert_eq!(router.get_with(&picture, &[ANYTHING]).status, 200);
    // What is found for anything is found for a page.
    assert_eq!(router.get_with(&picture, &[BROWSER]).status, 200);
    // Browsers say the same when a person opens an image.
    let icon = held("a", "icon.png", 1);
    assert_eq!(asked(&router, &icon, BROWSER), ["a", "b", "c"]);
    let icon = format!("/timemap/link/{icon}");
    assert_eq!(router.get_with(&icon, &[BROWSER]).status, 200);
}

#[test]
fn an_archive_says_which_lookups_are_for_pages() {
    let world = World::new();
    let _archives = archives(&world, ["", "pages = \"always\"", "pages = \"never\""]);
    let router = world.serve("serve --config waypost.toml");
    let never = held("a", "never", 1);
    assert_eq!(asked(&router, &never, BROWSER), ["c"]);
    assert_eq!(asked(&router, &never, ANYTHING), ["a", "c"]);
    world.write(
        "waypost.toml",
        "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\npages = \"x\"\n",
    );
    let refused = world.refused("serve --config waypost.toml");
    assert!(
        refused.contains("line 4: pages: unknown word `x`: write asked, always or never"),
        "{refused}"
    );
}

#[test]
fn routing_by_maps_of_pages_saves_requests() {
    let world = World::new();
    let _archives = archives(&world, ["", "", ""]);
    let mut lookups = Vec::new();
    for (id, _) in ARCHIVES {
        for number in 0..40 {
            lookups.extend([held(id, "page", number), held(id, "never", number)]);
        }
    }
    world.write("lookups.txt", lookups.join("\n"));
    let simulate =
        "--quiet route --simulate lookups.txt --truth truth --config waypost.toml --format json";
    let report = |more: &str| -> Value {
        serde_json::from_str(&world.ok(&format!("{simulate}{more}"))).unwrap()
    };
    let all = report("");
    assert_eq!(
        (&all["requests_saved"], &all["missed"]),
        (&0.into(), &0.into())
    );
    let pages = report(" --for pages");
    // 120 of 720 pairs are held.
    assert_eq!(
        (&pages["requests_saved"], &pages["missed"]),
        (&600.into(), &0.into())
    );
    for option in ["--for pages", "--media-type text/html"] {
        world.write("one.txt", held("a", "page", 1));
        let line = world.ok(&format!(
            "--quiet route --batch one.txt --config waypost.toml {option}"
        ));
        let json: Value = serde_json::from_str(&line).unwrap();
        let absent = json["archives"].as_array().unwrap().iter();
        let absent = absent
            .filter(|archive| archive["decision"] == "absent")
            .count();
        assert_eq!(absent, 2, "{option}: {line}");
    }
}

#[test]
fn the_resources_of_a_page_come_from_where_the_page_is() {
    let world = World::new();
    let _archives = archives(&world, ["", "", ""]);
    let router = world.serve("serve --config waypost.toml");
    let page = format!("http://127.0.0.1/timegate/{}", held("a", "page", 7));
    let memento = |uri: &str, referer: Option<&str>| {
        let mut headers = vec![
            ("Accept", "image/avif,image/webp,*/*;q=0.8"),
            ("Accept-Datetime", "Wed, 01 Jan 2020 00:00:00 GMT"),
        ];
        headers.extend(referer.map(|referer| ("Referer", referer)));
        let reply = router.get_with(&format!("/timegate/{uri}"), &headers);
        assert_eq!(reply.status, 302, "{uri}");
        reply.header("location").unwrap().to_owned()
    };
    // The second archive is closer, but the page is in the first.
    let shared = "http://cdn.example.net/shared";
    assert!(memento(shared, Some(&page)).contains("/20100101000000/"));
    // What was asked of one archive only is not kept for others.
    assert!(memento(shared, None).contains("/20150101000000/"));
    // What is not there is found elsewhere.
    let single = "http://cdn.example.net/single";
    assert!(memento(single, Some(&page)).contains("/20150101000000/"));
}

/// Says of each URI in a file whether pywb finds something in an index.
const PYWB: &str = "\
import sys
from pywb.warcserver.index.aggregator import SimpleAggregator
from pywb.warcserver.index.fuzzymatcher import FuzzyMatcher
from pywb.warcserver.index.indexsource import FileIndexSource

source = SimpleAggregator({'held': FileIndexSource(sys.argv[1])})
fuzzy = FuzzyMatcher()
for line in open(sys.argv[2]):
    found, _ = fuzzy(source, {'url': line.strip()})
    print(int(any(True for _ in found)))
";

const QUERIES: [&str; 16] = [
    "",
    "?_=1234",
    "?_=5678&x=1",
    "?_=abc&x=1",
    "?callback=jsonp12&q=1",
    "?callback=jsonp34&q=1",
    "?callback=jquery12_34&q=1",
    "?callback=jquery56_78&q=1",
    "?cachebust=1234567890123&p=2",
    "?cachebust=1234567890999&p=2",
    "?fbclid=abc&z=1",
    "?fbclid=def",
    "?utm_source=a&utm_medium=b&z=1",
    "?utm_source=c&z=1",
    "?x=1",
    "?x=1&z=1",
];

/// Paths and media types.
const PATHS: [(&str, &str); 8] = [
    ("page", "text/html"),
    ("folder/", "text/html"),
    ("style.css", "text/css"),
    ("index.php", "text/html"),
    ("UPPER.PHP", "text/html"),
    ("archive.tar.gz", "application/gzip"),
    ("stream", "application/dash+xml"),
    ("movie.php", "application/x-mpegURL"),
];

#[test]
fn what_pywb_finds_by_its_fuzzy_rules_is_not_absent() {
    let Some(python) = oracles::python() else {
        return;
    };
    let world = World::new();
    let (mut rows, mut lookups) = (String::new(), Vec::new());
    // Of each host, one query is held.
    for (host, held) in QUERIES.into_iter().enumerate() {
        for (path, mime) in PATHS {
            let uri = |query: &str| format!("http://host{host}.example.net/{path}{query}");
            rows += &format!(
                "x)/ 20200101000000 {{\"url\": \"{}\", \"mime\": \"{mime}\", \"status\": \"200\"}}\n",
                uri(held)
            );
            lookups.extend(QUERIES.map(uri));
        }
    }
    rows += "x)/ 20200101000000 {\"url\": \"http://www.instagram.com/p/abc\", \"mime\": \"text/html\", \"status\": \"200\"}\n";
    lookups.push("http://www.instagram.com/p/".to_owned());
    world.write("unkeyed.cdxj", rows);
    world.ok("--quiet index rekey --dialect ia unkeyed.cdxj -o held.cdxj");
    world.write("asked.txt", lookups.join("\n") + "\n");
    let paths = ["held.cdxj", "asked.txt"].map(|name| world.at(name).display().to_string());
    let found = peers::run(&python, PYWB, &[&paths[0], &paths[1]]);
    let found: Vec<bool> = found.lines().map(|line| line == "1").collect();
    assert_eq!(found.len(), lookups.len());
    let refused = world.refused("filter build held.cdxj --fuzzy pywb --kind hashes -o a.hashes");
    assert!(refused.contains("--fuzzy needs --kind ribbon"), "{refused}");
    world.ok("--quiet filter build held.cdxj --bits 20 -o exact.filter");
    world.ok("--quiet filter build held.cdxj --bits 20 --fuzzy pywb -o fuzzy.filter");
    world.ok("--quiet profile held.cdxj --policy URIR,HxPx --id profile -o .");
    world.ok("--quiet map build held.cdxj -o map.ukvs");
    world.ok(
        "--quiet map compact map.ukvs --filters --bytes 20K --holdings held.cdxj -o small.ukvs",
    );
    // Lookups that are found but absent, and those that are not found and absent.
    let count = |answers: Vec<String>| {
        let absent = |is_found: bool| {
            let pairs = found.iter().zip(&answers);
            pairs
                .filter(|(found, answer)| **found == is_found && *answer == "absent")
                .count()
        };
        (absent(true), absent(false))
    };
    let routed = |summary: &str, fuzzy: &str| {
        world.write(
            "waypost.toml",
            format!("[[archive]]\nid = \"a\"\ntimemap = \"http://a.example/\"\nsummaries = [\"{summary}\"]\n{fuzzy}"),
        );
        let text = world.ok("--quiet route --batch asked.txt --config waypost.toml");
        let decisions = text.lines().map(|line| {
            let json: Value = serde_json::from_str(line).unwrap();
            json["archives"][0]["decision"].as_str().unwrap().to_owned()
        });
        count(decisions.collect())
    };
    let (lost, exact) = count(world.lookup("exact.filter", &lookups));
    assert!(lost > 100, "{lost}");
    let (lost, fuzzy) = count(world.lookup("fuzzy.filter", &lookups));
    // Where pywb has rules for a site, only a router knows better.
    assert_eq!(lost, 1);
    assert!(fuzzy * 2 > exact, "{fuzzy} of {exact}");
    let pywb = "fuzzy = \"pywb\"\n";
    assert!(routed("exact.filter", "").0 > 100);
    for summary in ["exact.filter", "profile.URIR.cdxj", "small.ukvs"] {
        assert_eq!(routed(summary, pywb), (0, 0), "{summary}");
    }
    let (lost, absent) = routed("fuzzy.filter", pywb);
    assert_eq!((lost, absent), (0, fuzzy));
    // Keys without queries find the same.
    for summary in ["map.ukvs", "profile.HxPx.cdxj"] {
        assert_eq!(routed(summary, pywb).0, 0, "{summary}");
        world.write("asked.txt", "http://host1.example.net/never\n");
        let run = world.run("--quiet route --batch asked.txt --config waypost.toml");
        assert_eq!(run.code, 1, "{summary}");
        world.write("asked.txt", lookups.join("\n") + "\n");
    }
}
