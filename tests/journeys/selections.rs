//! Summaries of a part of the captures, evaluated and routed by.

use std::collections::BTreeMap;

use super::world::World;

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
        let rows = |more: &str| -> serde_json::Value {
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
