//! The page for people, at `/`: a lookup, why archives were asked, and how the router is doing.
//!
//! Pure: from what is known to HTML. The page works without its script, which only saves reloading it.

mod life;
mod timeline;
mod why;

use askama::Template;
use url::form_urlencoded;
use waypost_memento::Datetime;
use waypost_report::count;

pub(crate) use life::{ArchiveLife, Life};
pub(crate) use timeline::Zoom;

use crate::answer::Around;
use crate::{Aggregate, Decision, Found, Registry};
use timeline::{Grid, day_of, name_of};
use why::WhyRow;

/// How many mementos are listed without zooming in, and at most.
const LISTED: usize = 12;
const MOST_LISTED: usize = 1_000;

/// What was typed into the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// The URI, as it was typed.
    pub(crate) url: String,
    /// The datetime, as it was typed.
    pub(crate) datetime: String,
    /// The part of time that is shown.
    pub(crate) zoom: String,
}

impl Form {
    /// Reads the query of a request.
    pub(crate) fn parse(query: &str) -> Form {
        let mut form = Form::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let field = match &*name {
                "url" => &mut form.url,
                "datetime" => &mut form.datetime,
                "zoom" => &mut form.zoom,
                _ => continue,
            };
            value.trim().clone_into(field);
        }
        form
    }

    /// The datetime, from a year, a date or a timestamp. `None` if there is none.
    ///
    /// # Errors
    /// A sentence for the person who typed it.
    pub(crate) fn at(&self) -> Result<Option<Datetime>, String> {
        let digits: String = self.datetime.chars().filter(char::is_ascii_digit).collect();
        let plain = self
            .datetime
            .chars()
            .all(|c| c.is_ascii_digit() || "-/.: T".contains(c));
        match digits.is_empty() && self.datetime.is_empty() {
            true => Ok(None),
            false if plain => Datetime::parse_timestamp(&digits)
                .map(Some)
                .map_err(|_| self.bad()),
            false => Err(self.bad()),
        }
    }

    fn bad(&self) -> String {
        format!(
            "“{}” is not a date. Write a year, or a date like 2010-05-31.",
            self.datetime
        )
    }

    fn address(&self, root: &str, zoom: Zoom) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("url", &self.url);
        if !self.datetime.is_empty() {
            query.append_pair("datetime", &self.datetime);
        }
        let word = zoom.word();
        if !word.is_empty() {
            query.append_pair("zoom", &word);
        }
        format!("{root}?{}", query.finish())
    }
}

/// What was found for a lookup.
pub(crate) struct Lookedup<'a> {
    pub(crate) uri: &'a str,
    pub(crate) datetime: Option<Datetime>,
    pub(crate) now: Datetime,
    pub(crate) registry: &'a Registry,
    pub(crate) decision: &'a Decision,
    pub(crate) aggregate: &'a Aggregate,
}

#[derive(Template)]
#[template(path = "home.html")]
struct Home<'a> {
    style: String,
    script: &'a str,
    root: &'a str,
    version: &'a str,
    form: &'a Form,
    problem: Option<&'a str>,
    answer: Option<AnswerView>,
    life: &'a Life,
}

/// What the template shows of an answer.
struct AnswerView {
    uri: String,
    /// The URI as the end of a path.
    path: String,
    headline: String,
    sentence: String,
    incomplete: Option<String>,
    closest: Option<MementoView>,
    grid: Option<Grid>,
    listed: String,
    mementos: Vec<MementoView>,
    timemap: String,
    explain: String,
    economy: String,
    why: Vec<WhyRow>,
}

struct MementoView {
    uri: String,
    when: String,
    archive: String,
    distance: String,
}

/// The page. `root` is the path below which everything is served; `problem` is what is wrong with the
/// form.
pub(crate) fn render(
    root: &str,
    form: &Form,
    problem: Option<&str>,
    found: Option<&Lookedup<'_>>,
    life: &Life,
) -> String {
    let home = Home {
        style: format!(
            "{}{}",
            waypost_report::STYLE,
            include_str!("../../templates/home.css")
        ),
        script: include_str!("../../templates/home.js"),
        root,
        version: env!("CARGO_PKG_VERSION"),
        form,
        problem,
        answer: found.map(|found| AnswerView::new(root, form, found)),
        life,
    };
    // Writing to a string cannot fail.
    home.render().unwrap_or_default()
}

