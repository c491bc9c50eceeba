//! What the servers share: threads, the addresses to listen on, the signal to stop, the access log.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use waypost_archive::AccessLog;
use waypost_net::open_files;
use waypost_report::count;

use crate::exit::Exit;
use crate::hint::Hint;
use crate::interrupt;
use crate::printer::Printer;

/// The threads of a server.
#[derive(Clone, Copy, Default)]
pub(crate) struct Threads {
    /// How many handle connections; as many as there are cores by default.
    pub(crate) workers: Option<usize>,
    /// How many may block.
    pub(crate) blocking: Option<usize>,
}

impl Threads {
    /// Starts them.
    pub(crate) fn start(self) -> anyhow::Result<Runtime> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        if let Some(workers) = self.workers {
            builder.worker_threads(workers);
        }
        if let Some(blocking) = self.blocking {
            builder.max_blocking_threads(blocking);
        }
        builder.enable_all().build().context("cannot start threads")
    }
}

/// Where a server listens.
pub(crate) struct Listeners {
    /// For requests.
    pub(crate) requests: TcpListener,
    /// For metrics and health.
    pub(crate) metrics: Option<TcpListener>,
}

impl Listeners {
    /// Listens on an address, and on another one for metrics if there is one.
    pub(crate) async fn open(
        requests: SocketAddr,
        metrics: Option<SocketAddr>,
    ) -> anyhow::Result<Listeners> {
        Ok(Listeners {
            requests: listen(requests).await?,
            metrics: match metrics {
                Some(address) => Some(listen(address).await?),
                None => None,
            },
        })
    }

    /// Says where, once everything is ready, and how many connections there can be if there can't be
    /// as many as wanted.
    pub(crate) fn announce(&self, wanted: usize, out: &Printer) -> anyhow::Result<()> {
        let connections = open_files::connections(wanted);
        if connections < wanted {
            let limit = open_files::raise().unwrap_or_default();
            out.note(format_args!(
                "at most {} connections, because the system allows {} open files: raise the hard limit (ulimit -Hn)",
                count(connections as u64),
                count(limit)
            ));
        }
        if let Some(metrics) = &self.metrics {
            let address = metrics.local_addr()?;
            out.note(format_args!("metrics on http://{address}/metrics"));
        }
        let address = self.requests.local_addr()?;
        out.note(format_args!("listening on http://{address}/"));
        Ok(())
    }
}

/// Listens on an address.
async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .hint("choose another address with --listen, or port 0 for a free one")
}

/// Runs a server until a signal tells it to stop. The next signal ends the process.
pub(crate) fn until_stopped(
    threads: Threads,
    out: &Printer,
    serve: impl AsyncFnOnce(Arc<Notify>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    // Before anything is opened.
    open_files::raise();
    let runtime = threads.start()?;
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    interrupt::instead(move || stopped.notify_one());
    runtime.block_on(serve(stop))?;
    runtime.shutdown_background();
    out.note("stopped");
    Ok(Exit::Yes)
}

/// Opens an access log; `-` is stderr.
pub(crate) fn access_log(path: Option<&Path>) -> anyhow::Result<Option<Arc<AccessLog>>> {
    Ok(match path {
        None => None,
        Some(path) if path.as_os_str() == "-" => Some(Arc::new(AccessLog::new(std::io::stderr()))),
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file.with_context(|| format!("cannot open {}", path.display()))?;
            Some(Arc::new(AccessLog::new(file)))
        }
    })
}
