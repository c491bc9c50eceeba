//! The configuration of an aggregator: a TOML file with the keys of the server, of the client and of
//! each archive.
//!
//! Each table has one function that lists its keys. It is used to read the table, to describe it, and
//! to test that the documentation names every key.

mod install;
mod section;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use waypost_io::{Error, ErrorKind, IoContext};
use waypost_memento::Replay;
use waypost_surt::Dialect;

use crate::decide::{Pattern, Period, Rules};
use crate::registry::{Archive, ArchiveLimits, ForPages, Registry, address, prefix};
use section::{
    COUNT, DURATION, Describer, Kind, NUMBER, OPTIONAL_COUNT, OPTIONAL_DURATION, OPTIONAL_SOCKET,
    PATH, PATHS, PROBABILITY, PROBE, Problem, RATE, Reader, SHARE, SIZE, SOCKET, SWITCH, TEXT,
    TIMES, Visitor, parsed, quoted, show_texts, texts,
};

/// The configuration of an aggregator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// A file with MemGator's list of archives, to which `[[archive]]` tables add.
    pub archives: Option<PathBuf>,
    /// How requests are accepted.
    pub server: ServerConfig,
    /// How archives are asked.
    pub client: ClientConfig,
    /// The limits of archives that do not have their own.
    pub limits: ArchiveLimits,
    /// How long answers are kept.
    pub cache: CacheConfig,
    /// What is logged.
    pub log: LogConfig,
    /// How archives are chosen.
    pub routing: RoutingConfig,
    /// The archives.
    pub registry: Registry,
}

/// How requests are accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Where the server listens.
    pub listen: SocketAddr,
    /// Where metrics and health are served.
    pub metrics: Option<SocketAddr>,
    /// The URL of the server as clients see it.
    pub public_url: Option<String>,
    /// The path below which everything is served; starts and ends with a slash.
    pub root: String,
    /// A folder that is served for all other paths.
    pub static_files: Option<PathBuf>,
    /// A map that is served as `/.well-known/mementomap`.
    pub mementomap: Option<PathBuf>,
    /// The size of its pages.
    pub mementomap_page: u64,
    /// Whether `/filters` answers lookups in the summaries of archives.
    pub filters: bool,
    /// Maximum size of a batch of such lookups.
    pub max_batch: u64,
    /// Whether `/monitor` sends events.
    pub monitor: bool,
    /// Whether `/api/json` answers as Time Travel did, with arrays of URIs.
    pub time_travel: bool,
    /// Maximum number of connections. More wait.
    pub max_connections: usize,
    /// Maximum number of requests at a time. More are refused.
    pub max_requests: usize,
    /// Maximum length of a request's URI.
    pub max_uri: u64,
    /// Maximum length of all headers of a request.
    pub max_headers: u64,
    /// Maximum length of the query of a request.
    pub max_query: u64,
    /// How long a client may take for the headers of a request, and be idle between two.
    pub header_timeout: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub send_timeout: Duration,
    /// How long requests may take that are under way when the server is stopped.
    pub grace: Duration,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 1208)),
            metrics: None,
            public_url: None,
            root: "/".to_owned(),
            static_files: None,
            mementomap: None,
            mementomap_page: 4 << 20,
            filters: true,
            max_batch: 4 << 20,
            monitor: false,
            time_travel: false,
            max_connections: 4096,
            max_requests: 1024,
            max_uri: 8 << 10,
            max_headers: 32 << 10,
            max_query: 8 << 10,
            header_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}

