//! What all journeys share: a folder, commands that run in it, servers, requests.
#![allow(dead_code, reason = "no journey needs all of it")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::http::{self, Reply};

/// How long a server may take to start, or a change to be noticed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder in which commands run. It is removed at the end.
pub(crate) struct World {
    folder: tempfile::TempDir,
}

/// What a run printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A path in the folder.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Replaces a file in one step, as tools do that care.
    pub(crate) fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write(&format!("{name}.new"), content);
        fs::rename(self.at(&format!("{name}.new")), self.at(name)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap()
    }

    /// Runs `waypost` in the folder. The words of the command are separated by spaces.
    pub(crate) fn run(&self, words: &str) -> Run {
        self.run_with(words, &[])
    }

    /// Runs `waypost` in the folder with more arguments, which may contain spaces.
    pub(crate) fn run_with(&self, words: &str, more: &[&str]) -> Run {
        let output = command(self.folder(), words)
            .args(more)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap(),
        }
    }

    /// Runs `waypost`, which must succeed, and returns what it printed.
    pub(crate) fn ok(&self, words: &str) -> String {
        let run = self.run(words);
        assert_eq!(run.code, 0, "waypost {words}\n{}{}", run.stdout, run.stderr);
        run.stdout
    }

    /// Runs `waypost`, which must fail, and returns what it printed on stderr.
    pub(crate) fn refused(&self, words: &str) -> String {
        let run = self.run(words);
        assert_eq!(run.code, 2, "waypost {words}\n{}{}", run.stdout, run.stderr);
        run.stderr
    }

    /// The answers of `waypost lookup` to URIs, in their order: `present`, `absent` or `unknown`.
    pub(crate) fn lookup(&self, file: &str, uris: &[String]) -> Vec<String> {
        self.write("lookups.txt", uris.join("\n") + "\n");
        let run = self.run(&format!("lookup {file} --batch lookups.txt --format tsv"));
        let rows = run.stdout.lines();
        let answers: Vec<String> = rows
            .map(|row| row.split('\t').nth(1).unwrap_or_default().to_owned())
            .collect();
        assert_eq!(answers.len(), uris.len(), "{}{}", run.stdout, run.stderr);
        answers
    }

    /// Starts a server: a `waypost` command that prints `listening on http://…/`.
    pub(crate) fn serve(&self, words: &str) -> Served {
        Served::start(self.folder(), words)
    }
}

fn command(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("waypost"));
    command.args(words.split_whitespace()).current_dir(folder);
    command
}

/// A server that is killed when it is dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) address: SocketAddr,
    /// What it has printed on stderr.
    log: Arc<Mutex<Vec<String>>>,
}

impl Served {
    fn start(folder: &Path, words: &str) -> Served {
        let mut process = command(folder, words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (found, address) = mpsc::channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let kept = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    let _ = found.send(address.trim_end_matches('/').parse().unwrap());
                }
                kept.lock().unwrap().push(line);
            }
        });
        let address = listening(&address)
            .unwrap_or_else(|| panic!("waypost {words}: {:?}", log.lock().unwrap()));
        Served {
            process,
            address,
            log,
        }
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        http::ask(self.address, "GET", path, headers)
    }

    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        http::ask_with_body(self.address, "POST", path, headers, Some(body))
    }

    /// What it has printed on stderr until now.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The process id, for signals.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

fn listening(address: &Receiver<SocketAddr>) -> Option<SocketAddr> {
    address.recv_timeout(PATIENCE).ok()
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until something holds, however slow the machine is.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(started.elapsed() < PATIENCE, "never happened: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Writes a sorted CDXJ index with one capture (status 200, HTML, of 2020) for each URI.
pub(crate) fn write_index<'a>(
    world: &World,
    name: &str,
    uris: impl IntoIterator<Item = &'a String>,
) {
    let mut rows = Vec::new();
    for uri in uris {
        writeln!(
            rows,
            "x)/ 20200101000000 {{\"url\": \"{uri}\", \"mime\": \"text/html\", \"status\": \"200\"}}"
        )
        .unwrap();
    }
    world.write("unkeyed.cdxj", rows);
    world.ok(&format!(
        "--quiet index rekey --dialect ia unkeyed.cdxj -o {name}"
    ));
}
