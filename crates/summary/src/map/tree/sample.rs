//! A sample of lookups: which nodes were looked up, how often, and how many of the lookups missed.

use waypost_surt::Surt;

use super::pass::place_of;
use crate::evaluate::Lookups;

/// The lookups of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissCounts {
    /// Training misses.
    pub absent: f64,
    /// Held-out misses, used to evaluate voids.
    pub aside: f64,
    /// Whether the lookups are known to be misses. If not, the map's rows at the node decide.
    pub labelled: bool,
    /// URI-Rs expected to be added at or below the node.
    pub fresh: f64,
}

/// Lookups by node, in order.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    bytes: Vec<u8>,
    entries: Vec<(usize, usize, MissCounts)>,
    lookups: u64,
    weight: f64,
}

impl Sample {
    /// Sorts lookups by node. `held` says which are held, by the whole SURT; without it, the map's
    /// rows decide. One half, chosen by hash, is held out.
    pub fn new(lookups: &Lookups, held: Option<&[bool]>) -> Sample {
        let mut places: Vec<(Vec<u8>, f64, f64)> = Vec::with_capacity(lookups.len());
        let mut count = 0;
        let mut all = 0.0;
        for (at, (_, surt, times)) in lookups.iter().enumerate() {
            count += times;
            let mut key = Vec::with_capacity(surt.len() + 1);
            place_of(&Surt::new(surt), &mut key);
            let is_held = held.and_then(|held| held.get(at)).copied().unwrap_or(false);
            // Many lookups by one client say less than one lookup each by many.
            let often = 1.0 + (times.max(1) as f64).ln();
            all += often;
            let weight = if is_held { 0.0 } else { often };
            let aside = xxhash_rust::xxh3::xxh3_64_with_seed(surt, 0x5e7_a51de) & 1 == 1;
            places.push(if aside {
                (key, 0.0, weight)
            } else {
                (key, weight, 0.0)
            });
        }
        Sample {
            weight: all,
            ..Sample::of_places(places, held.is_some(), count)
        }
    }

    /// Creates a sample from keys with training and held-out misses.
    pub(crate) fn of_places(
        mut places: Vec<(Vec<u8>, f64, f64)>,
        labelled: bool,
        lookups: u64,
    ) -> Sample {
        places.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then(a.1.total_cmp(&b.1))
                .then(a.2.total_cmp(&b.2))
        });
        let mut sample = Sample {
            lookups,
            weight: lookups as f64,
            ..Sample::default()
        };
        for (key, absent, aside) in places {
            if let Some((start, end, asked)) = sample.entries.last_mut()
                && sample.bytes[*start..*end] == key[..]
            {
                asked.absent += absent;
                asked.aside += aside;
                continue;
            }
            let start = sample.bytes.len();
            sample.bytes.extend_from_slice(&key);
            sample.entries.push((
                start,
                sample.bytes.len(),
                MissCounts {
                    absent,
                    aside,
                    labelled,
                    fresh: 0.0,
                },
            ));
        }
        sample
    }

    /// The nodes that were looked up, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &MissCounts)> {
        self.entries
            .iter()
            .map(|(start, end, asked)| (&self.bytes[*start..*end], asked))
    }

    /// The part of the sample from one key up to another.
    pub(crate) fn between(&self, from: &[u8], to: Option<&[u8]>) -> Sample {
        let first = |key: &[u8]| {
            let is_before = |(start, end, _): &(usize, usize, _)| self.bytes[*start..*end] < *key;
            self.entries.partition_point(is_before)
        };
        let entries = &self.entries[first(from)..to.map_or(self.entries.len(), first)];
        let base = entries.first().map_or(0, |(start, ..)| *start);
        let end = entries.last().map_or(base, |(_, end, _)| *end);
        let shifted =
            |&(start, end, asked): &(usize, usize, MissCounts)| (start - base, end - base, asked);
        Sample {
            bytes: self.bytes[base..end].to_vec(),
            entries: entries.iter().map(shifted).collect(),
            ..Sample::default()
        }
    }

    /// The number of lookups in the sample.
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Adds expected newcomers at nodes, whose wildcard keys are given in order.
    pub(crate) fn with_growth(&self, places: &[(Vec<u8>, f64)]) -> Sample {
        let mut grown = Sample {
            lookups: self.lookups,
            weight: self.weight,
            ..Sample::default()
        };
        let fresh = |fresh: &f64| MissCounts {
            fresh: *fresh,
            ..MissCounts::default()
        };
        let mut places = places.iter().peekable();
        let push = |key: &[u8], asked: MissCounts, grown: &mut Sample| {
            let start = grown.bytes.len();
            grown.bytes.extend_from_slice(key);
            grown.entries.push((start, grown.bytes.len(), asked));
        };
        for (key, asked) in self.iter() {
            while let Some((place, count)) = places.next_if(|(place, _)| &place[..] < key) {
                push(place, fresh(count), &mut grown);
            }
            push(key, *asked, &mut grown);
        }
        for (place, count) in places {
            push(place, fresh(count), &mut grown);
        }
        grown
    }

    /// The total weight of all lookups, including those of held URIs.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// Whether the sample is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
