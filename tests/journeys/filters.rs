//! Filters: classic, keyed and writable, from build to lookup service and router.

use std::collections::HashMap;

use serde_json::Value;

use super::world::{Served, World, eventually, write_index};

const SECRET: &str = "00112233445566778899aabbccddeeff\n";

fn held() -> Vec<String> {
    let uri = |n| format!("http://a{}.example.org/p/{n}", n % 7);
    (0..60).map(uri).collect()
}

fn missed() -> Vec<String> {
    (0..60)
        .map(|n| format!("http://b{n}.example.net/q"))
        .collect()
}

/// A world with the index `all.cdxj` and a secret.
fn world() -> World {
    let world = World::new();
    write_index(&world, "all.cdxj", &held());
    world.write("secret", SECRET);
    world.write("other", SECRET.replace('0', "1"));
    world.write("held.txt", held().join("\n") + "\n");
    world
}

/// Writes a configuration with an archive that nobody asks.
fn write_config(world: &World, archive: &str) {
    let text = format!(
        "[[archive]]\nid = \"haw\"\ntimemap = \"http://127.0.0.1:9/timemap/link/\"\n{archive}\n"
    );
    world.write("router.toml", text);
}

/// What a router decides about URIs, in their order.
fn decisions(world: &World, uris: &[String], more: &str) -> Vec<String> {
    world.write("routed.txt", uris.join("\n") + "\n");
    let run = world.run(&format!(
        "route --config router.toml --batch routed.txt{more}"
    ));
    let decision = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let decision = line["archives"][0]["decision"].as_str();
        decision.unwrap().to_owned()
    };
    let decisions: Vec<String> = run.stdout.lines().map(decision).collect();
    assert_eq!(decisions.len(), uris.len(), "{}", run.stderr);
    decisions
}

fn all(answers: &[String], expected: &str) -> bool {
    answers.iter().all(|answer| answer == expected)
}

/// Most are absent: a filter may call a few present.
fn most_are_absent(answers: &[String]) -> bool {
    let absent = answers.iter().filter(|answer| *answer == "absent").count();
    absent * 10 >= answers.len() * 7 && !answers.iter().any(|answer| answer == "unknown")
}

/// The answers of a lookup service to URIs.
fn served(server: &Served, prefix: &str, uris: &[String]) -> Vec<String> {
    let word = |uri: &String| match server.get(&format!("{prefix}/{uri}")).status {
        200 => "present".to_owned(),
        404 => "absent".to_owned(),
        503 => "unknown".to_owned(),
        other => other.to_string(),
    };
    uris.iter().map(word).collect()
}

#[test]
fn classic_filters_are_summaries_wherever_there_are_summaries() {
    let world = world();
    for (form, file) in [("text", "haw.csv"), ("binary", "haw.orestes")] {
        let name = format!("{form}/{file}");
        world.write(&format!("{form}/README"), "not a summary\n");
        world.ok(&format!(
            "--quiet filter export all.cdxj --form {form} -o {name}"
        ));
        assert!(all(&world.lookup(&name, &held()), "present"), "{name}");
        assert!(most_are_absent(&world.lookup(&name, &missed())), "{name}");
        // What it is follows from its content.
        world.write("haw", world.read(&name));
        assert!(all(&world.lookup("haw", &held()), "present"), "{name}");
        let table = world.ok(&format!(
            "--quiet evaluate {name} --holdings all.cdxj --lookups held.txt --format json"
        ));
        let table: Value = serde_json::from_str(&table).unwrap();
        assert_eq!(
            (&table[0]["recall"], &table[0]["unknown"]),
            (&1.0.into(), &0.into())
        );
        assert_eq!(table[0]["bytes"], world.read(&name).len());
        for summaries in [&name[..], form] {
            write_config(&world, &format!("summaries = [\"{summaries}\"]"));
            assert!(
                all(&decisions(&world, &held(), ""), "present"),
                "{summaries}"
            );
            assert!(
                most_are_absent(&decisions(&world, &missed(), "")),
                "{summaries}"
            );
        }
        let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
        assert!(most_are_absent(&served(&router, "/filters/haw", &missed())));
        assert!(all(&served(&router, "/filters/haw", &held()), "present"));
        let service = world.serve(&format!("filter serve {form} --listen 127.0.0.1:0"));
        assert!(all(&served(&service, "/haw", &held()), "present"), "{form}");
        assert!(most_are_absent(&served(&service, "/haw", &missed())));
    }
}

