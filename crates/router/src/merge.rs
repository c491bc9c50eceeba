//! Merges the mementos of many archives.
//!
//! The list of each archive is sorted when it arrives, while others are waited for. Sorting their
//! concatenation then finds the sorted runs and merges them.

use std::collections::HashSet;

use waypost_memento::{Memento, Relations};

use crate::Found;

/// Sorts the mementos of one archive by datetime, keeping the order of equal ones.
pub(crate) fn sort(mementos: &mut [Memento]) {
    if !mementos.is_sorted_by_key(|memento| memento.datetime) {
        mementos.sort_by_key(|memento| memento.datetime);
    }
}

/// Merges the mementos of archives, given with their places in the registry: by datetime, equal ones
/// in the order of the registry. Of those with the same URI and datetime, the first is kept.
pub fn merge(mut lists: Vec<(usize, Vec<Memento>)>) -> Vec<Found> {
    lists.sort_by_key(|(archive, _)| *archive);
    let mut found = Vec::with_capacity(lists.iter().map(|(_, list)| list.len()).sum());
    for (archive, mementos) in lists {
        found.extend(mementos.into_iter().map(|memento| Found {
            memento: Memento {
                relations: Relations::default(),
                ..memento
            },
            archive,
        }));
    }
    found.sort_by_key(|found| found.memento.datetime);
    remove_duplicates(&mut found);
    found
}

/// Removes all but the first of mementos with the same URI and datetime. They need not be adjacent.
fn remove_duplicates(found: &mut Vec<Found>) {
    let mut keep = Vec::with_capacity(found.len());
    for same in found.chunk_by(|a, b| a.memento.datetime == b.memento.datetime) {
        match same {
            [_] => keep.push(true),
            _ => {
                let mut seen = HashSet::with_capacity(same.len());
                keep.extend(same.iter().map(|found| seen.insert(&found.memento.uri[..])));
            }
        }
    }
    let mut keep = keep.into_iter();
    found.retain(|_| keep.next().unwrap_or(true));
}
