//! What the summaries of an archive say about a lookup.

use std::cell::{OnceCell, RefCell};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use waypost_index::timestamp::Time;
use waypost_summary::fuzzy::is_absent_in_pywb;
use waypost_summary::{
    Answer, HashedSurt, Lookup, Preference, Presence, Scope, SurtWriter, combine,
};
use waypost_surt::Dialect;

use super::choice::{Choice, Reason};
use super::summaries::{Shelf, State, SummarySet};

/// The clocks of a decision. They are read once: thirty archives would read them sixty times.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    pub(super) wall: SystemTime,
    pub(super) steady: Instant,
}

impl Clocks {
    pub(super) fn now() -> Clocks {
        Clocks {
            wall: SystemTime::now(),
            steady: Instant::now(),
        }
    }
}

/// What is asked of the summaries of an archive.
#[derive(Clone, Copy)]
pub(super) struct Consultation<'a> {
    pub(super) questions: &'a Questions<'a>,
    /// The time to which mementos should be close, if any.
    pub(super) at: Option<Time>,
    pub(super) preference: &'a Preference,
    pub(super) max_age: Option<Duration>,
    /// Whether the archive finds similar URIs by pywb's fuzzy rules.
    pub(super) fuzzy: bool,
    pub(super) clocks: Clocks,
    pub(super) warn: &'a dyn Fn(&str),
}

impl Consultation<'_> {
    /// Asks all summaries of an archive, and notes the answer and what is behind it.
    pub(super) fn consult(&self, shelf: &Shelf, set: &SummarySet, choice: &mut Choice) {
        // Most archives have one summary. Only more of them need a list.
        let mut first: Option<(usize, Answer)> = None;
        let mut more: Vec<(usize, Answer)> = Vec::new();
        let open = |place: usize| match set.entries.get(place).map(|entry| &entry.state) {
            Some(State::Open(open)) => Some(open),
            _ => None,
        };
        for place in 0..set.entries.len() {
            match self.answer(shelf, set, place, choice) {
                Some(answer) if first.is_none() => first = Some((place, answer)),
                Some(answer) => more.push((place, answer)),
                None => {}
            }
        }
        let Some(first) = first else { return };
        let mut known = first.0;
        let combined = match more.is_empty() {
            true => first.1,
            false => {
                more.insert(0, first);
                let answers = more.iter().filter_map(|(place, answer)| {
                    Some((open(*place)?.summary.about(), answer.clone()))
                });
                let combined = combine(answers);
                let decisive = more.iter().find(|(_, answer)| *answer == combined);
                known = decisive.map_or(known, |(place, _)| *place);
                combined
            }
        };
        let (Some(entry), Some(open)) = (set.entries.get(known), open(known)) else {
            return;
        };
        let presence = combined.presence();
        if presence == Presence::Unknown {
            if choice.reason == Reason::Unknown {
                choice.summary = Some(Arc::clone(&entry.name));
            }
            return;
        }
        choice.summary = Some(Arc::clone(&entry.name));
        choice.age = open.age_at(self.clocks.wall, self.clocks.steady);
        choice.presence = presence;
        choice.reason = match presence {
            Presence::Absent => Reason::Absent,
            _ => Reason::Present,
        };
        if let Answer::Present(found) = combined {
            choice.frequency = Some(found.frequency);
            choice.key = found.key;
        }
        let question = self.questions.get(open.dialect);
        let Some(question) = question.filter(|_| presence == Presence::Present) else {
            return;
        };
        // A summary that can't be read says nothing about times and preferences.
        if let Some(at) = self.at {
            let seconds = open.summary.distance(question, at).unwrap_or(0);
            choice.away = Duration::from_secs(seconds);
        }
        if !self.preference.is_empty() {
            let share = open.summary.share(question, self.preference);
            choice.share = share.unwrap_or(None);
        }
    }

    /// The answer of one summary, if it can be trusted.
    fn answer(
        &self,
        shelf: &Shelf,
        set: &SummarySet,
        place: usize,
        choice: &mut Choice,
    ) -> Option<Answer> {
        let entry = set.entries.get(place)?;
        let open = match &entry.state {
            State::Open(open) => open,
            State::Refused(_, reason, why) => {
                choice.blame(*reason, &entry.name);
                choice.problem = Some(Arc::clone(why));
                return None;
            }
        };
        if let Some(max_age) = self.max_age {
            let age = open.age_at(self.clocks.wall, self.clocks.steady);
            if age.is_none_or(|age| age > max_age) {
                choice.blame(Reason::Stale, &entry.name);
                choice.age = age;
                return None;
            }
        }
        let question = self.questions.get(open.dialect)?;
        match open.summary.lookup(question) {
            Ok(Answer::Absent)
                if self.fuzzy && !is_absent_in_pywb(&*open.summary, question.surt().as_bytes()) =>
            {
                Some(Answer::Unknown)
            }
            Ok(answer) => Some(answer),
            Err(error) => {
                let why = error.to_string();
                (self.warn)(&format!("{}: {why}; it is no longer used", entry.name));
                shelf.distrust(open, &why);
                choice.blame(Reason::Damaged, &entry.name);
                None
            }
        }
    }
}

