//! `waypost demo`: a small world on one machine.
//!
//! `world` generates the indexes of five archives, `steps` summarises them with the commands that an
//! archive would use, `servers` starts the archives and the router, and `figures` compares routing
//! with asking everyone.

mod figures;
mod servers;
mod steps;
mod words;
mod world;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueHint};
use waypost_io::temporary;

use crate::exit::Exit;
use crate::printer::Printer;
use world::World;

/// Show what Waypost does: five archives, their summaries, and a router that asks the right ones
///
/// Generates the indexes of five archives, builds their maps, profiles and filters, starts the
/// archives and the router on this machine, and compares routing with asking everyone. Then it serves
/// until Ctrl-C. Nothing leaves this machine, and all files are removed at the end unless --folder is
/// given.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost demo\n\
    \x20 waypost demo --once --lookups 200")]
pub(crate) struct Demo {
    /// Print the figures and exit instead of serving
    #[arg(long)]
    once: bool,
    /// Keep all files in this folder, which must be empty or new
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Address of the router; port 0 chooses a free one
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:1208")]
    listen: SocketAddr,
    /// Number of lookups to compare routing with asking everyone
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lookups: u32,
    /// Number of sites in the world
    #[arg(long, value_name = "N", default_value_t = 900, value_parser = clap::value_parser!(u32).range(200..=100_000))]
    sites: u32,
    /// Another seed gives another world
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Demo {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let folder = Folder::open(self.folder.clone())?;
        let mut world = World::new(self.seed, self.sites.into());
        steps::write_indexes(&mut world, out)?;
        steps::summarise(out)?;
        let lookups = world.lookups(self.lookups as usize);
        let showpiece = world.showpiece().unwrap_or_else(|| lookups[0].clone());
        let done = servers::run(&self, &lookups, &showpiece, out);
        folder.close()?;
        done
    }
}

/// The folder in which everything is written. It is the current one until it is closed, so that the
/// commands that are shown need no paths.
struct Folder {
    before: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Folder {
    fn open(named: Option<PathBuf>) -> anyhow::Result<Folder> {
        let before = std::env::current_dir().context("the current folder is gone")?;
        let temporary = match &named {
            Some(_) => None,
            None => Some(temporary::folder_in(&std::env::temp_dir())?),
        };
        let path = match (&named, &temporary) {
            (Some(path), _) => path.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => before.clone(),
        };
        let told = || format!("cannot use the folder {}", path.display());
        std::fs::create_dir_all(&path).with_context(told)?;
        let used = std::fs::read_dir(&path)
            .with_context(told)?
            .next()
            .is_some();
        anyhow::ensure!(!used, "{} is not empty", path.display());
        std::env::set_current_dir(&path).with_context(told)?;
        Ok(Folder { before, temporary })
    }

    fn close(self) -> anyhow::Result<()> {
        std::env::set_current_dir(&self.before).context("the current folder is gone")?;
        if let Some(temporary) = self.temporary {
            let path = temporary.path().to_owned();
            temporary
                .close()
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }
}
