//! The commands on maps, as a newcomer runs them.

use std::path::Path;

use tempfile::TempDir;

use super::{example, waypost};

#[test]
fn a_map_is_made_made_small_and_answers() {
    let folder = TempDir::new().unwrap();
    let (full, small) = (
        folder.path().join("full.ukvs"),
        folder.path().join("small.ukvs"),
    );
    waypost(&[])
        .args(["map", "build"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(&full)
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "check"])
        .arg(&full)
        .arg("--holdings")
        .arg(example("small.cdxj"))
        .assert()
        .code(0);
    for rule in [
        &["--keys", "20%"][..],
        &["--bytes", "2K"],
        &["--lambda", "0.1"],
        &["--rule", "papers", "--wh", "0.5", "--wp", "0.5"],
    ] {
        waypost(&[])
            .args(["map", "compact"])
            .arg(&full)
            .args(rule)
            .arg("-o")
            .arg(&small)
            .assert()
            .code(0);
        assert!(std::fs::metadata(&small).unwrap().len() < std::fs::metadata(&full).unwrap().len());
        waypost(&[])
            .args(["map", "check"])
            .arg(&small)
            .arg("--holdings")
            .arg(example("small.cdxj"))
            .assert()
            .code(0);
    }
    waypost(&[])
        .args(["map", "lookup"])
        .arg(&full)
        .args(["--format", "tsv", "http://library.example.org/", "net,nowhere)/"])
        .assert()
        .code(0)
        .stdout("http://library.example.org/\tpresent\torg,example,library)/\t3/1\nnet,nowhere)/\tabsent\t-\t-\n");
    waypost(&[])
        .args(["map", "lookup"])
        .arg(&full)
        .arg("http://nowhere.net/")
        .assert()
        .code(1);
}

#[test]
fn what_a_budget_leaves_unused_is_said_and_that_it_cannot_be_met() {
    let folder = TempDir::new().unwrap();
    let (full, small) = (
        folder.path().join("full.ukvs"),
        folder.path().join("small.ukvs"),
    );
    // A void that the map came with stays, and so does the port, which no wildcard speaks of.
    let mut text = "com,a:81)/ 1\norg,a)/void/* 0\n".to_owned();
    (0..90).for_each(|n| text += &format!("org,a)/{n} 1\n"));
    std::fs::write(&full, text).unwrap();
    let report = |budget: &[&str]| {
        let done = waypost(&[])
            .args(["map", "compact"])
            .arg(&full)
            .args(budget)
            .arg("-o")
            .arg(&small)
            .assert()
            .code(0);
        String::from_utf8_lossy(&done.get_output().stderr).into_owned()
    };
    let smallest = "this is the smallest";
    let said = report(&["--keys", "1"]);
    assert!(said.contains(smallest), "{said}");
    std::fs::remove_file(&small).unwrap();
    let done = waypost(&[])
        .args(["map", "compact"])
        .arg(&full)
        .args(["--bytes", "20", "-o"])
        .arg(&small)
        .assert()
        .code(2);
    let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(
        said.contains("20 bytes are too few: the smallest map takes"),
        "{said}"
    );
    assert!(!small.exists());
    for budget in [["--keys", "50", "-v"], ["--bytes", "300", "-v"]] {
        let said = report(&budget);
        assert!(said.contains("unused of the budget"), "{budget:?}: {said}");
        assert!(!said.contains(smallest), "{budget:?}: {said}");
    }
}

