//! WARC files and indexes of several crawls into one index.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::Command;
use std::thread;

use super::oracles;
use super::world::{World, write_index};

/// A record of an uncompressed WARC file.
fn record(kind: &str, uri: &str, content_type: &str, content: &str) -> String {
    format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\nWARC-Date: 2020-03-01T12:00:00Z\r\n\
         WARC-Record-ID: <urn:uuid:{kind}>\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n\r\n{content}\r\n\r\n",
        content.len()
    )
}

/// A page as Heritrix stores it: the request, the response, and fields about it.
fn page(uri: &str, text: &str) -> String {
    let response = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{text}");
    [
        record(
            "request",
            uri,
            "application/http; msgtype=request",
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        ),
        record(
            "response",
            uri,
            "application/http; msgtype=response",
            &response,
        ),
        record(
            "metadata",
            uri,
            "text/anvl",
            "via: http://example.com/\r\nhopsFromSeed: L\r\n",
        ),
    ]
    .concat()
}

fn rows(world: &World, index: &str) -> Vec<String> {
    let text = String::from_utf8(world.read(index)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn requests_and_metadata_are_captures_nowhere() {
    let world = World::new();
    let uris = ["http://example.com/a", "http://example.com/b"];
    world.write("x.warc", uris.map(|uri| page(uri, uri)).concat());
    world.ok("index warc x.warc -o plain.cdxj");
    assert_eq!(rows(&world, "plain.cdxj").len(), 2);
    world.ok("index warc x.warc --records all -o all.cdxj");
    assert_eq!(rows(&world, "all.cdxj").len(), 6);
    // A record of only a request: nothing is held there.
    let only = "com,example)/c 20200301120000 {\"url\": \"http://example.com/c\", \"mime\": \"warc/request\"}\n";
    let revisit = "com,example)/d 20200301120000 {\"url\": \"http://example.com/d\", \"mime\": \"warc/revisit\"}\n";
    world.write(
        "all.cdxj",
        [
            &world.read("all.cdxj")[..],
            only.as_bytes(),
            revisit.as_bytes(),
        ]
        .concat(),
    );

    let checked = world.ok("index check all.cdxj --format json");
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(
        checked["non_web"],
        serde_json::json!({"request": 3, "metadata": 2})
    );

    // Every summary holds the three pages, and nothing else.
    world.ok("map build all.cdxj -o all.ukvs");
    world.ok("filter build all.cdxj -o all.filter");
    world.ok("profile all.cdxj --policy HxPx -o profiles");
    let asked = ["a", "b", "c", "d"].map(|page| format!("http://example.com/{page}"));
    let profile = fs::read_dir(world.at("profiles")).unwrap().next().unwrap();
    let profile = profile.unwrap().path();
    for summary in [
        "all.cdxj",
        "all.ukvs",
        "all.filter",
        profile.to_str().unwrap(),
    ] {
        assert_eq!(
            world.lookup(summary, &asked),
            ["present", "present", "absent", "present"],
            "{summary}"
        );
    }
    world.write("asked.txt", asked.join("\n"));
    let evaluated =
        world.ok("evaluate all.ukvs --holdings all.cdxj --lookups asked.txt --format json");
    assert!(evaluated.contains("\"accuracy\": 1.0"), "{evaluated}");
    let found = world.ok("index lookup all.cdxj http://example.com/a");
    assert_eq!(found.lines().count(), 1, "{found}");
    let stats = world.ok("stats all.cdxj --format json");
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["totals"]["captures"], 3, "{stats:#}");

    let server = world.serve(
        "index serve all.cdxj --replay http://replay.example/{timestamp}/{url} --listen 127.0.0.1:0",
    );
    let timemap = server.get("/all/timemap/link/http://example.com/a");
    assert_eq!(
        timemap.text().matches("rel=\"memento\"").count(),
        1,
        "{timemap:?}"
    );
    assert_eq!(
        server.get("/all/timemap/link/http://example.com/c").status,
        404
    );
    assert_eq!(server.get("/all/timegate/http://example.com/c").status, 404);
    assert_eq!(server.get("/all/timegate/http://example.com/d").status, 302);
}

#[test]
fn files_with_the_same_name_are_told_apart() {
    let world = World::new();
    for crawl in ["a", "b"] {
        // The same page at the same time and place, so that only the names of the files differ.
        world.write(
            &format!("{crawl}/crawl.warc"),
            page("http://example.com/", "x"),
        );
    }
    let refused = world.refused("index warc a/crawl.warc b/crawl.warc -o all.cdxj");
    assert!(
        refused
            .contains("a/crawl.warc and b/crawl.warc have the same name in the index: crawl.warc"),
        "{refused}"
    );
    assert!(refused.contains("--dir-root FOLDER"), "{refused}");
    // A second run is like the first.
    for _ in 0..2 {
        world.ok("index warc a/crawl.warc b --dir-root . -o all.cdxj");
        let rows = rows(&world, "all.cdxj");
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows[0].contains("\"a/crawl.warc\"") && rows[1].contains("\"b/crawl.warc\""));
    }
    // The same file, whatever it is called, is one file.
    world.ok("index warc a/crawl.warc ./a/crawl.warc a -o one.cdxj");
    assert_eq!(rows(&world, "one.cdxj").len(), 1);

    let refused = world.refused("lastmod extract a b -o x.lastmod");
    assert!(refused.contains("same name in the index"), "{refused}");
    for _ in 0..2 {
        world.ok("lastmod extract a b --dir-root . -o x.lastmod");
    }
}

