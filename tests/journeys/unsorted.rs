//! Indexes that are unsorted, cut or changed while they are read.

use std::fs::OpenOptions;
use std::io::Write;

use super::world::{Served, World, eventually, write_index};

fn uris(name: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|n| format!("http://{name}.example/{n:05}"))
        .collect()
}

fn asked(served: &Served, uri: &str) -> u16 {
    served.get(&format!("/all/cdx?url={uri}")).status
}

/// Writes `lib.cdxj` and `new.cdxj`, and `both.cdxj`, which is unsorted. Returns their URIs.
fn write_both(world: &World) -> (Vec<String>, Vec<String>) {
    let (lib, new) = (uris("lib", 2000), uris("new", 3));
    write_index(world, "lib.cdxj", &lib);
    write_index(world, "new.cdxj", &new);
    world.write(
        "both.cdxj",
        [world.read("new.cdxj"), world.read("lib.cdxj")].concat(),
    );
    (lib, new)
}

#[test]
fn an_unsorted_index_is_refused_with_its_file_and_line() {
    let world = World::new();
    let (lib, new) = write_both(&world);
    for uri in [&lib[7], &new[1], &"http://absent.example/".to_owned()] {
        for command in ["lookup", "index lookup", "index fetch"] {
            let said = world.refused(&format!("{command} both.cdxj {uri}"));
            assert!(
                said.contains("both.cdxj: line 4:") || said.contains("both.cdxj, line 4"),
                "{said}"
            );
            assert!(said.contains("index sort"), "{said}");
        }
    }
    let said = world.refused("index serve --listen 127.0.0.1:0 both.cdxj");
    assert!(
        said.contains("both.cdxj") && said.contains("line 4"),
        "{said}"
    );
    world.write("cut.cdxj", &world.read("lib.cdxj")[..1000]);
    let said = world.refused(&format!("lookup cut.cdxj {}", new[1]));
    assert!(said.contains("the file ends too early"), "{said}");
    world.ok("index sort both.cdxj -o sorted.cdxj");
    assert_eq!(world.lookup("sorted.cdxj", &new), ["present"; 3]);
}

#[test]
fn a_server_skips_what_it_cannot_use_and_calls_nothing_absent() {
    let world = World::new();
    let (lib, new) = write_both(&world);
    let other = uris("other", 5);
    world.write("folder/both.cdxj", world.read("both.cdxj"));
    world.write(
        "folder/page.cdxj",
        "<!DOCTYPE html>\n<html><title>404</title></html>\n",
    );
    world.write("folder/cut.cdxj", &world.read("new.cdxj")[..100]);
    write_index(&world, "folder/other.cdxj", &other);
    let said = world.refused("index serve --strict --listen 127.0.0.1:0 folder");
    assert!(said.contains("folder/"), "{said}");
    let served = world.serve("index serve --listen 127.0.0.1:0 --metrics 127.0.0.1:0 folder");
    let log = served.log();
    for skipped in [
        "folder/both.cdxj",
        "line 4",
        "folder/page.cdxj",
        "folder/cut.cdxj",
    ] {
        assert!(log.contains(skipped), "{skipped}: {log}");
    }
    assert_eq!(asked(&served, &other[0]), 200);
    for uri in [&lib[7], &new[2], &"http://absent.example/".to_owned()] {
        assert_eq!(asked(&served, uri), 503, "{uri}");
        for path in [
            format!("/all/cdx/search/cdx?url={uri}"),
            format!("/all/cdx?url={uri}&showNumPages=true"),
            format!("/all/timemap/json/{uri}"),
        ] {
            assert_eq!(served.get(&path).status, 503, "{path}");
        }
    }
    world.ok("--quiet index sort both.cdxj -o sorted.cdxj");
    world.replace("folder/both.cdxj", world.read("sorted.cdxj"));
    world.replace("folder/page.cdxj", "");
    eventually("the sorted file is served", || {
        (asked(&served, &new[1]) == 200).then_some(())
    });
    assert_eq!(asked(&served, "http://absent.example/"), 503);
    world.replace("folder/cut.cdxj", world.read("new.cdxj"));
    eventually("everything can be used", || {
        (asked(&served, "http://absent.example/") == 404).then_some(())
    });
    assert!(
        uris("lib", 2000)
            .iter()
            .step_by(100)
            .all(|uri| asked(&served, uri) == 200)
    );
}

