//! A takedown list through everything that publishes or answers.

use super::world::{World, write_index};

/// What the archive of these journeys holds, and what it may show.
const HELD: [&str; 8] = [
    "http://www.example.com/",
    "http://www.example.com/private",
    "http://www.example.com/private/more",
    "http://www.iana.org/",
    "http://www.iana.org/about",
    "https://data.gone.example:8443/a?b=1",
    "http://gone.example/",
    "http://kept.example/2019/x",
];
const KEPT: [&str; 4] = [
    "http://www.example.com/",
    "http://www.example.com/private/more",
    "http://www.iana.org/about",
    "http://kept.example/2019/x",
];
/// Its lines are all the forms: a URI of another scheme with a byte order mark, a SURT, a domain, a key of a map.
const LIST: &str = "\u{feff}# court order 12\r\nhttps://example.com/private\r\npage org,iana)/ # SURT\r\n\
    domain gone.example\r\nexample,kept)/2020/*\r\n";
/// What must not be in anything that is published, in any spelling.
const TRACES: [&str; 4] = ["gone", "exclude", "takedown", "com,example)/private "];

fn uris(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

fn world() -> World {
    let world = World::new();
    write_index(&world, "a.cdxj", &uris(&HELD));
    write_index(&world, "kept.cdxj", &uris(&KEPT));
    world.write("takedown.txt", LIST);
    world
}

/// What is held and not on the list is present, and the rest is absent.
fn check(world: &World, summary: &str) {
    for (uri, answer) in HELD.iter().zip(world.lookup(summary, &uris(&HELD))) {
        let expected = if KEPT.contains(uri) {
            "present"
        } else {
            "absent"
        };
        assert_eq!(answer, expected, "{summary}: {uri}");
    }
}

/// What is built with a list is what is built of an index without what is on it, and does not tell that there
/// was a list.
#[test]
fn summaries_built_with_a_list_are_as_if_it_had_never_been_captured() {
    let world = world();
    for (build, file) in [
        ("map build INPUT -o OUT.ukvs", "OUT.ukvs"),
        ("map build --by year INPUT -o OUT.ukvs", "OUT.ukvs"),
        (
            "profile INPUT --policy URIR,HxPx,DDom --id x -o OUT",
            "OUT/x.URIR.cdxj",
        ),
        (
            "profile INPUT --policy URIR,HxPx,DDom --id x -o OUT",
            "OUT/x.DDom.cdxj",
        ),
        ("filter build --bits 32 INPUT -o OUT.filter", "OUT.filter"),
        (
            "filter build --kind hashes INPUT -o OUT.hashes",
            "OUT.hashes",
        ),
        (
            "filter build --kind bloom --room 1K --fpr 0.0001% INPUT -o OUT.bloom",
            "OUT.bloom",
        ),
        (
            "filter export --scheme lanl --fpr 0.0001% INPUT -o OUT.csv",
            "OUT.csv",
        ),
        (
            "filter export --scheme lanl --fpr 0.0001% --form binary INPUT -o OUT.orestes",
            "OUT.orestes",
        ),
    ] {
        let with_list = build.replace("INPUT", "a.cdxj").replace("OUT", "with");
        let run = world.run(&(with_list + " --exclude-list takedown.txt"));
        assert_eq!(run.code, 0, "{build}: {}", run.stderr);
        // The path of the list as it was given, the number of the line and its text.
        let unused = "takedown.txt: line 5: example,kept)/2020/*: matches nothing";
        let warned: Vec<&str> = run
            .stderr
            .lines()
            .filter(|line| line.contains("takedown.txt"))
            .collect();
        assert_eq!(warned, [format!("warning: {unused}")], "{build}");
        world.ok(&build
            .replace("INPUT", "kept.cdxj")
            .replace("OUT", "without"));
        let (with, without) = (file.replace("OUT", "with"), file.replace("OUT", "without"));
        let bytes = world.read(&with);
        assert!(bytes == world.read(&without), "{build}");
        let text = String::from_utf8_lossy(&bytes);
        for trace in TRACES {
            assert!(!text.contains(trace), "{build}: {trace}\n{text}");
        }
        // A row of DDom stands for a domain, and CSV has to be imported before it can be looked up.
        if !file.contains("DDom") && !file.ends_with(".csv") {
            check(&world, &with);
        }
    }
}

/// A selection is recorded, so lookups there are unknown; a takedown is not.
#[test]
fn a_selection_is_unknown_and_a_takedown_absent() {
    let world = world();
    world.ok("map build a.cdxj --exclude org,iana) --exclude-list takedown.txt -o m.ukvs");
    let asked = ["http://www.iana.org/about", "http://gone.example/", KEPT[0]];
    assert_eq!(
        world.lookup("m.ukvs", &uris(&asked)),
        ["unknown", "absent", "present"]
    );
    let header = String::from_utf8(world.read("m.ukvs")).unwrap();
    assert!(header.contains("exclude=org,iana)"), "{header}");
}

/// A line that cannot be understood ends the run before anything is written.
#[test]
fn bad_lines_are_named() {
    let world = world();
    for bad in ["hots http://a.example/", "com,example)/a*", "com,example"] {
        world.write("bad.txt", format!("http://a.example/\n\n{bad}\n"));
        let error = world.refused("map build a.cdxj --exclude-list bad.txt -o m.ukvs");
        assert!(error.contains("bad.txt: line 3: "), "{error}");
        assert!(error.contains("hint: "), "{error}");
        assert!(!world.at("m.ukvs").exists());
    }
    let error = world.refused("filter build a.cdxj --exclude-list missing.txt -o a.filter");
    assert!(error.contains("missing.txt"), "{error}");
}

/// The same list hides the same captures from the server of the index and from a converted index.
#[test]
fn servers_and_indexes_hide_what_summaries_leave_out() {
    let world = world();
    let server = world.serve("index serve a.cdxj --exclude-list takedown.txt --listen 127.0.0.1:0");
    for uri in HELD {
        let reply = server.get(&format!("/all/cdx?url={uri}"));
        let expected = if KEPT.contains(&uri) { 200 } else { 404 };
        assert_eq!(reply.status, expected, "{uri}: {reply:?}");
    }
    world.ok("index convert a.cdxj --to cdxj --exclude-list takedown.txt -o public.cdxj");
    world.ok("index convert kept.cdxj --to cdxj -o same.cdxj");
    assert_eq!(world.read("public.cdxj"), world.read("same.cdxj"));
    assert_eq!(
        world
            .read("public.cdxj")
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count(),
        KEPT.len()
    );
}

/// The truth of `evaluate` is what may be shown, whatever the holdings are.
#[test]
fn evaluate_takes_the_list_with_holdings_of_every_kind() {
    let world = world();
    world.write("lookups.txt", HELD.join("\n"));
    world.ok("map build kept.cdxj -o kept.ukvs");
    world.ok("profile a.cdxj --policy URIR --id a -o .");
    world.ok("filter build a.cdxj --kind hashes -o a.hashes");
    for holdings in ["a.cdxj", "a.URIR.cdxj", "a.hashes"] {
        let words =
            format!("evaluate kept.ukvs --holdings {holdings} --lookups lookups.txt --format json");
        let run = world.run(&words);
        assert_eq!(
            run.code, 1,
            "without the list, what it leaves out is held: {holdings}"
        );
        let found = world.ok(&(words + " --exclude-list takedown.txt"));
        assert!(
            found.contains("\"true_positives\": 4,"),
            "{holdings}: {found}"
        );
        assert!(
            found.contains("\"true_negatives\": 4,"),
            "{holdings}: {found}"
        );
    }
}

/// A finished map loses the rows of the list, its totals do not tell, and its filter is built again.
#[test]
fn a_finished_map_is_taken_down_from() {
    let world = world();
    world.ok("map build a.cdxj -o a.ukvs");
    world.ok("map build kept.cdxj -o kept.ukvs");
    let run = world.run("map merge a.ukvs --exclude-list takedown.txt -o m.ukvs");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr
            .contains("takedown.txt: line 5: example,kept)/2020/*: matches nothing"),
        "{}",
        run.stderr
    );
    check(&world, "m.ukvs");
    assert_eq!(world.read("m.ukvs"), world.read("kept.ukvs"));
    // A key that stands for several queries goes with all of them, which is not passed over in silence.
    let queries = uris(&["http://q.example/a?b=1", "http://q.example/a?b=2"]);
    write_index(&world, "q.cdxj", &queries);
    world.write("q.txt", "http://q.example/a\n");
    world.ok("map build q.cdxj -o q.ukvs");
    let run = world.run("map merge q.ukvs --exclude-list q.txt -o without.ukvs");
    assert!(
        run.stderr
            .contains("warning: 1 key of the list stood for several URI-Rs"),
        "{}",
        run.stderr
    );
    // Built with the list, both stay.
    world.ok("map build q.cdxj --exclude-list q.txt -o q.ukvs");
    assert_eq!(world.lookup("q.ukvs", &queries), ["present", "present"]);
}

