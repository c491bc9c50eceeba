//! The commands on maps, as a newcomer runs them.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

fn waypost() -> Command {
    Command::new(env!("CARGO_BIN_EXE_waypost"))
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.cdxj")
}

#[test]
fn a_map_is_made_made_small_and_answers() {
    let folder = TempDir::new().unwrap();
    let (full, small) = (
        folder.path().join("full.ukvs"),
        folder.path().join("small.ukvs"),
    );
    waypost()
        .args(["map", "build"])
        .arg(example())
        .arg("-o")
        .arg(&full)
        .assert()
        .code(0);
    waypost()
        .args(["map", "check"])
        .arg(&full)
        .arg("--holdings")
        .arg(example())
        .assert()
        .code(0);
    for rule in [
        &["--keys", "20%"][..],
        &["--bytes", "2K"],
        &["--lambda", "0.1"],
        &["--rule", "papers", "--wh", "0.5", "--wp", "0.5"],
    ] {
        waypost()
            .args(["map", "compact"])
            .arg(&full)
            .args(rule)
            .arg("-o")
            .arg(&small)
            .assert()
            .code(0);
        assert!(std::fs::metadata(&small).unwrap().len() < std::fs::metadata(&full).unwrap().len());
        waypost()
            .args(["map", "check"])
            .arg(&small)
            .arg("--holdings")
            .arg(example())
            .assert()
            .code(0);
    }
    waypost()
        .args(["map", "lookup"])
        .arg(&full)
        .args(["--format", "tsv", "http://library.example.org/", "net,nowhere)/"])
        .assert()
        .code(0)
        .stdout("http://library.example.org/\tpresent\torg,example,library)/\t3/1\nnet,nowhere)/\tabsent\t-\t-\n");
    waypost()
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
        let done = waypost()
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
    for budget in [["--keys", "1"], ["--bytes", "20"]] {
        let said = report(&budget);
        assert!(said.contains(smallest), "{budget:?}: {said}");
    }
    for budget in [["--keys", "50"], ["--bytes", "300"]] {
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
    waypost()
        .args(["map", "merge"])
        .args([at("a"), at("b")])
        .arg("-o")
        .arg(at("c"))
        .assert()
        .code(0);
    let text = std::fs::read_to_string(at("c")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('!')).collect();
    assert_eq!(rows, ["com,a)/ 3/2-", "com,b)/* 5/2-", "com,c)/* 3/1-"]);
    waypost()
        .args(["map", "compare"])
        .args([at("a"), at("b")])
        .assert()
        .code(0);
    waypost()
        .args(["map", "compare"])
        .args([at("a"), at("c")])
        .assert()
        .code(1);
    waypost()
        .args(["map", "build"])
        .arg(example())
        .arg("-o")
        .arg(at("full"))
        .assert()
        .code(0);
    waypost()
        .args(["map", "fit"])
        .arg(at("full"))
        .assert()
        .code(0);
    waypost()
        .args(["map", "show"])
        .arg(at("full"))
        .assert()
        .code(0);
    waypost()
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
    waypost()
        .args(["map", "build"])
        .arg(example())
        .arg("-o")
        .arg(at("full"))
        .assert()
        .code(0);
    waypost()
        .args(["map", "show"])
        .arg(at("full"))
        .arg("--html")
        .arg(at("full.html"))
        .assert()
        .code(0);
    let page = std::fs::read_to_string(at("full.html")).unwrap();
    assert!(page.contains("org,example,*") && page.len() < 1_000_000);
    waypost()
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
    let told = waypost()
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
        ("\u{0}\u{1}\n", "line 1"),
    ] {
        std::fs::write(&path, text).unwrap();
        for command in ["lookup", "check"] {
            let mut run = waypost();
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