#[test]
fn a_classic_filter_that_was_cut_is_refused() {
    let world = world();
    for (form, name) in [("text", "haw.csv"), ("binary", "haw.orestes")] {
        world.ok(&format!(
            "--quiet filter export all.cdxj --form {form} -o {name}"
        ));
        let whole = world.read(name);
        write_config(&world, &format!("summaries = [\"{name}\"]"));
        // Text that lacks its last newline is whole.
        for end in [whole.len() / 2, whole.len() - 20, whole.len() - 5] {
            world.replace(name, &whole[..end]);
            world.refused(&format!("lookup {name} http://a0.example.org/p/0"));
            assert!(all(&decisions(&world, &held()[..5], ""), "unknown"));
        }
    }
    // It does not say how URLs are hashed, and may be one of several.
    world.ok("--quiet filter export all.cdxj --form json --filters 1 -o haw.json");
    let refused = world.refused("lookup haw.json http://a0.example.org/p/0");
    assert!(refused.contains("has to be imported"), "{refused}");
}

#[test]
fn a_keyed_filter_is_a_summary_for_those_who_have_its_secret() {
    let world = world();
    world.ok("--quiet filter build all.cdxj --key-file secret -o haw.filter");
    world.ok("--quiet map build all.cdxj -o haw.ukvs");
    let evaluate = "evaluate haw.filter haw.ukvs --holdings all.cdxj --lookups held.txt";
    let lookup = "lookup haw.filter http://a0.example.org/p/0";
    for command in [evaluate, lookup] {
        for key in ["", " --key-file other"] {
            let refused = world.refused(&format!("{command}{key}"));
            assert!(
                refused.contains("haw.filter: needs a secret: "),
                "{refused}"
            );
            assert!(refused.contains("\nhint: name the key file"), "{refused}");
        }
        world.ok(&format!("{command} --key-file secret"));
    }
    let keyed = "haw.filter --key-file secret";
    assert!(all(&world.lookup(keyed, &held()), "present"));
    assert!(most_are_absent(&world.lookup(keyed, &missed())));
    for (archive, more) in [
        ("key_file = \"secret\"", ""),
        ("", " --key-file secret"),
        // That of the archive is the right one.
        ("key_file = \"secret\"", " --key-file other"),
    ] {
        write_config(&world, &format!("summaries = [\"haw.filter\"]\n{archive}"));
        assert!(
            all(&decisions(&world, &held(), more), "present"),
            "{archive}"
        );
        assert!(
            most_are_absent(&decisions(&world, &missed(), more)),
            "{archive}"
        );
    }
    for archive in ["", "key_file = \"other\"", "key_file = \"nowhere\""] {
        write_config(&world, &format!("summaries = [\"haw.filter\"]\n{archive}"));
        assert!(
            all(&decisions(&world, &missed(), ""), "unknown"),
            "{archive}"
        );
        let why = world.run("route --config router.toml http://b.example/ --format json");
        let reason = "\"reason\": \"needs-secret\"";
        assert!(why.stdout.contains(reason), "{}", why.stdout);
        assert!(why.stderr.contains("needs a secret: "), "{}", why.stderr);
        assert!(why.stderr.contains("`key_file`"), "{}", why.stderr);
    }
}

#[test]
fn a_router_opens_a_keyed_filter_when_its_key_file_arrives() {
    let world = world();
    world.ok("--quiet filter build all.cdxj --key-file secret -o haw.filter");
    write_config(&world, "summaries = [\"haw.filter\"]\nkey_file = \"late\"");
    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    let absent = &missed()[..1];
    assert!(all(&served(&router, "/filters/haw", absent), "present"));
    world.replace("late", SECRET);
    eventually("the filter is opened", || {
        let answers = served(&router, "/filters/haw", &missed());
        most_are_absent(&answers).then_some(())
    });
}

