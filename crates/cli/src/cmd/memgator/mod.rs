mod flags;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use waypost_memento::{Datetime, Format};
use waypost_net::is_url;
use waypost_router::answer::Addresses;
use waypost_router::serve::About;
use waypost_router::{
    ArchiveLimits, BreakerStyle, Config, Log, LogFormat, Lookup, Registry, Wanted, go_duration,
    original_uri,
};

use super::serve::root_of;
use crate::aggregation::Aggregation;
use crate::archives;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::service::Service;
use flags::{Flags, Parsed, duration_text};

/// Aggregate with MemGator's own flags and words
///
/// A script that runs MemGator needs only the program's name changed. `waypost memgator -h` lists the
/// flags; docs/memgator.md says what is different.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct MemGator {
    /// Flags, then a URI and maybe a datetime, or `server`
    #[arg(
        value_name = "WORD",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

const USAGE: &str = "
A Memento aggregator that takes the flags of MemGator (1.0-rc9)

Usage:
  waypost memgator [options] {URI-R}                            # TimeMap from CLI
  waypost memgator [options] {URI-R} {YYYY[MM[DD[hh[mm[ss]]]]]} # Description of the closest Memento from CLI
  waypost memgator [options] server                             # Run as a Web Service

Options:
  -A, --agent=Waypost/VERSION <{CONTACT}>      User-agent string sent to archives
  -a, --arcs=https://git.io/archives           Local/remote JSON file path/URL for list of archives
  -b, --benchmark=                             Benchmark file location - defaults to Logfile
  -c, --contact=https://git.io/MemGator        Comment/Email/URL/Handle - used in the user-agent
  -D, --static=                                Directory path to serve static assets from
  -d, --dormant=15m0s                          Dormant period after consecutive failures
  -F, --tolerance=-1                           Failure tolerance limit for each archive
  -f, --format=Link                            Output format - Link/JSON/CDXJ
  -H, --host=localhost                         Host name - only used in web service mode
  -k, --topk=-1                                Aggregate only top k archives based on probability
  -l, --log=                                   Log file location - defaults to STDERR
  --listen=127.0.0.1:{PORT}                    Address to listen on - not in MemGator, which listens on all
  -m, --monitor=false                          Benchmark monitoring via SSE
  -P, --proxy=http://{HOST}[:{PORT}]{ROOT}     Proxy URL - defaults to host, port, and root
  -p, --port=1208                              Port number - only used in web service mode
  -R, --root=/                                 Service root path prefix
  -r, --restimeout=1m0s                        Response timeout for each archive
  -S, --spoof=false                            Accepted, but archives always see the user-agent
  -T, --hdrtimeout=30s                         Header timeout for each archive
  -t, --contimeout=5s                          Connection timeout for each archive
  -V, --verbose=false                          Show Info and Profiling messages on STDERR
  -v, --version=false                          Show name and version

Examples:
  waypost memgator -a archives.json -f json http://example.com/
  waypost memgator -a archives.json http://example.com/ 2012

";

const ATTENTION: &str = "

ATTENTION!
Consider customizing the contact info or the whole user-agent.
Check CLI help (waypost memgator --help) for options.
";

/// What ends a run with exit code 1, as MemGator's fatal errors do.
struct Fatal(String);

impl MemGator {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let (flags, words) = match flags::parse(self.words) {
            Parsed::Flags(flags, words) => (*flags, words),
            Parsed::Help => {
                out.say(USAGE.replace("VERSION", env!("CARGO_PKG_VERSION")));
                return Ok(Exit::Yes);
            }
            Parsed::Wrong(texts) => {
                for text in texts {
                    out.say(format_args!("{text}\nSee 'waypost memgator --help'.\n"));
                }
                return Ok(Exit::Failed);
            }
        };
        if flags.version {
            let version = env!("CARGO_PKG_VERSION");
            writeln!(
                out.data(),
                "Waypost ({version}), in place of MemGator (1.0-rc9)"
            )?;
            return Ok(Exit::Yes);
        }
        let Some(target) = words.first().filter(|target| !target.is_empty()) else {
            out.say(USAGE.replace("VERSION", env!("CARGO_PKG_VERSION")));
            return Ok(Exit::Yes);
        };
        let done = match flags.config() {
            Err(fatal) => Err(fatal),
            Ok(config) if &target[..] == "server" => serve(flags, config, out),
            Ok(config) => print(&flags, config, target, words.get(1), out),
        };
        match done {
            Ok(result) => result.map(|()| Exit::Yes),
            Err(Fatal(text)) => {
                out.say(format_args!("FATAL: {text}\n"));
                Ok(Exit::No)
            }
        }
    }
}

