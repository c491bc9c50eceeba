//! The [`Summary`](crate::Summary) interface of filters.

use waypost_index::timestamp::Time;
use waypost_surt::{Policy, Surt};

use super::format::{Layout, Metadata};
use super::hash::{Hash, Hasher};
use super::read::Filter;
use crate::about::About;
use crate::error::Result;
use crate::frequency::{Frequency, Number, Sureness};
use crate::fuzzy;
use crate::lookup::{Lookup, SurtWriter, spelled};
use crate::scope::Scope;
use crate::summary::{Answer, Kind, Match, Size, Summary, in_chunks};

/// Turns URIs and SURTs into the keys and hashes of a filter.
#[derive(Clone, Debug)]
pub struct Keyer {
    writer: SurtWriter,
    policy: Policy,
    hasher: Hasher,
    surt: Vec<u8>,
    key: Vec<u8>,
}

impl Keyer {
    /// For keys of this dialect and policy.
    pub fn new(dialect: waypost_surt::Dialect, policy: Policy, hasher: Hasher) -> Keyer {
        Keyer {
            writer: SurtWriter::new(dialect),
            policy,
            hasher,
            surt: Vec::new(),
            key: Vec::new(),
        }
    }

    /// The dialect, the policy and the hash function.
    pub fn parts(&self) -> (waypost_surt::Dialect, Policy, Hasher) {
        (self.writer.dialect(), self.policy, self.hasher)
    }

    /// The keyer of this filter.
    ///
    /// # Errors
    /// If the filter is keyed and its secret was not set.
    pub fn of(filter: &Filter) -> Result<Keyer> {
        let head = filter.head();
        Ok(Keyer::new(head.dialect, head.policy, filter.hasher()?))
    }

    /// Hashes a URI or SURT, as found in lists. Its key is then [`key`](Keyer::key).
    ///
    /// # Errors
    /// If it has no SURT.
    pub fn hash(&mut self, uri: &[u8]) -> Result<Hash, waypost_surt::Error> {
        self.surt(uri)?;
        Ok(self.hash_last())
    }

    /// The SURT of a URI or SURT, as found in lists.
    pub(super) fn surt(&mut self, uri: &[u8]) -> Result<&[u8], waypost_surt::Error> {
        self.surt.clear();
        self.writer.write(uri, &mut self.surt)?;
        Ok(&self.surt)
    }

    /// The hash of the last [`surt`](Keyer::surt).
    pub(super) fn hash_last(&mut self) -> Hash {
        self.key.clear();
        if self.policy == Policy::Whole {
            return self.hasher.hash(&self.surt);
        }
        self.policy.cut(&Surt::new(&self.surt), &mut self.key);
        self.hasher.hash(&self.key)
    }

    /// The hash of a SURT in canonical form.
    #[inline]
    pub fn hash_surt(&mut self, surt: &[u8]) -> Hash {
        let surt: &[u8] = &spelled(surt);
        if self.policy == Policy::Whole {
            return self.hasher.hash(surt);
        }
        self.key.clear();
        self.policy.cut(&Surt::new(surt), &mut self.key);
        self.hasher.hash(&self.key)
    }

    /// The key of the last URI that was hashed.
    pub fn key(&self) -> &[u8] {
        if self.policy == Policy::Whole {
            &self.surt
        } else {
            &self.key
        }
    }
}

/// The length of a year. Keyed filters have no dates that are more exact.
pub(super) const YEAR: usize = 4;

/// The prefix of a `coverage` that is a scope.
pub(super) const SCOPE: &str = "captures?";

/// The head and metadata of a file as the metadata of a summary.
pub(super) fn about(layout: &Layout) -> About {
    let about = about_of(&layout.metadata);
    About {
        policy: Some(layout.head.policy),
        dialect: layout.head.dialect,
        urirs: (layout.head.policy == Policy::Whole).then_some(Number {
            value: layout.head.count,
            sureness: match layout.head.estimated {
                true => Sureness::About,
                false if about.scopes.is_fuzzy() => Sureness::AtMost,
                false => Sureness::Exact,
            },
        }),
        ..about
    }
}

