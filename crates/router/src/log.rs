//! Log lines: a JSON object for each event, or MemGator's INFO, ERROR and BENCHMARK lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
#[cfg(test)]
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;
use waypost_io::IoContext;

use crate::{LogConfig, LogFormat};

/// Where log lines go.
#[derive(Debug, Default)]
pub struct Log {
    format: LogFormat,
    /// `None` if such lines are not wanted.
    info: Option<Arc<Sink>>,
    error: Option<Arc<Sink>>,
    benchmark: Option<Arc<Sink>>,
}

/// How many lines wait to be written. More are dropped and counted.
const WAITING: usize = 16 << 10;

/// How many bytes are written at once.
const BATCH: usize = 64 << 10;

/// How long [`Log::flush`] waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lines on their way to a file or stderr. A thread writes them: whoever logs waits neither for a
/// disk nor for a pipe that nobody reads.
#[derive(Debug)]
struct Sink {
    send: SyncSender<Entry>,
    /// Lines that were lost because too many were waiting.
    dropped: Arc<AtomicU64>,
}

enum Entry {
    Line(String),
    /// The file may have been renamed: opens it again.
    Reopen,
    /// Answers when all lines before it are written.
    Flush(SyncSender<()>),
}

/// Where lines go in the end.
enum Destination {
    Stderr,
    File(PathBuf, File),
    /// Memory, for tests.
    #[cfg(test)]
    Memory(Arc<Mutex<String>>),
}

impl Sink {
    fn stderr() -> Arc<Sink> {
        Sink::start(Destination::Stderr)
    }

    fn open(path: &Path) -> waypost_io::Result<Arc<Sink>> {
        let file = append(path).doing("open", path)?;
        Ok(Sink::start(Destination::File(path.to_owned(), file)))
    }

    fn start(mut destination: Destination) -> Arc<Sink> {
        let (send, entries) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let write = move || {
            while let Ok(first) = entries.recv() {
                destination.write(first, &entries, &lost);
            }
        };
        // Without a thread, there is no log; the server works all the same.
        let _ = thread::Builder::new()
            .name("waypost-log".to_owned())
            .spawn(write);
        Arc::new(Sink { send, dropped })
    }