impl AnswerView {
    fn new(root: &str, form: &Form, found: &Lookedup<'_>) -> AnswerView {
        let Lookedup {
            uri,
            datetime,
            now,
            registry,
            decision,
            aggregate,
        } = *found;
        let mementos = &aggregate.mementos[..];
        let zoom = Zoom::parse(&form.zoom).unwrap_or_default();
        let wanted = datetime.unwrap_or(now);
        let closest = Around::find(mementos, wanted).map(|around| &mementos[around.closest]);
        let (listed, list) = list(mementos, zoom, wanted);
        let view = |found: &Found| MementoView::new(registry, found, wanted);
        let missing: Vec<String> = aggregate
            .missing()
            .map(|place| name_of(registry, place))
            .collect();
        let why = decision.choices.iter().map(|choice| {
            let mut outcomes = aggregate.outcomes.iter();
            let outcome = outcomes.find(|outcome| outcome.archive == choice.archive);
            WhyRow::new(registry, choice, outcome)
        });
        AnswerView {
            uri: uri.to_owned(),
            path: path_of(uri),
            headline: match mementos.len() {
                0 => format!("No archive has {uri}"),
                _ => uri.to_owned(),
            },
            sentence: sentence(mementos),
            incomplete: match &missing[..] {
                [] => None,
                names => Some(format!(
                    "This answer may be incomplete, because it is without {}.",
                    names.join(", ")
                )),
            },
            closest: closest.map(|closest| MementoView {
                distance: match datetime {
                    Some(wanted) => format!(", {}", distance(closest, wanted)),
                    None => ", the newest".to_owned(),
                },
                ..view(closest)
            }),
            grid: Grid::new(registry, mementos, zoom, |zoom| form.address(root, zoom)),
            listed,
            mementos: list.into_iter().map(view).collect(),
            timemap: format!("{root}timemap/"),
            explain: format!("{root}explain/"),
            economy: economy(registry, aggregate),
            why: why.collect(),
        }
    }
}

impl MementoView {
    fn new(registry: &Registry, found: &Found, wanted: Datetime) -> MementoView {
        // Archives choose these addresses: only those of the Web become links that can be clicked.
        let uri = &found.memento.uri;
        let web = uri.starts_with("http://") || uri.starts_with("https://");
        MementoView {
            uri: if web { uri.clone() } else { "#".to_owned() },
            when: found
                .memento
                .datetime
                .iso()
                .replace('T', " ")
                .replace('Z', ""),
            archive: name_of(registry, found.archive),
            distance: distance(found, wanted),
        }
    }
}

/// A URI as the end of a path: only what would end the path is escaped.
fn path_of(uri: &str) -> String {
    uri.replace('%', "%25")
        .replace('#', "%23")
        .replace('"', "%22")
        .replace(' ', "%20")
}

fn sentence(mementos: &[Found]) -> String {
    let (Some(first), Some(last)) = (mementos.first(), mementos.last()) else {
        return "None of the archives that were asked has a copy, and the others are known not to have one.".to_owned();
    };
    let mut archives: Vec<usize> = mementos.iter().map(|found| found.archive).collect();
    archives.sort_unstable();
    archives.dedup();
    let (from, until) = (day_of(first), day_of(last));
    format!(
        "{} {} in {} {}, from {from} to {until}.",
        count(mementos.len() as u64),
        if mementos.len() == 1 {
            "copy"
        } else {
            "copies"
        },
        archives.len(),
        if archives.len() == 1 {
            "archive"
        } else {
            "archives"
        },
    )
}

/// How many requests the summaries saved for this lookup.
fn economy(registry: &Registry, aggregate: &Aggregate) -> String {
    let (all, asked) = (registry.archives.len(), aggregate.outcomes.len());
    match all - asked.min(all) {
        0 => format!("All {all} archives were asked."),
        1 => {
            format!("{asked} of {all} archives were asked; a summary made one request unnecessary.")
        }
        saved => format!(
            "{asked} of {all} archives were asked; their summaries made {saved} requests unnecessary."
        ),
    }
}

/// How far a memento is from the wanted datetime.
fn distance(found: &Found, wanted: Datetime) -> String {
    let seconds = found.memento.datetime.to_jiff().as_second() - wanted.to_jiff().as_second();
    let (number, unit) = match seconds.unsigned_abs() {
        0 => return "at that time".to_owned(),
        seconds @ 1..3_600 => (seconds.div_ceil(60), "minute"),
        seconds @ 3_600..172_800 => (seconds / 3_600, "hour"),
        seconds @ 172_800..63_072_000 => (seconds / 86_400, "day"),
        seconds => (seconds / 31_557_600, "year"),
    };
    let plural = if number == 1 { "" } else { "s" };
    let direction = if seconds < 0 { "earlier" } else { "later" };
    format!("{number} {unit}{plural} {direction}")
}

/// The mementos that are listed, and a heading: those in the part of time that is shown, or those
/// around the wanted datetime.
fn list(mementos: &[Found], zoom: Zoom, wanted: Datetime) -> (String, Vec<&Found>) {
    if zoom != Zoom::Years {
        let shown: Vec<&Found> = mementos
            .iter()
            .filter(|found| zoom.covers(day_of(found)))
            .collect();
        let more = shown.len().saturating_sub(MOST_LISTED);
        let heading = match more {
            0 => format!("Copies of {}", zoom.name()),
            _ => format!(
                "The first {} of {} copies of {}",
                count(MOST_LISTED as u64),
                count(shown.len() as u64),
                zoom.name()
            ),
        };
        return (heading, shown.into_iter().take(MOST_LISTED).collect());
    }
    let place = mementos.partition_point(|found| found.memento.datetime < wanted);
    let from = place
        .saturating_sub(LISTED / 2)
        .min(mementos.len().saturating_sub(LISTED));
    let until = (from + LISTED).min(mementos.len());
    let mut near: Vec<&Found> = mementos[from..until].iter().collect();
    near.sort_by_key(|found| {
        let away = found.memento.datetime.to_jiff().as_second() - wanted.to_jiff().as_second();
        away.abs()
    });
    let heading = match mementos.len() <= LISTED {
        true => "All copies, the closest first".to_owned(),
        false => format!("The {LISTED} closest copies"),
    };
    (heading, near)
}
