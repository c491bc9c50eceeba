//! An HTTP server for tests, which can misbehave in every way that a test asks for.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a client asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// The requested range: the first byte, and the one after the last if it is named.
    pub(crate) fn range(&self) -> Option<(usize, Option<usize>)> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        let end = last.parse::<usize>().ok().map(|last| last + 1);
        Some((first.parse().ok()?, end))
    }
}

/// What the server answers.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Closes the connection after so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Sends nothing more after so many bytes of the body, and keeps the connection open.
    pub(crate) stall: Option<usize>,
    /// Sends no `Content-Length`; the end of the connection is the end of the body.
    pub(crate) unsized_body: bool,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status,
            headers: Vec::new(),
            body: body.into(),
            cut: None,
            stall: None,
            unsized_body: false,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }
}

/// Files that are served correctly, with ETags and ranges.
#[derive(Clone, Default)]
pub(crate) struct Files {
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Files {
    pub(crate) fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files
            .lock()
            .unwrap()
            .insert(path.to_owned(), bytes.into());
    }

    pub(crate) fn remove(&self, path: &str) {
        self.files.lock().unwrap().remove(path);
    }

    /// All files of a folder, below `/`.
    pub(crate) fn of_folder(folder: &std::path::Path) -> Files {
        let files = Files::default();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = format!("/{}", path.file_name().unwrap().to_str().unwrap());
                files.put(&name, std::fs::read(path).unwrap());
            }
        }
        files
    }

    pub(crate) fn reply(&self, request: &Request) -> Reply {
        let files = self.files.lock().unwrap();
        let path = request.path.split('?').next().unwrap();
        let Some(bytes) = files.get(path) else {
            return Reply::new(404, "no such file");
        };
        let etag = etag(bytes);
        let fresh = request.header("if-range").is_none_or(|known| known == etag);
        if request.header("if-none-match") == Some(&etag) {
            return Reply::new(304, "").with("ETag", etag);
        }
        let reply = match request.range().filter(|_| fresh) {
            None => Reply::new(200, bytes.clone()),
            Some((from, _)) if from >= bytes.len() => {
                Reply::new(416, "").with("Content-Range", format!("bytes */{}", bytes.len()))
            }
            Some((from, to)) => {
                let to = to.unwrap_or(usize::MAX).min(bytes.len());
                let range = format!("bytes {from}-{}/{}", to - 1, bytes.len());
                Reply::new(206, &bytes[from..to]).with("Content-Range", range)
            }
        };
        reply.with("ETag", etag)
    }
}

/// An ETag of some bytes.
pub(crate) fn etag(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(17_u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("\"{hash:x}-{}\"", bytes.len())
}

/// A server on a free port of this machine, until it is dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:1234`
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    /// Serves files as it should be done.
    pub(crate) fn of(files: &Files) -> Server {
        let files = files.clone();
        Server::start(move |request| files.reply(request))
    }

    /// Answers each request by `answer`.
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, over) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let server = Server {
            url,
            requests: Arc::clone(&requests),
            over: Arc::clone(&over),
        };
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (answer, requests, over) = (
                    Arc::clone(&answer),
                    Arc::clone(&requests),
                    Arc::clone(&over),
                );
                thread::spawn(move || {
                    let _ = serve(stream.unwrap(), &*answer, &requests, &over);
                });
            }
        });
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// What was asked for so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn forget(&self) {
        self.requests.lock().unwrap().clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

fn serve(
    stream: TcpStream,
    answer: &dyn Fn(&Request) -> Reply,
    requests: &Mutex<Vec<Request>>,
    over: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let request = Request { path, headers };
        requests.lock().unwrap().push(request.clone());
        let reply = answer(&request);
        let mut head = format!("HTTP/1.1 {} Test\r\n", reply.status);
        for (name, value) in &reply.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let named = |name: &str| {
            let is = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
            reply.headers.iter().any(is)
        };
        if reply.unsized_body {
            head += "Connection: close\r\n";
        } else if !named("content-length") && reply.status != 304 {
            head += &format!("Content-Length: {}\r\n", reply.body.len());
        }
        out.write_all(format!("{head}\r\n").as_bytes())?;
        let sent = reply.cut.or(reply.stall).unwrap_or(reply.body.len());
        out.write_all(&reply.body[..sent.min(reply.body.len())])?;
        out.flush()?;
        if reply.stall.is_some() {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        if reply.cut.is_some() || reply.stall.is_some() || reply.unsized_body {
            return out.shutdown(Shutdown::Both);
        }
    }
}
