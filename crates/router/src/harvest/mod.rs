//! A map of an archive that publishes none, from samples: what it answers for single URIs, what its
//! search finds, and what its access log shows.
//!
//! ```text
//! URIs ─► ask, slowly ─┐
//! words ─► search ─────┼─► journal ─► map, marked as partial
//! access log ──────────┘
//! ```
//!
//! The map has a row for each URI that was looked at: with its captures, or with 0. Its scope says that
//! it is partial: whatever has no row is unknown, never absent.
//!
//! A void needs proof. An archive that answers every lookup with 404, because it is misconfigured or
//! blocks us, holds who knows what: so misses are recorded only if the archive also had a hit, and only
//! those that it answers as it answers for a URI that nobody has.
//!
//! Everything that was found is appended to a journal at once. A harvest that is interrupted, or has
//! used up its budget, goes on where it ended.

mod access_log;
mod search;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_io::{AtomicFile, IoContext, Lines, Result, Source};
use waypost_summary::ukvs::described;
use waypost_summary::{About, Archive as Description, Scope, SurtWriter};
use waypost_surt::{Dialect, Key, Surt};

pub(crate) use access_log::original_in;
pub use access_log::served_uri;
pub use search::uris_in;

use crate::{AggregateOptions, Lookup, Reply, Router, Wanted};

/// What is known about a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Captures; 0 if there are none.
    pub captures: u64,
    /// Whether there may be more.
    pub at_least: bool,
}

/// The journal of a harvest: a line for each URI, `CAPTURES[+] SURT`.
pub struct Journal {
    path: PathBuf,
    file: File,
    found: BTreeMap<Vec<u8>, Finding>,
    writer: SurtWriter,
    dialect: Dialect,
}

impl Journal {
    /// Opens a journal, or starts one. A line that was not finished is ignored.
    ///
    /// # Errors
    /// If it can't be read or written.
    pub fn open(path: &Path, dialect: Dialect) -> Result<Journal> {
        let mut found = BTreeMap::new();
        if path.exists() {
            let mut lines = Lines::new(Source::new(path).open()?);
            while lines.advance()? {
                if let Some((surt, finding)) = parse(lines.line()) {
                    join(&mut found, surt, finding);
                }
            }
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .doing("open", path)?;
        // Whatever an interrupted run has left ends here.
        file.write_all(b"\n").doing("write", path)?;
        Ok(Journal {
            path: path.to_owned(),
            file,
            found,
            writer: SurtWriter::new(dialect),
            dialect,
        })
    }

    /// How many URIs were looked at.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether nothing was looked at.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many of them have captures.
    pub fn hits(&self) -> usize {
        let held = |finding: &&Finding| finding.captures > 0;
        self.found.values().filter(held).count()
    }

    /// The SURT of a URI, if it has one.
    fn surt(&mut self, uri: &str) -> Option<Vec<u8>> {
        let mut surt = Vec::new();
        self.writer.write(uri.as_bytes(), &mut surt).ok()?;
        Some(surt)
    }

    /// Notes a finding. `false` if the URI has no SURT.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn add(&mut self, uri: &str, finding: Finding) -> Result<bool> {
        let Some(surt) = self.surt(uri) else {
            return Ok(false);
        };
        let plus = if finding.at_least { "+" } else { "" };
        let mut line = format!("{}{plus} ", finding.captures).into_bytes();
        line.extend_from_slice(&surt);
        line.push(b'\n');
        self.file.write_all(&line).doing("write", &self.path)?;
        join(&mut self.found, surt, finding);
        Ok(true)
    }

    /// Notes URIs that the archive does not have, and empties the list.
    fn add_misses(&mut self, uris: &mut Vec<String>) -> Result<()> {
        for uri in uris.drain(..) {
            let miss = Finding {
                captures: 0,
                at_least: false,
            };
            self.add(&uri, miss)?;
        }
        Ok(())
    }

