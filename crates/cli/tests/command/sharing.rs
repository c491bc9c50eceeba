//! `waypost filter export`, `import` and `serve`, `waypost publish` and `waypost discover`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use super::http;
use super::inputs::signal;
use super::server::{Files, Server};
use super::{Run, example, run};

fn here(folder: &Path, args: &[&str]) -> Run {
    let args: Vec<String> = args
        .iter()
        .map(|arg| match arg.strip_prefix('@') {
            Some(name) => folder.join(name).to_str().unwrap().to_owned(),
            None => (*arg).to_owned(),
        })
        .collect();
    run(&args.iter().map(String::as_str).collect::<Vec<_>>(), b"")
}

#[test]
fn exported_filters_are_imported_and_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let small = example("small.cdxj");
    let small = small.to_str().unwrap();
    for (form, name) in [
        ("text", "@a.csv"),
        ("json", "@a-json"),
        ("binary", "@a.orestes"),
    ] {
        let args = [
            "filter", "export", small, "--scheme", "lanl", "--form", form, "-o", name,
        ];
        let exported = here(folder.path(), &args);
        assert_eq!(exported.code, 0, "{}", exported.stderr);
        assert!(
            exported.stderr.contains("16 filters"),
            "{}",
            exported.stderr
        );
        let file = match form {
            "binary" => name,
            _ => {
                let imported = here(folder.path(), &["filter", "import", name, "-o", "@b"]);
                assert_eq!(imported.code, 0, "{}", imported.stderr);
                "@b"
            }
        };
        let lookup = ["filter", "lookup", file, "http://www.library.example.org"];
        let found = here(folder.path(), &lookup);
        assert_eq!(found.code, 0, "{}", found.stdout);
        assert!(found.stdout.contains("present"), "{}", found.stdout);
        let absent = here(
            folder.path(),
            &["lookup", file, "http://nothing.example.net/"],
        );
        assert_eq!(absent.code, 1, "{}", absent.stdout);
        let info = here(folder.path(), &["filter", "info", file, "--format", "json"]);
        let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        assert_eq!(info["filters"], 16);
    }
    let text = fs::read_to_string(folder.path().join("a.csv")).unwrap();
    assert!(text.contains("\nname,hash,m,k,n,bits\n0,Murmur3KirschMitzenmacher,"));
    let wrong = here(folder.path(), &["filter", "import", small, "-o", "@c"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains("line 1") && wrong.stderr.contains("hint:"),
        "{}",
        wrong.stderr
    );
    let args = ["filter", "export", small, "--room", "99G", "-o", "@d"];
    let too_large = here(folder.path(), &args);
    assert_eq!(too_large.code, 2);
    assert!(
        too_large.stderr.contains("--filters 256"),
        "{}",
        too_large.stderr
    );
    // SURTs stand for many URLs.
    fs::write(
        folder.path().join("surts"),
        "com,example)/a\nhttp://example.com/b\n",
    )
    .unwrap();
    let partly = here(folder.path(), &["filter", "export", "@surts", "-o", "@e"]);
    assert_eq!(partly.code, 1);
    assert!(
        partly.stderr.contains("left out 1 line"),
        "{}",
        partly.stderr
    );
}

