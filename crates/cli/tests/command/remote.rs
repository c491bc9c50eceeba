//! Lookups in an index on a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::{Files, Reply, Request, Server};
use super::{Run, example, run, tls, waypost};

type Answer = Box<dyn Fn(&Files, &Request) -> Reply + Send + Sync>;

/// A ZipNum index of `examples/small.cdxj`.
fn zipnum(folder: &Path) -> PathBuf {
    let (sorted, zipnum) = (folder.join("sorted.cdxj"), folder.join("zipnum"));
    let small = example("small.cdxj");
    let made = run(
        &[
            "index",
            "sort",
            small.to_str().unwrap(),
            "-o",
            sorted.to_str().unwrap(),
        ],
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let made = run(
        &[
            "index",
            "zipnum",
            sorted.to_str().unwrap(),
            "--lines",
            "20",
            "--shards",
            "3",
            "-o",
            zipnum.to_str().unwrap(),
        ],
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    zipnum
}

#[test]
fn a_remote_index_answers_as_a_local_one() {
    let folder = tempfile::tempdir().unwrap();
    let zipnum = zipnum(folder.path());
    let server = Server::of(&Files::of_folder(&zipnum));
    let url = server.at("/cluster.idx");
    let lookups = example("lookups.txt");
    let lookups = lookups.to_str().unwrap();
    let cache = folder.path().join("cache");
    let cases: [&[&str]; 7] = [
        &["http://gazette.example.com/"],
        &["--batch", lookups],
        &[
            "--batch",
            lookups,
            "--limit",
            "1",
            "--reverse",
            "--format",
            "json",
        ],
        &["--batch", lookups, "--closest", "2020", "--limit", "2"],
        &[
            "*.example.com",
            "--filter",
            "=status:200",
            "--format",
            "text",
        ],
        &["--match", "domain", "example.org", "--limit", "3"],
        &["http://nothing.example.net/"],
    ];
    for case in cases {
        let lookup = |index: &str, more: &[&str]| -> Run {
            run(&[&["index", "lookup", index], case, more].concat(), b"")
        };
        let local = lookup(zipnum.to_str().unwrap(), &[]);
        for more in [
            &[][..],
            &["--connections", "1"],
            &["--cache", cache.to_str().unwrap()],
        ] {
            let remote = lookup(&url, more);
            assert_eq!(remote.stdout, local.stdout, "{}", remote.stderr);
            assert_eq!(remote.code, local.code, "{}", remote.stderr);
        }
    }
    let count = |index: &str| {
        let args = ["lookup", index, "--batch", lookups, "--format", "tsv"];
        run(&args, b"")
    };
    let (remote, local) = (count(&url), count(zipnum.to_str().unwrap()));
    assert_eq!(remote.stdout, local.stdout, "{}", remote.stderr);
    assert_eq!(remote.code, 0);
}

#[test]
fn the_copy_in_a_cache_is_used_while_it_is_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::of_folder(&zipnum(folder.path()));
    let server = Server::of(&files);
    let cache = folder.path().join("cache");
    let lookup = || {
        let url = server.at("/cluster.idx");
        let cache = cache.to_str().unwrap();
        let args = [
            "index",
            "lookup",
            &url,
            "http://gazette.example.com/",
            "--cache",
            cache,
        ];
        let found = run(&args, b"");
        assert_eq!(found.code, 0, "{}", found.stderr);
        let requests = server.requests();
        server.forget();
        let of_idx = requests
            .iter()
            .filter(|request| request.path == "/cluster.idx");
        of_idx.cloned().collect::<Vec<_>>()
    };
    assert!(lookup()[0].header("if-none-match").is_none());
    let again = lookup();
    assert_eq!(again.len(), 1);
    assert!(again[0].header("if-none-match").is_some());
    assert!(again[0].range().is_none());
}

#[test]
fn errors_name_the_url_and_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let zipnum = zipnum(folder.path());
    let files = Files::of_folder(&zipnum);
    let fails = |answer: Answer| {
        let files = files.clone();
        let server = Server::start(move |request| answer(&files, request));
        let url = server.at("/cluster.idx");
        let found = run(
            &["index", "lookup", &url, "http://gazette.example.com/"],
            b"",
        );
        assert_eq!(found.code, 2, "{}", found.stderr);
        assert!(found.stderr.contains(&server.url), "{}", found.stderr);
        assert!(found.stdout.is_empty());
        found.stderr
    };
    let error = fails(Box::new(|_, _| Reply::new(404, "")));
    assert!(error.contains("no such file (404 "), "{error}");
    assert!(error.contains("hint: check the URL"), "{error}");
    let error = fails(Box::new(|_, _| Reply::new(403, "")));
    assert!(error.contains("denies access (403 "), "{error}");
    assert!(error.contains("--connections 1"), "{error}");
    let error = fails(Box::new(|_, _| Reply::new(200, "com,a)/ 2020\tp\t0\t1\n")));
    assert!(error.contains("does not support range requests"), "{error}");
    assert!(error.contains("hint: download the files"), "{error}");
    let error = fails(Box::new(|_, _| {
        Reply::new(302, "").with("Location", "/cluster.idx")
    }));
    assert!(error.contains("more than 10 redirects"), "{error}");
    let error = fails(Box::new(|files, request| {
        let reply = files.reply(request);
        match request.path.ends_with(".gz") {
            true => reply.with("Content-Range", "bytes 3-9/10"),
            false => reply,
        }
    }));
    assert!(error.contains("cdx-00000.gz"), "{error}");
    assert!(error.contains("bytes 3-9/10"), "{error}");
    let number = AtomicUsize::new(0);
    let error = fails(Box::new(move |files, request| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        files.reply(request).with("ETag", format!("\"{number}\""))
    }));
    assert!(error.contains("changed during the run"), "{error}");
    assert!(error.contains("hint: run the command again"), "{error}");
    let error = fails(Box::new(|_, _| {
        Reply::new(503, "").with("Retry-After", "100000")
    }));
    assert!(error.contains("asks to wait 100000 s"), "{error}");
}

