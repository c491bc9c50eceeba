//! The captures of one URI-R.

use waypost_index::timestamp::is_plausible;
use waypost_index::{Capture, Field, Fields};

use super::{escaped, once};
use crate::about::By;
use crate::profile::records::{Count, Counts};

/// A URI-R and its counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The SURT.
    pub surt: Vec<u8>,
    /// Its captures and sources.
    pub counts: Counts,
    /// The same by second key, if there are any.
    pub seconds: Vec<(Vec<u8>, Counts)>,
}

impl Run {
    pub(super) fn begin(&mut self, surt: &[u8]) {
        self.surt.clear();
        self.surt.extend_from_slice(surt);
        self.counts = Counts::default();
        self.seconds.clear();
    }

    pub(crate) fn add(&mut self, second: Option<&[u8]>, captures: u64, source: u64) {
        self.counts.captures += captures;
        self.counts.urirs = 1;
        self.counts.sources |= source;
        let Some(second) = second else {
            return;
        };
        match self
            .seconds
            .iter_mut()
            .rev()
            .find(|(known, _)| known == second)
        {
            Some((_, counts)) => {
                counts.captures += captures;
                counts.sources |= source;
            }
            None => self.seconds.push((second.to_vec(), once(captures, source))),
        }
    }

    /// Whether it has no captures yet.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.urirs == 0
    }

    pub(super) fn join(&mut self, other: Run) {
        self.counts.add(&other.counts);
        self.counts.urirs = 1;
        for (second, counts) in other.seconds {
            match self.seconds.iter_mut().find(|(known, _)| *known == second) {
                Some((_, known)) => {
                    known.add(&counts);
                    known.urirs = 1;
                }
                None => self.seconds.push((second, counts)),
            }
        }
    }
}

/// The fields that a second key needs.
pub(crate) fn fields_of(by: Option<By>) -> Fields {
    match by {
        Some(By::Language) => Fields::from(Field::Url) | Field::Languages,
        Some(By::Mime) => Fields::from(Field::Url) | Field::Mime,
        _ => Field::Url.into(),
    }
}

/// Writes the second key of a capture to `out`. Returns `false` if the capture has no second key.
pub(crate) fn second_key(by: Option<By>, capture: &Capture<'_>, out: &mut Vec<u8>) -> bool {
    let Some(by) = by else {
        return false;
    };
    out.clear();
    let time = |digits: usize, out: &mut Vec<u8>| {
        let raw = capture.timestamp();
        // Nearly every timestamp can be cut as it is.
        if raw.len() == 14 && is_plausible(raw) {
            return out.extend_from_slice(&raw[..digits]);
        }
        match capture.time() {
            Some(time) => {
                let text = format!("{:014}", time.digits14());
                out.extend_from_slice(&text.as_bytes()[..digits]);
            }
            None => out.push(b':'),
        }
    };
    match by {
        By::Year => time(4, out),
        By::Month => time(6, out),
        By::Language => {
            let languages = capture.text(Field::Languages);
            let languages = languages.as_deref().unwrap_or_default();
            let end = memchr::memchr(b',', languages).unwrap_or(languages.len());
            out.extend_from_slice(&escaped(languages[..end].trim_ascii()));
        }
        By::Mime => {
            let mime = capture.mime();
            out.extend_from_slice(&escaped(mime.as_deref().unwrap_or_default()));
            out.make_ascii_lowercase();
        }
        // It depends on the SURT: see `RowReader::class`.
        By::Class => {}
    }
    if out.is_empty() {
        out.push(b'-');
    }
    true
}
