//! The archives that an aggregator asks: from MemGator's list or a configuration file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueHint};
use waypost_net::{Client, ClientOptions, is_url};
use waypost_router::{ArchiveLimits, Config, Registry};

use crate::hint::Hint;

/// Which archives are asked.
#[derive(Args)]
pub(crate) struct ArchiveOptions {
    /// MemGator's list of archives: a file or URL
    #[arg(short, long, value_name = "FILE", required_unless_present = "config", value_hint = ValueHint::FilePath)]
    pub(crate) archives: Option<String>,
    /// Configuration file (docs/waypost.example.toml lists all keys)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

impl ArchiveOptions {
    /// Reads the configuration.
    pub(crate) fn read(&self) -> anyhow::Result<Config> {
        read(self.config.as_deref(), self.archives.as_deref())
    }

    /// The file or URL that names the archives.
    pub(crate) fn location(&self) -> String {
        match (&self.archives, &self.config) {
            (Some(archives), _) => archives.clone(),
            (None, Some(config)) => config.display().to_string(),
            (None, None) => String::new(),
        }
    }
}

/// Maximum size of a list of archives that is downloaded.
const MOST_BYTES: usize = 16 << 20;

/// Reads MemGator's list of archives from a file or URL.
pub(crate) fn read_list(location: &str, limits: &ArchiveLimits) -> anyhow::Result<Registry> {
    if !is_url(location) {
        return Ok(Registry::read_json(Path::new(location), limits)?);
    }
    let client = Client::new(ClientOptions::default())?;
    let text = client.get(location, MOST_BYTES)?;
    let registry = Registry::from_json(&text, limits);
    registry.with_context(|| format!("cannot read {location}"))
}

/// Reads a configuration file, a list of archives, or both: the list then takes the place of the
/// archives in the file.
pub(crate) fn read(config: Option<&Path>, archives: Option<&str>) -> anyhow::Result<Config> {
    let mut read = match config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if let Some(location) = archives {
        read.registry = read_list(location, &read.limits)?;
        read.archives = (!is_url(location)).then(|| PathBuf::from(location));
    }
    if read.registry.archives.is_empty() {
        return Err(anyhow::anyhow!("no archives to ask")).hint(
            "name MemGator's list with --archives, or a file with [[archive]] tables with --config",
        );
    }
    Ok(read)
}