impl ServerConfig {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("listen", &mut self.listen, SOCKET);
        visitor.visit("metrics", &mut self.metrics, OPTIONAL_SOCKET);
        visitor.visit("public_url", &mut self.public_url, PUBLIC_URL);
        visitor.visit("root", &mut self.root, ROOT);
        visitor.visit("static_files", &mut self.static_files, PATH);
        visitor.visit("mementomap", &mut self.mementomap, PATH);
        visitor.visit("mementomap_page", &mut self.mementomap_page, SIZE);
        visitor.visit("filters", &mut self.filters, SWITCH);
        visitor.visit("max_batch", &mut self.max_batch, SIZE);
        visitor.visit("monitor", &mut self.monitor, SWITCH);
        visitor.visit("time_travel", &mut self.time_travel, SWITCH);
        visitor.visit("max_connections", &mut self.max_connections, COUNT);
        visitor.visit("max_requests", &mut self.max_requests, COUNT);
        visitor.visit("max_uri", &mut self.max_uri, SIZE);
        visitor.visit("max_headers", &mut self.max_headers, SIZE);
        visitor.visit("max_query", &mut self.max_query, SIZE);
        visitor.visit("header_timeout", &mut self.header_timeout, DURATION);
        visitor.visit("send_timeout", &mut self.send_timeout, DURATION);
        visitor.visit("grace", &mut self.grace, DURATION);
    }
}

/// How archives are asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConfig {
    /// The `User-Agent`, in which `{contact}` stands for the contact.
    pub agent: Option<String>,
    /// An address at which the operators of archives reach the operator of this aggregator.
    pub contact: Option<String>,
    /// How long a lookup may take. What has not arrived by then is missing from the answer.
    pub deadline: Duration,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            agent: None,
            contact: None,
            deadline: Duration::from_secs(30),
        }
    }
}

impl ClientConfig {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("agent", &mut self.agent, HEADER);
        visitor.visit("contact", &mut self.contact, HEADER);
        visitor.visit("deadline", &mut self.deadline, DURATION);
    }

    /// The `User-Agent` that archives see.
    pub fn user_agent(&self) -> String {
        match (&self.agent, &self.contact) {
            (Some(agent), contact) => {
                agent.replace("{contact}", contact.as_deref().unwrap_or_default())
            }
            (None, Some(contact)) => format!("{AGENT} <{contact}>"),
            (None, None) => AGENT.to_owned(),
        }
    }
}

const AGENT: &str = concat!("Waypost/", env!("CARGO_PKG_VERSION"));

/// How long answers are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheConfig {
    /// Whether answers are kept at all.
    pub enabled: bool,
    /// Memory for answers.
    pub memory: u64,
    /// A file for answers, which survives restarts.
    pub disk: Option<PathBuf>,
    /// How many bytes of answers are kept on disk.
    pub disk_size: u64,
    /// How long an answer with mementos is fresh.
    pub fresh: Duration,
    /// How long an answer without mementos is fresh.
    pub negative: Duration,
    /// How long an answer is fresh from which archives are missing.
    pub incomplete: Duration,
    /// How long an answer that is no longer fresh may be sent while a new one is fetched.
    pub stale: Duration,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig {
            enabled: true,
            memory: 64 << 20,
            disk: None,
            disk_size: 1 << 30,
            fresh: Duration::from_secs(60 * 60),
            negative: Duration::from_secs(10 * 60),
            incomplete: Duration::from_secs(60),
            stale: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

impl CacheConfig {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("enabled", &mut self.enabled, SWITCH);
        visitor.visit("memory", &mut self.memory, SIZE);
        visitor.visit("disk", &mut self.disk, PATH);
        visitor.visit("disk_size", &mut self.disk_size, SIZE);
        visitor.visit("fresh", &mut self.fresh, DURATION);
        visitor.visit("negative", &mut self.negative, DURATION);
        visitor.visit("incomplete", &mut self.incomplete, DURATION);
        visitor.visit("stale", &mut self.stale, DURATION);
    }
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogConfig {
    /// The file for logs; stderr by default.
    pub file: Option<PathBuf>,
    /// The form of log lines.
    pub format: LogFormat,
    /// A file for MemGator's BENCHMARK lines, if they are not to go to the log.
    pub benchmark: Option<PathBuf>,
}

impl LogConfig {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("file", &mut self.file, PATH);
        visitor.visit("format", &mut self.format, LOG_FORMAT);
        visitor.visit("benchmark", &mut self.benchmark, PATH);
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object in each line.
    #[default]
    Json,
    /// MemGator's INFO, ERROR and BENCHMARK lines.
    MemGator,
}

/// How archives are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutingConfig {
    /// The share of held URIs that must be found.
    pub recall: f64,
    /// How many archives are asked first. The others are asked only if these have nothing.
    pub top: Option<usize>,
    /// The share of requests to excluded archives that are made anyway, to measure the recall.
    pub probe: f64,
    /// Summaries that are older than this say nothing.
    pub max_age: Option<Duration>,
    /// A file for what is learned from traffic.
    pub learned: Option<PathBuf>,
    /// The time in which what was learned loses half of its weight.
    pub half_life: Duration,
    /// A folder for summaries that are downloaded.
    pub downloads: Option<PathBuf>,
    /// How often summaries are downloaded again.
    pub refresh: Duration,
}

