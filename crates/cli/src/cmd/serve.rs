use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use waypost_router::serve::About;
use waypost_router::{BreakerStyle, Config, Log};

use crate::archives::ArchiveOptions;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::service::Service;

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
    #[command(flatten)]
    archives: ArchiveOptions,
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
    /// Address on which /metrics and /health are served
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// File for logs [default: stderr]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Ask archives for every request: keep no answers
    #[arg(long)]
    no_cache: bool,
    /// How the operators of archives reach you: sent in the User-Agent
    #[arg(long, value_name = "TEXT")]
    contact: Option<String>,
    /// Check the configuration, print what it means, and exit
    #[arg(long)]
    check_config: bool,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
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
        let service = Service {
            about: about(&config, &self.archives.location()),
            host: None,
            span: true,
            page: true,
            style: BreakerStyle::default(),
            log: Log::open(&config.log, false)?,
            config_file: self.archives.config.clone(),
            read: Arc::new(move || self.read()),
        };
        service.run(config, out)
    }

    /// The configuration, with the options in place.
    fn read(&self) -> anyhow::Result<Config> {
        let mut config = self.archives.read()?;
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
        server.metrics = self.metrics.or(server.metrics);
        if let Some(log) = &self.log {
            config.log.file = Some(log.clone());
        }
        config.cache.enabled &= !self.no_cache;
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