#[test]
fn records_of_wacz_files_with_the_same_entries_are_found() {
    let world = World::new();
    let crawl = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crawl.wacz");
    let crawl = fs::read(crawl).unwrap();
    world.write("one.wacz", &crawl);
    world.write("two.wacz", &crawl);
    world.refused("index warc one.wacz two.wacz -o all.cdxj");
    world.ok("index warc one.wacz two.wacz --dir-root . -o all.cdxj");
    let rows = rows(&world, "all.cdxj");
    let from = |wacz: &str| rows.iter().filter(|row| row.contains(wacz)).count();
    assert_eq!(from("\"one.wacz/archive/"), from("\"two.wacz/archive/"));
    assert_eq!(rows.len(), 2 * from("\"one.wacz/archive/"));
    let row: serde_json::Value =
        serde_json::from_str(&rows[0][rows[0].find('{').unwrap()..]).unwrap();
    let uri = row["url"].as_str().unwrap();
    let fetched = world.ok(&format!("index fetch all.cdxj {uri} --as record"));
    assert!(fetched.starts_with("WARC/1."), "{fetched}");
}

#[test]
fn hosts_that_are_addresses_are_found() {
    let world = World::new();
    let uris = [
        "http://[::ffff:1.2.3.4]/",
        "http://[::ffff:1.2.3.4]:8080/a",
        "http://[::1.2.3.4]/a",
        "http://[2001:db8::1]:8080/x",
        "http://[::1]/",
        "http://1.2.3.4:81/",
        // A host as pages misspell it.
        "http://,example.com/",
        "http://example.com/",
    ]
    .map(str::to_owned);
    write_index(&world, "held.cdxj", &uris);
    let expected = ["present"; 8];
    assert_eq!(world.lookup("held.cdxj", &uris), expected);
    for uri in &uris {
        let found = world.run_with("index lookup held.cdxj", &[uri]);
        assert_eq!(found.code, 0, "{uri}: {}", found.stderr);
    }
    world.ok("map build held.cdxj -o held.ukvs");
    world.ok("filter build held.cdxj -o held.filter");
    world.ok("profile held.cdxj --policy HxPx -o profiles");
    let profile = fs::read_dir(world.at("profiles")).unwrap().next().unwrap();
    let profile = profile.unwrap().path();
    for summary in ["held.ukvs", "held.filter", profile.to_str().unwrap()] {
        assert_eq!(world.lookup(summary, &uris), expected, "{summary}");
    }
}

