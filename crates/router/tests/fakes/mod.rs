//! Fake archives on free ports, which can misbehave in every way that a test asks for.
//!
//! ```ignore
//! let archive = Fake::start(|request| match request.path.strip_prefix("/timemap/link/") {
//!     Some(uri) => Answer::timemap(uri, request, &["2010", "2011"]),
//!     None => Answer::new(404, ""),
//! });
//! let registry = Registry::new(vec![archive.entry("a")]);
//! ```
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use waypost_memento::{Datetime, Format, Memento, TimeMap};
use waypost_router::Archive;

/// What a client asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// `http://` and the address of the fake archive.
    pub(crate) base: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let same = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        headers.find(same).map(|(_, value)| &value[..])
    }

    /// The original URI behind the first `http` in the path.
    pub(crate) fn original(&self) -> &str {
        let start = self.path.find("http").unwrap_or(self.path.len());
        &self.path[start..]
    }
}

/// How the body is sent.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// All of it.
    Whole,
    /// So many bytes; then nothing more, and the connection stays open.
    Stall(usize),
    /// So many bytes; then the connection is closed.
    Cut(usize),
    /// One byte after each pause.
    Trickle(Duration),
    /// Again and again, up to so many bytes.
    Repeat(u64),
}

/// What the fake archive answers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) how: Body,
    /// The wait before anything is sent.
    pub(crate) delay: Duration,
    /// The `Content-Length`, if it is not that of the body. `None` in it: not sent.
    pub(crate) length: Option<Option<u64>>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status,
            headers: Vec::new(),
            body: body.into(),
            how: Body::Whole,
            delay: Duration::ZERO,
            length: None,
        }
    }

    /// A TimeMap with mementos at these timestamps.
    pub(crate) fn timemap(uri: &str, request: &Request, timestamps: &[&str]) -> Answer {
        Answer::links(timemap(uri, &request.base, timestamps))
    }

    /// No answer: the connection is closed.
    pub(crate) fn hang_up() -> Answer {
        Answer::new(0, "")
    }

    /// A document of links.
    pub(crate) fn links(body: impl Into<Vec<u8>>) -> Answer {
        Answer::new(200, body).with("Content-Type", "application/link-format")
    }

    /// The answer with another header, also one that it has already.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Answer {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn sent(mut self, how: Body) -> Answer {
        self.how = how;
        self
    }

    pub(crate) fn after(mut self, delay: Duration) -> Answer {
        self.delay = delay;
        self
    }

    pub(crate) fn claiming(mut self, length: Option<u64>) -> Answer {
        self.length = Some(length);
        self
    }
}