impl Default for RoutingConfig {
    fn default() -> RoutingConfig {
        RoutingConfig {
            recall: 1.0,
            top: None,
            probe: 0.0,
            max_age: None,
            learned: None,
            half_life: Duration::from_secs(30 * 24 * 60 * 60),
            downloads: None,
            refresh: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl RoutingConfig {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("recall", &mut self.recall, SHARE);
        visitor.visit("top", &mut self.top, OPTIONAL_COUNT);
        visitor.visit("probe", &mut self.probe, PROBE);
        visitor.visit("max_age", &mut self.max_age, OPTIONAL_DURATION);
        visitor.visit("learned", &mut self.learned, PATH);
        visitor.visit("half_life", &mut self.half_life, DURATION);
        visitor.visit("downloads", &mut self.downloads, PATH);
        visitor.visit("refresh", &mut self.refresh, DURATION);
    }
}

impl ArchiveLimits {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("connect_timeout", &mut self.connect_timeout, DURATION);
        visitor.visit("header_timeout", &mut self.header_timeout, DURATION);
        visitor.visit("total_timeout", &mut self.total_timeout, DURATION);
        visitor.visit("max_body", &mut self.max_body, SIZE);
        visitor.visit("max_pages", &mut self.max_pages, COUNT);
        visitor.visit("max_mementos", &mut self.max_mementos, COUNT);
        visitor.visit("concurrency", &mut self.concurrency, COUNT);
        visitor.visit("rate", &mut self.rate, RATE);
        visitor.visit("retries", &mut self.retries, TIMES);
        visitor.visit("max_failures", &mut self.max_failures, TIMES);
        visitor.visit("cooling", &mut self.cooling, DURATION);
        visitor.visit("max_cooling", &mut self.max_cooling, DURATION);
    }
}

impl Archive {
    /// All keys but `id`, which names the table, and `ignore`, which removes it.
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("name", &mut self.name, TEXT);
        visitor.visit("timemap", &mut self.timemap, PREFIX);
        visitor.visit("timegate", &mut self.timegate, PREFIX);
        visitor.visit("cdx", &mut self.cdx, ADDRESS);
        visitor.visit("replay", &mut self.replay, REPLAY);
        visitor.visit("priority", &mut self.priority, NUMBER);
        visitor.visit("probability", &mut self.probability, PROBABILITY);
        visitor.visit("allow_private", &mut self.allow_private, SWITCH);
        visitor.visit("dialect", &mut self.dialect, DIALECT);
        visitor.visit("fuzzy", &mut self.fuzzy, FUZZY);
        visitor.visit("summaries", &mut self.summaries, PATHS);
        visitor.visit("key_file", &mut self.key_file, PATH);
        visitor.visit("sources", &mut self.sources, ADDRESSES);
        visitor.visit("pages", &mut self.pages, PAGES);
        visitor.visit("report", &mut self.report, PATH);
        visitor.visit("max_age", &mut self.max_age, OPTIONAL_DURATION);
        visitor.visit("latency", &mut self.latency, OPTIONAL_DURATION);
        self.rules.visit(visitor);
        self.limits.visit(visitor);
    }

