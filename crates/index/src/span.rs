//! The oldest and the newest capture.

use crate::capture::Capture;
use crate::timestamp::Time;

/// The time from the oldest to the newest capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// The smallest and the largest plausible timestamp of 14 digits so far. One between them changes
    /// nothing and is not parsed.
    usual: Option<(Words, Words)>,
}

impl Span {
    /// Adds a capture.
    #[inline]
    pub fn add(&mut self, capture: &Capture<'_>) {
        // Parsing clamps parts that are out of range, so only plausible digits compare like times.
        if let Some(digits) = words(capture.timestamp()).filter(|_| capture.is_plausible()) {
            match &mut self.usual {
                Some((low, high)) if *low <= digits && digits <= *high => return,
                Some((low, high)) => (*low, *high) = (digits.min(*low), digits.max(*high)),
                None => self.usual = Some((digits, digits)),
            }
        }
        self.extend(capture.time(), capture.time());
    }

    /// The span between two timestamps of 14 digits.
    pub fn of(first: Option<u64>, last: Option<u64>) -> Span {
        let time = |digits: Option<u64>| {
            digits.and_then(|digits| Time::parse(format!("{digits:014}").as_bytes()))
        };
        Span {
            first: time(first),
            last: time(last),
            usual: None,
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

/// The first and the last eight of 14 bytes as numbers. They overlap, and compare like the text.
type Words = (u64, u64);

#[inline]
fn words(raw: &[u8]) -> Option<Words> {
    let word = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    let is_usual = raw.len() == 14;
    is_usual.then_some((word(raw.first_chunk()?), word(raw.last_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_span_reaches_from_the_oldest_to_the_newest_capture(
            // Few values, in and out of range, so that many timestamps are near each other.
            timestamps in prop::collection::vec((
                "200[45](0[0-2]|1[23])(0[01]|[23][01])(0[01]|2[34])(00|59|60)(00|59|60)[0-9]{3}",
                prop::sample::select(vec![4usize, 6, 8, 14, 14, 14, 14, 17]),
            ), 1..20),
            merged in 0..20usize,
        ) {
            let captures: Vec<_> = timestamps
                .iter()
                .map(|(digits, length)| Capture::new(b"", b"com,example)/", &digits.as_bytes()[..*length]))
                .collect();
            let (early, late) = captures.split_at(merged.min(captures.len()));
            let mut earlier = Span::default();
            early.iter().for_each(|capture| earlier.add(capture));
            let mut span = Span::default();
            for (number, capture) in late.iter().enumerate() {
                if number == late.len() / 2 {
                    span.merge(&earlier);
                }
                span.add(capture);
            }
            if late.is_empty() {
                span.merge(&earlier);
            }
            let times = || captures.iter().filter_map(Capture::time);
            prop_assert_eq!(span.first, times().min());
            prop_assert_eq!(span.last, times().max());
        }
    }
}
