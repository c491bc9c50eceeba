//! The common interface of all kinds of summaries.

use std::fmt;

use rayon::prelude::*;
use waypost_index::timestamp::Time;

use crate::about::About;
use crate::error::{Error, Result};
use crate::frequency::Frequency;
use crate::lookup::Lookup;
use crate::preference::Preference;
use crate::ukvs::Wholeness;

/// The answer of a summary to a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The archive does not hold it.
    Absent,
    /// The archive may hold it.
    Present(Match),
    /// The summary can't tell: it does not cover all of the requested captures.
    Unknown,
}

/// An [`Answer`] without details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Presence {
    /// The archive does not hold it.
    #[default]
    Absent,
    /// The archive may hold it.
    Present,
    /// The summary can't tell.
    Unknown,
}

impl Presence {
    /// The name used in tables, TSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Presence::Absent => "absent",
            Presence::Present => "present",
            Presence::Unknown => "unknown",
        }
    }

    /// Whether the lookup has to be sent to the archive.
    pub fn is_possible(self) -> bool {
        self != Presence::Absent
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a summary knows about a URI that it calls present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The key that matched, if the summary has keys.
    pub key: Option<Vec<u8>>,
    /// The frequency of that key.
    pub frequency: Frequency,
}

impl Answer {
    /// Present with this frequency, or absent without one. The key is omitted.
    pub(crate) fn without_key(frequency: Option<Frequency>) -> Answer {
        match frequency {
            None => Answer::Absent,
            Some(frequency) => Answer::Present(Match {
                key: None,
                frequency,
            }),
        }
    }

    /// The answer without details.
    pub fn presence(&self) -> Presence {
        match self {
            Answer::Absent => Presence::Absent,
            Answer::Present(_) => Presence::Present,
            Answer::Unknown => Presence::Unknown,
        }
    }

    /// The match, if the answer is present.
    pub fn found(&self) -> Option<&Match> {
        match self {
            Answer::Present(found) => Some(found),
            _ => None,
        }
    }
}

/// The kinds of summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Keys of one policy.
    Profile,
    /// Hashed keys.
    Filter,
    /// Keys of mixed depth with wildcards.
    Map,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Profile => "profile",
            Kind::Filter => "filter",
            Kind::Map => "map",
        })
    }
}

/// The size of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of rows, including voids, or of a filter's entries.
    pub keys: u64,
    /// Total size in bytes of all files that are published.
    pub bytes: u64,
    /// The same when gzipped at level 6. Files that are already gzipped count as they are.
    pub gzip_bytes: u64,
}

/// A summary of what an archive may hold.
pub trait Summary: Send + Sync {
    /// The kind of the summary.
    fn kind(&self) -> Kind;

    /// The metadata of the summary.
    fn about(&self) -> &About;

    /// The size of the summary.
    fn size(&self) -> Size;

    /// Whether the summary is known to have all of its entries. One that is known to lack some can't be
    /// opened.
    fn wholeness(&self) -> Wholeness {
        Wholeness::Whole
    }

    /// Looks up a URI. Anything outside the summary's [scope](crate::Scopes) is unknown.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer>;

    /// Whether it distinguishes URIs that differ only in their queries, though it has keys of another
    /// policy or of none.
    fn has_whole_uris(&self) -> bool {
        false
    }

