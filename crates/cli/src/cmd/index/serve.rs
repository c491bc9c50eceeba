use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueHint};
use waypost_archive::{Collection, Embargo, Options, Server, Source};
use waypost_index::input;
use waypost_index::lookup::{BlockCache, Index};
use waypost_memento::Replay;
use waypost_net::server::Limits;
use waypost_surt::Dialect;

use super::keys::KeyArgs;
use crate::args::{ThreadArgs, number, size};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::listening::{Listeners, Threads, access_log, until_stopped};
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::TakedownArgs;

/// Serve sorted indexes to the Web: CDX server, TimeMaps and TimeGates
///
/// The indexes given as arguments are searched as one collection with the name `all`. Each
/// collection answers the queries of pywb at /NAME/cdx and /NAME/index and those of the Wayback
/// Machine at /NAME/cdx/search/cdx. With --replay, it also has TimeMaps at /NAME/timemap/link/URL
/// and a TimeGate at /NAME/URL.
///
/// An index that is unsorted, cut or unreadable is skipped with a warning, and what is not found
/// elsewhere gets status 503, because it may be held. The same holds until large indexes were read
/// to their end, which happens in the background.
///
/// Files that are replaced while the server runs are reopened within a second. Ctrl-C and SIGTERM
/// end it when the requests under way are answered.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index serve sorted.cdxj\n\
    \x20 waypost index serve --collection news=zipnum --collection old=sorted.cdxj \\\n\
    \x20   --replay 'https://archive.example/{timestamp}/{url}' --embargo 6m\n\
    \n\
    Then ask:\n\
    \x20 curl 'http://127.0.0.1:8080/all/cdx?url=gazette.example.com&limit=1'")]