#[test]
fn a_server_that_is_busy_for_a_moment_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::of_folder(&zipnum(folder.path()));
    let number = AtomicUsize::new(0);
    let server = Server::start(
        move |request| match number.fetch_add(1, Ordering::Relaxed) {
            1 => Reply::new(429, "").with("Retry-After", "1"),
            3 => Reply::new(503, ""),
            5 => Reply {
                cut: Some(3),
                ..files.reply(request)
            },
            _ => files.reply(request),
        },
    );
    let url = server.at("/cluster.idx");
    let found = run(
        &["index", "lookup", &url, "http://gazette.example.com/"],
        b"",
    );
    assert_eq!(found.code, 0, "{}", found.stderr);
}

#[test]
fn other_remote_files_are_refused() {
    for command in [&["index", "lookup"][..], &["lookup"]] {
        let url = "http://127.0.0.1:1/index.cdxj";
        let found = run(&[command, &[url, "http://example.com/"]].concat(), b"");
        assert_eq!(found.code, 2);
        assert!(found.stderr.contains("only ZipNum"), "{}", found.stderr);
        assert!(found.stderr.contains("cluster.idx"), "{}", found.stderr);
    }
}

#[test]
fn a_local_index_reads_shards_at_urls() {
    let folder = tempfile::tempdir().unwrap();
    let zipnum = zipnum(folder.path());
    let server = Server::of(&Files::of_folder(&zipnum));
    let args = ["index", "lookup", zipnum.to_str().unwrap(), "*.example.com"];
    let expected = run(&args, b"");
    let mut locations = String::new();
    for part in ["cdx-00000.gz", "cdx-00001.gz", "cdx-00002.gz"] {
        locations += &format!("{part}\t{}\n", server.at(&format!("/{part}")));
        fs::remove_file(zipnum.join(part)).unwrap();
    }
    fs::write(zipnum.join("cluster.loc"), locations).unwrap();
    let found = run(&args, b"");
    assert_eq!(found.stdout, expected.stdout, "{}", found.stderr);
    assert!(!found.stdout.is_empty());
}

/// Forwards connections with TLS to another port, with a certificate for 127.0.0.1. Returns its own
/// port and the certificate of the authority that signed the other one.
fn tls_in_front_of(port: u16) -> (u16, String) {
    let (acceptor, authority) = tls::acceptor(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    // Ends with the test.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust the certificate hangs up.
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
                        let _ =
                            tokio::io::copy_bidirectional(&mut stream, &mut server.unwrap()).await;
                    }
                });
            }
        });
    });
    (own, authority)
}

#[test]
fn https_is_read_if_the_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let zipnum = zipnum(folder.path());
    let server = Server::of(&Files::of_folder(&zipnum));
    let (port, authority) = tls_in_front_of(server.port());
    let trusted = folder.path().join("authority.pem");
    fs::write(&trusted, authority).unwrap();
    let other = folder.path().join("other.pem");
    fs::write(&other, tls_in_front_of(server.port()).1).unwrap();
    let url = format!("https://127.0.0.1:{port}/cluster.idx");
    let uri = "http://gazette.example.com/";
    let local = run(&["index", "lookup", zipnum.to_str().unwrap(), uri], b"");
    let lookup = |certificates: &Path| {
        waypost(&["index", "lookup", &url, uri])
            .env("SSL_CERT_FILE", certificates)
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap()
    };
    let remote = lookup(&trusted);
    let stderr = String::from_utf8_lossy(&remote.stderr);
    assert_eq!(remote.status.code(), Some(0), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&remote.stdout), local.stdout);
    assert!(!local.stdout.is_empty());
    let refused = lookup(&other);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("certificate"), "{stderr}");
}
