//! Learning from logs: MemGator's, and our own.
//!
//! MemGator's log names the URI of a lookup in one line and what archives answered in others, and
//! nothing joins them but their order. BENCHMARK lines have the number of a session, and the line with
//! the URI follows that of the session's start. Under load, lines of several lookups mix; what can't be
//! told apart is counted and left out.
//!
//! | line | meaning |
//! |---|---|
//! | `BENCHMARK: … 17 {"origin": "AGGREGATOR", "role": "createsess", …` | session 17 starts |
//! | `INFO: … Aggregating Mementos for http://a.example/` | its URI |
//! | `BENCHMARK: … 17 {"origin": "ia", "role": "extractmementos", "info": "3 Mementos …` | a hit |
//! | `BENCHMARK: … 17 {"origin": "ia", "role": "timemapfetch", "info": "Response error …, Status: 404` | a miss |
//! | `INFO: … ia => Success: 3 mementos`, `… ia => Response error: 404 Not Found` | the same, without a session |

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use waypost_io::{Lines, Source};
use waypost_surt::Surt;

use super::learned::{Parts, Seed};
use super::{Decider, usual_surt};

/// What was learned from a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Lines read.
    pub lines: u64,
    /// Lookups whose URI is known.
    pub lookups: u64,
    /// Answers with mementos.
    pub hits: u64,
    /// Answers without.
    pub misses: u64,
    /// Answers that can't be attributed to one lookup.
    pub ambiguous: u64,
    /// URIs without a SURT.
    pub rejected: u64,
}

/// What an archive answered, according to a log.
struct Said<'a> {
    archive: &'a str,
    mementos: u64,
    took: Option<Duration>,
}

/// Learns from a log.
///
/// # Errors
/// If it can't be read.
pub fn learn_log(decider: &Decider, source: &Source) -> waypost_io::Result<LogReport> {
    let mut lines = Lines::new(source.open()?);
    let mut reader = LogReader {
        decider,
        report: LogReport::default(),
        sessions: HashMap::new(),
        waiting: Vec::new(),
        open: Vec::new(),
        has_benchmarks: false,
    };
    while lines.advance()? {
        reader.report.lines += 1;
        let line = String::from_utf8_lossy(lines.line());
        reader.read(line.trim());
    }
    Ok(reader.report)
}

struct LogReader<'a> {
    decider: &'a Decider,
    report: LogReport,
    /// Session → its URI, if it is known.
    sessions: HashMap<String, Option<String>>,
    /// Sessions that have started and whose URI has not been named yet.
    waiting: Vec<String>,
    /// URIs of lookups under way, if there are no sessions.
    open: Vec<String>,
    has_benchmarks: bool,
}

/// How many sessions are remembered: MemGator may not write the end of all.
const MOST_SESSIONS: usize = 100_000;

