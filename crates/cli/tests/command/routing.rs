//! `waypost route`, `learn` and `harvest`, and a server that is killed while summaries change.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fakes::{Answer, Fake};
use super::http::ask;
use super::waypost;

/// Runs the command in a folder. Returns its exit code and what it prints.
fn run_in(folder: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let output = waypost(words)
        .current_dir(folder)
        .write_stdin(input.to_owned())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

/// Two archives: one with a filter of a host, one about which nothing is known.
fn world(folder: &Path) {
    fs::write(
        folder.join("held.uris"),
        "http://a.example/\nhttp://a.example/x\n",
    )
    .unwrap();
    let build = ["-q", "filter", "build", "held.uris", "-o", "a.filter"];
    assert_eq!(run_in(folder, &build, "").0, 0);
    let config = "[routing]\nlearned = \"learned.redb\"\n\
        [[archive]]\nid = \"a\"\ntimemap = \"http://a.invalid/\"\nsummaries = [\"a.filter\"]\n\
        [[archive]]\nid = \"b\"\ntimemap = \"http://b.invalid/\"\n";
    fs::write(folder.join("routing.toml"), config).unwrap();
    fs::create_dir(folder.join("truth")).unwrap();
    fs::copy(folder.join("held.uris"), folder.join("truth/a.uris")).unwrap();
    fs::write(folder.join("truth/b.uris"), "http://a.example/x\n").unwrap();
}

#[test]
fn a_batch_has_a_line_of_the_documented_shape_for_each_lookup() {
    let folder = tempfile::tempdir().unwrap();
    world(folder.path());
    let words = ["route", "--batch", "-", "--config", "routing.toml"];
    let (code, out, _) = run_in(
        folder.path(),
        &words,
        "http://a.example/x\n\nhttp://c.example/\n",
    );
    assert_eq!(code, 0);
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["uri"], "http://a.example/x");
    let of = |line: usize, archive: usize| lines[line]["archives"][archive].clone();
    let keys: Vec<String> = of(0, 0).as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["decision", "estimate", "id", "key", "summary"]);
    assert_eq!(of(0, 0)["decision"], "present");
    assert_eq!(of(0, 0)["key"], "example,a)/x");
    assert_eq!(of(0, 0)["summary"], "a.filter");
    assert_eq!(of(1, 0)["decision"], "absent");
    assert_eq!(of(1, 1)["decision"], "unknown");
    assert_eq!(of(1, 1)["estimate"], Value::Null);
}

#[test]
fn a_simulation_counts_requests_and_what_was_missed() {
    let folder = tempfile::tempdir().unwrap();
    world(folder.path());
    let lookups = "http://a.example/x\nhttp://a.example/x\nhttp://c.example/\nhttp://d.example/\n";
    fs::write(folder.path().join("lookups.txt"), lookups).unwrap();
    let words = [
        "route",
        "--simulate",
        "lookups.txt",
        "--truth",
        "truth",
        "--config",
        "routing.toml",
        "--format",
        "json",
    ];
    let (code, out, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 0, "{said}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["lookups"], 4);
    assert_eq!(result["broadcast"]["requests"], 8);
    assert_eq!(result["routed"]["requests"], 6);
    assert_eq!(result["recall"], 1.0);
    assert_eq!(result["archives"][0]["hits"], 2);
    assert_eq!(result["archives"][0]["requests_saved"], 2);
    assert_eq!(result["completeness"].as_array().unwrap().len(), 2);
    // A summary of something else misses what is held.
    fs::write(folder.path().join("held.uris"), "http://z.example/\n").unwrap();
    let build = ["-q", "filter", "build", "held.uris", "-o", "a.filter"];
    run_in(folder.path(), &build, "");
    let (code, out, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 1, "{said}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["missed"], 2);
    fs::remove_file(folder.path().join("truth/b.uris")).unwrap();
    let (code, _, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 2);
    assert!(
        said.contains("no file of the archive `b`") && said.contains("hint:"),
        "{said}"
    );
}

#[test]
fn what_logs_show_orders_archives() {
    let folder = tempfile::tempdir().unwrap();
    world(folder.path());
    let log: String = (0..30)
        .map(|n| format!(
            "INFO: d t Aggregating Mementos for http://c.example/{n}\nINFO: d t b => Success: 4 mementos\nINFO: d t Total Mementos: 4 in 1s\n"
        ))
        .collect();
    let words = ["learn", "-", "--config", "routing.toml"];
    let (code, _, said) = run_in(folder.path(), &words, &log);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("30 lookups") && said.contains("30 hits"),
        "{said}"
    );
    let words = [
        "route",
        "http://c.example/x",
        "--config",
        "routing.toml",
        "--format",
        "json",
    ];
    let (_, out, _) = run_in(folder.path(), &words, "");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["archives"][0]["id"], "b");
    assert!(result["archives"][0]["estimate"].as_f64().unwrap() > 3.0);
}