    fn write(&self, line: String) {
        if self.send.try_send(Entry::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn reopen(&self) {
        let _ = self.send.try_send(Entry::Reopen);
    }

    fn flush(&self) {
        let (done, finished) = sync_channel(1);
        if self.send.try_send(Entry::Flush(done)).is_ok() {
            let _ = finished.recv_timeout(PATIENCE);
        }
    }
}

impl Destination {
    /// Writes an entry, and those that wait behind it.
    fn write(&mut self, first: Entry, entries: &Receiver<Entry>, lost: &AtomicU64) {
        let mut lines = String::new();
        let mut next = Some(first);
        while let Some(entry) = next {
            match entry {
                Entry::Line(line) => lines.push_str(&line),
                Entry::Reopen => {
                    self.write_out(&mut lines);
                    if let Destination::File(path, file) = self
                        && let Ok(opened) = append(path)
                    {
                        *file = opened;
                    }
                }
                Entry::Flush(done) => {
                    self.write_out(&mut lines);
                    let _ = done.try_send(());
                }
            }
            next = match lines.len() {
                ..BATCH => entries.try_recv().ok(),
                _ => None,
            };
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => lines.push_str(&format!(
                "{{\"event\":\"log lines lost\",\"count\":{lost}}}\n"
            )),
        }
        self.write_out(&mut lines);
    }

    fn write_out(&mut self, lines: &mut String) {
        // A full disk must not stop the server.
        let _ = match self {
            _ if lines.is_empty() => Ok(()),
            Destination::Stderr => io::stderr().write_all(lines.as_bytes()),
            Destination::File(_, file) => file.write_all(lines.as_bytes()),
            #[cfg(test)]
            Destination::Memory(text) => {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(lines);
                Ok(())
            }
        };
        lines.clear();
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Log {
    /// A log that nothing is written to.
    pub fn none() -> Log {
        Log::default()
    }

    /// Opens the files of a configuration. Without a file, JSON goes to stderr, and so do MemGator's
    /// ERROR lines, but no others unless they are wanted by `verbose`: then all lines go to stderr.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn open(config: &LogConfig, verbose: bool) -> waypost_io::Result<Log> {
        let stderr = Sink::stderr();
        let file = match &config.file {
            Some(path) if !verbose => Some(Sink::open(path)?),
            _ => None,
        };
        let everything = file.clone().or((verbose).then(|| Arc::clone(&stderr)));
        let benchmark = match &config.benchmark {
            Some(path) if !verbose => Some(Sink::open(path)?),
            _ => everything.clone(),
        };
        Ok(match config.format {
            LogFormat::Json => Log {
                format: LogFormat::Json,
                info: Some(file.clone().unwrap_or_else(|| Arc::clone(&stderr))),
                error: Some(file.unwrap_or(stderr)),
                benchmark: None,
            },
            LogFormat::MemGator => Log {
                format: LogFormat::MemGator,
                info: everything,
                error: Some(file.unwrap_or(stderr)),
                benchmark,
            },
        })
    }

    /// Opens the files again, which a program that rotates logs may have renamed.
    pub fn reopen(&self) {
        self.sinks().for_each(Sink::reopen);
    }

    /// Waits until all lines are written, but not for long.
    pub fn flush(&self) {
        self.sinks().for_each(Sink::flush);
    }

    fn sinks(&self) -> impl Iterator<Item = &Sink> {
        let sinks = [&self.info, &self.error, &self.benchmark];
        sinks.into_iter().flatten().map(|sink| &**sink)
    }

    /// The form of the lines.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Writes a JSON object with the time, if that is the form of this log.
    pub(crate) fn json(&self, level: &str, fields: impl FnOnce() -> Value) {
        if let (LogFormat::Json, Some(sink)) = (self.format, &self.info) {
            let mut fields = fields();
            fields["level"] = level.into();
            fields["time"] = Timestamp::now().to_string().into();
            sink.write(format!("{fields}\n"));
        }
    }

    /// Writes an INFO line, if this log has MemGator's form.
    pub fn info(&self, text: impl std::fmt::Display) {
        if let (LogFormat::MemGator, Some(sink)) = (self.format, &self.info) {
            sink.write(format!("INFO: {} {}\n", clock(), one_line(&text)));
        }
    }

    /// Writes an ERROR line, if this log has MemGator's form. MemGator names the line of its source.
    pub fn error(&self, text: impl std::fmt::Display) {
        if let (LogFormat::MemGator, Some(sink)) = (self.format, &self.error) {
            let source = concat!("log.rs:", line!());
            let text = one_line(&text);
            sink.write(format!("ERROR: {} {source}: {text}\n", clock()));
        }
    }

    /// Writes a BENCHMARK line, if this log has MemGator's form.
    pub(crate) fn benchmark(&self, session: u64, event: &Benchmark<'_>) {
        if let (LogFormat::MemGator, Some(sink)) = (self.format, &self.benchmark) {
            let fields = event.fields();
            sink.write(format!("BENCHMARK: {} {session} {{{fields}}}\n", clock()));
        }
    }

    /// A log in memory, and its text.
    #[cfg(test)]
    pub(crate) fn in_memory(format: LogFormat) -> (Log, Arc<Mutex<String>>) {
        let text = Arc::default();
        let sink = Some(Sink::start(Destination::Memory(Arc::clone(&text))));
        let log = Log {
            format,
            info: sink.clone(),
            error: sink.clone(),
            benchmark: sink,
        };
        (log, text)
    }
}

/// A step of a session, as MemGator measures them.
pub(crate) struct Benchmark<'a> {
    pub(crate) origin: &'a str,
    pub(crate) role: &'a str,
    pub(crate) info: String,
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
}

impl Benchmark<'_> {
    /// The members of the JSON object, in MemGator's order and with its spaces.
    fn fields(&self) -> String {
        let took = self.end.duration_since(self.start).unwrap_or_default();
        let info = format!("{} - Duration: {}", self.info, go_duration(took));
        let quoted = |text: &str| Value::from(text).to_string();
        format!(
            "\"origin\": {}, \"role\": {}, \"info\": {}, \"start\": {}, \"end\": {}",
            quoted(self.origin),
            quoted(self.role),
            quoted(&info),
            nanoseconds(self.start),
            nanoseconds(self.end)
        )
    }

    /// The event that is sent to clients that monitor.
    pub(crate) fn event(&self, session: u64) -> String {
        format!(
            "data: {{\"session\": \"{session}\", {}}}\n\n",
            self.fields()
        )
    }
}

/// The number of nanoseconds since 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The time as Go writes it, in UTC.
fn clock() -> String {
    Timestamp::now()
        .strftime("%Y/%m/%d %H:%M:%S.%6f")
        .to_string()
}

fn one_line(text: &impl std::fmt::Display) -> String {
    text.to_string().replace(['\n', '\r'], " ")
}

/// A duration as Go writes it: `912ns`, `329.029µs`, `1.003846131s`, `1m0s`.
pub fn go_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let in_unit = |scale: u128, digits: usize, unit: &str| {
        let (whole, rest) = (nanoseconds / scale, nanoseconds % scale);
        let rest = format!("{rest:0digits$}");
        match rest.trim_end_matches('0') {
            "" => format!("{whole}{unit}"),
            rest => format!("{whole}.{rest}{unit}"),
        }
    };
    match nanoseconds {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => in_unit(1_000, 3, "µs"),
        1_000_000..1_000_000_000 => in_unit(1_000_000, 6, "ms"),
        _ => {
            let minutes = duration.as_secs() / 60;
            let seconds = duration - Duration::from_secs(minutes * 60);
            let seconds = match seconds.as_nanos() {
                0 => "0s".to_owned(),
                nanoseconds => {
                    let rest = format!("{:09}", nanoseconds % 1_000_000_000);
                    match rest.trim_end_matches('0') {
                        "" => format!("{}s", seconds.as_secs()),
                        rest => format!("{}.{rest}s", seconds.as_secs()),
                    }
                }
            };
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            (0, "0s"),
            (912, "912ns"),
            (329_029, "329.029µs"),
            (1_763, "1.763µs"),
            (62_560, "62.56µs"),
            (18_397_490, "18.39749ms"),
            (2_000_772_815, "2.000772815s"),
            (60_000_000_000, "1m0s"),
            (90_500_000_000, "1m30.5s"),
            (3_600_000_000_000, "1h0m0s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(go_duration(Duration::from_nanos(nanoseconds)), text);
        }
    }

    #[test]
    fn a_log_goes_where_memgator_sends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        let config = LogConfig {
            file: path("log"),
            format: LogFormat::MemGator,
            benchmark: path("benchmark"),
        };
        let log = Log::open(&config, false).unwrap();
        let step = |origin| Benchmark {
            origin,
            role: "createsess",
            info: "Session \"created\"".to_owned(),
            start: SystemTime::UNIX_EPOCH,
            end: SystemTime::UNIX_EPOCH + Duration::from_nanos(5),
        };
        log.info("a\nb");
        log.error("c");
        log.benchmark(7, &step("AGGREGATOR"));
        log.flush();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let (text, benchmark) = (read("log"), read("benchmark"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("INFO: 2") && lines[0].ends_with(" a b"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("ERROR: 2") && lines[1].ends_with(": c"),
            "{text}"
        );
        let end = "7 {\"origin\": \"AGGREGATOR\", \"role\": \"createsess\", \"info\": \"Session \\\"created\\\" - Duration: 5ns\", \"start\": 0, \"end\": 5}\n";
        assert!(benchmark.ends_with(end), "{benchmark}");

        // A rotated file is left alone after it was reopened.
        std::fs::rename(folder.path().join("log"), folder.path().join("old")).unwrap();
        log.reopen();
        log.info("new");
        log.flush();
        assert!(read("log").ends_with(" new\n"));
        assert_eq!(read("old"), text);

        let missing = LogConfig {
            file: Some(PathBuf::from("/nowhere/log")),
            ..LogConfig::default()
        };
        let text = Log::open(&missing, false).unwrap_err().to_string();
        assert_eq!(text, "/nowhere/log: cannot open");
    }
}
