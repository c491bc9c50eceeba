//! Publish, discover and route; real archives behind the router.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::oracles;
use super::peers::Peer;
use super::world::{Served, World, eventually, write_index};

/// The files below a folder that downloads leave for people, with their paths.
fn files(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let own = ["lock", "meta", "part"].map(Some);
        match path.is_dir() {
            true => found.extend(files(path)),
            false if own.contains(&path.extension().and_then(|end| end.to_str())) => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// What a router decides for URIs about its only archive, and why.
fn decisions(world: &World, config: &str, uris: &[String]) -> Vec<String> {
    world.write("route.txt", uris.join("\n") + "\n");
    let lines = world.ok(&format!("route --batch route.txt --config {config}"));
    let decision = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["archives"][0]["decision"].as_str().unwrap().to_owned()
    };
    let decisions: Vec<String> = lines.lines().map(decision).collect();
    assert_eq!(decisions.len(), uris.len());
    decisions
}

/// Starts an archive that serves a map, and writes `router.toml` of a router that takes it from there.
fn archive_and_router(world: &World, map: &str) -> Served {
    world.write(
        "archive.toml",
        format!("[server]\nmementomap = \"{map}\"\n[[archive]]\nid = \"x\"\ntimemap = \"http://x.invalid/\"\n"),
    );
    let archive = world.serve("serve --config archive.toml --listen 127.0.0.1:0");
    let links = archive.url("/timemap/link/");
    let source = archive.url("/.well-known/mementomap");
    world.write(
        "router.toml",
        format!(
            "[routing]\ndownloads = \"downloads\"\n\n[[archive]]\nid = \"a\"\ntimemap = \"{links}\"\nsources = [\"{source}\"]\n"
        ),
    );
    archive
}

#[test]
fn a_map_above_the_page_size_is_whole_wherever_it_arrives() {
    let world = World::new();
    let uris: Vec<String> = (0..60_000)
        .map(|n| {
            format!(
                "http://host{}.example/a/path/that/makes/the/map/larger/than/one/page/of/four/mebibytes/{n}",
                n % 977
            )
        })
        .collect();
    write_index(&world, "index.cdxj", &uris);
    world.ok("--quiet map build index.cdxj -o big.ukvs");
    assert!(
        world.read("big.ukvs").len() > 4 << 20,
        "the map has several pages"
    );
    let mut sample: Vec<String> = uris.iter().step_by(3).cloned().collect();
    assert_eq!(sample.len(), 20_000);
    let absent = sample.len();
    sample.extend((0..100).map(|n| format!("http://host{n}.example/not/held")));
    let expected: Vec<&str> = (0..sample.len())
        .map(|place| if place < absent { "present" } else { "absent" })
        .collect();
    let archive = archive_and_router(&world, "big.ukvs");
    let page = archive.get("/.well-known/mementomap");
    assert!(page.body.len() < 5 << 20, "the first page");

    for (start, copies) in [("/", "host"), ("/.well-known/mementomap", "itself")] {
        let url = archive.url(start);
        let found = world.ok(&format!("--quiet discover {url} -o {copies}"));
        assert!(found.contains("/.well-known/mementomap"), "{found}");
        let [copy] = &files(world.at(copies))[..] else {
            panic!("one copy: {:?}", files(world.at(copies)));
        };
        let name = copy.to_str().unwrap();
        assert!(world.lookup(name, &sample) == expected, "{name}");
        let again = world.ok(&format!("--quiet discover {url} -o {copies}"));
        assert!(again.contains("unchanged: "), "{again}");
    }

    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    eventually("the map is installed", || {
        let why = router.get("/explain/http://host1.example/not/held");
        let why: Value = serde_json::from_str(why.text()).unwrap();
        (why["archives"][0]["decision"] == "absent").then_some(())
    });
    assert!(decisions(&world, "router.toml", &sample) == expected);
    // The last rows are on the last page.
    for uri in [&uris[59_999], &uris[976]] {
        let why = router.get(&format!("/explain/{uri}"));
        assert!(why.text().contains("\"present\""), "{}", why.text());
    }
}

#[test]
fn a_map_with_a_filter_is_discovered_with_its_filter() {
    let world = World::new();
    let uris: Vec<String> = (0..4000)
        .map(|n| format!("http://host{}.example/{n}", n % 7))
        .collect();
    write_index(&world, "index.cdxj", &uris);
    world.ok("--quiet map build index.cdxj -o full.ukvs");
    world.ok(
        "--quiet map compact full.ukvs --filters --bytes 12K --holdings index.cdxj -o small.ukvs",
    );
    let archive = archive_and_router(&world, "small.ukvs");
    let url = archive.url("/.well-known/mementomap");
    world.ok(&format!("--quiet discover {url} -o copies"));
    let copies = files(world.at("copies"));
    assert_eq!(copies.len(), 2, "a map and its filter: {copies:?}");
    let map = copies[0].to_str().unwrap();
    assert!(
        world
            .lookup(map, &uris)
            .iter()
            .all(|answer| answer == "present")
    );
    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    eventually("the map is installed", || {
        let why = router.get("/explain/http://elsewhere.example/");
        let why: Value = serde_json::from_str(why.text()).unwrap();
        (why["archives"][0]["decision"] == "absent").then_some(())
    });
    let held = decisions(&world, "router.toml", &uris);
    assert!(held.iter().all(|decision| decision == "present"));
}

/// WARC records of captures of pages at datetimes.
fn warc(captures: &[(&str, &str)]) -> String {
    let mut warc = String::new();
    for (number, (uri, date)) in captures.iter().enumerate() {
        let http = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
        write!(
            warc,
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {uri}\r\nWARC-Date: {date}\r\n\
             WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
            http.len()
        )
        .unwrap();
    }
    warc
}

#[test]
fn a_redirect_of_pywb_is_followed_to_what_it_holds() {
    let Some(python) = oracles::python() else {
        return;
    };
    let world = World::new();
    let mut config = String::new();
    let mut archives = Vec::new();
    for (id, manner) in [
        ("framed", ""),
        ("bare", "framed_replay: false\n"),
        ("exact", "redirect_to_exact: true\n"),
    ] {
        let held = [
            ("http://held.example/", "2015-03-01T00:00:00Z"),
            ("http://held.example/", "2018-03-01T00:00:00Z"),
        ];
        world.write(&format!("{id}/a.warc"), warc(&held));
        world.ok(&format!(
            "--quiet index warc {id}/a.warc -o {id}/index.cdxj"
        ));
        let paths = "collections:\n  coll:\n    index_paths: ./index.cdxj\n    archive_paths: ./\n";
        world.write(&format!("{id}/config.yaml"), format!("{manner}{paths}"));
        let archive = Peer::start(&python, "wayback", &world.at(id));
        let coll = format!("http://{}/coll/", archive.address);
        writeln!(
            config,
            "[[archive]]\nid = \"{id}\"\ntimegate = \"{coll}\"\ntimemap = \"{coll}timemap/link/\""
        )
        .unwrap();
        archives.push((id, coll, archive));
    }
    world.write("router.toml", config);
    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    for (id, coll, _) in &archives {
        let closest = |uri: &str, datetime: &str| {
            let headers = [("Accept-Datetime", datetime), ("X-Waypost-Archives", *id)];
            let reply = router.get_with(&format!("/timegate/{uri}"), &headers);
            assert_eq!(reply.header("x-waypost-incomplete"), None, "{id} {uri}");
            let location = reply.header("location").map(str::to_owned);
            (reply.status, location)
        };
        for uri in ["http://held.example", "http://held.example/"] {
            for (datetime, timestamp) in [
                ("Wed, 01 Jun 2016 00:00:00 GMT", "20150301000000"),
                ("Sun, 01 Mar 2015 00:00:00 GMT", "20150301000000"),
                ("Sun, 01 Dec 2019 00:00:00 GMT", "20180301000000"),
            ] {
                let (status, location) = closest(uri, datetime);
                let location = location.unwrap_or_default().replace("mp_", "");
                let expected = format!("{coll}{timestamp}/http://held.example/");
                assert_eq!((status, location), (302, expected), "{id} {uri} {datetime}");
            }
        }
        for uri in ["http://none.example", "http://none.example/"] {
            let found = closest(uri, "Wed, 01 Jun 2016 00:00:00 GMT");
            assert_eq!(found, (404, None), "{id} {uri}");
        }
    }
}

#[test]
fn a_kept_answer_goes_with_the_summary_that_it_depended_on() {
    let world = World::new();
    let uris = [
        "http://a.example/".to_owned(),
        "http://b.example/".to_owned(),
    ];
    write_index(&world, "index.cdxj", &uris);
    let replay = "--replay http://replay.example/{timestamp}/{url}";
    let archive = world.serve(&format!(
        "index serve index.cdxj {replay} --listen 127.0.0.1:0"
    ));
    write_index(&world, "old.cdxj", &uris[..1]);
    world.ok("--quiet map build old.cdxj -o a.ukvs");
    world.ok("--quiet map build index.cdxj -o new.ukvs");
    let table = format!(
        "[cache]\nnegative = \"1d\"\n[[archive]]\nid = \"a\"\ntimemap = \"{}\"\nsummaries = [\"a.ukvs\"]\n",
        archive.url("/all/timemap/link/")
    );
    world.write("router.toml", table);
    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    for kept in [None, Some("fresh")] {
        let absent = router.get("/timemap/link/http://b.example/");
        assert_eq!(absent.status, 404);
        if kept.is_some() {
            assert_eq!(absent.header("x-waypost-cache"), kept);
        }
    }
    let map = world.read("new.ukvs");
    world.replace("a.ukvs", map);
    eventually("the newer map answers", || {
        let why = router.get("/explain/http://b.example/");
        why.text().contains("\"present\"").then_some(())
    });
    let only = [("Cache-Control", "only-if-cached")];
    assert_eq!(
        router
            .get_with("/timemap/link/http://b.example/", &only)
            .status,
        504
    );
    assert_eq!(router.get("/timemap/link/http://b.example/").status, 200);
    // What did not depend on the summary is still kept.
    let again = router.get("/timemap/link/http://b.example/");
    assert_eq!(again.header("x-waypost-cache"), Some("fresh"));
}

#[test]
fn nothing_is_said_of_what_no_archive_has_answered() {
    let world = World::new();
    write_index(&world, "index.cdxj", &["http://a.example/".to_owned()]);
    let archive = world.serve(
        "index serve index.cdxj --replay http://r.example/{timestamp}/{url} --listen 127.0.0.1:0",
    );
    let table = format!(
        "[[archive]]\nid = \"a\"\ntimemap = \"{0}timemap/link/\"\ntimegate = \"{0}\"\nmax_failures = 2\n",
        archive.url("/all/")
    );
    world.write("router.toml", table);
    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    assert_eq!(
        router.get("/timemap/link/http://absent.example/").status,
        404
    );
    drop(archive);
    // It fails, and then it is left alone.
    for number in 0..5 {
        for path in ["/timemap/link/", "/timegate/", "/memento/2015/"] {
            let reply = router.get(&format!("{path}http://a.example/{number}"));
            assert_eq!(reply.status, 503, "{path}: {reply:?}");
            assert_eq!(reply.header("x-waypost-incomplete"), Some("a"));
        }
    }
}

#[test]
fn a_harvest_writes_voids_only_for_an_archive_that_answers() {
    let world = World::new();
    let held: Vec<String> = (0..3).map(|n| format!("http://held.example/{n}")).collect();
    let gone: Vec<String> = (0..3).map(|n| format!("http://gone.example/{n}")).collect();
    write_index(&world, "index.cdxj", &held);
    world.write("list", [&gone[..], &held[..]].concat().join("\n") + "\n");
    world.write("gone", gone.join("\n") + "\n");
    let replay = "--replay http://replay.example/{timestamp}/{url}";
    let blind = world.serve("index serve index.cdxj --listen 127.0.0.1:0");
    let archive = world.serve(&format!(
        "index serve index.cdxj {replay} --listen 127.0.0.1:0"
    ));
    let answers = |map: &str, expected: &str| {
        let answers = world.lookup(map, &gone);
        assert!(
            answers.iter().all(|answer| answer == expected),
            "{map}: {answers:?}"
        );
        let held = world.lookup(map, &held);
        assert!(
            held.iter().all(|answer| answer != "absent"),
            "{map}: {held:?}"
        );
    };
    let harvest = |list: &str, timemap: String, map: &str| {
        let run = world.run(&format!(
            "harvest {list} --timemap {timemap} --rate 1000 -o {map}"
        ));
        (run.code, run.stderr)
    };
    // An archive that does not know where its captures are replayed, and one that is not there.
    assert_eq!(
        blind.get("/all/timemap/link/http://held.example/0").status,
        501
    );
    for (server, path, map) in [
        (&blind, "/all/timemap/link/", "blind.ukvs"),
        (&archive, "/none/timemap/link/", "none.ukvs"),
    ] {
        let (code, said) = harvest("list", server.url(path), map);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("name a URI that the archive holds"), "{said}");
        answers(map, "unknown");
    }
    let timemap = archive.url("/all/timemap/link/");
    let (code, said) = harvest("list", timemap.clone(), "whole.ukvs");
    assert_eq!(code, 0, "{said}");
    answers("whole.ukvs", "absent");
    // A hit of an earlier run is asked for again.
    world.write("one", format!("{}\n", held[0]));
    assert_eq!(harvest("one", timemap.clone(), "later.ukvs").0, 0);
    let (code, said) = harvest("gone", timemap.clone(), "later.ukvs");
    assert_eq!(code, 1, "nothing that it holds is in the list: {said}");
    answers("later.ukvs", "unknown");
    world.write("again", format!("{}\n{}\n", gone.join("\n"), held[0]));
    assert_eq!(harvest("again", timemap, "later.ukvs").0, 0);
    answers("later.ukvs", "absent");
}