    /// How many seconds the captures of a URI are away from a time, at least. 0 if some may be of that
    /// time, or if the summary can't tell.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn distance(&self, _lookup: &Lookup<'_>, _at: Time) -> Result<u64> {
        Ok(0)
    }

    /// The share of the captures of a URI's key that are what a client prefers. `None` if the summary
    /// does not count by that.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn share(&self, _lookup: &Lookup<'_>, _preference: &Preference) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Asks the processor to fetch what a lookup will read. Before lookups in many summaries, so that
    /// their memory accesses overlap.
    fn prefetch(&self, _lookup: &Lookup<'_>) {}

    /// Says that nobody else can change the files of this summary, because they are copies that were
    /// removed after they were opened. Lookups then do not check whether they were truncated.
    fn set_private(&self) {}

    /// Looks up many URIs, in the order of `lookups`, without reporting the keys. Some kinds of
    /// summaries do this faster than one by one.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn lookup_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        lookups
            .par_iter()
            .map(|lookup| {
                Ok(match self.lookup(lookup)? {
                    Answer::Present(found) => Answer::without_key(Some(found.frequency)),
                    answer => answer,
                })
            })
            .collect()
    }

    /// Like [`lookup_all`](Summary::lookup_all), but reports the keys.
    ///
    /// # Errors
    /// When the summary cannot be read.
    fn answer_all(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Answer>> {
        lookups
            .par_iter()
            .map(|lookup| self.lookup(lookup))
            .collect()
    }
}

