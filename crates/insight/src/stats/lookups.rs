//! What is looked up against what is held: figure 4 of the MementoMap paper, and seeds.

use std::collections::HashMap;

use waypost_summary::evaluate;
use waypost_surt::Surt;

use super::model;
use super::top::Top;

/// Magnitudes: none, 1–9, 10–99, … and all above.
const MAGNITUDES: usize = 9;

/// Joins lookups with URI-Rs, both in the order of SURTs.
pub(super) struct Join<'a> {
    lookups: std::iter::Peekable<Box<dyn Iterator<Item = Asked> + 'a>>,
    grid: Vec<Vec<u64>>,
    found: model::Lookups,
    seeds: Top<Vec<u8>>,
}

/// A URI-R that is looked up.
struct Asked {
    surt: Vec<u8>,
    /// The spelling used most.
    uri: Vec<u8>,
    times: u64,
}

impl<'a> Join<'a> {
    /// Also adds the sites of lookups to `sites`.
    pub(super) fn new(
        lookups: &'a evaluate::Lookups,
        top: usize,
        sites: &mut HashMap<Vec<u8>, bool>,
    ) -> Join<'a> {
        for (_, surt, _) in lookups.iter() {
            if let Some(site) = site_of(surt)
                && !sites.contains_key(site)
            {
                sites.insert(site.to_vec(), false);
            }
        }
        let mut rest = lookups.iter().peekable();
        let grouped = std::iter::from_fn(move || {
            let (uri, surt, times) = rest.next()?;
            let mut asked = Asked {
                surt: surt.to_vec(),
                uri: uri.to_vec(),
                times,
            };
            let mut most = times;
            while let Some((uri, _, times)) = rest.next_if(|(_, other, _)| *other == surt) {
                asked.times += times;
                if times > most {
                    most = times;
                    asked.uri = uri.to_vec();
                }
            }
            Some(asked)
        });
        let boxed: Box<dyn Iterator<Item = Asked> + 'a> = Box::new(grouped);
        Join {
            lookups: boxed.peekable(),
            grid: vec![vec![0; MAGNITUDES]; MAGNITUDES],
            found: model::Lookups {
                rejected: lookups.rejected(true),
                ..model::Lookups::default()
            },
            seeds: Top::new(top),
        }
    }

    /// The next URI-R that is held.
    pub(super) fn held(&mut self, surt: &[u8], captures: u64) {
        while let Some(asked) = self.lookups.next_if(|asked| &asked.surt[..] < surt) {
            self.missed(asked);
        }
        let times = match self.lookups.next_if(|asked| asked.surt == surt) {
            Some(asked) => {
                self.found.urirs += 1;
                self.found.requests += asked.times;
                self.found.held += 1;
                self.found.held_requests += asked.times;
                asked.times
            }
            None => 0,
        };
        self.grid[magnitude(captures)][magnitude(times)] += 1;
    }

    fn missed(&mut self, asked: Asked) {
        self.found.urirs += 1;
        self.found.requests += asked.times;
        self.grid[0][magnitude(asked.times)] += 1;
        self.seeds.offer(asked.times, || (asked.surt, asked.uri));
    }

    /// Everything held was passed.
    pub(super) fn finish(&mut self, sites: &HashMap<Vec<u8>, bool>) {
        while let Some(asked) = self.lookups.next() {
            self.missed(asked);
        }
        let used = |line: &[u64]| line.iter().rposition(|count| *count > 0);
        let rows = self.grid.iter().rposition(|row| used(row).is_some());
        let columns = self.grid.iter().filter_map(|row| used(row)).max();
        let (rows, columns) = (rows.unwrap_or(0), columns.unwrap_or(0));
        let lines = self.grid[..=rows].iter().enumerate();
        self.found.grid = lines
            .map(|(row, counts)| {
                let cells = counts[..=columns].iter().enumerate();
                cells
                    .map(|(column, count)| (row + column > 0).then_some(*count))
                    .collect()
            })
            .collect();
        let seeds = std::mem::replace(&mut self.seeds, Top::new(0)).finish();
        let seeds = seeds.into_iter().map(|(surt, requests, uri)| model::Seed {
            host_is_held: site_of(&surt).is_some_and(|site| sites.get(site) == Some(&true)),
            uri: String::from_utf8_lossy(&uri).into_owned(),
            key: String::from_utf8_lossy(&surt).into_owned(),
            requests,
        });
        self.found.seeds = seeds.collect();
    }

    pub(super) fn into_found(self) -> model::Lookups {
        self.found
    }
}

/// The host and port of a SURT with the `)`.
fn site_of(surt: &[u8]) -> Option<&[u8]> {
    let length = Surt::new(surt).authority().len();
    (length > 0).then(|| &surt[..=length])
}

/// 0, 1 for 1 to 9, 2 for 10 to 99, ….
fn magnitude(n: u64) -> usize {
    let digits = n.checked_ilog10().map_or(0, |power| power as usize + 1);
    digits.min(MAGNITUDES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_are_numbers_of_digits() {
        let found: Vec<usize> = [0, 1, 9, 10, 99, 100, u64::MAX].map(magnitude).to_vec();
        assert_eq!(found, [0, 1, 1, 2, 2, 3, MAGNITUDES - 1]);
    }
}
