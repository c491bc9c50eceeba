//! Runs an aggregator as a server: from `waypost serve` and from `waypost memgator server`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use waypost_io::Stamp;
use waypost_router::serve::{About, Options, Server};
use waypost_router::{
    Aggregator, BreakerStyle, Cache, Client, Config, Decider, Log, Manners, Operations, Router,
};

use crate::exit::Exit;
use crate::listening::{Listeners, Threads, until_stopped};
use crate::plural;
use crate::printer::{Messages, Printer};

/// A server that runs until it is stopped.
pub(crate) struct Service {
    pub(crate) about: About,
    /// The name of the host in links, if it does not follow from the address.
    pub(crate) host: Option<String>,
    /// Whether `/` is the page for people.
    pub(crate) page: bool,
    /// Whether TimeMaps say from when until when they reach.
    pub(crate) span: bool,
    /// What counts as a failure of an archive.
    pub(crate) style: BreakerStyle,
    pub(crate) log: Log,
    /// The file that the configuration is from.
    pub(crate) config_file: Option<PathBuf>,
    /// Reads the configuration again.
    pub(crate) read: ReadConfig,
}

pub(crate) type ReadConfig = Arc<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;

/// An aggregator of the archives in a configuration.
pub(crate) fn aggregator(
    config: &Config,
    style: BreakerStyle,
    log: Log,
    messages: Messages,
) -> anyhow::Result<Aggregator> {
    let client = Client::new(config.client.user_agent()).map_err(anyhow::Error::msg)?;
    let manners = Arc::new(Manners::new(style));
    let warnings = messages.clone();
    let decider = Decider::open(&config.routing, move |text: &str| warnings.warn(text))?;
    decider.refresh(&config.registry, false);
    let router = Router::with_manners(config.registry.clone(), client, manners)
        .with_decider(Arc::new(decider));
    let cache = Cache::open(&config.cache, move |text| messages.note(text))?;
    Ok(Aggregator::new(router, cache, Operations::new(log)))
}

impl Service {
    pub(crate) fn run(self, config: Config, out: &Printer) -> anyhow::Result<Exit> {
        until_stopped(Threads::default(), out, async |stop| {
            let listeners = Listeners::open(config.server.listen, config.server.metrics).await?;
            let address = listeners.requests.local_addr()?;
            let base = self.base(&config, address);
            let aggregator = aggregator(&config, self.style, self.log, out.messages())?;
            let aggregator = Arc::new(aggregator);
            let options = Options {
                config: config.server.clone(),
                deadline: config.client.deadline,
                span: self.span,
                about: self.about,
                page: self.page,
            };
            let server = Arc::new(Server::new(Arc::clone(&aggregator), options, &base));
            if let Some(problem) = server.map_problem() {
                anyhow::bail!("cannot serve the map: {problem}");
            }
            let count = config.registry.archives.len() as u64;
            out.note(format_args!("asking {}", plural::of(count, "archive")));
            listeners.announce(config.server.max_connections, out)?;
            let reload = Reload {
                config_file: self.config_file,
                read: self.read,
                aggregator: Arc::clone(&aggregator),
                messages: out.messages(),
            };
            let reloading = tokio::spawn(reload.run(config));
            let watched = Arc::downgrade(&aggregator);
            let watch = aggregator.router().decider().watch(move || {
                let aggregator = watched.upgrade();
                aggregator.map_or_else(Arc::default, |aggregator| {
                    Arc::clone(aggregator.router().registry())
                })
            })?;
            let Listeners { requests, metrics } = listeners;
            server.run(requests, metrics, stop.notified()).await;
            reloading.abort();
            drop(watch);
            aggregator.operations().log.flush();
            Ok(())
        })
    }

    /// The start of links if the configuration does not name it, as in MemGator.
    fn base(&self, config: &Config, address: SocketAddr) -> String {
        let ip = address.ip();
        let host = match &self.host {
            Some(host) => host.clone(),
            None if ip.is_loopback() || ip.is_unspecified() => "localhost".to_owned(),
            None if ip.is_ipv6() => format!("[{ip}]"),
            None => ip.to_string(),
        };
        let root = &config.server.root;
        match address.port() {
            80 => format!("http://{host}{root}"),
            port => format!("http://{host}:{port}{root}"),
        }
    }
}

/// How often files are checked for changes.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// Reads the configuration again when its files change and on SIGHUP.
struct Reload {
    config_file: Option<PathBuf>,
    read: ReadConfig,
    aggregator: Arc<Aggregator>,
    messages: Messages,
}

impl Reload {
    async fn run(self, mut config: Config) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else {
            return;
        };
        let mut ticks = interval(BETWEEN_CHECKS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = self.stamps(&config);
        loop {
            let asked = tokio::select! {
                _ = hangup.recv() => true,
                _ = ticks.tick() => false,
            };
            let found = self.stamps(&config);
            // A file that is missing is most likely being replaced.
            if !asked && (found == known || found.iter().any(Option::is_none)) {
                continue;
            }
            known = found;
            let read = Arc::clone(&self.read);
            let Ok(read) = spawn_blocking(move || read()).await else {
                continue;
            };
            match read {
                Ok(new) => {
                    self.aggregator.reload(&new);
                    let count = new.registry.archives.len() as u64;
                    let text = format!("asking {} from now on", plural::of(count, "archive"));
                    self.messages.note(text);
                    config = new;
                    known = self.stamps(&config);
                }
                Err(error) => {
                    let text = format!("{error:#}; still using the previous archives");
                    self.aggregator.operations().reloaded(Some(&text));
                    self.messages.note(text);
                }
            }
        }
    }

    /// When the files were changed that the configuration is from.
    fn stamps(&self, config: &Config) -> Vec<Option<Stamp>> {
        let files = self.config_file.iter().chain(&config.archives);
        files.map(|path| Stamp::of_path(path).ok()).collect()
    }
}
