//! Summaries that are cut or empty.

use std::io::Write;
use std::process::{Command, Stdio};

use super::world::{World, write_index};

/// The URIs of an archive, enough for several sites.
fn uris(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| format!("http://site{}.example/page/{n}", n % 37))
        .collect()
}

/// An index of these URIs, `small.cdxj`, and a list of them, `lookups.txt`.
fn world(count: usize) -> (World, Vec<String>) {
    let (world, uris) = (World::new(), uris(count));
    write_index(&world, "small.cdxj", &uris);
    world.write("lookups.txt", uris.join("\n") + "\n");
    (world, uris)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    gzip.stdin.take().unwrap().write_all(text).unwrap();
    gzip.wait_with_output().unwrap().stdout
}

/// The text of a summary in which parts are missing, by what was done to it.
fn cuts(text: &str) -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (headers, rows): (Vec<&str>, Vec<&str>) =
        lines.iter().partition(|line| line.starts_with('!'));
    let headers = headers.concat();
    let row = rows[rows.len() / 2];
    vec![
        ("last rows", lines[..lines.len() - 5].concat()),
        ("first rows", format!("{headers}{}", rows[5..].concat())),
        ("all rows", headers.clone()),
        ("a row in the middle", text.replace(row, "")),
        (
            "a row instead of another",
            text.replace(row, &row.replacen(' ', "- ", 1)),
        ),
        ("all but a header", lines[1].to_owned()),
    ]
}

/// Every way in which the commands read a summary refuses it.
fn is_refused_everywhere(world: &World, kind: &str, name: &str, what: &str) {
    // Of one header alone, nobody can tell what it was of.
    let is_summary = what != "all but a header";
    let mut commands = vec![
        format!("lookup {name} --batch lookups.txt"),
        format!("{kind} lookup {name} --batch lookups.txt"),
        format!("evaluate {name} --holdings small.cdxj --lookups lookups.txt"),
        format!("{kind} merge {name} -o merged.{kind}"),
        "publish published --url https://archive.example/".to_owned(),
    ];
    if kind == "map" {
        commands.extend([
            format!("map check {name}"),
            format!("map compact {name} --keys 10% -o compacted.ukvs"),
            format!("map compact {name} --rule papers -o papers.ukvs"),
            format!("map merge {name} whole.ukvs -o merged.ukvs"),
            format!("map index {name}"),
            "serve --config served.toml".to_owned(),
        ]);
    }
    world.write(&format!("published/{name}"), world.read(name));
    world.write(
        "served.toml",
        format!("[server]\nlisten = \"127.0.0.1:0\"\nmementomap = \"{name}\"\n[[archive]]\nid = \"a\"\ntimemap = \"http://a.invalid/\"\n"),
    );
    for command in commands {
        let error = world.refused(&command);
        assert!(
            !is_summary || error.contains("not whole"),
            "{what}: {command}: {error}"
        );
    }
    std::fs::remove_dir_all(world.at("published")).unwrap();
    world.write(
        "routing.toml",
        format!(
            "[[archive]]\nid = \"a\"\ntimemap = \"http://a.invalid/\"\nsummaries = [\"{name}\"]\n"
        ),
    );
    let run = world.run("route http://elsewhere.example/ --config routing.toml --format json");
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(
        run.code == 0 && (!is_summary || told.contains("not whole")),
        "{what}: {told}"
    );
    assert!(!told.contains("absent"), "{what}: {told}");
}

#[test]
fn a_map_that_is_cut_is_refused_by_everything_that_reads_it() {
    let (world, uris) = world(400);
    world.ok("map build small.cdxj -o whole.ukvs");
    assert!(
        world
            .lookup("whole.ukvs", &uris)
            .iter()
            .all(|answer| answer == "present")
    );
    let text = String::from_utf8(world.read("whole.ukvs")).unwrap();
    for (what, cut) in cuts(&text) {
        world.write("cut.ukvs", &cut);
        is_refused_everywhere(&world, "map", "cut.ukvs", what);
        world.write("cut.ukvs.gz", gzip(cut.as_bytes()));
        let error = world.refused("lookup cut.ukvs.gz http://elsewhere.example/");
        let is_summary = what != "all but a header";
        assert!(
            !is_summary || error.contains("not whole"),
            "{what}: {error}"
        );
    }
    // Rows in another order, other line ends and other headers change nothing.
    let (headers, rows) = text.split_at(text.find("\nexample").unwrap() + 1);
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.reverse();
    let other = format!("{headers}!note \"edited\"\n{}", rows.join("\n")).replace('\n', "\r\n");
    world.write("other.ukvs", other);
    assert!(
        world
            .lookup("other.ukvs", &uris)
            .iter()
            .all(|answer| answer == "present")
    );
}

