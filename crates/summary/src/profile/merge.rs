//! Merging profiles.
//!
//! All inputs are read in parallel, row by row: any number of them, of any size. Frequencies and
//! spreads are added up. So are URI-Rs, but those held in two profiles are counted twice: the sum
//! is marked as an upper bound, unless only one of them has the key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;
use std::path::{Path, PathBuf};

use waypost_index::timestamp::Time;
use waypost_io::{Resources, Source};
use waypost_surt::Policy;

use super::coarsen::coarsen;
use super::row::Row;
use super::rows::{Header, Rows};
use super::store::{check_order, open_rows};
use crate::about::About;
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::{Frequency, Number};
use crate::ukvs::Reader;

/// The result of merging profiles.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The metadata of the result.
    pub about: About,
    /// Rows read.
    pub rows: u64,
    /// Rows written.
    pub keys: u64,
    /// Bytes written, uncompressed.
    pub bytes: u64,
}

/// Merges the profiles `inputs` into `out`, which is gzipped if its name ends in `.gz`. Finer
/// profiles are converted to `policy`, if one is given.
///
/// # Errors
/// When profiles have different policies, second keys or dialects, are not sorted, or cannot be
/// read.
pub fn merge(
    inputs: &[PathBuf],
    policy: Option<Policy>,
    date: Option<Time>,
    sources: Option<u64>,
    resources: &Resources,
    out: &Path,
) -> Result<Merged> {
    let profiles: Vec<Source> = inputs.iter().map(Source::new).collect();
    let mut abouts = Vec::new();
    for profile in &profiles {
        let (reader, _) = open_rows(profile)?;
        let about =
            About::from_headers(reader.headers()).map_err(|error| error.in_file(profile))?;
        if about.policy.is_none() {
            return Err(
                Error::format("not a profile: no header names the policy of its keys")
                    .in_file(profile),
            );
        }
        abouts.push(about);
    }
    check_alike(inputs, &abouts, policy.is_some())?;
    let scratch = waypost_io::temporary::folder_in(&resources.temporary)?;
    let mut coarsened = Vec::new();
    for (number, (profile, about)) in profiles.iter().zip(&mut abouts).enumerate() {
        match policy.filter(|policy| Some(*policy) != about.policy) {
            None => coarsened.push(profile.clone()),
            Some(policy) => {
                let path = coarsen(
                    profile,
                    about,
                    policy,
                    resources.memory,
                    scratch.path(),
                    number,
                )?;
                coarsened.push(Source::new(path));
                about.policy = Some(policy);
            }
        }
    }
    let mut about = abouts
        .iter()
        .cloned()
        .reduce(About::merged)
        .ok_or_else(|| Error::invalid("there is nothing to merge"))?;
    about.updated = date.or(about.updated);
    if let Some(sources) = sources {
        about.sources = sources;
    }
    let fields = 1 + usize::from(about.by.is_some());
    let mut merged = Merged {
        about,
        rows: 0,
        keys: 0,
        bytes: 0,
    };
    let gzip = out.extension().is_some_and(|extension| extension == "gz");
    let mut header = Vec::new();
    merged.about.headers().write(&mut header);
    let mut rows = Rows::create(Some(out), gzip, Header::known(header))?;
    merge_rows(
        &coarsened,
        &profiles,
        fields,
        &mut merged.rows,
        |key, row| {
            let mut row = *row;
            // However many inputs have the key: the user knows how many sources they represent.
            row.spread = sources.map_or(row.spread, |sources| row.spread.min(sources));
            rows.push(key, &row)
        },
    )?;
    let written = rows.finish()?;
    merged.keys = written.keys;
    merged.bytes = written.bytes;
    Ok(merged)
}

fn check_alike(inputs: &[PathBuf], abouts: &[About], coarsened: bool) -> Result<()> {
    let Some((first, others)) = abouts.split_first() else {
        return Ok(());
    };
    let name = |about: &About| {
        let policy = about
            .policy
            .map(|policy| policy.to_string())
            .unwrap_or_default();
        match about.by {
            Some(by) => format!("{policy} by {}", by.name()),
            None => policy,
        }
    };
    for (path, about) in inputs[1..].iter().zip(others) {
        if (!coarsened && about.policy != first.policy) || about.by != first.by {
            return Err(Error::new(ErrorKind::PoliciesDiffer {
                first: inputs[0].display().to_string(),
                first_policy: name(first),
                other: path.display().to_string(),
                other_policy: name(about),
            }));
        }
        if about.dialect != first.dialect {
            return Err(Error::invalid(format!(
                "its SURTs are of the dialect {}, but those of {} of {}: the same URI has different keys",
                about.dialect,
                inputs[0].display(),
                first.dialect
            ))
            .in_file(path.display()));
        }
    }
    Ok(())
}

struct Side<R> {
    reader: Reader<R>,
    key: Vec<u8>,
    row: Row,
    rows: u64,
}

impl<R: Read> Side<R> {
    fn advance(&mut self, fields: usize) -> Result<bool> {
        let before = std::mem::take(&mut self.key);
        let row = match self.reader.next_line()? {
            None => return Ok(false),
            Some(line) => Row::parse(line, fields, &mut self.key),
        };
        self.row = row.map_err(|error| self.reader.error(error))?;
        check_order(&before, &self.key, self.rows).map_err(|error| self.reader.error(error))?;
        self.rows += 1;
        Ok(true)
    }
}

/// Returns the rows of all files in order, merging those of the same key.
fn merge_rows(
    sources: &[Source],
    names: &[Source],
    fields: usize,
    rows: &mut u64,
    mut give: impl FnMut(&[u8], &Row) -> Result<()>,
) -> Result<()> {
    let mut sides = Vec::new();
    let mut heap = BinaryHeap::new();
    for (source, name) in sources.iter().zip(names) {
        let (reader, _) = open_rows(source).map_err(|error| error.in_file(name))?;
        let mut side = Side {
            reader,
            key: Vec::new(),
            row: Row::default(),
            rows: 0,
        };
        if side.advance(fields)? {
            heap.push(Reverse((side.key.clone(), sides.len())));
        }
        sides.push(side);
    }
    let mut current: Option<(Vec<u8>, Row)> = None;
    while let Some(Reverse((key, number))) = heap.pop() {
        let side = &mut sides[number];
        *rows += 1;
        let row = side.row;
        if side.advance(fields)? {
            heap.push(Reverse((side.key.clone(), number)));
        }
        match &mut current {
            Some((known, sum)) if *known == key => *sum = sum.merged(&row),
            _ => {
                if let Some((key, row)) = current.replace((key, row)) {
                    give(&key, &row)?;
                }
            }
        }
    }
    if let Some((key, row)) = current {
        give(&key, &row)?;
    }
    Ok(())
}

impl Row {
    /// Combines what two profiles say about a key.
    fn merged(&self, other: &Row) -> Row {
        let sum = self.frequency.plus(other.frequency);
        Row {
            frequency: Frequency {
                urirs: sum.urirs.map(|urirs| urirs.plus(Number::at_most(0))),
                ..sum
            },
            spread: self.spread.saturating_add(other.spread),
        }
    }
}
