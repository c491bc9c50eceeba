//! What was decided for each place of a map.
//!
//! Deciding takes a walk that ends at a place; writing must know when it begins. So the decisions of
//! one walk are kept, a byte for each place, for the next.

/// In a part where nothing is said: a wildcard row here, and all below is open.
pub(crate) const ROLL: u8 = 1;
/// Below a wildcard: a void for all here and below.
pub(crate) const VOID_BELOW: u8 = 2;
/// Below a wildcard: a void for just this.
pub(crate) const VOID_HERE: u8 = 4;
/// The map came with a void for all here and below.
pub(crate) const GIVEN_VOID: u8 = 8;
/// The map came with a wildcard here.
pub(crate) const GIVEN_WILDCARD: u8 = 16;

/// The decisions, by the number of the place.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    bytes: Vec<u8>,
}

impl Decisions {
    #[inline]
    pub(crate) fn set(&mut self, id: usize, decision: u8) {
        if decision == 0 {
            return;
        }
        if id >= self.bytes.len() {
            // Grows in steps of a quarter: doubling would take twice what is needed.
            let length = (id + 1).max(self.bytes.len() + self.bytes.len() / 4);
            self.bytes.reserve_exact(length - self.bytes.len());
            self.bytes.resize(length, 0);
        }
        self.bytes[id] = decision;
    }

    #[inline]
    pub(crate) fn get(&self, id: usize) -> u8 {
        self.bytes.get(id).copied().unwrap_or(0)
    }
}