#[test]
fn a_profile_that_is_cut_is_refused_by_everything_that_reads_it() {
    // Small, and so large that its header is written into the room that was left for it.
    for (count, extra) in [(400, ""), (6000, ""), (6000, "--gzip")] {
        let (world, uris) = world(count);
        world.ok(&format!("profile small.cdxj --policy HxPx -o made {extra}"));
        let made = world
            .at("made")
            .read_dir()
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let name = format!("made/{}", made.file_name().unwrap().to_str().unwrap());
        assert!(
            world
                .lookup(&name, &uris)
                .iter()
                .all(|answer| answer == "present")
        );
        let text = match extra {
            "" => std::fs::read(&made).unwrap(),
            _ => {
                Command::new("gzip")
                    .arg("-dc")
                    .arg(&made)
                    .output()
                    .unwrap()
                    .stdout
            }
        };
        for (what, cut) in cuts(&String::from_utf8(text).unwrap()) {
            if what == "all but a header" {
                continue;
            }
            match extra {
                "" => world.write("cut.cdxj", &cut),
                _ => world.write("cut.cdxj", gzip(cut.as_bytes())),
            }
            is_refused_everywhere(&world, "profile", "cut.cdxj", what);
        }
    }
}

#[test]
fn members_missing_from_gzipped_maps_and_profiles_are_noticed() {
    let (world, uris) = world(60_000);
    world.ok("map build small.cdxj -o whole.ukvs.gz");
    world.ok("profile small.cdxj --policy HxPx -o made --gzip");
    world.replace("whole.cdxj.gz", world.read("made/small.HxPx.cdxj.gz"));
    for name in ["whole.ukvs.gz", "whole.cdxj.gz"] {
        assert!(
            world
                .lookup(name, &uris[..500])
                .iter()
                .all(|answer| answer == "present")
        );
        let bytes = world.read(name);
        let starts: Vec<usize> = memchr::memmem::find_iter(&bytes, b"\x1f\x8b\x08").collect();
        assert!(starts.len() > 2, "{name} has several members");
        for &start in &starts[1..] {
            world.write(name, &bytes[..start]);
            // Of the first member alone, nobody can tell that it was a summary.
            let error = world.refused(&format!("lookup {name} http://elsewhere.example/"));
            let is_told = error.contains("not whole") || start == starts[1];
            assert!(is_told, "{name}: {error}");
        }
    }
}

#[test]
fn merged_edited_and_compacted_summaries_are_described_anew() {
    let (world, uris) = world(400);
    world.ok("map build small.cdxj -o whole.ukvs");
    world.ok("map build small.cdxj -o packed.ukvs.gz");
    world.ok("profile small.cdxj --policy HxPx,H3P0 -o made");
    world.ok("map merge whole.ukvs packed.ukvs.gz -o merged.ukvs");
    world.ok("map compact whole.ukvs --keys 30% -o compacted.ukvs");
    world.ok("map compact whole.ukvs --keys 30% -o compacted.ukvs.gz");
    world.ok("map compact whole.ukvs --rule papers --wh 1 --wp 0.5 -o papers.ukvs");
    world.ok("map compact whole.ukvs --filters --bytes 2K --lookups lookups.txt --holdings small.cdxj -o filtered.ukvs");
    world.ok("map build made/small.HxPx.cdxj -o of-profile.ukvs");
    world.ok("profile merge made/small.HxPx.cdxj made/small.HxPx.cdxj -o twice.cdxj.gz");
    world
        .ok("profile merge --policy H3P0 made/small.HxPx.cdxj made/small.H3P0.cdxj -o coarse.cdxj");
    for name in [
        "whole.ukvs",
        "packed.ukvs.gz",
        "merged.ukvs",
        "compacted.ukvs",
        "compacted.ukvs.gz",
        "papers.ukvs",
        "filtered.ukvs",
        "of-profile.ukvs",
        "twice.cdxj.gz",
        "coarse.cdxj",
    ] {
        let run = world.run(&format!("lookup {name} --batch lookups.txt --verbose"));
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        assert!(
            run.stderr.contains("the summary is whole"),
            "{name}: {}",
            run.stderr
        );
        assert!(!run.stdout.contains("absent"), "{name}");
        assert!(
            world
                .lookup(name, &uris)
                .iter()
                .all(|answer| answer == "present"),
            "{name}"
        );
    }
    let to_stdout = world.ok("map build small.cdxj -o -");
    assert_eq!(to_stdout.as_bytes(), world.read("whole.ukvs"));
}

