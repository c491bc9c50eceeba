//! Likely defects: what an archive's keepers may want to look at.

use waypost_report::count;

use super::model::{Defect, Statistics};

/// What the pass and the tallies know beyond the statistics.
pub(super) struct Evidence {
    /// Malformed media types with their captures, the most frequent first.
    pub(super) malformed: Vec<(String, u64)>,
    /// Captures with malformed media types.
    pub(super) malformed_captures: u64,
    /// URI-Rs that look like those of a crawler trap, and some of them.
    pub(super) traps: u64,
    pub(super) trap_examples: Vec<String>,
    /// Keys with the most queries: key, URI-Rs.
    pub(super) queries: Vec<(String, u64)>,
    /// Lines whose status is not three digits.
    pub(super) bad_statuses: u64,
}

/// Everything that stands out.
pub(super) fn defects(found: &Statistics, evidence: &Evidence) -> Vec<Defect> {
    let mut defects = Vec::new();
    defects.extend(heavy_urirs(found));
    defects.extend(heavy_directories(found));
    defects.extend(malformed_types(found, evidence));
    defects.extend(odd_statuses(found, evidence));
    defects.extend(drops(found));
    defects.extend(traps(found, evidence));
    defects.extend(queries(found, evidence));
    defects
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 / whole.max(1) as f64 * 100.0)
}

/// URI-Rs with a hundred times the mean number of captures, and at least 0.04% of all.
fn heavy_urirs(found: &Statistics) -> Option<Defect> {
    let captures = found.totals.captures;
    let least = (found.distribution.mean * 100.0)
        .max(captures as f64 * 0.0004)
        .max(100.0);
    let heavy: Vec<_> = found
        .top_urirs
        .iter()
        .filter(|urir| urir.captures as f64 >= least)
        .take(5)
        .collect();
    let first = heavy.first()?;
    let shown: Vec<String> = heavy
        .iter()
        .map(|urir| format!("{} ({})", urir.key, count(urir.captures)))
        .collect();
    Some(Defect {
        kind: "heavy-uri".into(),
        title: "Some URIs were captured out of all proportion".into(),
        evidence: format!(
            "{} has {} captures, {} of all and {:.0} times the mean of {:.2}. The most captured: {}.",
            first.key,
            count(first.captures),
            percent(first.captures, captures),
            first.captures as f64 / found.distribution.mean,
            found.distribution.mean,
            shown.join(", ")
        ),
        advice: "Check whether the crawler fetches embedded images, login pages or robots.txt with every page; deduplicate or exclude them.".into(),
    })
}

/// A directory with a share of all captures far above that of an average domain.
fn heavy_directories(found: &Statistics) -> Option<Defect> {
    let least = (20.0 / found.totals.domains.max(1) as f64).max(0.1);
    let captures = found.totals.captures;
    // Whole hosts and domains are large in many archives; a directory below one is not.
    let heavy = found.top_subtrees.iter().find(|place| {
        let below = place
            .key
            .split_once(")/")
            .is_some_and(|(_, path)| path != "*");
        below && place.captures as f64 >= least * captures as f64
    })?;
    Some(Defect {
        kind: "heavy-directory".into(),
        title: "One directory has much of the archive".into(),
        evidence: format!(
            "{} has {} captures of {} URI-Rs, {} of all captures, in an archive of {} registered domains.",
            heavy.key,
            count(heavy.captures),
            count(heavy.urirs),
            percent(heavy.captures, captures),
            count(found.totals.domains)
        ),
        advice: "Check that the crawl was meant to go this deep there; limit the depth or the number of pages per host if not.".into(),
    })
}

fn malformed_types(found: &Statistics, evidence: &Evidence) -> Option<Defect> {
    let shown: Vec<String> = evidence
        .malformed
        .iter()
        .take(5)
        .map(|(name, captures)| format!("`{name}` ({})", count(*captures)))
        .collect();
    (evidence.malformed_captures > 0).then(|| Defect {
        kind: "media-types".into(),
        title: "Malformed media types".into(),
        evidence: format!(
            "{} captures ({}) have a media type that is not a type and a subtype: {}.",
            count(evidence.malformed_captures),
            percent(evidence.malformed_captures, found.totals.captures),
            shown.join(", ")
        ),
        advice: "Filters by media type miss these captures. Servers sent them so; detect types from the content, or map the frequent ones.".into(),
    })
}

