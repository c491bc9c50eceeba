//! The highest level at which wildcards are allowed.

use super::papers::is_public_suffix;
use crate::map::tree::{Part, TreeNode};

/// The highest level at which wildcards are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Top {
    /// Registered domains: public suffixes are kept.
    Domains,
    /// Hosts of two labels.
    SecondLevel,
    /// Top-level domains.
    TopLevel,
    /// Anywhere, even `*`.
    Everything,
}

impl Top {
    pub(crate) const ALL: [Top; 4] = [
        Top::Domains,
        Top::SecondLevel,
        Top::TopLevel,
        Top::Everything,
    ];

    /// The level that has to be allowed for a wildcard at a node. Distinguishing domains from
    /// public suffixes is slow: without `domains`, all hosts of two or more labels are treated the
    /// same.
    pub(crate) fn of(place: &TreeNode<'_>, domains: bool) -> Option<Top> {
        let top = match place.part {
            Part::Root => Top::Everything,
            Part::Host if place.level == 1 => Top::TopLevel,
            Part::Host if !domains || is_public_suffix(place.stem) => Top::SecondLevel,
            _ => Top::Domains,
        };
        place.can_roll().then_some(top)
    }
}