#[test]
fn maps_are_merged_compared_fitted_swept_and_shown() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a"), "com,a)/ 1/1\ncom,b)/* 5/2\ncom,c)/x 0\n").unwrap();
    std::fs::write(at("b"), "com,a)/ 2/1\ncom,c)/* 3/1\n").unwrap();
    waypost(&[])
        .args(["map", "merge"])
        .args([at("a"), at("b")])
        .arg("-o")
        .arg(at("c"))
        .assert()
        .code(0);
    let text = std::fs::read_to_string(at("c")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('!')).collect();
    assert_eq!(rows, ["com,a)/ 3/2-", "com,b)/* 5/2-", "com,c)/* 3/1-"]);
    waypost(&[])
        .args(["map", "compare"])
        .args([at("a"), at("b")])
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "compare"])
        .args([at("a"), at("c")])
        .assert()
        .code(1);
    waypost(&[])
        .args(["map", "build"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(at("full"))
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "fit"])
        .arg(at("full"))
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "show"])
        .arg(at("full"))
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "sweep"])
        .arg(at("full"))
        .args(["--wh", "1,0", "--wp", "1,0", "-o"])
        .arg(at("maps"))
        .assert()
        .code(0);
    assert_eq!(std::fs::read_dir(at("maps")).unwrap().count(), 4);
}

#[test]
fn a_map_is_shown_as_a_page_and_its_making_as_a_plot() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    waypost(&[])
        .args(["map", "build"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(at("full"))
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "show"])
        .arg(at("full"))
        .arg("--html")
        .arg(at("full.html"))
        .assert()
        .code(0);
    let page = std::fs::read_to_string(at("full.html")).unwrap();
    assert!(page.contains("org,example,*") && page.len() < 1_000_000);
    waypost(&[])
        .args(["map", "compact"])
        .arg(at("full"))
        .args(["--rule", "papers", "--wh", "0.5", "--wp", "0.5", "--trace"])
        .arg(at("trace.tsv"))
        .arg("-o")
        .arg(at("small"))
        .assert()
        .code(0);
    assert!(
        std::fs::read_to_string(at("trace.tsv"))
            .unwrap()
            .starts_with("1\t1\n2\t")
    );
    assert!(
        std::fs::read_to_string(at("trace.svg"))
            .unwrap()
            .contains("<polyline")
    );
    // What cannot be taken back is written whole.
    let told = waypost(&[])
        .args(["map", "compact"])
        .arg(at("full"))
        .args(["--rule", "papers", "--wh", "0.5", "--wp", "0.5", "-o", "-"])
        .assert()
        .code(0)
        .get_output()
        .stdout
        .clone();
    assert_eq!(told, std::fs::read(at("small")).unwrap());
}

#[test]
fn broken_maps_are_errors_with_their_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.ukvs");
    for (text, line) in [
        ("com,a)/ 1\ncom,b)/ -5\n", "line 2"),
        ("com,a)/", "line 1"),
        ("\u{0}\u{1}\n", "a binary file, not a map"),
    ] {
        std::fs::write(&path, text).unwrap();
        for command in ["lookup", "check"] {
            let mut run = waypost(&[]);
            run.args(["map", command]).arg(&path);
            if command == "lookup" {
                run.arg("http://a.com/");
            }
            let said = run.assert().code(2).get_output().stderr.clone();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(said.contains(line) && said.contains("error:"), "{said}");
        }
    }
}

/// Runs a command and gives its exit code and what it wrote to standard output.
fn run(words: &[&str], files: &[&Path]) -> (i32, String) {
    let output = waypost(&[]).args(words).args(files).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn one_command_looks_up_in_files_of_every_kind() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let index = path("sorted.cdxj");
    waypost(&[])
        .args(["index", "sort"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(&index)
        .assert()
        .code(0);
    waypost(&[])
        .args(["index", "zipnum"])
        .arg(&index)
        .arg("-o")
        .arg(path("zipnum"))
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "build"])
        .arg(&index)
        .arg("-o")
        .arg(path("m.ukvs"))
        .assert()
        .code(0);
    waypost(&[])
        .args(["profile"])
        .arg(&index)
        .arg("-o")
        .arg(folder.path())
        .assert()
        .code(0);
    waypost(&[])
        .args(["filter", "build"])
        .arg(&index)
        .arg("-o")
        .arg(path("a.filter"))
        .assert()
        .code(0);
    let line = std::fs::read_to_string(&index).unwrap();
    let held = line.split(' ').next().unwrap().to_owned();
    for name in [
        "sorted.cdxj",
        "zipnum",
        "m.ukvs",
        "sorted.URIR.cdxj",
        "a.filter",
    ] {
        let output = waypost(&[])
            .arg("lookup")
            .arg(path(name))
            .args([&held, "http://nothing.example.net/", "--format", "tsv"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = text
            .lines()
            .map(|line| line.split('\t').nth(1).unwrap())
            .collect();
        assert_eq!(words, ["present", "absent"], "{name}: {text}");
        assert_eq!(output.status.code(), Some(0), "{name}");
        let none = waypost(&[])
            .arg("lookup")
            .arg(path(name))
            .arg("http://nothing.example.net/")
            .output()
            .unwrap();
        assert_eq!(none.status.code(), Some(1), "{name}");
    }
    let page = path("page.html");
    std::fs::write(&page, "<html>").unwrap();
    let (code, _) = run(&["lookup"], &[&path("missing")]);
    assert_eq!(code, 2);
}

#[test]
fn what_a_map_was_not_made_from_is_unknown() {
    let folder = TempDir::new().unwrap();
    let map = folder.path().join("pages.ukvs");
    waypost(&[])
        .args(["map", "build", "--mime", "text/html"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(&map)
        .assert()
        .code(0);
    let ask = |more: &[&str]| {
        let output = waypost(&[])
            .args(["map", "lookup", "--format", "json"])
            .arg(&map)
            .arg("http://nothing.example.net/")
            .args(more)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        (
            object["answer"].as_str().unwrap().to_owned(),
            output.status.code(),
        )
    };
    assert_eq!(ask(&[]), ("unknown".to_owned(), Some(0)));
    assert_eq!(
        ask(&["--mime", "text/html"]),
        ("absent".to_owned(), Some(1))
    );
    // There are no times to be asked for.
    let at = waypost(&[])
        .args(["map", "lookup", "--at", "1999"])
        .arg(&map)
        .arg("http://a.com/")
        .output()
        .unwrap();
    assert_eq!(at.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&at.stderr).contains("--by year"));
}

#[test]
fn tables_are_written_when_they_are_asked_for_and_kept_up_to_date() {
    let folder = TempDir::new().unwrap();
    let (map, table) = (
        folder.path().join("m.ukvs"),
        folder.path().join("m.ukvs.wmap"),
    );
    let build = |more: &[&str]| {
        let mut command = waypost(&[]);
        command
            .args(["map", "build"])
            .arg(example("small.cdxj"))
            .arg("-o")
            .arg(&map)
            .args(more);
        command.assert().code(0);
    };
    let lookup = || {
        let output = waypost(&[])
            .args(["map", "lookup"])
            .arg(&map)
            .arg("http://nothing.example.net/")
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    build(&[]);
    assert_eq!(lookup().0, 1);
    assert!(!table.exists(), "looking up writes nothing");
    waypost(&[])
        .args(["map", "index"])
        .arg(&map)
        .assert()
        .code(0);
    let first = std::fs::read(&table).unwrap();
    assert_eq!(lookup().0, 1);
    build(&["--status", "200"]);
    assert_ne!(std::fs::read(&table).unwrap(), first, "it is made again");
    assert_eq!(lookup().0, 0, "unknown");
    let mut text = std::fs::read(&map).unwrap();
    *text.last_mut().unwrap() = b' ';
    std::fs::write(&map, text).unwrap();
    let (code, said) = lookup();
    assert_eq!(code, 2);
    assert!(
        said.contains("m.ukvs.wmap") && said.contains("waypost map index"),
        "{said}"
    );
    std::fs::remove_file(&table).unwrap();
    let gzipped = waypost(&[])
        .args(["map", "build", "--table"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(folder.path().join("m.ukvs.gz"))
        .output()
        .unwrap();
    assert_eq!(gzipped.status.code(), Some(2));
}

#[test]
fn a_map_that_was_cut_at_a_row_is_found() {
    let folder = TempDir::new().unwrap();
    let map = folder.path().join("m.ukvs");
    waypost(&[])
        .args(["map", "build"])
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(&map)
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "check"])
        .arg(&map)
        .assert()
        .code(0);
    let text = std::fs::read_to_string(&map).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&map, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let output = waypost(&[])
        .args(["map", "check"])
        .arg(&map)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("477 of the 478 rows"));
}
