//! Second keys of a map's rows, such as years: which there are in a subtree, and what they count.
//!
//! A wildcard of a map with a second key is a row for each second key below it.

use std::collections::HashMap;

use crate::frequency::Frequency;

/// Numbers for second keys, in the order in which they are met.
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

/// Which second keys there are: a bit each. Of a map without second keys it is empty.
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

    /// How many rows a wildcard has.
    #[inline]
    pub(crate) fn rows(&self) -> u64 {
        if self.bits.is_empty() {
            return 1;
        }
        let rows: u32 = self.bits.iter().map(|bits| bits.count_ones()).sum();
        u64::from(rows.max(1))
    }
}

/// What rows count, by their second keys; of a map without them there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    one: Option<Frequency>,
    by: Vec<(usize, Frequency)>,
}

impl Totals {
    /// Adds what a row counts.
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

    /// Adds all of others.
    #[inline]
    pub(crate) fn add_all(&mut self, other: &Totals) {
        if let Some(frequency) = other.one {
            self.add(None, frequency, Frequency::plus);
        }
        for &(second, frequency) in &other.by {
            self.add(Some(second), frequency, Frequency::plus);
        }
    }

    /// Takes the place of those that have the same second key.
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

    /// What there is without a second key.
    pub(crate) fn one(&self) -> Option<Frequency> {
        self.one
    }

    /// All of them, in the order of the second keys.
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