#[test]
fn maps_of_others_are_compared_with_their_totals_or_not_known_to_be_whole() {
    let (world, uris) = world(40);
    world.ok("map build small.cdxj -o whole.ukvs");
    let text = String::from_utf8(world.read("whole.ukvs")).unwrap();
    let described = text.split_once('\n').unwrap().1;
    let without = |name: &str, text: &str| world.write(name, text);
    without("totals.ukvs", described);
    let run = world.run("lookup totals.ukvs http://elsewhere.example/ --verbose");
    assert!(
        run.code == 1 && run.stderr.contains("the summary is whole"),
        "{}",
        run.stderr
    );
    let lines: Vec<&str> = described.split_inclusive('\n').collect();
    without("cut.ukvs", &lines[..lines.len() - 5].concat());
    let error = world.refused("lookup cut.ukvs http://elsewhere.example/");
    assert!(error.contains("35 of the 40 captures"), "{error}");
    let rows: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !line.starts_with('!'))
        .collect();
    without("bare.ukvs", &rows.concat());
    let run = world.run("lookup bare.ukvs http://elsewhere.example/ --verbose");
    assert!(
        run.code == 1 && run.stderr.contains("not known"),
        "{}",
        run.stderr
    );
    assert!(world.ok("map check bare.ukvs").contains("not known"));
    assert!(
        world
            .lookup("bare.ukvs", &uris)
            .iter()
            .all(|answer| answer == "present")
    );
}

#[test]
fn empty_files_are_refused_whatever_their_name_is() {
    let (world, _) = world(40);
    for name in ["a.filter", "a.ukvs", "a.cdxj", "a.orestes", "a.csv"] {
        world.write(name, "");
        let error = world.refused(&format!("lookup {name} http://elsewhere.example/"));
        assert!(error.contains("empty"), "{name}: {error}");
        world.refused(&format!(
            "evaluate {name} --holdings small.cdxj --lookups lookups.txt"
        ));
    }
    for command in [
        "map lookup a.ukvs",
        "profile lookup a.cdxj",
        "filter lookup a.filter",
    ] {
        world.refused(&format!("{command} http://elsewhere.example/"));
    }
}

#[test]
fn what_is_held_but_absent_in_a_summary_is_not_published() {
    let (world, uris) = world(400);
    world.write("key", "00112233445566778899aabbccddeeff\n");
    std::fs::create_dir(world.at("published")).unwrap();
    write_index(&world, "few.cdxj", &uris[..100]);
    let publish = "publish published --url https://archive.example/ --holdings small.cdxj";
    let builds = [
        ("map.ukvs", "map build"),
        ("filter.filter", "filter build"),
        ("keyed.filter", "filter build --key-file key"),
        ("classic.orestes", "filter export --form binary"),
    ];
    for (name, build) in builds {
        let out = format!("-o published/{name}");
        world.ok(&format!("{build} few.cdxj {out}"));
        let error = world.refused(&format!("{publish} --key-file key"));
        assert!(error.contains(name), "{error}");
        assert!(
            error.contains("http://site") && error.contains("absent"),
            "{error}"
        );
        assert!(!world.at("published/sitemap.xml").exists());
        world.ok(&format!("{build} small.cdxj {out}"));
    }
    world.ok("map compact published/map.ukvs --filters --accuracy 99% --lookups lookups.txt --holdings small.cdxj -o published/filtered.ukvs");
    world.ok("filter build --status 404 small.cdxj -o published/selected.filter");
    assert!(world.refused(publish).contains("keyed.filter"));
    assert!(
        world
            .ok(&format!("{publish} --key-file key"))
            .contains("filtered.ukvs")
    );
    assert!(world.at("published/sitemap.xml").exists());
}