/// Hashes do not tell what they hold on a host: it takes the holdings, or it is refused.
#[test]
fn hashes_need_the_holdings_for_more_than_a_page() {
    let world = world();
    world.ok("filter build a.cdxj --kind hashes -o a.hashes");
    world.ok("filter build kept.cdxj --kind hashes -o kept.hashes");
    let error = world.refused("filter exclude a.hashes takedown.txt -o out.hashes");
    assert!(
        error.contains("takedown.txt: line 4: domain gone.example"),
        "{error}"
    );
    assert!(error.contains("--holdings"), "{error}");
    assert!(!world.at("out.hashes").exists());
    let run = world.run("filter exclude a.hashes takedown.txt --holdings a.cdxj -o out.hashes");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("removed 4 keys"), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("line 5: example,kept)/2020/*: matches nothing"),
        "{}",
        run.stderr
    );
    check(&world, "out.hashes");
    // Pages need nothing, and those that were not held are named.
    world.write(
        "pages.txt",
        "http://www.example.com/private\npage http://nobody.example/\n",
    );
    let run = world.run("filter exclude a.hashes pages.txt -o out.hashes");
    assert!(run.stderr.contains("removed 1 key"), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("pages.txt: line 2: page http://nobody.example/: matches nothing"),
        "{}",
        run.stderr
    );
}

