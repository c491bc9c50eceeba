//! How far up wildcards may stand.

use super::papers::is_public_suffix;
use super::tree::{Part, Place};

/// Where wildcards may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Top {
    /// At registered domains and below: public suffixes are kept.
    Domains,
    /// At hosts of two labels and below.
    SecondLevel,
    /// At top-level domains, too.
    TopLevel,
    /// Anywhere: `*` is a map.
    Everything,
}

impl Top {
    pub(crate) const ALL: [Top; 4] = [
        Top::Domains,
        Top::SecondLevel,
        Top::TopLevel,
        Top::Everything,
    ];

    /// How far up wildcards must be allowed to stand for one at a node. Telling domains from public
    /// suffixes is slow: without `domains`, all hosts of two labels and more are the same.
    pub(crate) fn of(place: &Place<'_>, domains: bool) -> Option<Top> {
        let top = match place.part {
            Part::Root => Top::Everything,
            Part::Host if place.level == 1 => Top::TopLevel,
            Part::Host if !domains || is_public_suffix(place.stem) => Top::SecondLevel,
            _ => Top::Domains,
        };
        place.can_roll().then_some(top)
    }
}
