//! Indexes and files on the Web: the options for them, and how they are opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueHint};
use waypost_index::lookup::Index;
use waypost_index::zipnum::{Opener, Remote, ZipNum};
use waypost_io::{RangeRead, Source};
use waypost_net::{Cache, Client, ClientOptions, Stats, is_url};

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

    /// Opens an index: a path, or the URL of the `.idx` file of a ZipNum index.
    pub(crate) fn open(
        &self,
        files: &RemoteFiles,
        index: &Source,
        out: &Printer,
    ) -> anyhow::Result<Index> {
        let connections = usize::from(self.connections);
        let Some(url) = as_url(index.path()) else {
            return Ok(Index::of(index)?.with_opener(files.opener(), connections));
        };
        let name = url.split(['?', '#']).next().unwrap_or(url);
        if !name.ends_with(".idx") && !name.ends_with(".summary") {
            return Err(anyhow::anyhow!(
                "{url}: of remote files, only ZipNum indexes can be looked up"
            ))
            .hint("give the URL of the .idx file: https://…/cluster.idx");
        }
        let copy = match &self.cache {
            Some(folder) => {
                let client = files.client()?;
                let bar = out.progress();
                client.report_to(&bar);
                Some(Cache::new(client.clone(), folder).fetch(url)?)
            }
            None => None,
        };
        let zipnum = ZipNum::remote(Remote {
            url,
            copy: copy.as_deref(),
            open: files.opener(),
            connections,
        })?;
        Ok(Index::from(zipnum))
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
        Ok(Arc::new(self.client()?.open(url)?))
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

/// The URL, if an argument is one.
pub(crate) fn as_url(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|name| is_url(name))
}
