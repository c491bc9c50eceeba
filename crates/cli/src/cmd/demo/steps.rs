//! Writes the indexes of the archives, and summarises each with the commands that it would use.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::Context;
use clap::Parser as _;
use waypost_report::count;

use super::world::{ARCHIVES, World};
use crate::cmd::Cli;
use crate::printer::Printer;

/// Writes the captures of each archive to `ID.raw.cdxj`, in the order of its crawls.
pub(super) fn write_indexes(world: &mut World, out: &mut Printer) -> anyhow::Result<()> {
    out.note("Five archives, and what they hold:");
    for archive in &ARCHIVES {
        let path = format!("{}.raw.cdxj", archive.id);
        let file = File::create(&path).with_context(|| format!("cannot create {path}"))?;
        let mut file = BufWriter::new(file);
        let captures = world.write_index(archive, &mut file);
        let captures = captures.and_then(|captures| file.flush().map(|()| captures));
        let captures = captures.with_context(|| format!("cannot write {path}"))?;
        out.note(format_args!(
            "  {:<20} {:>7} captures: {}",
            archive.name,
            count(captures),
            archive.character
        ));
    }
    Ok(())
}

/// What each archive does with its index, after it was sorted. A summary that the router reads has
/// the name that [`summary_of`] gives it.
const STEPS: [(&str, &[&str]); 5] = [
    (
        "A map lists subtrees of its URIs, and wildcards are backed by a filter:",
        &[
            "index sort national.raw.cdxj -o national.cdxj",
            "map build national.cdxj -o national.full.ukvs",
            "map compact national.full.ukvs --filters --holdings national.cdxj --bytes 25K -o national.ukvs",
        ],
    ),
    (
        "A map without filters is plain text:",
        &[
            "index sort university.raw.cdxj -o university.cdxj",
            "map build university.cdxj -o university.full.ukvs",
            "map compact university.full.ukvs --keys 10% -o university.ukvs",
        ],
    ),
    (
        "A profile counts captures by host and first path segment:",
        &[
            "index sort news.raw.cdxj -o news.cdxj",
            "profile news.cdxj --policy HxP1 -o news.profiles",
        ],
    ),
    (
        "A map at most this large, which has the fewest false positives for its size:",
        &[
            "index sort general.raw.cdxj -o general.cdxj",
            "map build general.cdxj -o general.full.ukvs",
            "map compact general.full.ukvs --filters --holdings general.cdxj --bytes 25K -o general.ukvs",
        ],
    ),
    (
        "An archive that may not show its URIs publishes hashes:",
        &[
            "index sort dark.raw.cdxj -o dark.cdxj",
            "filter build dark.cdxj -o dark.filter",
        ],
    ),
];

/// The summary of an archive that the router reads.
pub(super) fn summary_of(id: &str) -> String {
    match id {
        "news" => "news.profiles/news.HxP1.cdxj".to_owned(),
        "dark" => "dark.filter".to_owned(),
        id => format!("{id}.ukvs"),
    }
}

/// Runs the commands, which print what they did.
pub(super) fn summarise(out: &mut Printer) -> anyhow::Result<()> {
    for (archive, (why, commands)) in ARCHIVES.iter().zip(STEPS) {
        out.note(format_args!("\n{}. {why}", archive.name));
        for command in commands {
            out.note(format_args!("$ waypost {command}"));
            let words = ["waypost"].into_iter().chain(command.split(' '));
            Cli::try_parse_from(words)?.run(out)?;
            out.flush()?;
        }
    }
    Ok(())
}