/// The guide for dark archives, from the filter to the answer of a client.
#[test]
fn a_dark_archive_is_routed_to_by_a_filter_that_only_the_router_can_read() {
    let world = world();
    world.write("published/README", "what follows is for routers\n");
    world.ok("--quiet filter build all.cdxj --key-file secret -o published/dark.filter");
    world.write(
        "web.toml",
        "[server]\nstatic_files = \"published\"\n[[archive]]\nid = \"none\"\ntimemap = \"http://127.0.0.1:9/\"\n",
    );
    let web = world.serve("serve --config web.toml --listen 127.0.0.1:0");
    world.ok(&format!("publish published --url {}", web.url("/")));
    let archive = world.serve(
        "index serve all.cdxj --listen 127.0.0.1:0 --replay http://dark.example/{timestamp}/{url}",
    );
    let start = format!(
        "[routing]\ndownloads = \"downloads\"\n[[archive]]\nid = \"dark\"\nkey_file = \"secret\"\ntimemap = \"{}\"\n",
        archive.url("/all/timemap/link/")
    );
    let (present, absent) = (&held()[0], &missed()[0]);
    let answers = |router: &Served| {
        let status = |uri| router.get(&format!("/timemap/link/{uri}")).status;
        assert_eq!((status(present), status(absent)), (200, 404));
        let explained = router.get(&format!("/explain/json/{absent}"));
        let explained: Value = serde_json::from_str(explained.text()).unwrap();
        let dark = &explained["archives"][0];
        assert_eq!(
            (&dark["asked"], &dark["decision"]),
            (&false.into(), &"absent".into()),
            "{explained}"
        );
    };
    // Copied by `discover`, with and without knowing the secret.
    for key in ["key_file = \"secret\"\n", ""] {
        world.write("router.toml", start.replace("key_file = \"secret\"\n", key));
        let run = world.run(&format!(
            "discover {} -o copies --config router.toml --archive dark",
            web.url("/sitemap.xml")
        ));
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.stderr.contains("needs a secret"), key.is_empty());
        let config = String::from_utf8(world.read("router.toml")).unwrap();
        assert!(config.contains("dark.filter"), "{config}");
        if !key.is_empty() {
            answers(&world.serve("serve --config router.toml --listen 127.0.0.1:0"));
        }
    }
    // Downloaded by the router.
    let sources = format!("sources = [\"{}\"]\n", web.url("/dark.filter"));
    world.write("router.toml", start + &sources);
    let router = world.serve("serve --config router.toml --listen 127.0.0.1:0");
    // What has not been downloaded yet is not known to be absent.
    eventually("the filter is downloaded and used", || {
        (router.get(&format!("/filters/dark/{absent}")).status == 404).then_some(())
    });
    answers(&router);
}

#[test]
fn a_keyed_filter_names_years_and_no_days() {
    let world = world();
    let build = |index: &str, time: &str, uris: &[String], more: &str| {
        let line = |uri| format!("x)/ {time} {{\"url\": \"{uri}\", \"mime\": \"text/html\"}}\n");
        world.write("unkeyed.cdxj", uris.iter().map(line).collect::<String>());
        world.ok(&format!(
            "--quiet index rekey --dialect ia unkeyed.cdxj -o {index}.cdxj"
        ));
        world.ok(&format!(
            "--quiet filter build {index}.cdxj -o {index}.filter{more}"
        ));
    };
    let keyed = " --key-file secret";
    build("old", "20200102030405", &held()[..30], keyed);
    build("new", "20200607080910", &held(), keyed);
    build("open", "20200304050607", &held()[..30], "");
    for name in ["old.filter", "new.filter"] {
        let info = world.ok(&format!("filter info {name} --format json"));
        let info: Value = serde_json::from_str(&info).unwrap();
        let metadata: HashMap<String, Vec<String>> =
            serde_json::from_value(info["metadata"].clone()).unwrap();
        assert_eq!(metadata["date"], ["2020"]);
        assert_eq!(metadata["coverage"], ["2020/2020"]);
    }
    // Of two filters of one year, nobody knows which is newer.
    for summaries in [
        "\"old.filter\", \"new.filter\"",
        "\"open.filter\", \"new.filter\"",
    ] {
        write_config(
            &world,
            &format!("summaries = [{summaries}]\nkey_file = \"secret\""),
        );
        assert!(
            all(&decisions(&world, &held(), ""), "present"),
            "{summaries}"
        );
        assert!(
            most_are_absent(&decisions(&world, &missed(), "")),
            "{summaries}"
        );
    }
}

