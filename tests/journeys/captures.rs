//! WARC files and indexes of several crawls into one index.

use std::fs;

use super::world::World;

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