impl LogReader<'_> {
    fn read(&mut self, line: &str) {
        if line.starts_with('{') {
            self.read_own(line);
        } else if let Some(rest) = line.split_once("BENCHMARK: ") {
            self.has_benchmarks = true;
            self.read_benchmark(rest.1);
        } else if let Some((_, uri)) = line.split_once("Aggregating Mementos for ") {
            self.read_uri(uri.trim());
        } else if line.contains("Total Mementos: ") {
            // Which of several ends here is not said.
            match self.open.len() {
                1 => self.open.clear(),
                _ => drop(self.open.pop()),
            }
        } else if !self.has_benchmarks
            && let Some(said) = said_in_info(line)
        {
            match &self.open[..] {
                [uri] => {
                    let uri = uri.clone();
                    self.learn(&uri, &said);
                }
                _ => self.report.ambiguous += 1,
            }
        }
    }

    fn read_uri(&mut self, uri: &str) {
        self.report.lookups += 1;
        match &self.waiting[..] {
            [session] => {
                self.sessions.insert(session.clone(), Some(uri.to_owned()));
            }
            [] => {}
            // Several sessions wait: any of them may be the one.
            several => {
                for session in several {
                    self.sessions.insert(session.clone(), None);
                }
            }
        }
        self.waiting.clear();
        if !self.has_benchmarks {
            self.open.push(uri.to_owned());
        }
    }

    /// `2026/11/15 18:20:43.616354 1794766843609762564 {"origin": …}`.
    fn read_benchmark(&mut self, text: &str) {
        let Some((head, json)) = text.split_once('{') else {
            return;
        };
        let Some(session) = head.split_whitespace().last().map(str::to_owned) else {
            return;
        };
        // MemGator does not escape what it writes.
        let Ok(step) = serde_json::from_str::<Value>(&format!("{{{json}")) else {
            return;
        };
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        let (origin, role, info) = (text("origin"), text("role"), text("info"));
        let took = || {
            let (start, end) = (step["start"].as_u64()?, step["end"].as_u64()?);
            Some(Duration::from_nanos(end.checked_sub(start)?))
        };
        let mementos = match (origin, role) {
            ("AGGREGATOR", "createsess") => {
                if self.sessions.len() > MOST_SESSIONS {
                    self.sessions.clear();
                }
                self.waiting.push(session);
                return;
            }
            ("SESSION", _) => {
                self.sessions.remove(&session);
                return;
            }
            ("AGGREGATOR", _) => return,
            (_, "extractmementos") => {
                let count = info.split_whitespace().next();
                count.and_then(|count| count.parse().ok())
            }
            (_, "timemapfetch") if says_nothing(info) => Some(0),
            _ => None,
        };
        let Some(mementos) = mementos else {
            return;
        };
        let said = Said {
            archive: origin,
            mementos,
            took: took().filter(|_| role == "timemapfetch"),
        };
        match self.sessions.get(&session).cloned().flatten() {
            Some(uri) => self.learn(&uri, &said),
            None => self.report.ambiguous += 1,
        }
    }

    /// A line of our own log, which says everything.
    fn read_own(&mut self, line: &str) {
        let Ok(fields) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let text = |key: &str| fields[key].as_str();
        match text("event") {
            Some("lookup") => self.report.lookups += 1,
            Some("archive") => {}
            _ => return,
        }
        let (Some(uri), Some(archive)) = (text("uri"), text("archive")) else {
            return;
        };
        let mementos = match text("result") {
            Some("mementos" | "partial") => fields["count"].as_u64().unwrap_or(1),
            Some("nothing") => 0,
            _ => return,
        };
        let seconds = fields["seconds"].as_f64();
        let took = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let said = Said {
            archive,
            mementos,
            took,
        };
        self.learn(uri, &said);
    }

    fn learn(&mut self, uri: &str, said: &Said<'_>) {
        let Some(surt) = usual_surt(uri) else {
            self.report.rejected += 1;
            return;
        };
        match said.mementos {
            0 => self.report.misses += 1,
            _ => self.report.hits += 1,
        }
        let parts = Parts::of(&Surt::new(&surt));
        let learned = &self.decider.learned;
        learned.add(
            Seed::of(said.archive),
            &parts,
            None,
            said.mementos,
            said.took,
        );
    }
}

/// Whether a fetch ended with the answer that there is nothing, not with a failure.
fn says_nothing(info: &str) -> bool {
    let status = info.split_once("Status: ").map(|(_, rest)| rest);
    status.is_some_and(|status| status.starts_with("404") || status.starts_with("410"))
}