/// Dublin Core as the metadata of a summary.
pub(super) fn about_of(metadata: &Metadata) -> About {
    let texts = |element: &str| {
        let all = metadata.get(element).iter();
        all.fold(crate::Texts::default(), |texts, text| texts.with(text))
    };
    let mut about = About {
        source: texts("source"),
        sources: 1,
        ..About::default()
    };
    about.archive.name = texts("title");
    about.archive.description = texts("description");
    about.archive.id = texts("identifier");
    let time = |text: &str| Time::parse(text.as_bytes());
    about.updated = metadata.get("date").first().and_then(|date| time(date));
    let coverage = metadata.get("coverage");
    about.scopes = coverage
        .iter()
        .filter_map(|text| text.strip_prefix(SCOPE)?.parse::<Scope>().ok())
        .collect();
    // A filter that was merged has several spans.
    let spans = coverage.iter().filter(|text| !text.starts_with(SCOPE));
    for (first, last) in spans.filter_map(|text| text.split_once('/')) {
        about.first = about.first.into_iter().chain(time(first)).min();
        about.last = about.last.max(time(last));
        let until = Time::last_of(last.as_bytes()).filter(|_| last.len() == YEAR);
        about.until = about.until.max(until);
    }
    about
}

impl Filter {
    /// The hash of the key of a lookup.
    fn hash_of(&self, lookup: &Lookup<'_>) -> Result<Hash> {
        let (hasher, policy) = (self.hasher()?, self.head().policy);
        Ok(match (policy, hasher, lookup.hashes()) {
            (Policy::Whole, Hasher::Public, Some(hashes)) => hashes.whole,
            (Policy::Whole, ..) => hasher.hash(lookup.surt().as_bytes()),
            _ => {
                let mut key = Vec::new();
                policy.cut(lookup.surt(), &mut key);
                hasher.hash(&key)
            }
        })
    }
}

impl Filter {
    /// Whether it has what pywb would find instead of a lookup, if it has such keys.
    fn has_other(&self, lookup: &Lookup<'_>) -> Result<bool> {
        if self.about.scopes.is_fuzzy() {
            let mut keyer = Keyer::of(self)?;
            for key in fuzzy::keys_of_lookup(lookup.surt().as_bytes()) {
                if self.contains(keyer.hash_surt(&key))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl Summary for Filter {
    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        // The bits of a filter are essentially random, so gzip does not shrink them. The same goes
        // for hashes.
        Size {
            keys: self.head().count,
            bytes: self.length(),
            gzip_bytes: self.length(),
        }
    }

    fn set_private(&self) {
        self.bytes.set_private();
    }

    fn prefetch(&self, lookup: &Lookup<'_>) {
        if let Ok(hash) = self.hash_of(lookup) {
            self.prefetch_hash(hash);
        }
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer> {
        let present = self.contains(self.hash_of(lookup)?)? || self.has_other(lookup)?;
        self.check_intact()?;
        let answer = if present {
            let mut key = Vec::new();
            self.head().policy.cut(lookup.surt(), &mut key);
            Answer::Present(Match {
                key: Some(key),
                frequency: Frequency::default(),
            })
        } else {
            Answer::Absent
        };
        Ok(self.about.scopes.limit(lookup, answer))
    }

    fn lookup_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        let hasher = self.hasher()?;
        in_chunks(lookups, |lookups, answers| {
            let mut keyer = Keyer::new(self.head().dialect, self.head().policy, hasher);
            let hashes: Vec<Hash> = lookups
                .iter()
                .map(|lookup| keyer.hash_surt(lookup.surt().as_bytes()))
                .collect();
            let mut present = Vec::new();
            self.contains_all(&hashes, &mut present)?;
            for (present, lookup) in present.into_iter().zip(lookups) {
                let present = present || self.has_other(lookup)?;
                let answer = Answer::without_key(present.then(Frequency::default));
                answers.push(self.about.scopes.limit(lookup, answer));
            }
            Ok(())
        })
    }

    fn answer_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        let mut answers = self.lookup_all(lookups)?;
        for (lookup, answer) in lookups.iter().zip(&mut answers) {
            if let Answer::Present(found) = answer {
                let mut key = Vec::new();
                self.head().policy.cut(lookup.surt(), &mut key);
                found.key = Some(key);
            }
        }
        Ok(answers)
    }
}
