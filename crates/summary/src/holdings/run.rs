//! The captures of one URI-R.

use waypost_index::timestamp::{Time, Words, is_plausible, words};
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

/// The oldest and the newest capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// The smallest and the largest timestamp of the usual form, between which nothing is news.
    usual: Option<(Words, Words)>,
}

impl Span {
    /// Adds a capture.
    #[inline]
    pub fn add(&mut self, capture: &Capture<'_>) {
        // Parts out of range are changed when a timestamp is parsed, so its digits decide nothing.
        if let Some(digits) = words(capture.timestamp()).filter(|_| capture.is_plausible()) {
            match &mut self.usual {
                Some((low, high)) if *low <= digits && digits <= *high => return,
                Some((low, high)) => (*low, *high) = (digits.min(*low), digits.max(*high)),
                None => self.usual = Some((digits, digits)),
            }
        }
        self.extend(capture.time(), capture.time());
    }

    /// The span between two 14-digit timestamps.
    pub fn of(first: Option<u64>, last: Option<u64>) -> Span {
        let time = |digits: Option<u64>| {
            digits.and_then(|digits| Time::parse(format!("{digits:014}").as_bytes()))
        };
        Span {
            first: time(first),
            last: time(last),
            ..Span::default()
        }
    }

    fn extend(&mut self, first: Option<Time>, last: Option<Time>) {
        self.first = [self.first, first].into_iter().flatten().min();
        self.last = [self.last, last].into_iter().flatten().max();
    }

    /// Adds the captures of another span.
    pub fn merge(&mut self, other: &Span) {
        self.extend(other.first, other.last);
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
        // It depends on the SURT: see `Gather`.
        By::Class => {}
    }
    if out.is_empty() {
        out.push(b'-');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waypost_index::layout::{FileLayout, Line};

    proptest! {
        #[test]
        fn a_span_reaches_from_the_oldest_to_the_newest_capture(
            // Usual timestamps, shorter ones, and some with parts out of range.
            timestamps in prop::collection::vec("20[01][0-9](0[1-9][012][0-9]{7}|[019][0-9]){0,1}", 1..20),
        ) {
            let mut span = Span::default();
            let mut times = Vec::new();
            for timestamp in &timestamps {
                let line = format!("com,example)/ {timestamp} {{}}");
                let read = FileLayout::detect(line.as_bytes()).read(line.as_bytes(), Fields::NONE, false);
                let Line::Capture(capture, _) = read else {
                    panic!("{line}");
                };
                span.add(&capture);
                times.extend(capture.time());
            }
            prop_assert_eq!(span.first, times.iter().min().copied());
            prop_assert_eq!(span.last, times.iter().max().copied());
        }
    }
}