    /// Writes the map of all findings.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_map(&self, archive: Description, out: &Path) -> Result<()> {
        let mut file = AtomicFile::create(out)?;
        file.write_all(&self.map(archive)).doing("write", out)?;
        file.commit()
    }

    /// The text of the map.
    fn map(&self, archive: Description) -> Vec<u8> {
        let about = About {
            archive,
            dialect: self.dialect,
            scopes: [Scope::of_harvest()].into_iter().collect(),
            source: "harvest".to_owned().into(),
            sources: 1,
            ..About::default()
        };
        let (mut head, mut text) = (Vec::new(), Vec::new());
        waypost_summary::map::headers(&about, None).write(&mut head);
        let mut rows: BTreeMap<Vec<u8>, Finding> = BTreeMap::new();
        // A journal of an earlier version may have misses without a single hit.
        let proven = self.hits() > 0;
        for (surt, finding) in self.found.iter().filter(|_| proven) {
            // A row that says present covers any query; a void speaks for one URI.
            let surt = match finding.captures {
                0 => surt,
                _ => Surt::new(surt).without_query(),
            };
            let mut key = Vec::new();
            Key::new(surt).write(&mut key);
            join(&mut rows, key, *finding);
        }
        for (key, finding) in rows {
            text.extend_from_slice(&key);
            let row = match finding {
                Finding { captures: 0, .. } => " 0\n".to_owned(),
                Finding {
                    captures,
                    at_least: true,
                } => format!(" {captures}+/1\n"),
                Finding { captures, .. } => format!(" {captures}/1\n"),
            };
            text.extend_from_slice(row.as_bytes());
        }
        described(&head, &text)
    }
}

/// Of two findings about a URI, the larger one counts.
fn join(found: &mut BTreeMap<Vec<u8>, Finding>, surt: Vec<u8>, finding: Finding) {
    found
        .entry(surt)
        .and_modify(|known| {
            known.at_least |= finding.at_least;
            known.captures = known.captures.max(finding.captures);
        })
        .or_insert(finding);
}

/// Reads a line of a journal.
fn parse(line: &[u8]) -> Option<(Vec<u8>, Finding)> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&line[..space]).ok()?;
    let surt = line[space + 1..].trim_ascii();
    let finding = Finding {
        captures: number.trim_end_matches('+').parse().ok()?,
        at_least: number.ends_with('+'),
    };
    waypost_surt::is_surt(surt).then(|| (surt.to_vec(), finding))
}

/// What became of a harvest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarvestReport {
    /// URIs that the archive was asked for.
    pub asked: u64,
    /// Those that it has.
    pub hits: u64,
    /// Those that were known from the journal.
    pub known: u64,
    /// Lines that are not URIs.
    pub rejected: u64,
    /// Requests that failed, and are made again the next time.
    pub failed: u64,
    /// Whether URIs are left, because the budget is used up or the archive fails.
    pub unfinished: bool,
}

/// How many requests may fail one after the other.
const MOST_FAILURES: u64 = 5;

/// Asks the only archive of a router for URIs, at the rate that its limits allow, until a number of
/// requests were made.
///
/// # Errors
/// If the journal can't be written.
pub async fn ask(
    router: &Router,
    uris: impl Iterator<Item = String>,
    budget: u64,
    journal: &mut Journal,
    mut observe: impl FnMut(&HarvestReport),
) -> Result<HarvestReport> {
    let mut report = HarvestReport::default();
    let mut failures = 0;
    // The status of a miss, if that is known; misses before the first hit; a URI that had a hit before.
    let (mut miss, mut unproven, mut held) = (None, Vec::new(), None);
    for line in uris {
        let Some(uri) = crate::original_uri(&line) else {
            report.rejected += 1;
            continue;
        };
        match journal.surt(&uri) {
            None => {
                report.rejected += 1;
                continue;
            }
            Some(surt) => {
                if let Some(known) = journal.found.get(&surt) {
                    report.known += 1;
                    held = held.or((known.captures > 0).then_some(uri));
                    continue;
                }
            }
        }
        if report.asked >= budget || failures >= MOST_FAILURES {
            report.unfinished = true;
            break;
        }
        report.asked += 1;
        let reply = look_up(router, &uri).await;
        let has_nothing = matches!(reply, Some(Reply::Nothing(_)));
        if has_nothing && miss.is_none() && report.asked < budget {
            report.asked += 1;
            let nowhere = format!("http://{:016x}.waypost.example.com/", random());
            miss = Some(look_up(router, &nowhere).await);
        }
        match captures(reply.as_ref()) {
            Some(finding) => {
                failures = 0;
                report.hits += 1;
                journal.add(&uri, finding)?;
                journal.add_misses(&mut unproven)?;
            }
            None if has_nothing && miss.as_ref() == Some(&reply) => {
                failures = 0;
                unproven.push(uri);
                if report.hits > 0 {
                    journal.add_misses(&mut unproven)?;
                }
            }
            None => {
                failures += 1;
                report.failed += 1;
            }
        }
        observe(&report);
    }
    // What had a hit in an earlier run is as good a proof.
    if let Some(uri) = held.filter(|_| !unproven.is_empty() && report.asked < budget) {
        report.asked += 1;
        if captures(look_up(router, &uri).await.as_ref()).is_some() {
            journal.add_misses(&mut unproven)?;
        }
    }
    report.failed += unproven.len() as u64;
    Ok(report)
}

