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

/// The decisions, by the number of the place. The default one takes no room at the end.
#[derive(Debug, Default)]
pub(crate) struct Decisions<T = u8> {
    places: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Decisions<T> {
    #[inline]
    pub(crate) fn set(&mut self, id: usize, decision: T) {
        if decision == T::default() {
            return;
        }
        if id >= self.places.len() {
            // Grows in steps of a quarter: doubling would take twice what is needed.
            let length = (id + 1).max(self.places.len() + self.places.len() / 4);
            self.places.reserve_exact(length - self.places.len());
            self.places.resize(length, T::default());
        }
        self.places[id] = decision;
    }

    #[inline]
    pub(crate) fn get(&self, id: usize) -> T {
        self.places.get(id).copied().unwrap_or_default()
    }
}