#[test]
fn a_harvest_is_polite_resumes_and_leaves_the_rest_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Fake::start(|request| match request.original().contains("held") {
        true => Answer::timemap(request.original(), request, &["2010", "2011"]),
        false => Answer::new(404, ""),
    });
    let list = "http://held.example/\nhttp://gone.example/\nhttp://held.example/2\n";
    fs::write(folder.path().join("list"), list).unwrap();
    let timemap = format!("{}/timemap/link/", archive.base());
    let words = [
        "harvest",
        "list",
        "--timemap",
        &timemap,
        "--rate",
        "50",
        "--budget",
        "3",
        "-o",
        "partial.ukvs",
    ];
    let (code, _, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 1, "the budget is used up: {said}");
    // The third is for something that nobody has: so it says that it has nothing.
    assert_eq!(archive.requests().len(), 3);
    let (code, _, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        archive.requests().len(),
        4,
        "what is known is not asked again"
    );
    let words = [
        "lookup",
        "partial.ukvs",
        "http://held.example/",
        "http://gone.example/",
        "http://gone.example/x",
        "http://held.example/2",
        "--format",
        "tsv",
    ];
    let (_, out, _) = run_in(folder.path(), &words, "");
    let answers: Vec<&str> = out
        .lines()
        .map(|line| line.split('\t').nth(1).unwrap())
        .collect();
    assert_eq!(answers, ["present", "absent", "unknown", "present"]);
}

#[test]
fn a_harvest_asks_first_for_what_the_router_sees_most() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Fake::start(|request| match request.original().contains("held") {
        true => Answer::timemap(request.original(), request, &["2010"]),
        false => Answer::new(404, ""),
    });
    // The log of a real router.
    let config = format!(
        "[cache]\nenabled = false\n[log]\nfile = \"serve.log\"\n\
         [[archive]]\nid = \"a\"\ntimemap = \"{}/timemap/link/\"\n",
        archive.base()
    );
    fs::write(folder.path().join("routing.toml"), config).unwrap();
    let (mut process, address) = serve(folder.path());
    for host in ["rare", "held", "gone", "held", "gone", "held"] {
        ask(
            address,
            "GET",
            &format!("/timemap/link/http://{host}.example/"),
            &[],
        );
    }
    let log = folder.path().join("serve.log");
    let started = Instant::now();
    while fs::read_to_string(&log)
        .unwrap()
        .matches("\"event\":\"lookup\"")
        .count()
        < 6
    {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the log is written"
        );
        sleep(Duration::from_millis(50));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let before = archive.requests().len();
    let words = [
        "harvest",
        "--seen",
        "serve.log",
        "--config",
        "routing.toml",
        "--archive",
        "a",
        "--rate",
        "50",
        "--budget",
        "3",
        "-o",
        "partial.ukvs",
    ];
    let (code, _, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 1, "one is left: {said}");
    let asked: Vec<String> = archive.requests()[before..]
        .iter()
        .map(|request| request.original().to_owned())
        .collect();
    assert_eq!(asked[..2], ["http://held.example/", "http://gone.example/"]);
    assert!(asked[2].ends_with(".waypost.example.com/"), "{asked:?}");
    let map = fs::read_to_string(folder.path().join("partial.ukvs")).unwrap();
    assert!(
        map.contains("\nexample,held)/ 1/1\n") && map.contains("\nexample,gone)/ 0\n"),
        "{map}"
    );
}

