//! Decides which archives are asked for a lookup, in which order, and why.

use crate::{Lookup, Registry};

/// Which archives are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// All archives of the registry, those that are asked first.
    pub choices: Vec<Choice>,
}

/// What was decided about an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place in the registry.
    pub archive: usize,
    /// Whether it is asked.
    pub asked: bool,
    /// Why, or why not.
    pub reason: Reason,
}

/// Why an archive is asked or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is known about its holdings.
    Unknown,
    /// The client did not select it.
    NotSelected,
}

/// Decides which archives are asked for a lookup, in which order, and why.
pub fn decide(registry: &Registry, lookup: &Lookup) -> Decision {
    let archives = registry.archives.iter().enumerate();
    let mut choices: Vec<Choice> = archives
        .map(|(place, archive)| match lookup.archives.has(&archive.id) {
            true => Choice {
                archive: place,
                asked: true,
                reason: Reason::Unknown,
            },
            false => Choice {
                archive: place,
                asked: false,
                reason: Reason::NotSelected,
            },
        })
        .collect();
    choices.sort_by_key(|choice| !choice.asked);
    Decision { choices }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Archive, Selection, Wanted};

    #[test]
    fn archives_that_a_client_selects_are_asked() {
        let registry = Registry {
            archives: ["a", "b", "c"].map(Archive::new).to_vec(),
        };
        let lookup = Lookup {
            archives: Selection::parse("!b").unwrap(),
            ..Lookup::new("http://a.example/", Wanted::All)
        };
        let decision = decide(&registry, &lookup);
        let choices = decision.choices.iter();
        let choices: Vec<_> = choices
            .map(|choice| (choice.archive, choice.asked))
            .collect();
        assert_eq!(choices, [(0, true), (2, true), (1, false)]);
        assert_eq!(decision.choices[2].reason, Reason::NotSelected);
    }
}
