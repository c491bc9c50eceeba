//! Numbers for names: each distinct name gets the next one.

use xxhash_rust::xxh3::xxh3_64;

/// Distinct names, numbered from 0 in the order of their first occurrence.
///
/// A table of its own, because the partial of every block starts with an empty one and most lookups
/// find a short name: the hash is computed once and compared before the bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// The end of each name in `bytes`, and its hash.
    ends: Vec<(usize, u64)>,
    /// Numbers of names plus one, at the places that their hashes give; 0 if there is none.
    table: Vec<u32>,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: usize) -> &[u8] {
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.ends[before].0);
        &self.bytes[start..self.ends[number].0]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// The bytes that it takes in memory, about.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.ends.len() * 24
    }

    /// The number of a name, which is added if it is new.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> u32 {
        if self.ends.len() * 2 >= self.table.len() {
            self.grow();
        }
        let hash = xxh3_64(name);
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.table[at] {
                0 => break,
                entry => {
                    let number = entry as usize - 1;
                    if self.ends[number].1 == hash && self.get(number) == name {
                        return entry - 1;
                    }
                }
            }
            at = (at + 1) & mask;
        }
        self.bytes.extend_from_slice(name);
        self.ends.push((self.bytes.len(), hash));
        self.table[at] = self.ends.len() as u32;
        self.ends.len() as u32 - 1
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        self.table = vec![0; size];
        for (number, (_, hash)) in self.ends.iter().enumerate() {
            let mut at = *hash as usize & (size - 1);
            while self.table[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = number as u32 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_names_have_equal_numbers_and_numbers_find_their_names(
            names in prop::collection::vec("[a-c]{0,4}", 0..300),
        ) {
            let mut known = Names::default();
            let numbers: Vec<u32> = names.iter().map(|name| known.number(name.as_bytes())).collect();
            for (name, number) in names.iter().zip(&numbers) {
                prop_assert_eq!(known.get(*number as usize), name.as_bytes());
                prop_assert_eq!(known.number(name.as_bytes()), *number);
            }
            let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
            prop_assert_eq!(known.len(), distinct.len());
            prop_assert_eq!(known.iter().count(), distinct.len());
        }
    }
}