#[test]
fn json_is_read_as_python_reads_it() {
    let world = World::new();
    // The page is at http://b.com/x, an HTML page with the status 200, whatever is escaped.
    let rows = [
        r#""url": "\u0068ttp://b.com/1", "mime": "text\/html", "status": "\u00320\u0030""#,
        r#""\u0075rl": "http:\/\/b.com\/2", "m\u0069me": "text/html", "st\u0061tus": "200""#,
        r#""statu\u0073": 200, "mime": "\u0074ext/html", "url": "http://b.com/3", "title": "\ud83d""#,
        r#""url": "http://b.com/4", "mime": "text/html", "status": "200", "redirect": "\u002d", "t\"\u00e9": "x""#,
    ];
    let index: Vec<String> = rows
        .iter()
        .enumerate()
        .map(|(n, row)| format!("com,b)/{} 20200101000000 {{{row}}}\n", n + 1))
        .collect();
    let request = "com,b)/5 20200101000000 {\"url\": \"http://b.com/5\", \"m\\u0069me\": \"\\u0077arc\\/request\"}\n";
    world.write("held.cdxj", index.concat() + request);
    let uris = [1, 2, 3, 4, 5].map(|n| format!("http://b.com/{n}"));
    let checked = world.run("index check held.cdxj --format json");
    let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checked["bad"], serde_json::json!({}), "{checked:#}");
    assert_eq!(checked["non_web"], serde_json::json!({"request": 1}));
    world.ok("map build held.cdxj --status 200 --mime text/html -o pages.ukvs");
    world.ok("map build held.cdxj -o all.ukvs");
    let expected = ["present", "present", "present", "present", "absent"];
    for summary in ["held.cdxj", "all.ukvs"] {
        assert_eq!(world.lookup(summary, &uris), expected, "{summary}");
    }
    let found = world.ok("lookup pages.ukvs --status 200 --mime text/html http://b.com/1 http://b.com/2 http://b.com/3 http://b.com/4 --format tsv");
    assert_eq!(found.matches("\tpresent\t").count(), 4, "{found}");

    // What comes out is what Python reads in it.
    let Some(python) = oracles::python() else {
        return;
    };
    let json = world.ok("index lookup held.cdxj --match prefix http://b.com/ --format json");
    world.write("rows.json", json);
    const SAME: &str = "
import json, sys
held = [json.loads(line.split(' ', 2)[2]) for line in open('held.cdxj')][:4]
rows = [json.loads(line) for line in open('rows.json')]
for row in rows:
    del row['urlkey'], row['timestamp']
assert rows == held, (rows, held)
";
    let peer = Command::new(python)
        .args(["-c", SAME])
        .current_dir(world.folder())
        .output()
        .unwrap();
    assert!(peer.status.success(), "{peer:?}");
}

#[test]
fn strange_statuses_are_defects_in_every_layout() {
    let world = World::new();
    let statuses = ["200", "2000", "abc"];
    let cdxj = statuses.map(|status| {
        format!("com,a)/{status} 20200101000000 {{\"url\": \"http://a.com/{status}\", \"status\": \"{status}\", \"length\": \"12\"}}\n")
    });
    let cdx = statuses.map(|status| {
        format!("com,a)/{status} 20200101000000 http://a.com/{status} text/html {status} D - - 1 2 a.warc.gz\n")
    });
    world.write("a.cdxj", cdxj.concat());
    world.write("a.cdx", cdx.concat());
    for index in ["a.cdxj", "a.cdx"] {
        let checked = world.run(&format!("index check {index} --format json"));
        let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(checked["bad"], serde_json::json!({"status": 2}), "{index}");
    }
    // The URI of such a line of CDXJ is held, whatever its status is.
    world.ok("map build a.cdxj -o a.ukvs");
    let uris = statuses.map(|status| format!("http://a.com/{status}"));
    assert_eq!(world.lookup("a.ukvs", &uris), ["present"; 3]);
}

