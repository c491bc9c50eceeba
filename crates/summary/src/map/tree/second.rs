//! Second keys of a map's rows, such as years: which of them occur in a subtree, with their counts.
//!
//! In a map with second keys, a wildcard has one row for each second key below it.

use std::collections::HashMap;

use crate::frequency::Frequency;

/// Numbers second keys in the order in which they first occur.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Vec<u8>, usize>,
    names: Vec<Vec<u8>>,
}

impl Names {
    pub(crate) fn number(&mut self, name: &[u8]) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.numbers.insert(name.to_vec(), number);
        self.names.push(name.to_vec());
        number
    }

    pub(crate) fn name(&self, number: usize) -> &[u8] {
        self.names.get(number).map_or(b"", |name| name)
    }
}

/// A set of second keys, one bit each. Empty for a map without second keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds {
    bits: Vec<u64>,
}

impl Seconds {
    pub(crate) fn insert(&mut self, number: usize) {
        if self.bits.len() <= number / 64 {
            self.bits.resize(number / 64 + 1, 0);
        }
        self.bits[number / 64] |= 1 << (number % 64);
    }

    #[inline]
    pub(crate) fn add(&mut self, other: &Seconds) {
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        for (bits, more) in self.bits.iter_mut().zip(&other.bits) {
            *bits |= more;
        }
    }

    /// The number of rows of a wildcard.
    #[inline]
    pub(crate) fn rows(&self) -> u64 {
        if self.bits.is_empty() {
            return 1;
        }
        let rows: u32 = self.bits.iter().map(|bits| bits.count_ones()).sum();
        u64::from(rows.max(1))
    }
}

/// Frequencies by second key; there is just one in a map without second keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    one: Option<Frequency>,
    by: Vec<(usize, Frequency)>,
}

impl Totals {
    /// Adds the frequency of a row.
    #[inline]
    pub(crate) fn add(
        &mut self,
        second: Option<usize>,
        frequency: Frequency,
        plus: fn(Frequency, Frequency) -> Frequency,
    ) {
        match second {
            None => self.one = Some(self.one.map_or(frequency, |sum| plus(sum, frequency))),
            Some(second) => match self.by.iter_mut().find(|(other, _)| *other == second) {
                Some((_, sum)) => *sum = plus(*sum, frequency),
                None => self.by.push((second, frequency)),
            },
        }
    }

    /// Adds all frequencies of another.
    #[inline]
    pub(crate) fn add_all(&mut self, other: &Totals) {
        if let Some(frequency) = other.one {
            self.add(None, frequency, Frequency::plus);
        }
        for &(second, frequency) in &other.by {
            self.add(Some(second), frequency, Frequency::plus);
        }
    }

    /// Replaces the frequencies of the same second keys.
    pub(crate) fn replace(&mut self, other: &Totals) {
        if let Some(frequency) = other.one {
            self.one = Some(frequency);
        }
        for &(second, frequency) in &other.by {
            self.add(Some(second), frequency, |_, new| new);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.one.is_none() && self.by.is_empty()
    }

    /// The frequency without a second key.
    pub(crate) fn one(&self) -> Option<Frequency> {
        self.one
    }

    /// All of them, ordered by second key.
    pub(crate) fn sorted<'n>(&self, names: &'n Names) -> Vec<(Option<&'n [u8]>, Frequency)> {
        let mut all: Vec<(Option<&[u8]>, Frequency)> = self
            .by
            .iter()
            .map(|&(second, frequency)| (Some(names.name(second)), frequency))
            .collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if let Some(frequency) = self.one {
            all.insert(0, (None, frequency));
        }
        all
    }
}