impl Flags {
    /// The configuration that the flags mean.
    fn config(&self) -> Result<Config, Fatal> {
        let failures = u32::try_from(self.tolerance).unwrap_or(0);
        let limits = ArchiveLimits {
            connect_timeout: self.contimeout,
            header_timeout: self.hdrtimeout,
            total_timeout: self.restimeout,
            max_failures: failures,
            cooling: self.dormant,
            max_cooling: self.dormant,
            ..ArchiveLimits::default()
        };
        let mut config = Config {
            registry: self.archives(&limits)?,
            archives: (!is_url(&self.arcs)).then(|| self.arcs.clone().into()),
            limits,
            ..Config::default()
        };
        if let Ok(most) = usize::try_from(self.topk) {
            config.registry.archives.truncate(most);
        }
        let port = u16::try_from(self.port).map_err(|_| {
            Fatal(format!(
                "Error listening: address {}: invalid port",
                self.port
            ))
        })?;
        config.server.listen = match self.listen {
            Some(listen) => listen,
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        };
        config.server.root = root_of(&self.root);
        config.server.public_url = Some(self.base());
        config.server.static_files = text(&self.static_files).map(Into::into);
        config.server.monitor = self.monitor;
        config.client.agent = Some(self.agent());
        // Each archive has its own limits; there is no other in MemGator.
        config.client.deadline = self.restimeout + Duration::from_secs(1);
        config.cache.enabled = false;
        config.log.format = LogFormat::MemGator;
        config.log.file = text(&self.log).map(Into::into);
        config.log.benchmark = text(&self.benchmark).map(Into::into);
        Ok(config)
    }

    /// Where log lines go, with the first of them.
    fn open_log(&self, config: &Config) -> Result<Log, Fatal> {
        let log = Log::open(&config.log, self.verbose);
        let log = log.map_err(|error| Fatal(format!("Error opening log file: {error}")))?;
        let version = env!("CARGO_PKG_VERSION");
        log.info(format_args!("Initializing Waypost:{version}..."));
        log.info(format_args!("Loading archives from {}", self.arcs));
        Ok(log)
    }

    fn archives(&self, limits: &ArchiveLimits) -> Result<Registry, Fatal> {
        let arcs = &self.arcs;
        let list = archives::read_list(arcs, limits);
        let is_readable = !is_url(arcs) && std::fs::File::open(arcs).is_ok();
        let what = match is_readable {
            true => "Error parsing JSON",
            false => "Error reading list of archives",
        };
        list.map_err(|error| Fatal(format!("{what} ({arcs}): {error:#}")))
    }

    fn agent(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let agent = self.agent.clone();
        agent.unwrap_or_else(|| format!("Waypost/{version} <{}>", self.contact))
    }

    /// The start of links.
    fn base(&self) -> String {
        let (host, root) = (&self.host, root_of(&self.root));
        let base = match (&self.proxy, self.port) {
            (Some(proxy), _) => proxy.clone(),
            (None, 80) => format!("http://{host}{root}"),
            (None, port) => format!("http://{host}:{port}{root}"),
        };
        base.trim_end_matches('/').to_owned()
    }

