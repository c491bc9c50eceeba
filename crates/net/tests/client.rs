//! The client against a server that misbehaves: each case has its error, or succeeds in the end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod server;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use server::{Files, Reply, Request, Server};
use waypost_io::{Error, ErrorKind, RangeRead, RemoteProblem};
use waypost_net::{Cache, Client, ClientOptions};

/// A client that does not wait long.
fn client() -> Client {
    Client::new(ClientOptions {
        connect_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_millis(1500),
        attempts: 3,
        first_wait: Duration::from_millis(5),
        longest_wait: Duration::from_secs(3),
        redirects: 5,
        ..ClientOptions::default()
    })
    .unwrap()
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 7 % 251) as u8).collect()
}

/// Reads bytes 10 to 30 of a file of 100 bytes from a server that changes the correct answer.
fn read(change: impl Fn(Reply, &Request, usize) -> Reply + Send + Sync + 'static) -> Outcome {
    let files = Files::default();
    files.put("/file", content(100));
    let number = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        change(files.reply(request), request, number)
    });
    let file = client().open(&server.at("/file")).unwrap();
    let mut buffer = [0; 20];
    let result = file.read_at(10, &mut buffer);
    Outcome {
        result: result.map(|()| assert_eq!(buffer, content(100)[10..30])),
        requests: server.requests().len(),
    }
}

struct Outcome {
    result: Result<(), Error>,
    requests: usize,
}

