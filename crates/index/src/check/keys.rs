//! Compares the keys of an index with the SURTs of its URLs.

use waypost_surt::{Canonicalizer, Dialect};

use crate::capture::Capture;
use crate::key::KeyForm;
use crate::rejects::printable;

/// Number of examples to keep.
const EXAMPLES: usize = 3;

/// The result of comparing keys with SURTs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeysReport {
    /// Number of captures with a URL to compare with.
    pub compared: u64,
    /// How many keys differ under each dialect, in the order of [`Dialect::ALL`].
    pub differ: [u64; Dialect::ALL.len()],
    /// Number of URLs without a SURT, under each dialect.
    pub refused: [u64; Dialect::ALL.len()],
    /// The first keys that differ under each dialect: the key, the SURT, the URL.
    pub examples: [Vec<(String, String, String)>; Dialect::ALL.len()],
}

impl KeysReport {
    /// The dialect under which the fewest keys differ; the first of them in case of a tie.
    pub fn best(&self) -> Dialect {
        let fewest = (0..Dialect::ALL.len()).min_by_key(|place| self.differ[*place]);
        Dialect::ALL[fewest.unwrap_or(0)]
    }

    /// How many keys differ under a dialect.
    pub fn differ(&self, dialect: Dialect) -> u64 {
        self.differ[place(dialect)]
    }

    /// Examples of keys that differ under a dialect: the key, the SURT, the URL.
    pub fn examples(&self, dialect: Dialect) -> &[(String, String, String)] {
        &self.examples[place(dialect)]
    }

    /// Whether all keys are the SURTs of one dialect.
    pub fn is_clean(&self) -> bool {
        self.differ(self.best()) == 0
    }

    pub(super) fn merge(&mut self, later: KeysReport) {
        self.compared += later.compared;
        for place in 0..Dialect::ALL.len() {
            self.differ[place] += later.differ[place];
            self.refused[place] += later.refused[place];
        }
        for (examples, more) in self.examples.iter_mut().zip(later.examples) {
            let room = EXAMPLES.saturating_sub(examples.len());
            examples.extend(more.into_iter().take(room));
        }
    }
}

fn place(dialect: Dialect) -> usize {
    Dialect::ALL
        .iter()
        .position(|known| *known == dialect)
        .unwrap_or(0)
}

/// Computes the SURTs to compare with.
pub(super) struct Comparer {
    canonicalizers: [Canonicalizer; Dialect::ALL.len()],
    surt: Vec<u8>,
}

impl Comparer {
    pub(super) fn new() -> Comparer {
        Comparer {
            canonicalizers: Dialect::ALL.map(Canonicalizer::new),
            surt: Vec::new(),
        }
    }

    pub(super) fn compare(&mut self, capture: &Capture<'_>, report: &mut KeysReport) {
        let Some(url) = capture.url() else {
            return;
        };
        // wget writes no keys, so there is nothing to compare.
        if KeyForm::of(capture.key()) == KeyForm::Url {
            return;
        }
        report.compared += 1;
        for (place, canonicalizer) in self.canonicalizers.iter_mut().enumerate() {
            self.surt.clear();
            if canonicalizer.canonicalize(&url, &mut self.surt).is_err() {
                report.refused[place] += 1;
            } else if self.surt != capture.key() {
                report.differ[place] += 1;
                if report.examples[place].len() < EXAMPLES {
                    report.examples[place].push((
                        printable(capture.key()),
                        printable(&self.surt),
                        printable(&url),
                    ));
                }
            }
        }
    }
}