#[test]
fn keys_of_older_web_archives_are_explained_by_their_urls() {
    let world = World::new();
    let rows = [
        "com,example)/ 20200101000000 {\"url\": \"http://www.example.com/\"}",
        "com,example)/?u=http%3A%2F%2Fa.com&v=x+y 20200101000000 {\"url\": \"http://example.com/?v=x%20y&u=http://a.com\"}",
        "com,example)/a/?b= 20200101000000 {\"url\": \"http://example.com/A/?b\"}",
    ];
    world.write("old.cdxj", rows.join("\n") + "\n");
    let uris = [
        "http://example.com/",
        "http://example.com/?v=x%20y&u=http://a.com",
        "http://example.com/A/?b",
    ]
    .map(str::to_owned);
    assert_eq!(world.lookup("old.cdxj", &uris), ["present"; 3]);
    let found = world.run_with("index lookup old.cdxj", &[&uris[1]]);
    assert_eq!(found.stdout.lines().count(), 1, "{}", found.stderr);
    assert!(
        found.stderr.contains("webrecorder-legacy"),
        "{}",
        found.stderr
    );
    let server = world.serve("index serve old.cdxj --listen 127.0.0.1:0");
    let answer = server
        .get("/all/cdx?url=http%3A%2F%2Fexample.com%2F%3Fv%3Dx%2520y%26u%3Dhttp%3A%2F%2Fa.com");
    assert_eq!(answer.text().lines().count(), 1, "{answer:?}");
    world.ok("map build old.cdxj -o old.ukvs");
    assert_eq!(world.lookup("old.ukvs", &uris), ["present"; 3]);
}

#[test]
fn outputs_stay_what_they_are() {
    let world = World::new();
    // Unsorted, so that the index is read a second time, with bad lines in between.
    let rows = "com,b)/ 20200101000000 {\"url\": \"http://b.com/\"}\nbad one\n\
                com,a)/ 20200101000000 {\"url\": \"http://a.com/\"}\nbad two\n";
    world.write("a.cdxj", rows);
    let bad = "bad one\nbad two\n";
    // A link.
    symlink("target.txt", world.at("link.txt")).unwrap();
    for _ in 0..2 {
        world.ok("profile a.cdxj --policy HxPx -o profiles --rejects link.txt");
        assert_eq!(world.read("target.txt"), bad.as_bytes());
        assert!(
            fs::symlink_metadata(world.at("link.txt"))
                .unwrap()
                .is_symlink()
        );
    }
    // A pipe: what it got once it does not get again.
    let made = Command::new("mkfifo")
        .arg(world.at("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let path = world.at("pipe");
    let reader = thread::spawn(move || fs::read_to_string(path).unwrap());
    world.ok("profile a.cdxj --policy HxPx -o others --rejects pipe");
    assert_eq!(reader.join().unwrap(), bad);
    assert!(
        fs::metadata(world.at("pipe"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    // A device, also where it could be replaced.
    assert_eq!(world.run("index check a.cdxj --rejects /dev/null").code, 1);
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
}

#[test]
fn a_uri_of_very_many_segments_is_counted() {
    let world = World::new();
    let long = format!("http://example.com/{}", "a/".repeat(40_000));
    write_index(&world, "held.cdxj", [&long]);
    for format in ["table", "json", "csv"] {
        let run = world.run(&format!("stats held.cdxj --format {format}"));
        assert_eq!(
            run.code,
            0,
            "{format}: {}",
            &run.stderr[run.stderr.len().saturating_sub(500)..]
        );
    }
    world.ok("stats held.cdxj --html held.html");
}
