//! What is asked.

use waypost_memento::Datetime;
use waypost_summary::Preference;

/// What is asked of the archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The original URI.
    pub uri: String,
    /// Which of its mementos.
    pub wanted: Wanted,
    /// Which archives the client wants asked.
    pub archives: Selection,
    /// The page that it belongs to, if it is a resource of one.
    pub page: Option<String>,
    /// What mementos should be like, if there is a choice: such archives come first.
    pub preference: Preference,
}

impl Lookup {
    /// A lookup in all archives.
    pub fn new(uri: impl Into<String>, wanted: Wanted) -> Lookup {
        Lookup {
            uri: uri.into(),
            wanted,
            archives: Selection::All,
            page: None,
            preference: Preference::default(),
        }
    }
}

/// Which mementos are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them: TimeMaps are asked.
    All,
    /// The one closest to a datetime and those around it: TimeGates are asked.
    Closest(Datetime),
}

/// Which archives a client wants asked, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Only these.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Selection {
    /// Reads a list: `a,b` for only these, `!a,!b` for all but these. `None` if it is both.
    pub fn parse(text: &str) -> Option<Selection> {
        let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
        let (without, only): (Vec<&str>, Vec<&str>) = ids.partition(|id| id.starts_with('!'));
        let owned = |ids: Vec<&str>| {
            ids.iter()
                .map(|id| id.trim_matches('!').to_owned())
                .collect()
        };
        match (only.is_empty(), without.is_empty()) {
            (true, true) => Some(Selection::All),
            (false, true) => Some(Selection::Only(owned(only))),
            (true, false) => Some(Selection::Except(owned(without))),
            (false, false) => None,
        }
    }

    /// The ids that are named.
    pub fn ids(&self) -> &[String] {
        match self {
            Selection::All => &[],
            Selection::Only(ids) | Selection::Except(ids) => ids,
        }
    }

    /// Whether an archive is among them.
    pub fn has(&self, id: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(ids) => ids.iter().any(|known| known == id),
            Selection::Except(ids) => ids.iter().all(|known| known != id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_names_archives_or_excludes_them() {
        let only = Selection::parse(" a, b,,").unwrap();
        assert!(only.has("a") && only.has("b") && !only.has("c"));
        let except = Selection::parse("!a,!b").unwrap();
        assert!(!except.has("a") && !except.has("b") && except.has("c"));
        assert_eq!(except.ids(), ["a", "b"]);
        assert_eq!(Selection::parse(""), Some(Selection::All));
        assert_eq!(Selection::parse("a,!b"), None);
    }
}
