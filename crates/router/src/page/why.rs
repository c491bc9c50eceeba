//! Why archives were asked or not, in sentences.

use std::time::Duration;

use waypost_report::count;
use waypost_summary::Frequency;

use super::timeline::name_of;
use crate::{Choice, Outcome, Reason, Registry, Reply};

/// What is said about an archive.
pub(crate) struct WhyRow {
    pub(crate) name: String,
    pub(crate) decision: &'static str,
    pub(crate) class: &'static str,
    pub(crate) because: String,
    pub(crate) key: String,
    pub(crate) outcome: String,
}

impl WhyRow {
    /// What is said about an archive that was decided about like this, and answered like that.
    pub(crate) fn new(registry: &Registry, choice: &Choice, outcome: Option<&Outcome>) -> WhyRow {
        let found = outcome.is_some_and(|outcome| {
            matches!(
                outcome.reply,
                Reply::Mementos(_) | Reply::Partial(..) | Reply::Kept(..)
            )
        });
        let (decision, class) = match outcome {
            None => ("not asked", "no"),
            Some(_) if found => ("asked, found", "yes"),
            Some(outcome) if outcome.reply.is_incomplete() => ("asked, failed", "maybe"),
            Some(_) => ("asked, nothing", "maybe"),
        };
        let key = choice.key.as_deref().map(String::from_utf8_lossy);
        WhyRow {
            name: name_of(registry, choice.archive),
            decision,
            class,
            because: because(choice),
            key: key.unwrap_or_default().into_owned(),
            outcome: outcome.map_or_else(String::new, told),
        }
    }
}

/// What an archive answered, and how long it took.
fn told(outcome: &Outcome) -> String {
    let what = match &outcome.reply {
        Reply::Mementos(1) => "1 memento".to_owned(),
        Reply::Mementos(number) => format!("{} mementos", count(*number as u64)),
        Reply::Nothing(_) => "nothing".to_owned(),
        reply => reply.to_string(),
    };
    match outcome.took {
        Duration::ZERO => what,
        took => format!("{what}, {}", time(took)),
    }
}

/// A short time in words.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.000_95 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 0.95 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    }
}

/// An age in words.
pub(crate) fn age(age: Duration) -> String {
    let (number, unit) = match age.as_secs() {
        seconds @ 0..60 => (seconds, "second"),
        seconds @ 60..3_600 => (seconds / 60, "minute"),
        seconds @ 3_600..172_800 => (seconds / 3_600, "hour"),
        seconds => (seconds / 86_400, "day"),
    };
    format!(
        "{} {unit}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// How much is held under the key that decides.
fn amount(frequency: Frequency) -> Option<String> {
    let captures = frequency.captures?.value;
    let plural = if captures == 1 { "" } else { "s" };
    Some(format!(
        ": {} capture{plural} under the key",
        count(captures)
    ))
}

fn because(choice: &Choice) -> String {
    let summary = choice.summary.as_deref().unwrap_or_default();
    let name = summary.rsplit('/').next().unwrap_or_default();
    let aged = choice
        .age
        .map_or_else(String::new, |known| format!(" ({} old)", age(known)));
    match choice.reason {
        Reason::Present => {
            let about = choice.frequency.and_then(amount).unwrap_or_default();
            format!("its summary {name}{aged} says that it may hold this{about}")
        }
        Reason::Absent => format!("its summary {name}{aged} says that it does not hold this"),
        Reason::Probe => format!(
            "its summary {name} says that it does not hold this, which was checked by asking"
        ),
        Reason::Unknown if name.is_empty() => "it has published no summary".to_owned(),
        Reason::Unknown => format!("its summary {name} does not cover this"),
        Reason::Stale => format!("its summary {name} is too old{aged}"),
        Reason::Damaged | Reason::NeedsSecret => {
            let problem = choice.problem.as_deref().unwrap_or("it cannot be read");
            format!("its summary {name} cannot be used: {problem}")
        }
        Reason::Pattern => "the configuration excludes such addresses".to_owned(),
        Reason::Period => {
            "it has no captures of that time, according to the configuration".to_owned()
        }
        Reason::Embargo => {
            "it does not show captures of that time yet, according to the configuration".to_owned()
        }
        Reason::Time => {
            format!("its summary {name}{aged} says that it has this, but not from about that time")
        }
        Reason::Unlikely => "it seldom had anything similar".to_owned(),
        Reason::Rest => "others were more promising, and had it".to_owned(),
        Reason::NotSelected => "it was not selected".to_owned(),
    }
}