/// A TimeMap in link-format with mementos at these timestamps, at `BASE/TIMESTAMP/URI`.
pub(crate) fn timemap(uri: &str, base: &str, timestamps: &[&str]) -> Vec<u8> {
    let mut timemap = TimeMap {
        original: uri.to_owned(),
        ..TimeMap::default()
    };
    for timestamp in timestamps {
        let datetime = Datetime::parse_timestamp(timestamp).unwrap();
        let memento = format!("{base}/{}/{uri}", datetime.timestamp());
        timemap.mementos.push(Memento::new(memento, datetime));
    }
    let mut out = Vec::new();
    timemap.write(Format::Link, &mut out).unwrap();
    out
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

struct Shared {
    address: SocketAddr,
    handler: Box<Handler>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    /// Connections that are being answered.
    busy: AtomicUsize,
    /// Bytes that clients accepted.
    sent: AtomicUsize,
    stopped: AtomicBool,
}

/// A fake archive on a free port. It ends when it is dropped.
pub(crate) struct Fake {
    shared: Arc<Shared>,
}

impl Fake {
    pub(crate) fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            handler: Box::new(handler),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stopped.load(Ordering::Relaxed) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(&accepting);
                // A client that hangs up is not an error.
                thread::spawn(move || drop(shared.serve(stream.unwrap())));
            }
        });
        Fake { shared }
    }

    /// An archive that has mementos of every URI at these timestamps.
    pub(crate) fn holding(timestamps: &'static [&'static str]) -> Fake {
        Fake::start(move |request| Answer::timemap(request.original(), request, timestamps))
    }

    /// `http://` and the address.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The archive in a registry: TimeMaps at `/timemap/link/`, TimeGates at `/timegate/`.
    pub(crate) fn entry(&self, id: &str) -> Archive {
        Archive {
            timemap: Some(format!("{}/timemap/link/", self.base())),
            timegate: Some(format!("{}/timegate/", self.base())),
            ..Archive::new(id)
        }
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The number of answers that are being sent.
    pub(crate) fn busy(&self) -> usize {
        self.shared.busy.load(Ordering::Relaxed)
    }

    /// The number of bytes of bodies that clients accepted.
    pub(crate) fn sent(&self) -> usize {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.shared.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = self.read(&mut reader)? {
            self.requests.lock().unwrap().push(request.clone());
            self.busy.fetch_add(1, Ordering::Relaxed);
            let sent = self.answer(&request, &stream);
            self.busy.fetch_sub(1, Ordering::Relaxed);
            if !sent? {
                break;
            }
        }
        stream.shutdown(Shutdown::Both)
    }

    fn read(&self, reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_ascii_whitespace();
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            base: format!("http://{}", self.address),
            headers: Vec::new(),
        };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) => request.headers.push((name.to_owned(), value.to_owned())),
                None => return Ok(Some(request)),
            }
        }
    }

    /// Whether the connection can be used again.
    fn answer(&self, request: &Request, mut stream: &TcpStream) -> io::Result<bool> {
        let answer = (self.handler)(request);
        self.wait(answer.delay, stream)?;
        if answer.status == 0 {
            return Ok(false);
        }
        let mut head = format!("HTTP/1.1 {} Fake\r\n", answer.status);
        for (name, value) in &answer.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let length = answer.length.unwrap_or(match answer.how {
            Body::Repeat(bytes) => Some(bytes),
            _ => Some(answer.body.len() as u64),
        });
        match length {
            Some(length) => head += &format!("Content-Length: {length}\r\n"),
            None => head += "Connection: close\r\n",
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        if request.method == "HEAD" {
            return Ok(true);
        }
        let body = &answer.body[..];
        match answer.how {
            Body::Whole => self.send(stream, body)?,
            Body::Cut(bytes) => {
                self.send(stream, &body[..bytes])?;
                return Ok(false);
            }
            Body::Stall(bytes) => {
                self.send(stream, &body[..bytes])?;
                self.wait(Duration::from_secs(3600), stream)?;
            }
            Body::Trickle(pause) => {
                for byte in body.chunks(1) {
                    self.send(stream, byte)?;
                    self.wait(pause, stream)?;
                }
            }
            Body::Repeat(bytes) => {
                let block = body.repeat((1 << 20) / body.len() + 1);
                let mut left = bytes;
                while left > 0 {
                    let size = left.min(block.len() as u64);
                    self.send(stream, &block[..size as usize])?;
                    left -= size;
                }
            }
        }
        Ok(length == Some(body.len() as u64) || matches!(answer.how, Body::Repeat(_)))
    }

    fn send(&self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes)?;
        self.sent.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Waits, but not longer than the client or the fake archive.
    fn wait(&self, time: Duration, stream: &TcpStream) -> io::Result<()> {
        const STEP: Duration = Duration::from_millis(5);
        let end = std::time::Instant::now() + time;
        stream.set_nonblocking(true)?;
        let waited = loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() || self.stopped.load(Ordering::Relaxed) {
                break Ok(());
            }
            match stream.peek(&mut [0]) {
                Ok(0) => break Err(io::ErrorKind::ConnectionAborted.into()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break Err(error),
                _ => thread::sleep(left.min(STEP)),
            }
        };
        stream.set_nonblocking(false)?;
        waited
    }
}