    /// What is wrong with the settings together.
    fn problem(&self) -> Option<&'static str> {
        match self {
            Archive {
                timemap: None,
                timegate: None,
                cdx: None,
                ..
            } => Some("has no address: give timemap, timegate or cdx"),
            Archive {
                cdx: Some(_),
                replay: None,
                ..
            } => Some("has cdx without replay: CDX servers do not name memento URIs"),
            _ => None,
        }
    }
}

impl Rules {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("include", &mut self.include, PATTERNS);
        visitor.visit("exclude", &mut self.exclude, PATTERNS);
        visitor.visit("from", &mut self.from, PERIOD);
        visitor.visit("until", &mut self.until, PERIOD);
        visitor.visit("embargo", &mut self.embargo, OPTIONAL_DURATION);
    }
}

const PATTERNS: Kind<Vec<Pattern>> = Kind {
    read: |value| texts(value, "gov.uk", Pattern::parse),
    show: |patterns| Some(show_texts(patterns.iter().map(Pattern::as_str))),
};

const ADDRESSES: Kind<Vec<String>> = Kind {
    read: |value| {
        texts(value, "https://archive.example/map.ukvs", |text| {
            address(text).map(|_| text.to_owned())
        })
    },
    show: |addresses| Some(show_texts(addresses.iter().map(String::as_str))),
};

const PERIOD: Kind<Option<Period>> = Kind {
    read: |value| {
        parsed(value, "2011", |text| match Period::parse(text) {
            Some(period) => Ok(Some(period)),
            None => Err(format!(
                "invalid time `{text}`: write a year, or up to 14 digits as in 20110301"
            )),
        })
    },
    show: |period| period.map(|period| quoted(&period.to_string())),
};

const PUBLIC_URL: Kind<Option<String>> = Kind {
    read: |value| {
        parsed(value, "https://aggregator.example/", |text| {
            address(text)?;
            Ok(Some(text.trim_end_matches('/').to_owned()))
        })
    },
    show: TEXT.show,
};

const ROOT: Kind<String> = Kind {
    read: |value| {
        parsed(value, "/", |text| match text.trim_matches('/') {
            "" => Ok("/".to_owned()),
            inner => Ok(format!("/{inner}/")),
        })
    },
    show: |root| Some(quoted(root)),
};

/// Text that is sent in a header.
const HEADER: Kind<Option<String>> = Kind {
    read: |value| {
        parsed(value, "someone@library.example", |text| {
            let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            match plain && !text.is_empty() {
                true => Ok(Some(text.to_owned())),
                false => Err("must be printable ASCII, because it is sent in a header".to_owned()),
            }
        })
    },
    show: TEXT.show,
};

const PREFIX: Kind<Option<String>> = Kind {
    read: |value| parsed(value, "https://archive.example/timemap/link/", prefix).map(Some),
    show: TEXT.show,
};

const ADDRESS: Kind<Option<String>> = Kind {
    read: |value| {
        parsed(value, "https://archive.example/cdx", |text| {
            Ok(Some(address(text).map(|_| text.to_owned())?))
        })
    },
    show: TEXT.show,
};

const REPLAY: Kind<Option<Replay>> = Kind {
    read: |value| {
        parsed(value, "https://archive.example/{timestamp}/{url}", |text| {
            address(text)?;
            text.parse().map(Some).map_err(|error| format!("{error}"))
        })
    },
    show: |replay| replay.as_ref().map(|replay| quoted(&replay.to_string())),
};

const DIALECT: Kind<Dialect> = Kind {
    read: |value| {
        parsed(value, "ia", |text| {
            text.parse().map_err(|error| format!("{error}"))
        })
    },
    show: |dialect| Some(quoted(dialect.name())),
};

