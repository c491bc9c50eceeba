use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueHint};
use waypost_archive::filters::live::LiveOptions;
use waypost_archive::filters::{
    Catalogue as _, FilterServer, Holdings, HoldingsOptions, ServiceOptions, check_id,
};
use waypost_net::server::Limits;
use waypost_report::count;

use super::options::{KeyFile, percent, rate};
use super::store;
use crate::args::{ThreadArgs, number, size};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::listening::{Listeners, Threads, access_log, until_stopped};
use crate::printer::Printer;

/// Serve lookups in the summaries of many archives
///
/// In DIR, the archive `haw` is a file `haw.filter` (or a map, profile or classic filter), or a folder
/// `haw` with any number of summaries, or both. Answers HEAD and GET /haw/URI with 200 (maybe), 404
/// (surely not) or 503 (a file of the archive cannot be read), /bloom/agg/URI with the archives that
/// may hold it, and POST /lookup with lines of JSON.
///
/// With --writable, POST /haw/add adds URIs, as crawlers do that share what they have: an answer means
/// that they are on the disk. Files that change are reopened within two seconds. Ctrl-C and SIGTERM end
/// the server when the requests under way are answered.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost filter serve published\n\
    \x20 waypost filter serve crawls --writable --archive topic-crawl\n\
    \n\
    Then ask:\n\
    \x20 curl -I http://127.0.0.1:8080/small/http://library.example.org/\n\
    \x20 curl http://127.0.0.1:8080/bloom/agg/http://library.example.org/")]
pub(crate) struct Serve {
    /// The folder with the archives
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "store")]
    folder: Option<PathBuf>,
    /// Also serve all archives in Redis: redis://HOST[:PORT][/DATABASE]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Let clients add URIs
    #[arg(long)]
    writable: bool,
    /// An archive to add URIs to; it is created if there is none. May be repeated
    #[arg(long, value_name = "ID", requires = "writable", value_parser = id)]
    archive: Vec<String>,
    /// Number of URIs that the first filter of added URIs is made for; the next has twice as many
    #[arg(long, value_name = "N", default_value = "1M", value_parser = number, requires = "writable")]
    room: u64,
    /// False positive rate of each filter of added URIs
    #[arg(long, value_name = "RATE", default_value = "0.1%", value_parser = rate, requires = "writable")]
    fpr: f64,
    #[command(flatten)]
    key_file: KeyFile,
    /// Address to listen on; port 0 chooses a free one
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Serve /metrics for Prometheus and /health on this address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Maximum size of a batch
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = size)]
    max_batch: u64,
    /// Maximum number of batches at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    max_batches: u16,
    /// Seconds that a batch may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Append a line for each request to this file, `-` for stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    access_log: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
}

fn id(text: &str) -> Result<String, String> {
    check_id(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

impl Serve {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let threads = self.threads.start()?;
        if let Some(folder) = self.folder.as_ref().filter(|_| !self.archive.is_empty()) {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let secret = self.key_file.secret()?;
        let options = HoldingsOptions {
            secret,
            remote: match &self.store {
                Some(url) => store::all(url, secret)?,
                None => Vec::new(),
            },
            live: self.writable.then_some(LiveOptions {
                capacity: self.room,
                rate: self.fpr,
                ..LiveOptions::default()
            }),
            create: self.archive.clone(),
        };
        let holdings = Holdings::open(self.folder.as_deref(), options).hint_otherwise(
            "name a folder with files such as haw.filter, or with folders of summaries; create archives with --writable --archive ID",
        )?;
        out.warn_some(holdings.warnings());
        let snapshot = holdings.snapshot();
        out.warn_some(snapshot.problems());
        for archive in snapshot.archives() {
            let writable = match archive.is_writable() {
                true => ", writable",
                false => "",
            };
            let rate = archive.rate().map_or("unknown".to_owned(), percent);
            out.note(format_args!(
                "{}: {} keys, false positives {rate}{writable}",
                archive.id(),
                archive.keys().map_or("unknown".to_owned(), count),
            ));
        }
        let options = ServiceOptions {
            most_bytes: usize::try_from(self.max_batch)?,
            time_limit: Duration::from_secs(self.time_limit.into()),
            batches: self.max_batches.into(),
            ..ServiceOptions::default()
        };
        let limits = Limits {
            connections: self.max_connections as usize,
            ..Limits::default()
        };
        let log = access_log(self.access_log.as_deref())?;
        let server = Arc::new(FilterServer::new(Arc::new(holdings), options, limits, log));
        let threads = Threads {
            workers: Some(threads),
            blocking: None,
        };
        until_stopped(threads, out, async |stop| {
            let listeners = Listeners::open(self.listen, self.metrics).await?;
            listeners.announce(self.max_connections as usize, out)?;
            let messages = out.messages();
            let report = move |message: String| messages.note(message);
            let Listeners { requests, metrics } = listeners;
            server
                .run(requests, metrics, report, stop.notified())
                .await?;
            Ok(())
        })
    }
}
