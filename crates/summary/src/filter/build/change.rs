//! Filters from other filters: adding to them, merging them, removing from them.

use std::path::Path;

use super::blooms::{self, blocks_entry};
use super::{BuildReport, Keys, Recipe, describe_scopes, encode};
use crate::error::{Error, Result};
use crate::filter::bloom::{self, BLOCK};
use crate::filter::format::{self, Kind, Writer};
use crate::filter::input::{self, Input, Reading};
use crate::filter::read::Filter;
use crate::filter::run::{self, Cursor, RunWriter};
use crate::scope::Scopes;

/// Adds the whole input to a Bloom filter.
///
/// # Errors
/// If the filter is not a Bloom filter, or on a read or write error.
pub fn add(
    filter: &Filter,
    mut input: Input<'_>,
    recipe: &Recipe,
    out: &Path,
) -> Result<(BuildReport, Reading)> {
    must_be(filter, Kind::Bloom, "added to")?;
    format::check_place(out)?;
    input.hasher = filter.hasher()?;
    input.dialect = filter.head().dialect;
    input.policy = filter.head().policy;
    let scopes = Scopes::of(&input.select);
    let (run, reading) = input::read(input)?;
    let filled = blooms::fill(&run, filter.blocks(), Some(filter), recipe)?;
    let mut head = filter.head().clone();
    head.count += filled.new;
    // A key whose bits were all set may still be new.
    head.estimated |= filled.new < run.count();
    head.rate = filled.rate;
    let mut metadata = filter.metadata().clone();
    metadata.extend(&recipe.metadata);
    describe_scopes(&scopes, &mut metadata)?;
    let bytes = filled.writer.finish(&head, &metadata, out)?;
    Ok((BuildReport { head, bytes }, reading))
}

/// Merges filters: Bloom filters with the same number of blocks into one, hashes into any kind.
///
/// # Errors
/// If they can't be merged, or on a read or write error.
pub fn merge(filters: &[Filter], recipe: &Recipe, out: &Path) -> Result<BuildReport> {
    let [first, rest @ ..] = filters else {
        return Err(Error::invalid("there is nothing to merge"));
    };
    for other in rest {
        agree(first, other)?;
    }
    let mut recipe = recipe.clone();
    for filter in filters {
        recipe.metadata.extend(filter.metadata());
    }
    if filters
        .iter()
        .all(|filter| filter.head().kind == Kind::Hashes)
    {
        let mut cursors: Vec<Cursor<'_>> = filters.iter().map(Cursor::file).collect();
        let mut merged = RunWriter::new(recipe.resources.memory / 4, &recipe.resources.temporary);
        run::union(&mut cursors, &mut merged)?;
        return encode(&merged.finish()?, Keys::of(first), &recipe, out);
    }
    for filter in filters {
        must_be(filter, Kind::Bloom, "merged")?;
    }
    if recipe.kind != Kind::Bloom {
        return Err(Error::invalid(format!(
            "Bloom filters can only become a Bloom filter, not {}: that takes hashes",
            recipe.kind
        )));
    }
    join(filters, &recipe, out)
}

fn join(filters: &[Filter], recipe: &Recipe, out: &Path) -> Result<BuildReport> {
    let first = &filters[0];
    let blocks = first.blocks();
    if let Some(other) = filters.iter().find(|other| {
        other.blocks() != blocks || other.layout.blocks_per_shard != first.layout.blocks_per_shard
    }) {
        return Err(Error::invalid(format!(
            "{} has {blocks} blocks, but {} has {}: only Bloom filters of one size can be joined",
            first.name(),
            other.name(),
            other.blocks()
        )));
    }
    let mut writer = Writer::new(&recipe.resources.temporary);
    let (mut rate, mut ones) = (0.0, 0);
    for shard in 0..first.shards() {
        let mut bytes = first.with_shard(shard, <[u8]>::to_vec)?;
        for other in &filters[1..] {
            other.with_shard(shard, |more| {
                for (byte, more) in bytes.iter_mut().zip(more) {
                    *byte |= more;
                }
            })?;
        }
        rate += bloom::exact_rate(&bytes) * (bytes.len() / BLOCK) as f64;
        ones += bloom::ones(&bytes);
        writer.shard(blocks_entry(bytes.len()), &bytes)?;
    }
    let mut head = first.head().clone();
    if filters.len() > 1 {
        let most: u64 = filters.iter().map(|filter| filter.head().count).sum();
        let least = filters
            .iter()
            .map(|filter| filter.head().count)
            .max()
            .unwrap_or(0);
        head.count = bloom::keys_for(ones, blocks).clamp(least, most);
        head.estimated = true;
    }
    head.rate = rate / blocks as f64;
    let bytes = writer.finish(&head, &recipe.metadata, out)?;
    Ok(BuildReport { head, bytes })
}

/// Builds a filter from a file of hashes without those of a list. Returns how many were removed.
///
/// # Errors
/// If `filter` is not a file of hashes, or on a read or write error.
pub fn exclude(
    filter: &Filter,
    mut list: Input<'_>,
    recipe: &Recipe,
    out: &Path,
) -> Result<(BuildReport, Reading, u64)> {
    must_be(filter, Kind::Hashes, "cut down")?;
    format::check_place(out)?;
    list.hasher = filter.hasher()?;
    list.dialect = filter.head().dialect;
    list.policy = filter.head().policy;
    let (without, reading) = input::read(list)?;
    let mut left = RunWriter::new(recipe.resources.memory / 4, &recipe.resources.temporary);
    let gone = run::difference(
        &mut Cursor::file(filter),
        &mut Cursor::Run(without.reader()),
        &mut left,
    )?;
    let mut recipe = recipe.clone();
    recipe.metadata.extend(filter.metadata());
    let made = encode(&left.finish()?, Keys::of(filter), &recipe, out)?;
    Ok((made, reading, gone))
}

fn must_be(filter: &Filter, kind: Kind, done: &str) -> Result<()> {
    let found = filter.head().kind;
    if found == kind {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a filter of kind {found} cannot be {done}; one of kind {kind} can"
    ))
    .in_file(filter.name()))
}

/// Filters can be merged only if their keys were made in the same way.
fn agree(first: &Filter, other: &Filter) -> Result<()> {
    let (a, b) = (Keys::of(first), Keys::of(other));
    let what = if a.hash != b.hash {
        "hash"
    } else if a.fingerprint != b.fingerprint {
        "secret key"
    } else if a.dialect != b.dialect {
        "dialect"
    } else if a.policy != b.policy {
        "policy"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "{} and {} were made with different {what}s",
        first.name(),
        other.name()
    )))
}
