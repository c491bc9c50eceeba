//! `--exclude-list`: the option of every command that reads captures, or what was made of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueHint};
use waypost_index::Takedowns;

use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// How many lines that match nothing are shown.
const SHOWN: usize = 20;

/// What was taken down.
#[derive(Args)]
#[command(next_help_heading = "Takedowns")]
pub(crate) struct TakedownArgs {
    /// Leave out what this list takes down; no output records it, and lookups there are absent
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    exclude_list: Option<PathBuf>,
    #[arg(skip)]
    read: OnceLock<Arc<Takedowns>>,
}

impl TakedownArgs {
    /// Where the list is, for servers, which read it again when it changes.
    pub(crate) fn path(&self) -> anyhow::Result<Option<PathBuf>> {
        self.list()?;
        Ok(self.exclude_list.clone())
    }

    /// The list, if there is one. It is read once.
    pub(crate) fn list(&self) -> anyhow::Result<Option<Arc<Takedowns>>> {
        let Some(path) = &self.exclude_list else {
            return Ok(None);
        };
        if let Some(list) = self.read.get() {
            return Ok(Some(Arc::clone(list)));
        }
        let list = read_list(path)?;
        Ok(Some(Arc::clone(self.read.get_or_init(|| Arc::new(list)))))
    }

    /// Reports the lines that matched nothing.
    pub(crate) fn report(&self, out: &Printer) {
        if let Some(list) = self.read.get() {
            report_unused(list, out);
        }
    }
}

/// Reads a list of takedowns.
pub(crate) fn read_list(path: &Path) -> anyhow::Result<Takedowns> {
    Takedowns::read(path).hint(
        "a line is a URI or a SURT, which means that page, or without a path that host; or `page URI`, \
         `host URI`, `domain URI`; or a key of a map like com,example)/a/*",
    )
}

/// Reports the lines of a list that matched nothing.
pub(crate) fn report_unused(list: &Takedowns, out: &Printer) {
    let unused: Vec<String> = list.unused().collect();
    for line in unused.iter().take(SHOWN) {
        out.warn(format_args!("{line}: matches nothing"));
    }
    if let Some(more @ 1..) = unused.len().checked_sub(SHOWN) {
        let more = plural::of(more as u64, "more line");
        out.warn(format_args!("{more} of the list match nothing"));
    }
}