/// `INFO: date time ia => Success: 3 mementos`.
fn said_in_info(line: &str) -> Option<Said<'_>> {
    let (before, after) = line.split_once(" => ")?;
    let archive = before.split_whitespace().last()?;
    let mementos = match after.strip_prefix("Success: ") {
        Some(count) => count.split_whitespace().next()?.parse().ok()?,
        None => {
            let status = after.strip_prefix("Response error: ")?;
            let nothing = status.starts_with("404") || status.starts_with("410");
            nothing.then_some(0)?
        }
    };
    Some(Said {
        archive,
        mementos,
        took: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(log: &str) -> (Decider, LogReport) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, log).unwrap();
        let decider = Decider::default();
        let report = learn_log(&decider, &Source::new(&path)).unwrap();
        (decider, report)
    }

    fn chance(decider: &Decider, archive: &str, surt: &str) -> Option<f64> {
        let parts = Parts::of(&Surt::new(surt.as_bytes()));
        decider.learned.expect(Seed::of(archive), &parts).chance
    }

    #[test]
    fn sessions_of_memgator_are_joined_with_their_uris() {
        let mut log = String::new();
        for number in 0..20 {
            log.push_str(&format!(
                "BENCHMARK: 2026/11/15 18:20:43.1 {number} {{\"origin\": \"AGGREGATOR\", \"role\": \"createsess\", \"info\": \"Session created - Duration: 1ms\", \"start\": 1, \"end\": 2}}\n\
                 INFO: 2026/11/15 18:20:43.1 Aggregating Mementos for http://a.example/{number}\n\
                 BENCHMARK: 2026/11/15 18:20:44.1 {number} {{\"origin\": \"ia\", \"role\": \"timemapfetch\", \"info\": \"TimeMap fetched from IA - Duration: 1s\", \"start\": 1000000000, \"end\": 2000000000}}\n\
                 BENCHMARK: 2026/11/15 18:20:44.1 {number} {{\"origin\": \"ia\", \"role\": \"extractmementos\", \"info\": \"3 Mementos extracted from IA - Duration: 1ms\", \"start\": 1, \"end\": 2}}\n\
                 BENCHMARK: 2026/11/15 18:20:44.1 {number} {{\"origin\": \"pt\", \"role\": \"timemapfetch\", \"info\": \"Response error in PT, Status: 404 - Duration: 1s\", \"start\": 1000000000, \"end\": 3000000000}}\n\
                 BENCHMARK: 2026/11/15 18:20:44.1 {number} {{\"origin\": \"gone\", \"role\": \"timemapfetch\", \"info\": \"Network error in GONE - Duration: 1s\", \"start\": 1, \"end\": 3}}\n\
                 BENCHMARK: 2026/11/15 18:20:44.1 {number} {{\"origin\": \"SESSION\", \"role\": \"timemap\", \"info\": \"Complete session - Duration: 1s\", \"start\": 1, \"end\": 3}}\n"
            ));
        }
        let (decider, report) = learn(&log);
        assert_eq!((report.lookups, report.hits, report.misses), (20, 20, 20));
        assert_eq!(report.ambiguous, 0);
        assert!(chance(&decider, "ia", "example,a)/x").unwrap() > 0.8);
        assert!(chance(&decider, "pt", "example,a)/x").unwrap() < 0.2);
        assert_eq!(
            chance(&decider, "gone", "example,a)/x"),
            None,
            "a failure says nothing about holdings"
        );
    }

    #[test]
    fn lines_of_several_lookups_at_a_time_are_left_out() {
        let created = |number: u32| {
            format!(
                "BENCHMARK: d t {number} {{\"origin\": \"AGGREGATOR\", \"role\": \"createsess\", \"info\": \"\"}}\n"
            )
        };
        let log = created(1)
            + &created(2)
            + "INFO: d t Aggregating Mementos for http://a.example/\n\
               INFO: d t Aggregating Mementos for http://b.example/\n\
               BENCHMARK: d t 1 {\"origin\": \"ia\", \"role\": \"extractmementos\", \"info\": \"3 Mementos\"}\n";
        let (decider, report) = learn(&log);
        assert_eq!((report.hits, report.ambiguous), (0, 1));
        assert_eq!(chance(&decider, "ia", "example,a)/"), None);
        let (_, report) = learn(
            "INFO: d t Aggregating Mementos for http://a.example/\n\
             INFO: d t ia => Success: 3 mementos\n\
             INFO: d t pt => Response error: 404 Not Found\n\
             INFO: d t pt => Response error: 503 Service Unavailable\n\
             INFO: d t Total Mementos: 3 in 1s\n\
             INFO: d t Aggregating Mementos for http://a.example/\n\
             INFO: d t Aggregating Mementos for http://b.example/\n\
             INFO: d t ia => Success: 3 mementos\n",
        );
        assert_eq!((report.hits, report.misses, report.ambiguous), (1, 1, 1));
    }

    #[test]
    fn our_own_log_is_learned_from_too() {
        let (decider, report) = learn(
            "{\"event\":\"archive\",\"uri\":\"http://a.example/\",\"archive\":\"ia\",\"result\":\"mementos\",\"count\":4,\"seconds\":0.5}\n\
             {\"event\":\"archive\",\"uri\":\"http://a.example/\",\"archive\":\"pt\",\"result\":\"nothing\",\"status\":404,\"seconds\":0.5}\n\
             {\"event\":\"archive\",\"uri\":\"http://a.example/\",\"archive\":\"uk\",\"result\":\"late\",\"seconds\":30}\n\
             {\"event\":\"lookup\",\"uri\":\"http://a.example/\"}\nnot json\n{broken\n",
        );
        assert_eq!((report.lookups, report.hits, report.misses), (1, 1, 1));
        assert!(chance(&decider, "ia", "example,a)/").unwrap() > 0.5);
        assert_eq!(chance(&decider, "uk", "example,a)/"), None);
    }
}