/// Asks the processor to fetch what all summaries of all archives will read for a lookup. In large
/// summaries, waiting for memory takes longer than everything else; like this, the waits overlap.
pub(super) fn prefetch(sets: &[Arc<SummarySet>], questions: &Questions<'_>) {
    for entry in sets.iter().flat_map(|set| &set.entries) {
        if let State::Open(open) = &entry.state
            && let Some(question) = questions.get(open.dialect)
        {
            open.summary.prefetch(question);
        }
    }
}

thread_local! {
    /// Canonicalisers keep buffers, which are worth keeping, too.
    static WRITERS: RefCell<[Option<SurtWriter>; Dialect::ALL.len()]> =
        const { RefCell::new([const { None }; Dialect::ALL.len()]) };
}

/// The SURTs of a URI in the dialects that were needed so far.
pub(super) struct Spellings<'a> {
    uri: &'a str,
    known: [OnceCell<Option<HashedSurt>>; Dialect::ALL.len()],
}

fn number_of(dialect: Dialect) -> usize {
    let mut all = Dialect::ALL.iter();
    all.position(|known| *known == dialect).unwrap_or(0)
}

impl<'a> Spellings<'a> {
    pub(super) fn new(uri: &'a str) -> Spellings<'a> {
        let known = Default::default();
        Spellings { uri, known }
    }

    /// `None` if the URI has no SURT.
    pub(super) fn get(&self, dialect: Dialect) -> Option<&HashedSurt> {
        let number = number_of(dialect);
        let spelled = self.known[number].get_or_init(|| {
            WRITERS.with_borrow_mut(|writers| {
                let writer = writers[number].get_or_insert_with(|| SurtWriter::new(dialect));
                writer.hashed(self.uri.as_bytes()).ok()
            })
        });
        spelled.as_ref()
    }
}

static PAGES: LazyLock<Scope> = LazyLock::new(Scope::of_pages);

/// The lookups of a URI in the dialects that were needed so far.
pub(super) struct Questions<'a> {
    spellings: &'a Spellings<'a>,
    for_page: bool,
    known: [OnceCell<Option<Lookup<'a>>>; Dialect::ALL.len()],
}

impl<'a> Questions<'a> {
    pub(super) fn new(spellings: &'a Spellings<'a>, for_page: bool) -> Questions<'a> {
        Questions {
            spellings,
            for_page,
            known: Default::default(),
        }
    }

    /// `None` if the URI has no SURT.
    pub(super) fn get(&self, dialect: Dialect) -> Option<&Lookup<'a>> {
        let lookup = self.known[number_of(dialect)].get_or_init(|| {
            let lookup = self.spellings.get(dialect)?;
            let lookup = lookup.lookup(self.spellings.uri.as_bytes());
            Some(match self.for_page {
                true => lookup.wanting(&PAGES),
                false => lookup,
            })
        });
        lookup.as_ref()
    }
}

/// The SURT of a URI as this router keeps it. `None` if it has none.
pub(super) fn usual_surt(uri: &str) -> Option<Vec<u8>> {
    let spellings = Spellings::new(uri);
    let lookup = spellings.get(Dialect::default())?.lookup(uri.as_bytes());
    Some(lookup.surt().as_bytes().to_vec())
}