#[test]
fn what_is_appended_or_cut_while_it_is_served_is_never_absent() {
    let world = World::new();
    let (lib, new) = write_both(&world);
    let served = world.serve("index serve --listen 127.0.0.1:0 lib.cdxj");
    assert_eq!(asked(&served, &new[0]), 404);
    let lines = world.read("lib.cdxj");
    let file = OpenOptions::new().append(true).open(world.at("lib.cdxj"));
    file.unwrap().write_all(&lines[..1000]).unwrap();
    eventually("the file and the line are named", || {
        assert_eq!(asked(&served, &new[0]), 503);
        assert_eq!(asked(&served, &lib[1999]), 200);
        let log = served.log();
        (log.contains("lib.cdxj") && log.contains("line 2,001")).then_some(())
    });
    world.replace("lib.cdxj", &lines);
    eventually("the file is whole again", || {
        (asked(&served, &new[0]) == 404).then_some(())
    });

    let line = lines.iter().position(|&byte| byte == b'\n').unwrap() as u64 + 1;
    let file = OpenOptions::new().write(true).open(world.at("lib.cdxj"));
    file.unwrap().set_len(line * 10).unwrap();
    eventually("the cut is reported", || {
        assert_eq!(asked(&served, &lib[1999]), 503);
        served.log().contains("truncated").then_some(())
    });
    assert_eq!(asked(&served, &lib[1999]), 503);
    eventually("what is left is served", || {
        (asked(&served, &lib[3]) == 200).then_some(())
    });
}

#[test]
fn one_line_out_of_order_in_a_large_index_is_found_in_the_background() {
    let world = World::new();
    let line = |n: usize| {
        let url = format!("http://lib.example/{n:06}");
        format!(
            "example,lib)/{n:06} 20200101000000 {{\"url\": \"{url}\", \"mime\": \"text/html\", \"status\": \"200\"}}\n"
        )
    };
    let mut lines: Vec<String> = (0..200_000).map(line).collect();
    world.write("sorted.cdxj", lines.concat());
    // Between two places of the sample.
    let moved = lines.remove(70_003);
    lines.insert(70_005, moved);
    world.write("large.cdxj", lines.concat());
    let absent = "http://lib.example/1000000";
    let said = world.refused(&format!("lookup large.cdxj {absent}"));
    assert!(
        said.contains("large.cdxj") && said.contains("line 70,006"),
        "{said}"
    );

    let served = world.serve("index serve --listen 127.0.0.1:0 large.cdxj");
    eventually("the line is named", || {
        assert_eq!(asked(&served, absent), 503);
        assert_ne!(asked(&served, "http://lib.example/070003"), 404);
        served.log().contains("line 70,006").then_some(())
    });
    world.replace("large.cdxj", world.read("sorted.cdxj"));
    eventually("it is sorted", || {
        (asked(&served, absent) == 404).then_some(())
    });
    assert_eq!(asked(&served, "http://lib.example/070003"), 200);
    let trusting = world.serve("index serve --trust-order --listen 127.0.0.1:0 sorted.cdxj");
    assert_eq!(asked(&trusting, absent), 404);
}

#[test]
fn a_zipnum_index_whose_rows_were_cut_is_refused_everywhere() {
    let world = World::new();
    let lib = uris("lib", 1000);
    write_index(&world, "lib.cdxj", &lib);
    world.ok("--quiet index zipnum lib.cdxj -o blocks --lines 50 --shards 2");
    let (idx, first) = (world.read("blocks/cluster.idx"), &lib[3]);
    let rows: Vec<&[u8]> = idx.split_inclusive(|&byte| byte == b'\n').collect();
    assert_eq!(rows.len(), 20);
    // In the first data file, at its end, in the second, and all of it.
    for kept in [7, 10, 19, 0] {
        world.write("blocks/cluster.idx", rows[..kept].concat());
        for command in [
            format!("lookup blocks {}", lib[999]),
            format!("index lookup blocks {}", lib[999]),
            format!("lookup blocks {first}"),
            "index check blocks".to_owned(),
            "index check blocks/cluster.idx".to_owned(),
            "index unzip blocks -o out.cdxj".to_owned(),
            "index sort blocks/cluster.idx -o out.cdxj".to_owned(),
            "map build blocks -o out.ukvs".to_owned(),
            "index serve --listen 127.0.0.1:0 blocks".to_owned(),
        ] {
            let said = world.refused(&command);
            assert!(said.contains("cluster.idx"), "{kept} {command}: {said}");
            assert!(
                said.contains("ends too early") || said.contains("no row"),
                "{kept} {command}: {said}"
            );
        }
    }
    world.write("blocks/cluster.idx", &idx);
    assert_eq!(world.lookup("blocks", &lib), vec!["present"; 1000]);
    world.ok("index check blocks");
    // While it is served.
    let served = world.serve("index serve --listen 127.0.0.1:0 blocks");
    eventually("it was read", || {
        (asked(&served, "http://zzz.example/") == 404).then_some(())
    });
    world.replace("blocks/cluster.idx", rows[..7].concat());
    eventually("the cut is reported", || {
        assert_eq!(asked(&served, &lib[999]), 200);
        served.log().contains("ends too early").then_some(())
    });
    assert_eq!(asked(&served, "http://zzz.example/"), 503);
}
