use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use waypost_index::input::Source;
use waypost_report::count;
use waypost_summary::map::{Room, show};

use crate::exit::Exit;
use crate::printer::Printer;

/// Show the largest subtrees of a map
#[derive(Args)]
#[command(after_help = "Example:\n  waypost map show small.ukvs --depth 3 --top 5")]
pub(crate) struct Show {
    /// The map
    map: PathBuf,
    /// How many levels to show
    #[arg(long, value_name = "N", default_value_t = 3)]
    depth: usize,
    /// How many children of each place to show
    #[arg(long, value_name = "N", default_value_t = 6)]
    top: usize,
}

const BAR: usize = 24;

impl Show {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let tree = show::tree(
            &Source::new(&self.map),
            self.depth,
            self.top,
            &Room::default(),
        )?;
        let whole = tree.captures.max(1);
        print(&tree, 0, whole, out)?;
        Ok(Exit::Yes)
    }
}

fn print(tree: &show::Tree, indent: usize, whole: u64, out: &mut Printer) -> anyhow::Result<()> {
    let filled = (tree.captures as f64 / whole as f64 * BAR as f64).round() as usize;
    let name = format!(
        "{}{}",
        "  ".repeat(indent),
        String::from_utf8_lossy(&tree.name)
    );
    writeln!(
        out.data(),
        "{:BAR$} {name}  {} captures, {} keys{}",
        "█".repeat(filled.min(BAR)),
        count(tree.captures),
        count(tree.keys),
        match tree.filtered {
            0 => String::new(),
            filtered => format!(", {} with a filter", count(filtered)),
        }
    )?;
    for child in &tree.children {
        print(child, indent + 1, whole, out)?;
    }
    if tree.left_out > 0 {
        writeln!(
            out.data(),
            "{:BAR$} {}… and {} more",
            "",
            "  ".repeat(indent + 1),
            count(tree.left_out)
        )?;
    }
    Ok(())
}
