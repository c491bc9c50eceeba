use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::exit::Exit;
use crate::printer::Printer;

/// Print a shell completion script
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost completions bash > waypost.bash")]
pub(crate) struct Completions {
    /// The shell to print the script for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        // The generator panics when its writer fails, so it writes to memory.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "waypost", &mut script);
        out.data().write_all(&script)?;
        Ok(Exit::Yes)
    }
}