pub(crate) struct Serve {
    /// Sorted files, folders of ZipNum indexes or of sorted files, or .idx files
    #[arg(value_name = "INDEX", required_unless_present = "collection", value_hint = ValueHint::AnyPath)]
    indexes: Vec<PathBuf>,
    /// A collection and its index; may be repeated, also for the same collection
    #[arg(short, long, value_name = "NAME=PATH", value_parser = collection)]
    collection: Vec<(String, PathBuf)>,
    /// Address to listen on; port 0 chooses a free one
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Serve /metrics for Prometheus and /health on this address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Where captures are replayed: https://archive.example/{timestamp}/{url}
    #[arg(long, value_name = "TEMPLATE")]
    replay: Option<Replay>,
    /// The URL of this server as clients see it [default: from their requests]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    takedowns: TakedownArgs,
    /// Hide captures that are younger than this: 6m, 90d, 1y, 12h
    #[arg(long, value_name = "PERIOD")]
    embargo: Option<Embargo>,
    /// Seconds that a query may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// Maximum number of rows in an answer [default: no limit]
    #[arg(long, value_name = "N", value_parser = number)]
    max_rows: Option<u64>,
    /// Maximum number of queries at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    max_queries: u16,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Memory for inflated blocks of ZipNum indexes
    #[arg(long, value_name = "SIZE", default_value = "48MiB", value_parser = size)]
    cache: u64,
    /// Append a line for each request to this file, `-` for stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    access_log: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Don't check that all lines are in order: answer at once that something is absent
    #[arg(long)]
    trust_order: bool,
    /// Refuse to start if an index cannot be used, instead of skipping it
    #[arg(long)]
    strict: bool,
    /// Read data files outside the folder of a ZipNum index if its rows or .loc file name them
    #[arg(long)]
    anywhere: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// The collection of the indexes that are given without a name.
const UNNAMED: &str = "all";

fn collection(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text
        .split_once('=')
        .filter(|(name, path)| !name.is_empty() && !path.is_empty())
        .ok_or_else(|| format!("`{text}` is not NAME=PATH, as in news=news.cdxj"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.chars().all(plain) {
        return Err(format!(
            "the name `{name}` would be part of URLs: use letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok((name.to_owned(), PathBuf::from(path)))
}

impl Serve {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let threads = self.threads.start()?;
        let server = self.open(out)?;
        let threads = Threads {
            // Some may wait for the disk.
            workers: Some(threads + 2),
            blocking: Some(usize::from(self.max_queries) + 4),
        };
        until_stopped(threads, out, async |stop| {
            let listeners = Listeners::open(self.listen, self.metrics).await?;
            listeners.announce(self.max_connections as usize, out)?;
            let messages = out.messages();
            let report = move |message: String| messages.note(message);
            let Listeners { requests, metrics } = listeners;
            server.run(requests, metrics, report, stop.notified()).await;
            Ok(())
        })
    }

    /// Opens the indexes.
    pub(crate) fn open(&self, out: &Printer) -> anyhow::Result<Arc<Server>> {
        let cache = Arc::new(BlockCache::new(usize::try_from(self.cache)?));
        let mut unusable = None;
        let collections = self.collections(&cache, &mut unusable, out)?;
        let counts: Vec<String> = collections
            .iter()
            .map(|(name, sources)| {
                format!(
                    "{name} ({})",
                    plural::of(sources.len() as u64, "index file")
                )
            })
            .collect();
        let opened: Vec<Collection> = collections
            .into_iter()
            .map(|(name, sources)| Collection::open(&name, sources, &cache))
            .collect();
        let problems: Vec<String> = opened.iter().flat_map(Collection::problems).collect();
        if let Some(problem) = problems.first()
            && (self.strict || !opened.iter().any(Collection::is_usable))
        {
            return Err(unusable.unwrap_or_else(|| anyhow::anyhow!("{problem}")));
        }
        problems.iter().for_each(|problem| out.warn(problem));
        let server = Server::new(opened, cache, self.options()?)?;
        out.note(format_args!("collections: {}", counts.join(", ")));
        Ok(Arc::new(server))
    }

    fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            time_limit: Duration::from_secs(self.time_limit.into()),
            most_rows: self.max_rows.unwrap_or(u64::MAX),
            queries: self.max_queries.into(),
            embargo: self.embargo,
            exclude_list: self.takedowns.path()?,
            replay: self.replay.clone(),
            public_url: self.public_url.clone(),
            access_log: access_log(self.access_log.as_deref())?,
            limits: Limits {
                connections: self.max_connections as usize,
                ..Limits::default()
            },
        })
    }

    /// The indexes of each collection. `unusable` is set to why the first that cannot be used is not.
    fn collections(
        &self,
        cache: &Arc<BlockCache>,
        unusable: &mut Option<anyhow::Error>,
        out: &Printer,
    ) -> anyhow::Result<BTreeMap<String, Vec<Source>>> {
        let mut collections: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        let unnamed = self.indexes.iter().map(|path| (UNNAMED, path));
        let named = self.collection.iter().map(|(name, path)| (&name[..], path));
        for (name, path) in unnamed.chain(named) {
            for path in indexes_in(path)? {
                let dialect = match self.check(&path, cache, out) {
                    Ok(dialect) => Some(dialect),
                    Err(error) => {
                        unusable.get_or_insert(error);
                        self.keys.given()
                    }
                };
                collections
                    .entry(name.to_owned())
                    .or_default()
                    .push(Source {
                        path,
                        dialect,
                        anywhere: self.anywhere,
                        sorted: self.trust_order,
                    });
            }
        }
        Ok(collections)
    }

    /// The dialect of an index, if it can be searched.
    fn check(
        &self,
        path: &Path,
        cache: &Arc<BlockCache>,
        out: &Printer,
    ) -> anyhow::Result<Dialect> {
        let index = Index::open(path)?.anywhere(self.anywhere).cached(cache);
        index.check_sample()?;
        self.keys.dialect_of(&index, path, out)
    }
}

/// The index files in a folder, unless it is the folder of a ZipNum index.
fn indexes_in(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_idx = |name: &Path| {
        let extension = name.extension();
        extension.is_some_and(|extension| extension == "idx" || extension == "summary")
    };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries =
        std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    if entries.flatten().any(|entry| is_idx(&entry.path())) {
        return Ok(vec![path.to_owned()]);
    }
    let sources = input::expand([path])?.sources;
    let paths: Vec<PathBuf> = sources
        .iter()
        .map(|source| source.path().to_owned())
        .collect();
    if paths.is_empty() {
        return Err(anyhow::anyhow!("no indexes in {}", path.display()))
            .hint("name a sorted file, or a folder of sorted files or of a ZipNum index");
    }
    Ok(paths)
}
