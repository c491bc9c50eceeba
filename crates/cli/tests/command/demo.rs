//! `waypost demo`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::http::ask;
use super::inputs::signal;
use super::run;

#[test]
fn routing_saves_requests_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = folder.path().join("world");
    let words = [
        "demo",
        "--once",
        "--sites",
        "200",
        "--lookups",
        "60",
        "--folder",
        world.to_str().unwrap(),
    ];
    let done = run(&words, b"");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(
        done.stdout
            .contains("recall: 1.0000; 60 of 60 answers are the same"),
        "{}",
        done.stdout
    );
    let saved = done.stdout.split("requests saved: ").nth(1).unwrap();
    let saved: f64 = saved.split('%').next().unwrap().parse().unwrap();
    assert!(saved > 50.0, "{}", done.stdout);
    assert!(folder.path().join("world/waypost.toml").exists());
    // The folder is not overwritten.
    let again = run(&words, b"");
    assert_eq!(again.code, 2);
    assert!(
        again.stderr.contains("world is not empty"),
        "{}",
        again.stderr
    );
}

#[test]
fn what_it_says_to_try_works_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args([
            "demo",
            "--sites",
            "200",
            "--lookups",
            "5",
            "--listen",
            "127.0.0.1:0",
        ])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
    let lines = said.by_ref().map(Result::unwrap);
    let lines: Vec<String> = lines
        .take_while(|line| !line.starts_with("listening on "))
        .collect();
    let base = lines
        .iter()
        .find_map(|line| line.strip_prefix("Open ")?.split("/ in").next());
    let base = base.expect("it says where the page is");
    let address = base.strip_prefix("http://").unwrap().parse().unwrap();
    let tries = lines.iter().filter(|line| line.contains("curl "));
    let paths: Vec<&str> = tries.map(|line| line.split(base).nth(1).unwrap()).collect();
    assert_eq!(paths.len(), 3, "{lines:#?}");
    let statuses: Vec<u16> = paths
        .iter()
        .map(|path| ask(address, "GET", path, &[]).status)
        .collect();
    assert_eq!(statuses, [200, 302, 200]);
    assert_eq!(ask(address, "GET", "/", &[]).status, 200);
    assert_eq!(ask(address, "GET", "/holdings/national", &[]).status, 200);
    signal(&process, "-INT");
    assert_eq!(process.wait().unwrap().code(), Some(0));
    assert_eq!(said.last().unwrap().unwrap(), "stopped");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
