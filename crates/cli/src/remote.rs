//! Indexes and files on the Web: the options for them, and how they are opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueHint};
use waypost_index::input::is_idx;
use waypost_index::lookup::Index;
use waypost_index::zipnum::{Opener, Remote, ZipNum};
use waypost_io::adapters::{self, UrlAdapter};
use waypost_io::{RangeRead, Source};
use waypost_net::{Cache, Client, ClientOptions, Stats, is_remote};

use crate::hint::Hint;
use crate::printer::Printer;

/// Options for remote files.
#[derive(Args)]
#[command(next_help_heading = "Remote files")]
pub(crate) struct RemoteArgs {
    /// Download the .idx file of a remote index to this folder, once, and search the copy
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    cache: Option<PathBuf>,
    /// Maximum number of concurrent requests
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
}

/// Opens remote files. The client is created when it is first needed.
#[derive(Clone)]
pub(crate) struct RemoteFiles {
    options: ClientOptions,
    client: Arc<OnceLock<Client>>,
}

impl RemoteArgs {
    pub(crate) fn files(&self) -> RemoteFiles {
        RemoteFiles {
            options: ClientOptions {
                connections: usize::from(self.connections),
                ..ClientOptions::default()
            },
            client: Arc::default(),
        }
    }

    /// The sources that arguments stand for: URLs of the `.idx` files of ZipNum indexes or of single
    /// shards, and whatever is on this machine.
    pub(crate) fn sources(
        &self,
        files: &RemoteFiles,
        inputs: &[PathBuf],
        out: &Printer,
    ) -> anyhow::Result<Vec<Source>> {
        let mut sources = Vec::new();
        for input in inputs {
            let Some(url) = as_url(input) else {
                let expanded = waypost_index::input::expand([input])?;
                sources.extend(expanded.sources);
                continue;
            };
            if is_idx(url) {
                sources.extend(self.zipnum(files, url, out)?.sources()?);
            } else {
                let connections = usize::from(self.connections);
                sources.push(Source::of_remote(files.open(url)?, connections));
            }
        }
        Ok(sources)
    }

    /// Opens an index: a path, or the URL of the `.idx` file of a ZipNum index.
    pub(crate) fn open(
        &self,
        files: &RemoteFiles,
        index: &Source,
        out: &Printer,
    ) -> anyhow::Result<Index> {
        let Some(url) = as_url(index.path()) else {
            let connections = usize::from(self.connections);
            let index = Index::of(index)?.with_opener(files.opener(), connections);
            index.check_before_lookup()?;
            return Ok(index);
        };
        if !is_idx(url) {
            return Err(anyhow::anyhow!(
                "{url}: of remote files, only ZipNum indexes can be looked up"
            ))
            .hint("give the URL of the .idx file: https://…/cluster.idx");
        }
        Ok(Index::from(self.zipnum(files, url, out)?))
    }

    /// Opens a remote ZipNum index.
    fn zipnum(&self, files: &RemoteFiles, url: &str, out: &Printer) -> anyhow::Result<ZipNum> {
        let copy = match &self.cache {
            Some(folder) => {
                let client = files.client()?;
                let bar = out.progress();
                client.report_to(&bar);
                Some(Cache::new(client.clone(), folder).fetch(url)?)
            }
            None => None,
        };
        Ok(ZipNum::remote(Remote {
            url,
            copy: copy.as_deref(),
            open: files.opener(),
            connections: usize::from(self.connections),
        })?)
    }
}

impl RemoteFiles {
    /// The client.
    pub(crate) fn client(&self) -> waypost_io::Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(self.options.clone())?;
        Ok(self.client.get_or_init(|| client))
    }

    pub(crate) fn open(&self, url: &str) -> waypost_io::Result<Arc<dyn RangeRead>> {
        self.client()?.open_any(url)
    }

    fn opener(&self) -> Opener {
        let files = self.clone();
        Arc::new(move |url| files.open(url))
    }

    /// What was fetched. `None` if nothing was.
    pub(crate) fn stats(&self) -> Option<Stats> {
        let stats = self.client.get()?.stats();
        (stats.requests > 0).then_some(stats)
    }
}

/// Inputs of all commands may be remote from now on, and tables if this build can read them.
pub(crate) fn adapt_inputs() {
    adapters::open_urls(UrlAdapter {
        is_url: is_remote,
        open: open_input,
        connections: ClientOptions::default().connections,
    });
    #[cfg(feature = "parquet")]
    adapters::read_tables(adapters::TableAdapter {
        magic: waypost_parquet::MAGIC,
        extension: waypost_parquet::EXTENSION,
        lines: waypost_parquet::lines,
    });
}

/// Opens an input, with one client for all of them.
fn open_input(url: &str) -> waypost_io::Result<Arc<dyn RangeRead>> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let client = match CLIENT.get() {
        Some(client) => client,
        None => {
            let client = Client::new(ClientOptions::default())?;
            CLIENT.get_or_init(|| client)
        }
    };
    client.open_any(url)
}

/// The URL, if an argument is one.
pub(crate) fn as_url(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|name| is_remote(name))
}
