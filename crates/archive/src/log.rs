//! The access log: a line for each request, when its answer was sent.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::request::Parts;
use jiff::Timestamp;

use crate::reply::Answer;

/// Where the lines go.
pub struct AccessLog(Mutex<Box<dyn Write + Send>>);

impl AccessLog {
    /// Writes each line at once.
    pub fn new(out: impl Write + Send + 'static) -> AccessLog {
        AccessLog(Mutex::new(Box::new(out)))
    }

    /// Logs a request when its answer was sent.
    pub(crate) fn entry(
        self: &Arc<AccessLog>,
        request: &Parts,
        client: SocketAddr,
        started: Instant,
        answer: &mut Answer,
    ) {
        let status = answer.status().as_u16();
        answer.body_mut().log = Some(Box::new(LogEntry {
            log: Arc::clone(self),
            client: client.ip(),
            request: format!("{} {} {:?}", request.method, request.uri, request.version),
            status,
            bytes: 0,
            started,
            failure: None,
        }));
    }

    fn write(&self, line: &str) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop the server.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// What is known about a request. Written when it is dropped, which is when the answer was sent or the
/// client went away.
pub(crate) struct LogEntry {
    log: Arc<AccessLog>,
    client: IpAddr,
    /// Method, path and version.
    request: String,
    status: u16,
    pub(crate) bytes: u64,
    started: Instant,
    /// Why the answer ended early.
    pub(crate) failure: Option<String>,
}

impl Drop for LogEntry {
    /// The common log format, with seconds at the end.
    fn drop(&mut self) {
        let now = Timestamp::now().strftime("%d/%b/%Y:%H:%M:%S +0000");
        let seconds = self.started.elapsed().as_secs_f64();
        let failure = match &self.failure {
            Some(failure) => format!(" {failure:?}"),
            None => String::new(),
        };
        let request = self.request.escape_debug();
        let line = format!(
            "{} - - [{now}] \"{request}\" {} {} {seconds:.6}{failure}\n",
            self.client, self.status, self.bytes
        );
        self.log.write(&line);
    }
}