#[test]
fn nothing_is_absent_on_account_of_a_file_that_cannot_be_read() {
    let world = world();
    let (held, missed) = (held(), missed());
    for name in ["haw.filter", "good.filter", "plain"] {
        world.write("folder/README", "not a summary\n");
        world.ok(&format!("--quiet filter build all.cdxj -o folder/{name}"));
    }
    world.write("folder/bad.csv", "name,hash,m,k,n,bits\n0,Murmur3");
    let good = world.read("folder/good.filter");
    let server = world.serve("filter serve folder --listen 127.0.0.1:0");
    assert!(server.log().contains("folder/bad.csv"), "{}", server.log());
    assert!(all(&served(&server, "/bad", &missed), "unknown"));
    assert!(all(&served(&server, "/good", &held), "present"));
    assert!(most_are_absent(&served(&server, "/good", &missed)));
    // How `cp` begins. Lookups are not wrong before anyone has noticed, either.
    for id in ["good.filter", "plain"] {
        let name = format!("folder/{id}");
        let path = format!("/{}", id.trim_end_matches(".filter"));
        world.write(&name, "");
        assert!(all(&served(&server, &path, &held), "unknown"));
        let report = format!("{name}: this is not a summary");
        eventually("the empty file is reported", || {
            server.log().contains(&report).then_some(())
        });
        assert!(all(&served(&server, &path, &held), "unknown"));
    }
    // How it goes on.
    world.write("folder/good.filter", &good[..good.len() / 2]);
    assert!(all(&served(&server, "/good", &held), "unknown"));
    world.write("folder/good.filter", &good);
    eventually("the whole file is opened", || {
        let answers = served(&server, "/good", &held);
        assert!(!answers.contains(&"absent".to_owned()));
        all(&answers, "present").then_some(())
    });
    assert!(most_are_absent(&served(&server, "/good", &missed)));
    // Another file in its place: the previous version answers.
    world.replace("folder/good.filter", &good[..good.len() / 2]);
    eventually("the file that was cut is reported", || {
        let previous = "still using the previous version";
        server.log().contains(previous).then_some(())
    });
    assert!(all(&served(&server, "/good", &held), "present"));
    assert!(most_are_absent(&served(&server, "/good", &missed)));
    // A file that was never readable, beside one that is.
    world.write("folder/haw/2021.ukvs", "");
    eventually("the new file is noticed", || {
        all(&served(&server, "/haw", &missed), "unknown").then_some(())
    });
    assert!(all(&served(&server, "/haw", &held), "present"));
    let of = |uri: &str| {
        let line = format!("\"{uri}\"\n");
        let batch = server.post("/lookup", &[], line.as_bytes());
        let aggregate = server.get(&format!("/bloom/agg/{uri}"));
        [batch, aggregate].map(|reply| reply.text().matches("haw").count() > 0)
    };
    assert_eq!((of(&missed[0]), of(&held[0])), ([true, true], [true, true]));
}

#[test]
fn a_large_batch_does_not_fill_up_a_writable_filter() {
    let world = World::new();
    let server = world
        .serve("filter serve crawls --writable --archive topic --room 100 --listen 127.0.0.1:0");
    let batch: String = (0..20_000)
        .map(|n| format!("\"http://a{n}.example.org/\"\n"))
        .collect();
    let added = server.post("/topic/add", &[], batch.as_bytes());
    let new = added.text().matches("\"new\":true").count();
    assert!(new > 19_900, "{new}");
    let others = batch.replace("example.org", "example.net");
    let wrong = |server: &Served| {
        let found = server.post("/lookup", &[], others.as_bytes());
        found.text().matches("\"topic\"").count()
    };
    assert!(wrong(&server) < 100, "{}", wrong(&server));
    // What a kill leaves.
    drop(server);
    let server = world.serve("filter serve crawls --listen 127.0.0.1:0");
    let found = server.post("/lookup", &[], batch.as_bytes());
    assert_eq!(found.text().matches("\"topic\"").count(), 20_000);
    assert!(wrong(&server) < 100, "{}", wrong(&server));
}