#[test]
fn what_is_published_is_discovered() {
    let folder = tempfile::tempdir().unwrap();
    let small = example("small.cdxj");
    fs::create_dir(folder.path().join("published")).unwrap();
    let title = ["--title", "Small archive"];
    let mut build = vec![
        "filter",
        "build",
        small.to_str().unwrap(),
        "-o",
        "@published/small.filter",
    ];
    build.extend(title);
    assert_eq!(here(folder.path(), &build).code, 0);
    let files = Files::default();
    let server = Server::of(&files);
    let url = server.at("/x/");
    let args = [
        "publish",
        "@published",
        "--url",
        &url,
        "--publisher",
        "Library",
    ];
    let published = here(folder.path(), &args);
    assert_eq!(published.code, 0, "{}", published.stderr);
    assert!(
        published.stdout.contains("small.filter"),
        "{}",
        published.stdout
    );
    let checked = Command::new("sha256sum")
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(folder.path().join("published"))
        .status()
        .unwrap();
    assert!(checked.success());
    for name in ["sitemap.xml", "manifest.json", "small.filter"] {
        let path = folder.path().join("published").join(name);
        files.put(&format!("/x/{name}"), fs::read(path).unwrap());
    }
    let first = here(folder.path(), &["discover", &url, "-o", "@copies"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(
        first.stdout.contains("new: ") && first.stdout.contains("Small archive"),
        "{}",
        first.stdout
    );
    let second = here(folder.path(), &["discover", &url, "-o", "@copies"]);
    assert!(second.stdout.contains("unchanged: "), "{}", second.stdout);
    files.put("/x/small.filter", "damaged on the way");
    let third = here(folder.path(), &["discover", &url, "-o", "@copies"]);
    assert_eq!(third.code, 1);
    assert!(
        third.stderr.contains("bytes, not the stated"),
        "{}",
        third.stderr
    );
    // The copies can be served, each host as an archive.
    let server = Running::start(folder.path(), &["copies"]);
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let id = host.replace(':', "+");
    let found = http::ask(
        server.address,
        "GET",
        &format!("/{id}/http://library.example.org/"),
        &[],
    );
    assert_eq!(found.status, 200);
    let nothing = here(
        folder.path(),
        &["discover", &server_url(&server), "-o", "@copies"],
    );
    assert_eq!(nothing.code, 2, "{}", nothing.stdout);
    assert!(nothing.stderr.contains("hint:"), "{}", nothing.stderr);
}

fn server_url(server: &Running) -> String {
    format!("http://{}/", server.address)
}

/// `waypost filter serve`, until it is dropped.
struct Running {
    process: Child,
    address: SocketAddr,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Running {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
            .args(["filter", "serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = said
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| {
                let address = line.strip_prefix("listening on http://")?;
                Some(address.trim_end_matches('/').parse().unwrap())
            })
            .unwrap();
        // Whatever it says from now on must not fill the pipe.
        std::thread::spawn(move || said.for_each(drop));
        Running { process, address }
    }

    /// The status and the body; `None` if the server was killed meanwhile.
    fn post(&self, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .ok()?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        if bytes.is_empty() {
            return None;
        }
        let reply = http::parse(&bytes, "POST");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        reply.complete.then_some((reply.status, text))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged: Mutex<Vec<String>> = Mutex::default();
    // Small filters, so that some rounds end while one is written.
    let args = [
        "crawls",
        "--writable",
        "--archive",
        "topic",
        "--room",
        "300",
    ];
    for round in 0..6 {
        let mut server = Running::start(folder.path(), &args);
        std::thread::scope(|scope| {
            for crawler in 0..3 {
                let (server, acknowledged) = (&server, &acknowledged);
                scope.spawn(move || {
                    for batch in 0..1000 {
                        let uris: Vec<String> = (0..1 + (batch * 7 + crawler) % 40)
                            .map(|n| format!("http://{crawler}.example/{round}/{batch}/{n}"))
                            .collect();
                        let body: String = uris.iter().map(|uri| format!("\"{uri}\"\n")).collect();
                        let Some((status, _)) = server.post("/topic/add", &body) else {
                            return;
                        };
                        assert_eq!(status, 200);
                        acknowledged.lock().unwrap().extend(uris);
                    }
                });
            }
            let (server, acknowledged) = (&server, &acknowledged);
            scope.spawn(move || {
                while acknowledged.lock().unwrap().is_empty() {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(60 * round));
                // The last one ends as it should.
                signal(&server.process, if round == 5 { "-TERM" } else { "-KILL" });
            });
        });
        server.process.wait().unwrap();
        let server = Running::start(folder.path(), &args);
        let acknowledged = acknowledged.lock().unwrap();
        assert!(!acknowledged.is_empty());
        let body: String = acknowledged
            .iter()
            .map(|uri| format!("\"{uri}\"\n"))
            .collect();
        let (status, text) = server.post("/lookup", &body).unwrap();
        assert_eq!(status, 200);
        assert_eq!(text.lines().count(), acknowledged.len());
        let lost: Vec<&str> = text
            .lines()
            .filter(|line| !line.ends_with("[\"topic\"]}"))
            .collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        drop(server);
    }
}

#[test]
fn a_server_refuses_ids_that_it_uses_itself_and_a_second_writer() {
    let folder = tempfile::tempdir().unwrap();
    for id in ["bloom", "lookup", "a/b"] {
        let args = ["filter", "serve", "@crawls", "--writable", "--archive", id];
        let refused = here(folder.path(), &args);
        assert_eq!(refused.code, 2);
        assert!(
            refused.stderr.contains("cannot be the id"),
            "{}",
            refused.stderr
        );
    }
    let _first = Running::start(folder.path(), &["crawls", "--writable", "--archive", "a"]);
    let second = here(folder.path(), &["filter", "serve", "@crawls", "--writable"]);
    assert_eq!(second.code, 2);
    assert!(
        second.stderr.contains("another process"),
        "{}",
        second.stderr
    );
    let nothing = here(folder.path(), &["filter", "serve", "@nowhere"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("hint:"), "{}", nothing.stderr);
}
