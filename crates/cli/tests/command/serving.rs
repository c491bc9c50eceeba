//! `waypost index serve`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use super::inputs::signal;
use super::run;

const LINE: &str =
    "com,example)/ 20200101000000 {\"url\": \"http://example.com/\", \"status\": \"200\"}\n";

#[test]
fn a_server_answers_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.cdxj"), LINE).unwrap();
    let wacz = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crawl.wacz");
    let wacz = format!("wacz={wacz}");
    for (name, ask) in [
        ("-TERM", "/all/cdx?url=example.com"),
        ("-INT", "/old/cdx?url=example.com"),
        ("-TERM", "/wacz/cdx?url=www.example.com"),
    ] {
        let mut server = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
            .args([
                "index",
                "serve",
                "a.cdxj",
                "-c",
                "old=a.cdxj",
                "-c",
                &wacz,
                "--listen",
                "127.0.0.1:0",
            ])
            .args(["--access-log", "access.log"])
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(server.stderr.take().unwrap()).lines();
        let address = said
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| {
                let address = line.strip_prefix("listening on http://")?;
                Some(address.trim_end_matches('/').to_owned())
            })
            .unwrap();
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "GET {ask} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("\"source\": \""), "{answer}");
        signal(&server, name);
        assert_eq!(server.wait().unwrap().code(), Some(0));
        assert_eq!(said.last().unwrap().unwrap(), "stopped");
    }
    let log = fs::read_to_string(folder.path().join("access.log")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("a.cdxj"), LINE).unwrap();
    fs::write(at("list.txt"), "com,example\n").unwrap();
    fs::write(at("picture.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, message) in [
        (vec![at("picture.png")], "not an index"),
        (vec![at("missing")], "cannot open"),
        (
            vec![at("a.cdxj"), "--listen".to_owned(), taken.clone()],
            "hint: choose another address",
        ),
        (
            vec![at("a.cdxj"), "--exclude-list".to_owned(), at("list.txt")],
            "list.txt: line 1",
        ),
        (vec!["--collection".to_owned(), at("a.cdxj")], "NAME=PATH"),
        (
            vec![at("a.cdxj"), "--embargo".to_owned(), "soon".to_owned()],
            "write 6m",
        ),
        (
            vec![at("a.cdxj"), "--replay".to_owned(), "http://x/".to_owned()],
            "{timestamp}",
        ),
        (
            vec![at("a.cdxj"), "--access-log".to_owned(), at("a.cdxj")],
            "a.cdxj",
        ),
        (vec![], "INDEX"),
    ] {
        let arguments: Vec<&str> = ["index", "serve"]
            .into_iter()
            .chain(arguments.iter().map(String::as_str))
            .collect();
        let refused = run(&arguments, b"");
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(message),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
    assert_eq!(fs::read_to_string(at("a.cdxj")).unwrap(), LINE);
}

type Said = std::io::Lines<BufReader<ChildStderr>>;

/// Starts a server with limits on open files. Returns it, its address, what it said before, and what it
/// says from then on.
fn limited(folder: &Path, soft: u32, hard: u32) -> (Child, String, Vec<String>, Said) {
    let program = assert_cmd::cargo::cargo_bin!("waypost");
    let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\"");
    let mut server = Command::new("sh")
        .args(["-c", &limits, "sh"])
        .arg(program)
        .args(["index", "serve", "a.cdxj", "--listen", "127.0.0.1:0"])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut said: Vec<String> = Vec::new();
    while !said
        .last()
        .is_some_and(|line| line.starts_with("listening"))
    {
        said.push(lines.next().unwrap().unwrap());
    }
    let address = said.pop().unwrap();
    let address = address.trim_start_matches("listening on http://");
    (
        server,
        address.trim_end_matches('/').to_owned(),
        said,
        lines,
    )
}

#[test]
fn a_server_uses_all_open_files_that_it_may_have_and_never_more() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.cdxj"), LINE).unwrap();
    let (mut server, _, said, _lines) = limited(folder.path(), 256, 16_384);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(soft, "16384", "{limits}");
    assert!(
        !said.iter().any(|line| line.contains("at most")),
        "{said:?}"
    );
    signal(&server, "-TERM");
    server.wait().unwrap();

    let (mut server, address, said, lines) = limited(folder.path(), 100, 100);
    let note = "at most 50 connections, because the system allows 100 open files";
    assert!(said.iter().any(|line| line.starts_with(note)), "{said:?}");
    // More connections than it can have: those that it accepted are answered.
    let mut streams: Vec<TcpStream> = (0..120)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    for stream in &mut streams[..50] {
        write!(
            stream,
            "GET /all/cdx?url=example.com HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    drop(streams);
    // Nobody reads what it says, and it ends as it should.
    drop(lines);
    signal(&server, "-TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