/// What may not be published is not: summaries with what was taken down, maps without their filters, secrets,
/// indexes and lists.
#[test]
fn publish_refuses_what_tells_too_much() {
    let world = world();
    let publish = "publish public --url https://archive.example/ --exclude-list takedown.txt";
    world.write("public/README.html", "<!doctype html><p>Summaries</p>");
    world.ok("map build kept.cdxj -o public/kept.ukvs");
    world.ok("profile kept.cdxj --policy URIR,HxP1,H3P0,DDom --id kept -o public");
    world.ok("filter build --bits 32 kept.cdxj -o public/kept.filter");
    let listed = world.ok(publish);
    for name in ["kept.ukvs", "kept.URIR.cdxj", "kept.filter"] {
        assert!(listed.contains(name), "{listed}");
    }
    let manifest = world.read("public/manifest.json");
    for (build, name) in [
        ("map build a.cdxj -o public/bad", "bad"),
        (
            "profile a.cdxj --policy URIR --id bad -o public",
            "bad.URIR.cdxj",
        ),
        (
            "profile a.cdxj --policy DDom --id bad -o public",
            "bad.DDom.cdxj",
        ),
        ("filter build --bits 32 a.cdxj -o public/bad", "bad"),
    ] {
        world.ok(build);
        let error = world.refused(publish);
        assert!(
            error.contains(name) && error.contains("what was taken down"),
            "{build}: {error}"
        );
        std::fs::remove_file(world.at(&format!("public/{name}"))).unwrap();
    }
    for (name, content) in [
        ("a.cdxj", world.read("a.cdxj")),
        ("takedown.txt", world.read("takedown.txt")),
        ("secret", b"000102030405060708090a0b0c0d0e0f\n".to_vec()),
    ] {
        world.write(&format!("public/{name}"), content);
        let error = world.refused(publish);
        assert!(error.contains(name), "{error}");
        std::fs::remove_file(world.at(&format!("public/{name}"))).unwrap();
    }
    assert_eq!(
        world.read("public/manifest.json"),
        manifest,
        "nothing was written"
    );
    world.ok(publish);
}

/// A filtered map is published with its filter or not at all.
#[test]
fn a_map_without_its_filter_is_not_published() {
    let world = World::new();
    let held: Vec<String> = (0..3000)
        .map(|n| format!("http://h{}.example/{n}", n % 40))
        .collect();
    write_index(&world, "big.cdxj", &held);
    world.ok("map build big.cdxj -o full.ukvs");
    std::fs::create_dir(world.at("public")).unwrap();
    world.ok("map compact full.ukvs --bytes 4K --filters --holdings big.cdxj -o public/m.ukvs");
    let files = std::fs::read_dir(world.at("public")).unwrap();
    let filter: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| !path.ends_with("m.ukvs"))
        .collect();
    assert_eq!(filter.len(), 1, "the map and its filter");
    world.ok("publish public --url https://archive.example/");
    std::fs::remove_file(&filter[0]).unwrap();
    let error = world.refused("publish public --url https://archive.example/");
    assert!(error.contains("m.ukvs"), "{error}");
}