impl Outcome {
    #[track_caller]
    fn fails(&self, problem: RemoteProblem, text: &str, requests: usize) {
        let error = self.result.as_ref().unwrap_err();
        let ErrorKind::Remote { problem: found, .. } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(*found, problem, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(
            error.to_string().starts_with("http://127.0.0.1:"),
            "{error}"
        );
        assert_eq!(self.requests, requests, "{error}");
    }

    #[track_caller]
    fn succeeds(&self, requests: usize) {
        self.result.as_ref().unwrap();
        assert_eq!(self.requests, requests);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ranges_of_a_remote_file_are_those_of_its_content(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        ranges in prop::collection::vec((0usize..310, 0usize..50), 1..6),
    ) {
        let files = Files::default();
        files.put("/a%20b", bytes.clone());
        let server = Server::of(&files);
        let file = client().open(&server.at("/a b")).unwrap();
        for (from, length) in ranges {
            let mut buffer = vec![0; length];
            match (file.read_at(from as u64, &mut buffer), bytes.get(from..from + length)) {
                (Ok(()), Some(expected)) => prop_assert_eq!(&buffer[..], expected),
                // Nothing is nothing, wherever it is.
                (Ok(()), None) => prop_assert_eq!(length, 0),
                (Err(error), expected) => {
                    prop_assert!(matches!(error.kind(), ErrorKind::EndsEarly), "{}", error);
                    prop_assert!(expected.is_none());
                }
            }
        }
        prop_assert_eq!(file.size().unwrap(), bytes.len() as u64);
        prop_assert!(file.is_remote());
        prop_assert_eq!(file.stamp().unwrap().size, bytes.len() as u64);
    }
}

#[test]
fn requests_say_who_asks_and_for_what() {
    let files = Files::default();
    files.put("/file", content(100));
    let server = Server::of(&files);
    let file = client().open(&server.at("/file")).unwrap();
    file.read_at(10, &mut [0; 20]).unwrap();
    let request = &server.requests()[0];
    let version = concat!("waypost/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.header("user-agent"), Some(version));
    assert_eq!(request.header("range"), Some("bytes=10-29"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
}

#[test]
fn a_server_that_denies_or_has_nothing_is_asked_once() {
    for (status, problem) in [
        (401, RemoteProblem::Denied),
        (403, RemoteProblem::Denied),
        (404, RemoteProblem::Missing),
        (410, RemoteProblem::Missing),
        (418, RemoteProblem::Invalid),
    ] {
        let outcome = read(move |_, _, _| Reply::new(status, "no"));
        outcome.fails(problem, &format!("({status}").replace("(418", "418"), 1);
    }
}

#[test]
fn the_whole_file_instead_of_a_range_is_refused() {
    let outcome = read(|_, _, _| Reply::new(200, content(100)));
    outcome.fails(
        RemoteProblem::NoRanges,
        "does not support range requests",
        1,
    );
}

#[test]
fn an_answer_of_another_length_or_range_is_refused() {
    let cases: [(&str, &str, &str); 8] = [
        ("Content-Range", "bytes 10-28/100", "`bytes 10-28/100`"),
        ("Content-Range", "bytes 10-30/100", "`bytes 10-30/100`"),
        ("Content-Range", "bytes 0-19/100", "`bytes 0-19/100`"),
        ("Content-Range", "bytes 10-29/15", "`bytes 10-29/15`"),
        ("Content-Range", "nonsense", "`nonsense`"),
        ("Content-Range", "bytes */100", "`bytes */100`"),
        (
            "Content-Length",
            "19",
            "19 bytes instead of the 20 requested",
        ),
        ("Content-Encoding", "gzip", "compressed (gzip)"),
    ];
    for (name, value, text) in cases {
        let outcome = read(move |reply, _, _| reply.with(name, value));
        outcome.fails(RemoteProblem::Invalid, text, 1);
    }
    let outcome = read(|mut reply, _, _| {
        reply.headers.retain(|(name, _)| name != "Content-Range");
        reply
    });
    outcome.fails(RemoteProblem::Invalid, "no Content-Range", 1);
    let outcome = read(|mut reply, _, _| {
        reply.body.push(0);
        reply
    });
    outcome.fails(RemoteProblem::Invalid, "21 bytes instead of the 20", 1);
    let outcome = read(|mut reply, _, _| {
        reply.body.push(0);
        reply.unsized_body = true;
        reply
    });
    outcome.fails(RemoteProblem::Invalid, "more bytes instead of the 20", 1);
}

#[test]
fn a_body_that_ends_early_is_requested_again() {
    let short = |reply: Reply| Reply {
        cut: Some(7),
        ..reply
    };
    read(move |reply, _, number| if number == 0 { short(reply) } else { reply }).succeeds(2);
    let outcome = read(move |reply, _, _| short(reply));
    outcome.fails(RemoteProblem::Unreachable, "(3 attempts)", 3);
    let outcome = read(|reply, _, _| Reply {
        body: reply.body[..7].to_vec(),
        unsized_body: true,
        ..reply
    });
    outcome.fails(RemoteProblem::Invalid, "7 bytes instead of the 20", 3);
}

#[test]
fn a_server_that_stalls_is_asked_again_and_given_up() {
    let start = Instant::now();
    let stalled = |reply: Reply| Reply {
        stall: Some(7),
        ..reply
    };
    read(move |reply, _, number| if number == 0 { stalled(reply) } else { reply }).succeeds(2);
    let outcome = read(move |reply, _, _| stalled(reply));
    outcome.fails(RemoteProblem::Unreachable, "in time (3 attempts)", 3);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_busy_server_is_asked_again_after_a_while() {
    for status in [429, 500, 502, 503, 504] {
        let busy = move || Reply::new(status, "busy");
        read(move |reply, _, number| if number < 2 { busy() } else { reply }).succeeds(3);
        let outcome = read(move |_, _, _| busy());
        outcome.fails(RemoteProblem::Busy, &format!("answered {status}"), 3);
    }
}

#[test]
fn a_server_decides_when_it_is_asked_again() {
    let start = Instant::now();
    let busy = |seconds: &str| Reply::new(429, "busy").with("Retry-After", seconds);
    read(move |reply, _, number| if number == 0 { busy("1") } else { reply }).succeeds(2);
    assert!(start.elapsed() >= Duration::from_secs(1));
    let outcome = read(move |_, _, _| busy("3600"));
    outcome.fails(RemoteProblem::Busy, "asks to wait 3600 s", 1);
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let outcome = read(|reply, request, _| match request.path.as_str() {
        "/file" => Reply::new(302, "").with("Location", "/file?2"),
        "/file?2" => Reply::new(307, "").with("Location", "/file?3"),
        _ => reply,
    });
    outcome.succeeds(3);
    let outcome = read(|_, _, _| Reply::new(302, "").with("Location", "/file"));
    outcome.fails(RemoteProblem::Invalid, "more than 5 redirects", 6);
}

#[test]
fn a_file_that_changes_during_the_run_is_an_error() {
    let files = Files::default();
    files.put("/file", content(100));
    let server = Server::of(&files);
    let file = client().open(&server.at("/file")).unwrap();
    file.read_at(0, &mut [0; 10]).unwrap();
    for changed in [content(101), vec![1; 100]] {
        files.put("/file", changed);
        for error in [
            file.read_at(20, &mut [0; 10]).unwrap_err(),
            file.stamp().unwrap_err(),
        ] {
            assert!(
                error.to_string().contains("changed during the run"),
                "{error}"
            );
        }
    }
    // It has become shorter than what is asked for.
    files.put("/file", content(5));
    let error = file.read_at(20, &mut [0; 10]).unwrap_err();
    assert!(
        error.to_string().contains("changed during the run"),
        "{error}"
    );
}

#[test]
fn a_server_that_is_not_there_is_reported() {
    let file = client().open("http://127.0.0.1:1/file").unwrap();
    let error = file.size().unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");
    // No TLS there.
    let server = Server::of(&Files::default());
    let url = server.at("/file").replace("http:", "https:");
    let error = client().open(&url).unwrap().size().unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");
    for url in [
        "ftp://h/file",
        "file:///etc/passwd",
        "https://",
        "http://h:x/",
    ] {
        let error = client().open(url).err().unwrap();
        assert!(error.to_string().contains("invalid URL"), "{error}");
    }
}

#[test]
fn passwords_are_not_shown() {
    let server = Server::of(&Files::default());
    let url = server.at("/file").replace("http://", "http://me:secret@");
    let error = client().open(&url).unwrap().size().unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(server.requests()[0].header("authorization").is_some());
}

#[test]
fn passwords_are_not_written_to_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::default();
    files.put("/file.idx", content(1000));
    let server = Server::of(&files);
    let url = server
        .at("/file.idx")
        .replace("http://", "http://me:secret@");
    let cache = Cache::new(client(), folder.path());
    for _ in 0..2 {
        let path = cache.fetch(&url).unwrap();
        let meta = std::fs::read_to_string(path.with_extension("idx.meta")).unwrap();
        assert!(
            meta.contains("/file.idx") && !meta.contains("secret"),
            "{meta}"
        );
    }
    // The copy is still recognised.
    assert!(server.requests()[1].header("if-none-match").is_some());
}

#[test]
fn connections_are_limited() {
    let now = std::sync::Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let files = Files::default();
    files.put("/file", content(1000));
    let shared = std::sync::Arc::clone(&now);
    let server = Server::start(move |request| {
        let running = shared.0.fetch_add(1, Ordering::SeqCst) + 1;
        shared.1.fetch_max(running, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        shared.0.fetch_sub(1, Ordering::SeqCst);
        files.reply(request)
    });
    let client = Client::new(ClientOptions {
        connections: 3,
        ..ClientOptions::default()
    })
    .unwrap();
    let file = client.open(&server.at("/file")).unwrap();
    std::thread::scope(|scope| {
        for number in 0..20 {
            let file = &file;
            scope.spawn(move || file.read_at(number * 10, &mut [0; 10]).unwrap());
        }
    });
    assert_eq!(now.1.load(Ordering::SeqCst), 3);
    assert_eq!(client.stats().requests, 20);
    assert_eq!(client.stats().bytes, 200);
}

#[test]
fn small_files_are_read_whole_up_to_a_limit() {
    let files = Files::default();
    files.put("/file", content(100));
    let server = Server::of(&files);
    assert_eq!(
        client().get(&server.at("/file"), 100).unwrap(),
        content(100)
    );
    let error = client().get(&server.at("/file"), 99).unwrap_err();
    assert!(error.to_string().contains("more than 99 bytes"), "{error}");
    assert!(
        client()
            .get(&server.at("/none"), 99)
            .unwrap_err()
            .is_missing()
    );
}

/// The file in the cache.
fn cached(folder: &std::path::Path, server: &Server) -> Result<Vec<u8>, Error> {
    let cache = Cache::new(client(), folder);
    let path = cache.fetch(&server.at("/dir/file.idx"))?;
    assert!(path.ends_with("dir/file.idx"), "{path:?}");
    Ok(std::fs::read(path).unwrap())
}

#[test]
fn a_file_is_downloaded_once_and_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::default();
    files.put("/dir/file.idx", content(1000));
    let server = Server::of(&files);
    assert_eq!(cached(folder.path(), &server).unwrap(), content(1000));
    server.forget();
    assert_eq!(cached(folder.path(), &server).unwrap(), content(1000));
    let etag = server::etag(&content(1000));
    assert_eq!(server.requests()[0].header("if-none-match"), Some(&*etag));
    assert_eq!(server.requests().len(), 1);
    files.put("/dir/file.idx", content(2000));
    assert_eq!(cached(folder.path(), &server).unwrap(), content(2000));
    // Somebody cut the file, or its version is lost.
    let path = Cache::new(client(), folder.path())
        .fetch(&server.at("/dir/file.idx"))
        .unwrap();
    std::fs::write(&path, b"cut").unwrap();
    assert_eq!(cached(folder.path(), &server).unwrap(), content(2000));
    std::fs::remove_file(path.with_extension("idx.meta")).unwrap();
    assert_eq!(cached(folder.path(), &server).unwrap(), content(2000));
}

#[test]
fn without_an_etag_the_modification_time_tells() {
    let folder = tempfile::tempdir().unwrap();
    let date = "Fri, 31 Dec 1999 23:59:59 GMT";
    let server = Server::start(move |request| match request.header("if-modified-since") {
        Some(known) if known == date => Reply::new(304, ""),
        _ => Reply::new(200, content(10)).with("Last-Modified", date),
    });
    for _ in 0..2 {
        assert_eq!(cached(folder.path(), &server).unwrap(), content(10));
    }
    let requests = server.requests();
    assert_eq!(requests[1].header("if-modified-since"), Some(date));
}

#[test]
fn a_download_resumes_in_the_same_run_and_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::default();
    let whole = content(300_000);
    files.put("/dir/file.idx", whole.clone());
    // Each connection breaks after 70,000 bytes.
    let server = Server::start({
        let files = files.clone();
        move |request| Reply {
            cut: Some(70_000),
            ..files.reply(request)
        }
    });
    assert_eq!(cached(folder.path(), &server).unwrap(), whole);
    let starts: Vec<usize> = server
        .requests()
        .iter()
        .map(|request| request.range().map_or(0, |range| range.0))
        .collect();
    assert_eq!(starts, [0, 70_000, 140_000, 210_000, 280_000]);
    // Another run continues what a run that was given up has left.
    let folder = tempfile::tempdir().unwrap();
    let broken = std::sync::Arc::new(Mutex::new(true));
    let server = Server::start({
        let (files, broken) = (files.clone(), std::sync::Arc::clone(&broken));
        move |request| match *broken.lock().unwrap() {
            true if request.range().is_some() => Reply::new(503, "busy"),
            true => Reply {
                cut: Some(100_000),
                ..files.reply(request)
            },
            false => files.reply(request),
        }
    });
    let error = cached(folder.path(), &server).unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
    *broken.lock().unwrap() = false;
    server.forget();
    assert_eq!(cached(folder.path(), &server).unwrap(), whole);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].range(), Some((100_000, None)));
    assert_eq!(requests[0].header("if-range"), Some(&*server::etag(&whole)));
}

#[test]
fn a_file_that_changes_between_two_parts_of_a_download_is_downloaded_anew() {
    for honours_if_range in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let number = AtomicUsize::new(0);
        let server = Server::start(move |request| {
            let files = Files::default();
            let first = number.fetch_add(1, Ordering::Relaxed) == 0;
            let bytes = if first {
                vec![1; 200_000]
            } else {
                vec![2; 200_000]
            };
            files.put("/dir/file.idx", bytes);
            let mut request = request.clone();
            if !honours_if_range {
                request.remove("if-range");
            }
            Reply {
                cut: first.then_some(90_000),
                ..files.reply(&request)
            }
        });
        assert_eq!(cached(folder.path(), &server).unwrap(), vec![2; 200_000]);
    }
}

#[test]
fn a_partial_download_never_appears_as_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::default();
    files.put("/dir/file.idx", content(1000));
    let server = Server::start(move |request| Reply {
        cut: Some(100),
        ..files.reply(&Request {
            path: request.path.clone(),
            ..Request::default()
        })
    });
    let error = cached(folder.path(), &server).unwrap_err();
    assert!(error.to_string().contains("/dir/file.idx"), "{error}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        for entry in std::fs::read_dir(entry.unwrap().path().join("dir")).unwrap() {
            names.push(entry.unwrap().file_name().into_string().unwrap());
        }
    }
    assert!(!names.contains(&"file.idx".to_owned()), "{names:?}");
}
