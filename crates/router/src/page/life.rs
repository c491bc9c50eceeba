//! How the router is doing: for the page, and as the events that keep it current.

use std::time::Duration;

use serde::Serialize;
use waypost_report::count;

use super::why::{age, time};
use crate::{AuditedRecall, Standing, SummaryState};

/// What is known about an archive.
pub(crate) struct ArchiveLife {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) standing: Standing,
    pub(crate) asked: u64,
    pub(crate) hits: u64,
    pub(crate) spared: u64,
    /// The mean time until it answered.
    pub(crate) latency: Option<Duration>,
    pub(crate) summaries: Vec<SummaryState>,
    /// Where its holdings are shown.
    pub(crate) holdings: Option<String>,
    /// Where its statistics are shown.
    pub(crate) report: Option<String>,
}

/// How the router is doing, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Life {
    pub(crate) facts: Vec<Fact>,
    pub(crate) rows: Vec<LifeRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fact {
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LifeRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) asked: String,
    pub(crate) hits: String,
    pub(crate) spared: String,
    pub(crate) latency: String,
    pub(crate) summaries: String,
    pub(crate) holdings: Option<String>,
    pub(crate) report: Option<String>,
}

impl Life {
    pub(crate) fn new(lookups: u64, recall: &AuditedRecall, archives: Vec<ArchiveLife>) -> Life {
        let asked: u64 = archives.iter().map(|archive| archive.asked).sum();
        let spared: u64 = archives.iter().map(|archive| archive.spared).sum();
        let fact = |key, name, value| Fact { key, name, value };
        let audited = match (recall.recall, recall.interval) {
            (Some(recall), Some((low, high))) => {
                format!(
                    "{:.1}% ({:.1}–{:.1})",
                    100.0 * recall,
                    100.0 * low,
                    100.0 * high
                )
            }
            _ => "not probed yet".to_owned(),
        };
        Life {
            facts: vec![
                fact("lookups", "lookups", count(lookups)),
                fact("asked", "requests to archives", count(asked)),
                fact("saved", "requests saved", saved(asked, spared)),
                fact("recall", "audited recall", audited),
            ],
            rows: archives.into_iter().map(LifeRow::new).collect(),
        }
    }
}

/// The requests that were not made, and their share of all that could have been.
fn saved(asked: u64, spared: u64) -> String {
    match asked + spared {
        0 => "0".to_owned(),
        all => format!(
            "{} ({:.0}%)",
            count(spared),
            100.0 * spared as f64 / all as f64
        ),
    }
}

impl LifeRow {
    fn new(archive: ArchiveLife) -> LifeRow {
        let standing = &archive.standing;
        let state = match (&standing.resting, standing.failures) {
            (Some(wait), failures) => {
                format!("left alone for {} after {failures} failures", time(*wait))
            }
            (None, 0) => "fine".to_owned(),
            (None, 1) => "1 failure".to_owned(),
            (None, failures) => format!("{failures} failures"),
        };
        let summaries: Vec<String> = archive.summaries.iter().map(told).collect();
        LifeRow {
            id: archive.id,
            name: archive.name,
            state,
            asked: count(archive.asked),
            hits: count(archive.hits),
            spared: count(archive.spared),
            latency: archive.latency.map_or_else(|| "–".to_owned(), time),
            summaries: match summaries.is_empty() {
                true => "none".to_owned(),
                false => summaries.join("; "),
            },
            holdings: archive.holdings,
            report: archive.report,
        }
    }
}

/// A summary in a few words.
fn told(summary: &SummaryState) -> String {
    match (&summary.problem, summary.kind) {
        (Some(problem), _) => format!("{}: {problem}", summary.name),
        (None, Some(kind)) => {
            let aged = summary
                .age
                .map_or_else(String::new, |known| format!(", {} old", age(known)));
            format!("{kind}, {}{aged}", waypost_report::bytes(summary.bytes))
        }
        (None, None) => summary.name.clone(),
    }
}
