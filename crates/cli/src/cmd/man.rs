use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use super::Cli;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Write man pages, one for each command
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost man man-pages")]
pub(crate) struct Man {
    /// The folder to write to; created if missing
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let dir = &self.dir;
        fs::create_dir_all(dir)
            .with_context(|| format!("cannot create the folder {}", dir.display()))
            .hint("name a folder that you may write to")?;
        clap_mangen::generate_to(Cli::command(), dir)
            .with_context(|| format!("cannot write man pages to {}", dir.display()))?;
        out.note(format_args!("wrote the man pages to {}", dir.display()));
        Ok(Exit::Yes)
    }
}