async fn look_up(router: &Router, uri: &str) -> Option<Reply> {
    let options = AggregateOptions {
        deadline: Duration::from_secs(120),
        ..AggregateOptions::default()
    };
    let lookup = Lookup::new(uri, Wanted::All);
    let aggregate = router.aggregate(&lookup, &options).await;
    let outcome = aggregate.outcomes.into_iter().next();
    outcome.map(|outcome| outcome.reply)
}

/// The captures of a hit.
fn captures(reply: Option<&Reply>) -> Option<Finding> {
    match reply? {
        Reply::Mementos(count) => Some((count, false)),
        Reply::Partial(count, _) => Some((count, true)),
        _ => None,
    }
    .filter(|(count, _)| **count > 0)
    .map(|(count, at_least)| Finding {
        captures: *count as u64,
        at_least,
    })
}

/// A number that nobody can foresee.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waypost_summary::{Presence, Summary, map::Map};

    fn presence(map: &Map, uri: &str) -> Presence {
        let mut buffer = Vec::new();
        let lookup =
            waypost_summary::Lookup::new(uri.as_bytes(), Dialect::default(), &mut buffer).unwrap();
        let single = map.lookup(&lookup).unwrap().presence();
        let batch = map.lookup_all(&[lookup]).unwrap();
        assert_eq!(batch[0].presence(), single, "{uri}");
        single
    }

    #[test]
    fn what_was_not_looked_at_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let some = |captures| Finding {
            captures,
            at_least: false,
        };
        let mut journal = Journal::open(&path, Dialect::default()).unwrap();
        for (uri, captures) in [
            ("http://a.example/", 3),
            ("http://a.example/gone", 0),
            ("http://a.example/page?x=1", 2),
            ("http://b.example/", 0),
        ] {
            assert!(journal.add(uri, some(captures)).unwrap());
        }
        assert!(!journal.add("http://a.example:99999/", some(1)).unwrap());
        drop(journal);
        // A killed run leaves half a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"17 com,exa").unwrap();
        let journal = Journal::open(&path, Dialect::default()).unwrap();
        assert_eq!((journal.len(), journal.hits()), (4, 2));
        let out = folder.path().join("partial.ukvs");
        journal.write_map(Description::default(), &out).unwrap();
        let map = Map::open(&out, &Default::default()).unwrap();
        for (uri, expected) in [
            ("http://a.example/", Presence::Present),
            ("http://a.example/gone", Presence::Absent),
            ("http://a.example/page?x=1", Presence::Present),
            ("http://b.example/", Presence::Absent),
            // Looked at with another query.
            ("http://a.example/page", Presence::Present),
            // Never looked at.
            ("http://a.example/gone?x=1", Presence::Unknown),
            ("http://a.example/gone/further", Presence::Unknown),
            ("http://b.example/x", Presence::Unknown),
            ("http://c.example/", Presence::Unknown),
        ] {
            assert_eq!(presence(&map, uri), expected, "{uri}");
        }
        assert!(map.about().scopes.is_partial());
    }
}