const FUZZY: Kind<bool> = Kind {
    read: |value| {
        parsed(value, "pywb", |text| match text {
            "pywb" => Ok(true),
            _ => Err(format!("unknown rules `{text}`: write pywb")),
        })
    },
    show: |fuzzy| fuzzy.then(|| quoted("pywb")),
};

const PAGES: Kind<ForPages> = Kind {
    read: |value| {
        parsed(value, "asked", |text| {
            let known = ForPages::ALL.into_iter().find(|pages| pages.name() == text);
            known.ok_or_else(|| format!("unknown word `{text}`: write asked, always or never"))
        })
    },
    show: |pages| Some(quoted(pages.name())),
};

const LOG_FORMAT: Kind<LogFormat> = Kind {
    read: |value| {
        parsed(value, "json", |text| match text {
            "json" => Ok(LogFormat::Json),
            "memgator" => Ok(LogFormat::MemGator),
            _ => Err(format!("unknown format `{text}`: write json or memgator")),
        })
    },
    show: |format| {
        Some(quoted(match format {
            LogFormat::Json => "json",
            LogFormat::MemGator => "memgator",
        }))
    },
};

impl Config {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it, or the list of archives that it names, cannot be read. Every error names the file, and
    /// the line and the key if it is about one.
    pub fn read(path: &Path) -> waypost_io::Result<Config> {
        let text = std::fs::read(path).doing("read", path)?;
        let text = String::from_utf8(text).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let text = ErrorKind::Invalid("not UTF-8".to_owned());
            let line = line_of(error.as_bytes(), at);
            Error::new(text).in_file(path.display()).at_line(line)
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Config::parse(&text, folder, &path.display().to_string())
    }

    /// Reads the text of a file with this name.
    fn parse(text: &str, folder: &Path, file: &str) -> waypost_io::Result<Config> {
        let fail = |problem: Problem| {
            let line = line_of(text.as_bytes(), problem.at);
            let kind = ErrorKind::Invalid(problem.text);
            Error::new(kind).in_file(file).at_line(line)
        };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let text = error.message().to_owned();
            fail(Problem { at, text })
        })?;
        let mut config = Config::default();
        let mut problems = Vec::new();
        let archives = config.read_tables(table, &mut problems);
        config.resolve(folder);
        let listed = match &config.archives {
            Some(path) => Registry::read_json(path, &config.limits)?.archives,
            None => Vec::new(),
        };
        config.registry = read_archives(archives, listed, &config.limits, folder, &mut problems);
        match problems.into_iter().min_by_key(|problem| problem.at) {
            Some(problem) => Err(fail(problem)),
            None => Ok(config),
        }
    }

    /// Reads everything but the archives, which need the limits; returns their tables.
    fn read_tables<'a>(
        &mut self,
        table: Spanned<DeTable<'a>>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Spanned<DeTable<'a>>> {
        let mut top = Reader::new("the file", table, problems);
        top.visit("archives", &mut self.archives, PATH);
        let mut sections = Vec::new();
        for name in SECTIONS {
            let value = top.take(name);
            if let Some(table) = value.and_then(|value| as_table(&mut top, name, value)) {
                sections.push((name, table));
            }
        }
        let mut archives = Vec::new();
        if let Some(value) = top.take("archive") {
            let at = value.span().start;
            match value.into_inner() {
                DeValue::Array(values) => {
                    let tables = values.into_iter();
                    archives = tables
                        .filter_map(|value| as_table(&mut top, "archive", value))
                        .collect();
                }
                _ => top.problem(at, "archive: write [[archive]] for each archive"),
            }
        }
        top.finish();
        for (name, table) in sections {
            let mut reader = Reader::new(format!("[{name}]"), table, problems);
            self.visit(name, &mut reader);
            reader.finish();
        }
        archives
    }

    fn visit(&mut self, section: &str, visitor: &mut impl Visitor) {
        match section {
            "server" => self.server.visit(visitor),
            "client" => self.client.visit(visitor),
            "limits" => self.limits.visit(visitor),
            "cache" => self.cache.visit(visitor),
            "log" => self.log.visit(visitor),
            _ => self.routing.visit(visitor),
        }
    }

    fn resolve(&mut self, folder: &Path) {
        let paths = [
            &mut self.archives,
            &mut self.server.static_files,
            &mut self.server.mementomap,
            &mut self.cache.disk,
            &mut self.log.file,
            &mut self.log.benchmark,
            &mut self.routing.learned,
            &mut self.routing.downloads,
        ];
        for path in paths.into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// Everything that was understood, as a file that means the same.
    pub fn describe(&self) -> String {
        let mut config = self.clone();
        let mut describer = Describer::default();
        for section in SECTIONS {
            describer.text.push_str(&format!("[{section}]\n"));
            config.visit(section, &mut describer);
            describer.text.push('\n');
        }
        for archive in &mut config.registry.archives {
            let id = quoted(&archive.id);
            describer
                .text
                .push_str(&format!("[[archive]]\nid = {id}\n"));
            archive.visit(&mut describer);
            describer.text.push('\n');
        }
        describer.text.truncate(describer.text.trim_end().len());
        describer.text.push('\n');
        describer.text
    }
}

