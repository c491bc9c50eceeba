use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueHint};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use waypost_io::Stamp;
use waypost_router::serve::{About, Options, Server};
use waypost_router::{Client, Config, Router};

use crate::archives;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::interrupt;
use crate::plural;
use crate::printer::{Messages, Printer};

/// Serve what many archives hold: a Memento aggregator (RFC 7089)
///
/// Answers at MemGator's paths: /timemap/link/URI, /timegate/URI, /memento/DATETIME/URI and others,
/// which /about lists. Options take the place of what the configuration file says.
///
/// The files are read again when they change and on SIGHUP; requests under way are not affected.
/// Ctrl-C and SIGTERM end the server when the requests under way are answered.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost serve --archives archives.json\n\
    \x20 waypost serve --config waypost.toml --deadline 10\n\
    \n\
    Then ask:\n\
    \x20 curl http://localhost:1208/timemap/link/http://example.com/")]
pub(crate) struct Serve {
    /// MemGator's list of archives: a file or URL
    #[arg(short, long, value_name = "FILE", required_unless_present = "config", value_hint = ValueHint::FilePath)]
    archives: Option<String>,
    /// Configuration file (docs/waypost.example.toml lists all keys)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:1208]; port 0 chooses a free one
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The URL of this server as clients see it [default: http://localhost:PORT/ROOT]
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Path under which everything is served [default: /]
    #[arg(long, value_name = "PATH")]
    root: Option<String>,
    /// Seconds after which a lookup is answered with what has arrived [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    deadline: Option<Duration>,
    /// Serve files of this folder for all other paths
    #[arg(long = "static", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    static_files: Option<PathBuf>,
    /// Send events about lookups to clients of /monitor
    #[arg(long)]
    monitor: bool,
    /// How the operators of archives reach you: sent in the User-Agent
    #[arg(long, value_name = "TEXT")]
    contact: Option<String>,
    /// Check the configuration, print what it means, and exit
    #[arg(long)]
    check_config: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("invalid number `{text}`"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("invalid number of seconds `{text}`"))
}

impl Serve {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let config = self.read()?;
        if self.check_config {
            use std::io::Write as _;
            write!(out.data(), "{}", config.describe())?;
            return Ok(Exit::Yes);
        }
        let location = match (&self.archives, &self.config) {
            (Some(archives), _) => archives.clone(),
            (None, Some(config)) => config.display().to_string(),
            (None, None) => String::new(),
        };
        let service = Service {
            about: about(&config, &location),
            host: None,
            span: true,
            config_file: self.config.clone(),
            read: Arc::new(move || self.read()),
        };
        service.run(config, out)
    }

    /// The configuration, with the options in place.
    fn read(&self) -> anyhow::Result<Config> {
        let mut config = archives::read(self.config.as_deref(), self.archives.as_deref())?;
        let server = &mut config.server;
        if let Some(listen) = self.listen {
            server.listen = listen;
        }
        if let Some(root) = &self.root {
            server.root = root_of(root);
        }
        if let Some(folder) = &self.static_files {
            server.static_files = Some(folder.clone());
        }
        server.monitor |= self.monitor;
        if let Some(proxy) = &self.proxy {
            server.public_url = Some(proxy.clone());
        }
        if let Some(deadline) = self.deadline {
            config.client.deadline = deadline;
        }
        if let Some(contact) = &self.contact {
            config.client.contact = Some(contact.clone());
        }
        Ok(config)
    }
}

/// A path that starts and ends with a slash.
pub(crate) fn root_of(text: &str) -> String {
    match text.trim_matches('/') {
        "" => "/".to_owned(),
        inner => format!("/{inner}/"),
    }
}

/// What the page about the service says of its configuration.
fn about(config: &Config, location: &str) -> About {
    let row = |name: &str, value: String| (name.to_owned(), value);
    About(vec![
        vec![
            row("Archives list location", location.to_owned()),
            row("User-agent", config.client.user_agent()),
        ],
        vec![
            row("Service path prefix", config.server.root.clone()),
            row("Deadline", format!("{:?}", config.client.deadline)),
        ],
    ])
}

/// A server that runs until it is stopped.
pub(crate) struct Service {
    pub(crate) about: About,
    /// The name of the host in links, if it does not follow from the address.
    pub(crate) host: Option<String>,
    /// Whether TimeMaps say from when until when they reach.
    pub(crate) span: bool,
    /// The file that the configuration is from.
    pub(crate) config_file: Option<PathBuf>,
    /// Reads the configuration again.
    pub(crate) read: ReadConfig,
}

pub(crate) type ReadConfig = Arc<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;

impl Service {
    pub(crate) fn run(self, config: Config, out: &Printer) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start threads")?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        interrupt::instead(move || stopped.notify_one());
        runtime.block_on(async {
            let listener = listen(config.server.listen).await?;
            let address = listener.local_addr()?;
            let base = self.base(&config, address);
            let client = Client::new(config.client.user_agent()).map_err(anyhow::Error::msg)?;
            let router = Router::new(config.registry.clone(), client.clone());
            let options = Options {
                config: config.server.clone(),
                deadline: config.client.deadline,
                span: self.span,
                about: self.about.clone(),
            };
            let server = Arc::new(Server::new(router, options, &base));
            let count = config.registry.archives.len() as u64;
            out.note(format_args!("asking {}", plural::of(count, "archive")));
            out.note(format_args!("listening on http://{address}/"));
            let reload = Reload {
                config_file: self.config_file,
                read: self.read,
                client,
                server: Arc::clone(&server),
                messages: out.messages(),
            };
            let reloading = tokio::spawn(reload.run(config));
            server.run(listener, stop.notified()).await;
            reloading.abort();
            anyhow::Ok(())
        })?;
        runtime.shutdown_background();
        out.note("stopped");
        Ok(Exit::Yes)
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
    client: Client,
    server: Arc<Server>,
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
            if !asked && (found == known || found.iter().any(Option::is_none)) {
                continue;
            }
            known = found;
            let read = Arc::clone(&self.read);
            let Ok(read) = spawn_blocking(move || read()).await else {
                continue;
            };
            match read {
                Ok(new) if new.registry == config.registry => {}
                Ok(new) => {
                    let count = new.registry.archives.len() as u64;
                    let router = Router::new(new.registry.clone(), self.client.clone());
                    self.server.set_router(router);
                    config = new;
                    known = self.stamps(&config);
                    let text = format!("asking {} from now on", plural::of(count, "archive"));
                    self.messages.note(text);
                }
                Err(error) => {
                    let text = format!("{error:#}; still using the previous archives");
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

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .hint("choose another address with --listen, or port 0 for a free one")
}
