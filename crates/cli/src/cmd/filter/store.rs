//! Filters in Redis: `--store`. Without the feature `redis`, these only say that it is missing.

use std::path::{Path, PathBuf};

use clap::Args;
use waypost_archive::filters::RemoteSummary;
use waypost_summary::Summary;
use waypost_summary::filter::orestes::Split;
use waypost_summary::filter::{Metadata, Secret};

use super::options::KeyFile;
use crate::exit::Exit;
use crate::printer::Printer;

/// Where to upload a filter.
#[derive(Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct StoreArgs {
    /// Upload a filter to Redis: redis://HOST[:PORT][/DATABASE]
    #[arg(
        long,
        value_name = "URL",
        requires = "archive",
        conflicts_with = "output"
    )]
    store: Option<String>,
    /// The id of the archive in the store
    #[arg(long, value_name = "ID")]
    archive: Option<String>,
    #[command(flatten)]
    key_file: KeyFile,
}

/// Whether an argument is the URL of a store.
pub(super) fn is_store(text: &str) -> bool {
    ["redis://", "rediss://", "unix://", "redis+unix://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

impl StoreArgs {
    /// Uploads a filter.
    pub(super) fn upload(&self, paths: &[PathBuf], out: &Printer) -> anyhow::Result<Exit> {
        let (Some(url), Some(id), [path]) = (&self.store, &self.archive, paths) else {
            anyhow::bail!("--store takes one filter");
        };
        upload(url, id, path, self.key_file.secret()?, out)
    }
}

#[cfg(feature = "redis")]
mod with_redis {
    use std::sync::Arc;

    use waypost_archive::store::{self, RedisImport, Store, StoredFilter};
    use waypost_io::Phase;
    use waypost_report::bytes;

    use super::{Exit, Metadata, Path, Printer, RemoteSummary, Secret, Split, Summary};
    use crate::hint::Hint;
    use crate::plural;

    const HINT: &str = "check that Redis runs there: `redis-cli -u URL ping`";

    pub(in super::super) fn upload(
        url: &str,
        id: &str,
        path: &Path,
        secret: Option<Secret>,
        out: &Printer,
    ) -> anyhow::Result<Exit> {
        let store = Store::new(url)?;
        let bar = out.progress();
        bar.begin(
            Phase::Writing,
            std::fs::metadata(path).ok().map(|file| file.len()),
        );
        let report = store::upload(&store, id, path, secret, |bytes| bar.add(bytes));
        drop(bar);
        let report = report.hint_otherwise(HINT)?;
        out.note(format_args!(
            "uploaded {} as {id}: {} in {}, generation {}",
            path.display(),
            bytes(report.bytes),
            plural::of(report.pieces, "piece"),
            report.generation
        ));
        Ok(Exit::Yes)
    }

    pub(in super::super) fn open(
        url: &str,
        id: &Path,
        secret: Option<Secret>,
    ) -> anyhow::Result<Box<dyn Summary>> {
        let store = Arc::new(Store::new(url)?);
        let filter = StoredFilter::open(&store, &id.to_string_lossy(), secret);
        Ok(Box::new(filter.hint_otherwise(HINT)?))
    }

    /// All archives of a store.
    pub(in super::super) fn all(
        url: &str,
        secret: Option<Secret>,
    ) -> anyhow::Result<Vec<(String, RemoteSummary)>> {
        let store = Arc::new(Store::new(url)?);
        let mut all = Vec::new();
        for id in store.archives().hint_otherwise(HINT)? {
            let filter = Arc::new(StoredFilter::open(&store, &id, secret)?);
            let summary = RemoteSummary {
                summary: Arc::clone(&filter) as Arc<dyn Summary>,
                state: Arc::new(move || filter.state()),
                waits: true,
            };
            all.push((id, summary));
        }
        Ok(all)
    }

    pub(in super::super) fn import(
        url: &str,
        name: &str,
        split: Split,
        metadata: Metadata,
        output: &Path,
    ) -> anyhow::Result<()> {
        let options = RedisImport {
            name: name.to_owned(),
            split,
            metadata,
        };
        store::import(&Store::new(url)?, &options, output).hint_otherwise(HINT)?;
        Ok(())
    }
}

#[cfg(feature = "redis")]
pub(super) use with_redis::{all, import, open, upload};

#[cfg(not(feature = "redis"))]
mod without_redis {
    use super::{Exit, Metadata, Path, Printer, RemoteSummary, Secret, Split, Summary};
    use crate::hint::Hint;

    fn missing<T>() -> anyhow::Result<T> {
        Err(anyhow::anyhow!("this build of waypost cannot use Redis"))
            .hint("build it with `cargo build --release --features redis`")
    }

    pub(in super::super) fn upload(
        _: &str,
        _: &str,
        _: &Path,
        _: Option<Secret>,
        _: &Printer,
    ) -> anyhow::Result<Exit> {
        missing()
    }

    pub(in super::super) fn open(
        _: &str,
        _: &Path,
        _: Option<Secret>,
    ) -> anyhow::Result<Box<dyn Summary>> {
        missing()
    }

    pub(in super::super) fn all(
        _: &str,
        _: Option<Secret>,
    ) -> anyhow::Result<Vec<(String, RemoteSummary)>> {
        missing()
    }

    pub(in super::super) fn import(
        _: &str,
        _: &str,
        _: Split,
        _: Metadata,
        _: &Path,
    ) -> anyhow::Result<()> {
        missing()
    }
}

#[cfg(not(feature = "redis"))]
use without_redis::{all, import, open, upload};