/// Looks up chunks of lookups on all cores. `answer` appends the answers to one chunk.
pub(crate) fn in_chunks(
    lookups: &[Lookup<'_>],
    answer: impl Fn(&[Lookup<'_>], &mut Vec<Answer>) -> Result<()> + Sync,
) -> Result<Vec<Answer>> {
    const CHUNK: usize = 4096;
    // Joining the answers of chunks would take one thread longer than all of them need to fill
    // their parts of the result.
    let mut answers = Vec::new();
    lookups
        .par_iter()
        .map(|_| Answer::Absent)
        .collect_into_vec(&mut answers);
    answers
        .par_chunks_mut(CHUNK)
        .zip(lookups.par_chunks(CHUNK))
        .try_for_each_init(
            || Vec::with_capacity(CHUNK),
            |found, (places, lookups)| {
                found.clear();
                answer(lookups, found)?;
                places
                    .iter_mut()
                    .zip(found.drain(..))
                    .for_each(|(place, answer)| *place = answer);
                Ok::<_, Error>(())
            },
        )?;
    Ok(answers)
}

/// Combines the answers that several summaries of one archive give to the same lookup.
///
/// Absent is always right as of the time a summary was built, because whatever a summary does not
/// cover is unknown. So absent outweighs present, unless the other summary knows, or may know, of
/// later captures: of two dated summaries, the newer one wins; of a dated and an undated one, the
/// one that says present. Where only years are known, what is absent counts as of the start of the last
/// year, and what is present as of its end. If no summary can tell, the answer is unknown.
pub fn combine<'a>(answers: impl IntoIterator<Item = (&'a About, Answer)>) -> Answer {
    let mut undated_absent = false;
    let mut newest_absent: Option<Time> = None;
    let mut present: Vec<(Option<Time>, Answer)> = Vec::new();
    for (about, answer) in answers {
        match (&answer, about.last) {
            (Answer::Absent, None) => undated_absent = true,
            (Answer::Absent, last) => newest_absent = newest_absent.max(last),
            (Answer::Present(_), last) => present.push((about.until.or(last), answer)),
            (Answer::Unknown, _) => {}
        }
    }
    present.retain(|(last, _)| match last {
        Some(last) => newest_absent.is_none_or(|absent| absent < *last),
        None => !undated_absent,
    });
    present.sort_by_key(|(last, _)| *last);
    match present.pop() {
        Some((_, found)) => found,
        None if undated_absent || newest_absent.is_some() => Answer::Absent,
        None => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn about(year: Option<u16>) -> About {
        About {
            last: year.and_then(|year| Time::parse(year.to_string().as_bytes())),
            ..About::default()
        }
    }

    fn present() -> Answer {
        Answer::without_key(Some(Frequency::default()))
    }

    #[test]
    fn absent_counts_unless_someone_knows_of_later_captures() {
        let combined = |answers: &[(Option<u16>, Answer)]| {
            let abouts: Vec<About> = answers.iter().map(|(year, _)| about(*year)).collect();
            let answers = answers.iter().map(|(_, answer)| answer.clone());
            combine(abouts.iter().zip(answers)).presence()
        };
        use Answer::{Absent, Unknown};
        for (answers, expected) in [
            (&[][..], Presence::Unknown),
            (&[(None, Unknown)], Presence::Unknown),
            (&[(None, Unknown), (None, present())], Presence::Present),
            (&[(None, Absent), (None, present())], Presence::Absent),
            (
                &[(None, Absent), (Some(2020), present())],
                Presence::Present,
            ),
            (
                &[(Some(2010), Absent), (Some(2020), present())],
                Presence::Present,
            ),
            (
                &[(Some(2020), Absent), (Some(2010), present())],
                Presence::Absent,
            ),
            (
                &[(Some(2020), Absent), (None, present())],
                Presence::Present,
            ),
            (
                &[(Some(2010), Absent), (Some(2020), Unknown)],
                Presence::Absent,
            ),
        ] {
            assert_eq!(combined(answers), expected, "{answers:?}");
        }
    }

    #[test]
    fn answers_of_chunks_are_in_the_order_of_the_lookups() {
        let surts: Vec<String> = (0..10_000).map(|n| format!("com,a)/{n}")).collect();
        let lookups: Vec<Lookup<'_>> = surts
            .iter()
            .map(|surt| Lookup::spelled(surt.as_bytes(), surt.as_bytes()))
            .collect();
        let is_held =
            |lookup: &Lookup<'_>| xxhash_rust::xxh3::xxh3_64(lookup.uri()).is_multiple_of(3);
        let answer = |lookup: &Lookup<'_>| match is_held(lookup) {
            true => present(),
            false => Answer::Unknown,
        };
        let answers = in_chunks(&lookups, |lookups, answers| {
            answers.extend(lookups.iter().map(answer));
            Ok(())
        });
        let expected: Vec<Answer> = lookups.iter().map(answer).collect();
        assert_eq!(answers.unwrap(), expected);
        let failed = in_chunks(&lookups, |_, _| Err(Error::invalid("unreadable")));
        assert!(failed.is_err());
    }

    proptest! {
        /// An archive with a capture in some year, and summaries of it as it was in others: each sees
        /// the capture if it was there already, may call anything present, and may not cover the URI.
        #[test]
        fn what_is_held_is_never_absent_and_order_does_not_matter(
            captured in prop::option::of(2000..2010u16),
            mut summaries in prop::collection::vec((2000..2010u16, any::<bool>(), any::<bool>()), 0..6),
        ) {
            let newest = summaries.iter().map(|(year, ..)| *year).max();
            let answers = |summaries: &[(u16, bool, bool)]| {
                let answers: Vec<(About, Answer)> = summaries.iter().map(|&(year, guess, covers)| {
                    let held = captured.is_some_and(|captured| captured <= year);
                    let answer = if !covers { Answer::Unknown } else if held || guess { present() } else { Answer::Absent };
                    (about(Some(year)), answer)
                }).collect();
                combine(answers.iter().map(|(about, answer)| (about, answer.clone()))).presence()
            };
            let combined = answers(&summaries);
            // Someone who covers it knows of the capture.
            let known = summaries.iter().any(|&(year, _, covers)| covers && captured.is_some_and(|captured| captured <= year));
            prop_assert!(!known || combined != Presence::Absent);
            let all_unknown = summaries.iter().all(|(.., covers)| !covers);
            prop_assert_eq!(all_unknown, combined == Presence::Unknown);
            let newest_absent = summaries.iter().any(|&(year, guess, covers)| {
                Some(year) == newest && covers && !guess && captured.is_none()
            });
            prop_assert!(!newest_absent || combined == Presence::Absent);
            summaries.reverse();
            prop_assert_eq!(answers(&summaries), combined);
        }
    }
}
