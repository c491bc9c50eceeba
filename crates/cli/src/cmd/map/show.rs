use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use waypost_io::Source;
use waypost_report::{count, icicle};
use waypost_summary::map::show;

use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::html::write_html;
use crate::plural;
use crate::printer::Printer;

/// Show the largest subtrees of a map
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost map show small.ukvs --depth 3 --top 5\n\
    \x20 waypost map show small.ukvs --html small.html")]
pub(crate) struct Show {
    /// The map
    map: PathBuf,
    /// Number of levels to show [default: as many as fit the terminal]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Maximum number of children to show per node
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Write an HTML page instead, in which a click opens a subtree
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "html")]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

const BAR: usize = 24;

/// Number of lines if the output is not a terminal.
const LINES: usize = 40;

/// Maximum number of nodes on a page, which keeps it below a megabyte.
const PLACES: usize = 4_000;

impl Show {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let paged = self.html.is_some();
        let resources = self.resources.resources(None)?;
        let mut tree = show::tree(
            &Source::new(&self.map),
            self.depth.unwrap_or(if paged { 12 } else { 6 }),
            self.top.unwrap_or(if paged { 200 } else { 24 }),
            &resources,
        )?;
        if let Some(path) = &self.html {
            tree.keep_largest(PLACES);
            let title = format!("What {} holds", self.map.display());
            write_html(path, &icicle(&title, &tree.piece()))?;
            out.note(format_args!("wrote {}", path.display()));
            return Ok(Exit::Yes);
        }
        if self.format == Format::Json {
            writeln!(out.data(), "{:#}", object(&tree))?;
            return Ok(Exit::Yes);
        }
        if self.depth.is_none() && self.top.is_none() {
            tree.keep_largest(lines() * 2 / 3);
        }
        let whole = tree.captures.max(1);
        print(&tree, 0, whole, out)?;
        Ok(Exit::Yes)
    }
}

/// How many lines the terminal has.
fn lines() -> usize {
    let size = std::io::stdout()
        .is_terminal()
        .then(terminal_size::terminal_size)
        .flatten();
    size.map_or(LINES, |(_, terminal_size::Height(lines))| {
        usize::from(lines)
    })
}

fn object(tree: &show::Tree) -> Value {
    json!({
        "name": String::from_utf8_lossy(&tree.name),
        "captures": tree.captures,
        "keys": tree.keys,
        "keys_with_filter": tree.filtered,
        "children_left_out": tree.left_out,
        "children": tree.children.iter().map(object).collect::<Vec<_>>(),
    })
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
        "{:BAR$} {name}  {}, {}{}",
        "█".repeat(filled.min(BAR)),
        plural::of(tree.captures, "capture"),
        plural::of(tree.keys, "key"),
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
