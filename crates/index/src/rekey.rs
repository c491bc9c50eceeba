//! Replaces every key of an index by the SURT of its URL.
//!
//! Lookups search for the SURT of a URI under a dialect. An index with other keys must be rekeyed and
//! sorted again before it can be searched.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_io::{Error, ErrorKind, Result, Source};
use waypost_surt::Dialect;

use crate::capture::{Capture, Field, Fields};
use crate::key::{Different, NewKey, Rekeyer};
use crate::rejects::printable;
pub use crate::rewrite::Options;
use crate::rewrite::{Lines, Rewrite, rewrite};
use crate::scan::Outcome;
use crate::select::Select;

/// Number of replaced keys to keep as examples.
const EXAMPLES: usize = 3;

/// The result of rekeying.
#[derive(Debug, Default)]
pub struct Rekeyed {
    /// Number of captures whose key was replaced.
    pub replaced: u64,
    /// The first keys that were replaced.
    pub examples: Vec<Different>,
    /// Number of captures that keep their key because they have no URL.
    pub without_url: u64,
    /// Number of captures that keep their key because their URL has no SURT.
    pub without_surt: u64,
    /// Number of captures that keep their key because it contains a request that the line does not
    /// have.
    pub requests: u64,
    /// What was read. Bad lines and rows that are not of the Web are copied unchanged, except an
    /// incomplete last line.
    pub outcome: Outcome,
}

/// Writes the lines of `sources` to the file `out`, unsorted, with the SURTs of their URLs under
/// `dialect` as keys.
///
/// # Errors
/// If a source cannot be read or has no column for keys, or the file cannot be written.
pub fn rekey(
    sources: &[Source],
    dialect: Dialect,
    options: Options<'_>,
    out: &Path,
) -> Result<Rekeyed> {
    let rule = Rekeying { dialect };
    let (tally, outcome) = rewrite(sources, rule, Select::new(), options, b"", out)?;
    Ok(Rekeyed {
        replaced: tally.replaced,
        examples: tally.examples,
        without_url: tally.without_url,
        without_surt: tally.without_surt,
        requests: tally.requests,
        outcome,
    })
}

struct Rekeying {
    dialect: Dialect,
}

#[derive(Default, Serialize, Deserialize)]
struct Tally {
    replaced: u64,
    examples: Vec<Different>,
    without_url: u64,
    without_surt: u64,
    requests: u64,
}

impl Rewrite for Rekeying {
    type Tally = Tally;
    type Tools = Rekeyer;

    const WHOLE: bool = false;

    fn fields(&self) -> Fields {
        Field::Url | Field::Mime
    }

    fn tools(&self) -> Rekeyer {
        Rekeyer::new(self.dialect)
    }

    fn line(&self, lines: &mut Lines<Tally>, line: &[u8]) {
        lines.last = lines.bytes.len();
        lines.bytes.extend_from_slice(&with_key_column(line));
        lines.bytes.push(b'\n');
    }

    fn capture(
        &self,
        lines: &mut Lines<Tally>,
        rekeyer: &mut Rekeyer,
        capture: &Capture<'_>,
    ) -> Result<()> {
        let tally = &mut lines.tally;
        let Some((before, behind)) = capture.around_key() else {
            return Err(Error::new(ErrorKind::WrongKind {
                found: "an index without a column for keys",
                wanted: "an index with keys",
            }));
        };
        match rekeyer.new_key(capture) {
            NewKey::Same => {}
            NewKey::NoUrl => tally.without_url += 1,
            NewKey::NoSurt => tally.without_surt += 1,
            NewKey::Request => tally.requests += 1,
            NewKey::Changed(surt) => {
                tally.replaced += 1;
                if tally.examples.len() < EXAMPLES {
                    tally.examples.push(Different {
                        key: printable(capture.key()),
                        surt: printable(surt),
                        url: printable(&capture.url().unwrap_or_default()),
                    });
                }
                lines.bytes.truncate(lines.last);
                lines.bytes.extend_from_slice(before);
                lines.bytes.extend_from_slice(surt);
                lines.bytes.extend_from_slice(behind);
                lines.bytes.push(b'\n');
            }
        }
        Ok(())
    }

    fn merge(&self, earlier: &mut Tally, later: Tally) {
        earlier.replaced += later.replaced;
        earlier.without_url += later.without_url;
        earlier.without_surt += later.without_surt;
        earlier.requests += later.requests;
        let room = EXAMPLES.saturating_sub(earlier.examples.len());
        earlier
            .examples
            .extend(later.examples.into_iter().take(room));
    }
}

/// Changes a header whose first column is the URL to name a key there; returns other lines unchanged.
fn with_key_column(line: &[u8]) -> Cow<'_, [u8]> {
    match line.strip_prefix(b" CDX a b a ") {
        Some(rest) => Cow::Owned([b" CDX N b a ", rest].concat()),
        None => Cow::Borrowed(line),
    }
}