fn odd_statuses(found: &Statistics, evidence: &Evidence) -> Option<Defect> {
    let odd: Vec<_> = found
        .statuses
        .iter()
        .filter(|status| {
            let number: u16 = status.name.parse().unwrap_or(200);
            !(100..600).contains(&number)
        })
        .collect();
    let captures: u64 = odd.iter().map(|status| status.captures).sum();
    let shown: Vec<String> = odd
        .iter()
        .take(5)
        .map(|status| format!("{} ({})", status.name, count(status.captures)))
        .collect();
    let lines = evidence.bad_statuses;
    (captures + lines > 0).then(|| Defect {
        kind: "statuses".into(),
        title: "Malformed statuses".into(),
        evidence: match (captures, lines) {
            (0, _) => format!("{} lines have a status that is not three digits.", count(lines)),
            (_, 0) => format!("{} captures have a status outside 100 to 599: {}.", count(captures), shown.join(", ")),
            _ => format!(
                "{} captures have a status outside 100 to 599: {}; {} more lines have one that is not three digits.",
                count(captures),
                shown.join(", "),
                count(lines)
            ),
        },
        advice: "Look at some of these records: they are often answers of broken servers, or columns that were shifted.".into(),
    })
}

/// Years with a fifth of the captures of both neighbours, and years without any.
fn drops(found: &Statistics) -> Option<Defect> {
    let mut low = Vec::new();
    for three in found.years.windows(3) {
        let [before, here, after] = three else {
            continue;
        };
        let least = before.captures.min(after.captures);
        if least >= 100 && here.captures * 5 < least {
            low.push(format!(
                "{} has {} captures, between {} and {}",
                here.year,
                count(here.captures),
                count(before.captures),
                count(after.captures)
            ));
        }
    }
    for two in found.years.windows(2) {
        let (before, after) = (&two[0], &two[1]);
        if before.captures.min(after.captures) >= 100 && after.year > before.year + 1 {
            low.push(format!(
                "there are none between {} and {}",
                before.year, after.year
            ));
        }
    }
    (!low.is_empty()).then(|| Defect {
        kind: "drop".into(),
        title: "A sudden drop in the captures of a year".into(),
        evidence: format!("{}.", low.join("; ")),
        advice: "Check whether the index is complete: a WARC file or an index shard of that time may be missing.".into(),
    })
}

fn traps(found: &Statistics, evidence: &Evidence) -> Option<Defect> {
    (evidence.traps > 0).then(|| Defect {
        kind: "trap".into(),
        title: "URIs that look like a crawler trap".into(),
        evidence: format!(
            "{} URI-Rs ({}) repeat a path segment three times or more, have 20 path segments or more, or are longer than 1,500 bytes. For example {}.",
            count(evidence.traps),
            percent(evidence.traps, found.totals.urirs),
            evidence.trap_examples.join(" and ")
        ),
        advice: "Add a rule to the crawler that rejects repeated path segments, and leave these URIs out of summaries.".into(),
    })
}

/// One page with thousands of queries.
fn queries(found: &Statistics, evidence: &Evidence) -> Option<Defect> {
    let least = (found.totals.urirs / 100).max(1_000);
    let shown: Vec<String> = evidence
        .queries
        .iter()
        .filter(|(_, urirs)| *urirs >= least)
        .take(5)
        .map(|(key, urirs)| format!("{key} ({})", count(*urirs)))
        .collect();
    (!shown.is_empty()).then(|| Defect {
        kind: "queries".into(),
        title: "Pages with very many queries".into(),
        evidence: format!(
            "URI-Rs that differ only in their query: {}.",
            shown.join(", ")
        ),
        advice: "Calendars, searches and session identifiers have endless queries; check whether they are worth keeping.".into(),
    })
}