/// The tables of a file, but for the archives.
const SECTIONS: [&str; 6] = ["server", "client", "limits", "cache", "log", "routing"];

/// Takes a table out of a value, or says that it is not one.
fn as_table<'a>(
    reader: &mut Reader<'_, '_>,
    name: &str,
    value: Spanned<DeValue<'a>>,
) -> Option<Spanned<DeTable<'a>>> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Some(Spanned::new(span, table)),
        _ => {
            reader.problem(span.start, format!("{name}: expected a table"));
            None
        }
    }
}

/// Reads the tables of archives. One with the id of an archive in the list changes that one.
fn read_archives(
    tables: Vec<Spanned<DeTable<'_>>>,
    mut archives: Vec<Archive>,
    limits: &ArchiveLimits,
    folder: &Path,
    problems: &mut Vec<Problem>,
) -> Registry {
    let mut seen = HashMap::new();
    for table in tables {
        let at = table.span().start;
        let mut reader = Reader::new("[[archive]]", table, problems);
        let place = reader.place("id");
        let mut id = None;
        reader.visit("id", &mut id, TEXT);
        let mut ignore = false;
        reader.visit("ignore", &mut ignore, SWITCH);
        let known = id.as_ref().and_then(|id| {
            let mut listed = archives.iter();
            listed.position(|archive| archive.id == *id)
        });
        let mut archive = match known {
            Some(known) => archives[known].clone(),
            None => Archive {
                limits: limits.clone(),
                ..Archive::new(id.clone().unwrap_or_default())
            },
        };
        archive.visit(&mut reader);
        let files = archive.report.iter_mut().chain(&mut archive.key_file);
        for path in files.chain(&mut archive.summaries) {
            *path = folder.join(&*path);
        }
        match &id {
            None if place == at => reader.problem(at, "id: missing from this [[archive]]"),
            None => {}
            Some(id) if seen.insert(id.clone(), at).is_some() => {
                reader.problem(place, format!("id: another archive has the id `{id}`"));
            }
            Some(id) => {
                if let Some(problem) = archive.problem().filter(|_| reader.is_fine()) {
                    reader.problem(at, format!("id: archive `{id}` {problem}"));
                }
            }
        }
        reader.finish();
        match (known, ignore) {
            (Some(known), true) => {
                archives.remove(known);
            }
            (Some(known), false) => archives[known] = archive,
            (None, true) => {}
            (None, false) => archives.push(archive),
        }
    }
    Registry::new(archives)
}

/// The line of a byte, from 1.
fn line_of(text: &[u8], at: usize) -> u64 {
    let before = &text[..at.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests;