#[test]
fn a_harvest_takes_what_a_search_finds() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Fake::start(|request| {
        let found = match request.path.as_str() {
            "/search?q=web%20archive&n=10" => "\"http:\\/\\/a.example\\/x\"",
            "/search?q=caf%C3%A9&n=10" => "\"/web/20040102030405/http://b.example/\"",
            _ => return Answer::new(404, ""),
        };
        let own = format!("http://{}/about", request.header("host").unwrap());
        Answer::new(
            200,
            format!("{{\"next\": \"{own}\", \"items\": [{found}]}}"),
        )
    });
    fs::write(
        folder.path().join("words"),
        "web archive\n\ncafé\nleft over\n",
    )
    .unwrap();
    let search = format!("{}/search?q={{query}}&n=10", archive.base());
    let words = [
        "harvest",
        "--search",
        &search,
        "--words",
        "words",
        "--rate",
        "50",
        "--budget",
        "2",
        "-o",
        "partial.ukvs",
    ];
    let (code, _, said) = run_in(folder.path(), &words, "");
    assert_eq!(code, 1, "the budget is used up: {said}");
    assert_eq!(archive.requests().len(), 2);
    let map = fs::read_to_string(folder.path().join("partial.ukvs")).unwrap();
    let rows: Vec<&str> = map.lines().filter(|line| !line.starts_with('!')).collect();
    assert_eq!(rows, ["example,a)/x 1+/1", "example,b)/ 1+/1"]);
    let words = [
        "harvest",
        "--search",
        "no placeholder",
        "--words",
        "words",
        "-o",
        "x.ukvs",
    ];
    let (code, _, said) = run_in(folder.path(), &words, "");
    assert!(code == 2 && said.contains("hint:"), "{said}");
}

/// Starts a server and waits until it listens.
fn serve(folder: &Path) -> (std::process::Child, SocketAddr) {
    let mut process = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args([
            "serve",
            "--config",
            "routing.toml",
            "--listen",
            "127.0.0.1:0",
        ])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
    let address = said.by_ref().map(Result::unwrap).find_map(|line| {
        let address = line.strip_prefix("listening on http://")?;
        Some(address.trim_end_matches('/').parse().unwrap())
    });
    std::thread::spawn(move || said.for_each(drop));
    (process, address.expect("the server listens"))
}

#[test]
fn a_server_killed_while_summaries_change_starts_again_and_excludes_nothing_wrongly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let archive = Fake::holding(&["2010"]);
    let build = |hosts: &[&str]| {
        let uris: String = hosts
            .iter()
            .map(|host| format!("http://{host}.example/\n"))
            .collect();
        fs::write(path.join("held.uris"), uris).unwrap();
        let words = ["-q", "map", "build", "held.uris", "-o", "a.ukvs"];
        assert_eq!(run_in(path, &words, "").0, 0);
    };
    build(&["a"]);
    let config = format!(
        "[routing]\nlearned = \"learned.redb\"\n[cache]\nenabled = false\n\
         [[archive]]\nid = \"a\"\ntimemap = \"{}/timemap/link/\"\nsummaries = [\"a.ukvs\"]\n",
        archive.base()
    );
    fs::write(path.join("routing.toml"), config).unwrap();
    let found = |address: SocketAddr, host: &str| {
        let target = format!("/timemap/link/http://{host}.example/");
        ask(address, "GET", &target, &[]).status == 200
    };
    for round in 0..3 {
        let (mut process, address) = serve(path);
        assert!(found(address, "a"), "round {round}");
        assert!(!found(address, "b"), "round {round}");
        // In the middle of whatever the watcher does with the new file.
        build(&["a", "b"]);
        sleep(Duration::from_millis(300 * round));
        assert!(found(address, "a"), "round {round}");
        process.kill().unwrap();
        process.wait().unwrap();
        build(&["a"]);
    }
    let (mut process, address) = serve(path);
    build(&["a", "b"]);
    let started = Instant::now();
    while !found(address, "b") {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the new map is read"
        );
        sleep(Duration::from_millis(100));
    }
    // Garbage in its place: everything is asked for.
    fs::write(path.join("a.ukvs"), b"\x00garbage").unwrap();
    let started = Instant::now();
    while !found(address, "c") {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "garbage is not trusted"
        );
        sleep(Duration::from_millis(100));
    }
    fs::remove_file(path.join("a.ukvs")).unwrap();
    sleep(Duration::from_millis(1500));
    assert!(found(address, "c") && found(address, "a"));
    process.kill().unwrap();
    process.wait().unwrap();
}