#[test]
fn the_filter_of_a_map_is_never_taken_for_a_filter_of_its_own() {
    let world = World::new();
    // One large site, which is cheaper as a row of its own, and small ones, whose misses a filter tells.
    let large = (0..3000).map(|n| format!("http://large.example/page/{n}"));
    let uris: Vec<String> = large.chain(uris(300)).collect();
    let misses: Vec<String> = (0..20_000)
        .map(|n| format!("http://site{}.example/page/x{n}", n % 37))
        .collect();
    write_index(&world, "small.cdxj", &uris);
    world.write("misses.txt", misses.join("\n") + "\n");
    world.ok("map build small.cdxj -o full.ukvs");
    std::fs::create_dir_all(world.at("served/small")).unwrap();
    world.ok("map compact full.ukvs --filters --accuracy 90% --lookups misses.txt --holdings small.cdxj -o served/small/small.ukvs");
    let files = world.at("served/small").read_dir().unwrap();
    let names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let filter = names.iter().find(|name| name.ends_with(".filter")).unwrap();
    for command in ["lookup", "filter lookup"] {
        let error = world.refused(&format!("{command} served/small/{filter} {}", uris[0]));
        assert!(error.contains("filter of a map"), "{error}");
    }
    world.refused(&format!(
        "evaluate served/small/{filter} --holdings small.cdxj --lookups misses.txt"
    ));
    let server = world.serve("filter serve served --listen 127.0.0.1:0");
    for uri in uris.iter().step_by(50) {
        let reply = server.get(&format!("/small/{uri}"));
        assert_eq!(reply.status, 200, "{uri}: {}", reply.text());
    }
    // A filter that was cut is noticed with its map.
    let bytes = world.read(&format!("served/small/{filter}"));
    for length in [0, 64, bytes.len() / 2, bytes.len() - 1] {
        world.replace(&format!("served/small/{filter}"), &bytes[..length]);
        let error = world.refused("lookup served/small/small.ukvs http://site5.example/nowhere");
        assert!(error.contains(filter), "{length}: {error}");
    }
}

#[test]
fn a_share_of_a_small_archive_keeps_what_a_few_kilobytes_tell() {
    let (world, _) = world(11);
    world.ok("map build small.cdxj -o full.ukvs");
    world.ok("map compact full.ukvs --keys 10% -o small.ukvs");
    let elsewhere = vec!["http://elsewhere.example/".to_owned()];
    assert_eq!(world.lookup("small.ukvs", &elsewhere), ["absent"]);
    world.ok("map compact full.ukvs --bytes 420 -o tiny.ukvs");
    assert_eq!(world.lookup("tiny.ukvs", &elsewhere), ["present"]);
}

#[test]
fn classic_filters_keep_what_they_say_about_themselves_when_published() {
    let (world, _) = world(100);
    std::fs::create_dir(world.at("published")).unwrap();
    let told = [
        ("title", "A harvest"),
        ("publisher", "A library"),
        ("date", "2020-02-02"),
        ("dc", "description=All pages"),
    ];
    for (name, form) in [("a.csv", "text"), ("b.orestes", "binary")] {
        let mut more: Vec<String> = Vec::new();
        for (option, text) in told {
            more.extend([format!("--{option}"), text.to_owned()]);
        }
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let export = format!("filter export small.cdxj --form {form} -o published/{name}");
        let run = world.run_with(&export, &more);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    world.ok("publish published --url https://archive.example/ --holdings small.cdxj");
    for file in ["published/manifest.json", "published/sitemap.xml"] {
        let text = String::from_utf8(world.read(file)).unwrap();
        for told in ["A harvest", "A library", "2020-02-02", "All pages"] {
            assert_eq!(text.matches(told).count(), 2, "{told} in {file}: {text}");
        }
    }
    let manifest = String::from_utf8(world.read("published/manifest.json")).unwrap();
    assert_eq!(manifest.matches("\"urls\": 100").count(), 2, "{manifest}");
    // A text that was cut is not published.
    let text = world.read("published/a.csv");
    for length in [text.len() / 2, text.len() - 50] {
        world.write("published/a.csv", &text[..length]);
        world.refused("publish published --url https://archive.example/");
    }
}
