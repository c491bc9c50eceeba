//! What must not be published: what was taken down, and what tells more than summaries do.

use std::path::Path;

use waypost_index::Takedowns;
use waypost_index::kind::{self, FileKind};
use waypost_io::{Error, ErrorKind, Lines, Result, Source};
use waypost_summary::filter::Secret;
use waypost_summary::{Kind, Lookup, LookupBuffer, Summary};
use waypost_surt::{Limit, Policy, Surt};

/// How unlikely false positives must be before a filter is taken to hold what it calls present.
const CHANCE: f64 = 0.05;

/// The maximum size of a file with a secret key, in bytes.
const MOST_SECRET: u64 = 256;

fn refusal(path: impl std::fmt::Display, why: &str) -> Error {
    Error::new(ErrorKind::Invalid(why.to_owned())).in_file(path)
}

/// Refuses a file that is not a summary and tells what is held: an index, WARC files, a list of URIs, a
/// secret.
pub(super) fn check_other(path: &Path, source: &Source) -> Result<()> {
    let is_small = source.size().is_some_and(|size| size <= MOST_SECRET);
    if is_small && Secret::read(path).is_ok() {
        return Err(refusal(path.display(), "a secret key is not published"));
    }
    match kind::detect(source).map(|told| told.kind) {
        Ok(
            kind @ (FileKind::Index(_)
            | FileKind::List
            | FileKind::ZipNumIndex
            | FileKind::Warc
            | FileKind::Wacz
            | FileKind::Parquet),
        ) => {
            let why = format!("{} tells what is held, and is not published", kind.name());
            Err(refusal(path.display(), &why))
        }
        _ => Ok(()),
    }
}

/// Refuses a summary that holds what was taken down. Returns whether that can be told: the filter of a map
/// and one with a secret do not answer here.
pub(super) fn check_takedowns(
    source: &Source,
    summary: &dyn Summary,
    rate: f64,
    list: &Takedowns,
) -> Result<bool> {
    if summary.kind() != Kind::Filter {
        return check_rows(source, summary, list).map(|()| true);
    }
    let dialect = summary.about().dialect;
    let uris: Vec<&[u8]> = list.uris().collect();
    let mut buffer = LookupBuffer::new(dialect);
    let lookups: Vec<Lookup<'_>> = buffer.fill(&uris).valid().collect();
    let Ok(answers) = summary.lookup_all(&lookups) else {
        return Ok(false);
    };
    let held: Vec<_> = lookups
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.found().is_some())
        .collect();
    let Some((example, _)) = held.first() else {
        return Ok(true);
    };
    if chance(held.len(), lookups.len() as f64 * rate) < CHANCE {
        let why = format!(
            "it holds what was taken down: {} (if it was built without it, this is a false positive: build it with more bits)",
            String::from_utf8_lossy(example.uri())
        );
        return Err(refusal(source, &why));
    }
    Ok(true)
}

/// The probability of at least so many false positives.
fn chance(found: usize, expected: f64) -> f64 {
    let mut term = (-expected).exp();
    let mut fewer = 0.0;
    for number in 0..found {
        fewer += term;
        term *= expected / (number + 1) as f64;
    }
    1.0 - fewer
}

/// Looks for rows that stand for nothing but what was taken down, of whatever frequency.
fn check_rows(source: &Source, summary: &dyn Summary, list: &Takedowns) -> Result<()> {
    let about = summary.about();
    // The key of a policy stands for all that begins so.
    let end: &[u8] = match about.policy {
        None | Some(Policy::Whole) => b"",
        Some(Policy::Prefix {
            hosts: Limit::All,
            paths,
        }) => match paths {
            Limit::All => b"",
            Limit::Most(_) => b"/*",
        },
        Some(_) => b",*",
    };
    let mut lines = Lines::new(source.open()?.text());
    while lines.advance()? {
        let line = lines.line();
        let key = line.split(|&byte| byte == b' ').next().unwrap_or(line);
        if matches!(key.first(), None | Some(b'!' | b'@')) {
            continue;
        }
        let stem = match end {
            b",*" => Surt::new(key).authority(),
            b"/*" => key.strip_suffix(b"/").unwrap_or(key),
            _ => key,
        };
        if list.cover_key(&[stem, end].concat(), about.dialect) {
            let key = String::from_utf8_lossy(key);
            return Err(
                refusal(source, &format!("it holds what was taken down: {key}"))
                    .at_line(lines.number()),
            );
        }
    }
    Ok(())
}