    /// What MemGator says about its configuration.
    fn about(&self) -> About {
        let row = |name: &str, value: &dyn std::fmt::Display| (name.to_owned(), value.to_string());
        let base = self.base();
        let mut server = vec![
            row("Host", &self.host),
            row("Port", &self.port),
            row("Service path prefix", &root_of(&self.root)),
            row("Base URL (Proxy)", &format!("{base}/")),
        ];
        if !self.static_files.is_empty() {
            server.push(row("Static assets", &self.static_files));
        }
        let mut selection = Vec::new();
        if self.tolerance != -1 {
            selection.push(row("Failure tolerance", &self.tolerance));
            selection.push(row("Dormant period", &duration_text(self.dormant)));
        }
        if self.topk != -1 {
            selection.push(row("Select top archives", &self.topk));
        }
        let place = |file: &str| match text(file).filter(|_| !self.verbose) {
            Some(file) => file,
            None => "STDERR".to_owned(),
        };
        let log = place(&self.log);
        let benchmark = match self.benchmark.is_empty() {
            true => log.clone(),
            false => place(&self.benchmark),
        };
        let mut logs = vec![
            row("Logfile location", &log),
            row("Benchmark location", &benchmark),
        ];
        if self.verbose {
            logs.push(row("Verbose info output", &"STDERR"));
        }
        if self.monitor {
            logs.push(row("Monitor (Over SSE)", &format!("{base}/monitor")));
        }
        let mut groups = vec![
            vec![
                row("Archives list location", &self.arcs),
                row("User-agent", &self.agent()),
            ],
            server,
            vec![
                row("Connection timeout", &duration_text(self.contimeout)),
                row("Header timeout", &duration_text(self.hdrtimeout)),
                row("Response timeout", &duration_text(self.restimeout)),
            ],
        ];
        groups.extend((!selection.is_empty()).then_some(selection));
        groups.push(logs);
        About(groups)
    }
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Runs a server until it is stopped.
fn serve(flags: Flags, config: Config, out: &mut Printer) -> Result<anyhow::Result<()>, Fatal> {
    let about = flags.about();
    let page = about.page(&Addresses::new(&flags.base()), &config.registry);
    let attention = match (&flags.agent, &flags.contact[..]) {
        (None, flags::CONTACT) => ATTENTION,
        _ => "",
    };
    if let Err(error) = write!(out.data(), "{page}{attention}").and_then(|()| out.flush()) {
        return Ok(Err(error.into()));
    }
    let service = Service {
        about,
        host: Some(flags.host.clone()),
        span: false,
        page: false,
        style: BreakerStyle::MemGator,
        log: flags.open_log(&config)?,
        config_file: None,
        read: Arc::new(move || {
            let config = flags.config();
            config.map_err(|Fatal(text)| anyhow::anyhow!(text))
        }),
    };
    match service.run(config, out) {
        Ok(_) => Ok(Ok(())),
        Err(error) => Err(Fatal(format!("Error listening: {error:#}"))),
    }
}

/// Prints a TimeMap, or the mementos around a datetime.
fn print(
    flags: &Flags,
    config: Config,
    target: &str,
    datetime: Option<&String>,
    out: &mut Printer,
) -> Result<anyhow::Result<()>, Fatal> {
    let uri = original_uri(target)
        .ok_or_else(|| Fatal(format!("URI parsing error ({target}): invalid URI")))?;
    let datetime = match datetime.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(padded(text)?),
    };
    let log = flags.open_log(&config)?;
    Ok(print_found(flags, config, log, &uri, datetime, out))
}

fn padded(text: &str) -> Result<Datetime, Fatal> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || !matches!(text.len(), 4 | 6 | 8 | 10 | 12 | 14) {
        let form = "YYYY[MM[DD[hh[mm[ss]]]]]";
        return Err(Fatal(format!("Malformed datetime ({form}): {text}")));
    }
    Datetime::parse_timestamp(text).map_err(|_| {
        Fatal(format!(
            "Time parsing error ({text}): not a date of the calendar"
        ))
    })
}

fn print_found(
    flags: &Flags,
    config: Config,
    log: Log,
    uri: &str,
    datetime: Option<Datetime>,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let name = flags.format.to_ascii_lowercase();
    let format = Format::ALL.into_iter().find(|format| format.name() == name);
    let lookup = Lookup::new(uri, datetime.map_or(Wanted::All, Wanted::Closest));
    let found = Aggregation::run(&config, BreakerStyle::MemGator, log, &lookup, out)?;
    let mementos = &found.kept.aggregate.mementos;
    match format {
        _ if mementos.is_empty() => {}
        None => writeln!(out.data(), "Unrecognized format: {}", flags.format)?,
        Some(format) => {
            let addresses = Addresses::new(&flags.base());
            let text = match datetime {
                None => addresses.whole_timemap(uri, format, mementos, false),
                Some(datetime) => addresses.description(uri, format, mementos, datetime),
            };
            out.data().write_all(&text)?;
        }
    }
    found.finish();
    let log = &found.aggregator.operations().log;
    log.info(format_args!("Uptime: {}", go_duration(started.elapsed())));
    log.flush();
    Ok(())
}
