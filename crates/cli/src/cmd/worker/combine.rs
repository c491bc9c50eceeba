use std::io::{BufRead, Write};

use anyhow::Context;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::Args;

use super::{Task, perform};
use crate::args::size;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Combine partial results of consecutive ranges of a file, to have fewer of them to merge
///
/// Reads lines of `waypost worker` on standard input. A line that continues the line before it is
/// combined with it; all others are written as they are. Results of `stats --approximate` and
/// `segments tabulate` become much smaller; those of other commands stay about as large.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost worker plan small.cdxj --size 64K -- stats --approximate > ranges\n\
    \x20 waypost worker < ranges | waypost worker combine > partials\n\
    \x20 waypost worker merge partials")]
pub(crate) struct Combine {
    /// Size up to which lines are collected before they are combined
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    size: u64,
}

impl Combine {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut waiting: Vec<Line> = Vec::new();
        let mut collected = 0;
        for (number, line) in std::io::stdin().lock().lines().enumerate() {
            let line = line.context("cannot read standard input")?;
            let line = Line::parse(line).with_context(|| format!("-: line {}", number + 1))?;
            let length = line.text.len() as u64;
            let continues = waiting
                .last()
                .is_none_or(|last| last.task.precedes(&line.task));
            if !continues {
                writeln!(out.data(), "{}", joined(std::mem::take(&mut waiting))?)?;
                collected = 0;
            }
            collected += length;
            waiting.push(line);
            if collected > self.size && waiting.len() > 1 {
                let whole = Line::parse(joined(std::mem::take(&mut waiting))?)?;
                collected = whole.text.len() as u64;
                waiting.push(whole);
                // What does not become smaller is not combined again.
                if collected > self.size / 2 {
                    writeln!(out.data(), "{}", joined(std::mem::take(&mut waiting))?)?;
                    collected = 0;
                }
            }
        }
        if !waiting.is_empty() {
            writeln!(out.data(), "{}", joined(waiting)?)?;
        }
        out.flush()?;
        Ok(Exit::Yes)
    }
}

/// A line of results.
struct Line {
    task: Task,
    text: String,
}

impl Line {
    fn parse(text: String) -> anyhow::Result<Line> {
        let head = text.split_once('\t').map_or("", |(head, _)| head);
        let task = serde_json::from_str(head)
            .context("this is not a partial result")
            .hint("name files that `waypost worker` has written")?;
        Ok(Line { task, text })
    }

    fn partial(&self) -> anyhow::Result<Vec<u8>> {
        let (_, partial) = self.text.split_once('\t').unwrap_or_default();
        let range = &self.task.range;
        BASE64_STANDARD.decode(partial).with_context(|| {
            let path = range.path.display();
            format!(
                "the partial result of {path} from byte {} is corrupt",
                range.start
            )
        })
    }
}

impl Task {
    /// Whether the other is the next range of the same file.
    fn precedes(&self, next: &Task) -> bool {
        self.number + self.combined == next.number
            && (self.ranges, self.source, self.list) == (next.ranges, next.source, next.list)
            && self.command == next.command
            && self.range.path == next.range.path
            && self.range.end == next.range.start
    }
}

/// Combines lines of consecutive ranges of one file into one.
pub(crate) fn combine(lines: Vec<String>) -> anyhow::Result<String> {
    let lines = lines.into_iter().map(Line::parse);
    let lines = lines.collect::<anyhow::Result<Vec<_>>>()?;
    if !lines
        .windows(2)
        .all(|pair| pair[0].task.precedes(&pair[1].task))
    {
        anyhow::bail!("these are not results of consecutive ranges of one file");
    }
    joined(lines)
}

/// The same for lines that are known to be consecutive.
fn joined(mut lines: Vec<Line>) -> anyhow::Result<String> {
    if lines.len() == 1 {
        return Ok(lines.swap_remove(0).text);
    }
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
        anyhow::bail!("no partial results");
    };
    let mut whole = first.task.clone();
    whole.combined = lines.iter().map(|line| line.task.combined).sum();
    (whole.range.end, whole.range.last) = (last.task.range.end, last.task.range.last);
    let partials = lines.iter().map(Line::partial);
    whole.partials = partials.collect::<anyhow::Result<_>>()?;
    perform(&whole)
}
