//! What is counted for each capture: months, statuses, media types, languages, record lengths.

use std::sync::Arc;

use waypost_index::timestamp::is_plausible;
use waypost_index::{Capture, Field};
use waypost_io::Result;
use waypost_io::partial::{Decoder, Encoder, Spill};
use xxhash_rust::xxh3::xxh3_64;

use super::counter::Counter;

/// Classes of statuses: 2xx, 3xx, 4xx, 5xx, any other, none.
pub(super) const CLASSES: usize = 6;

/// The class of a status.
pub(super) fn class_of(status: Option<u16>) -> usize {
    match status {
        Some(status @ 200..=599) => usize::from(status / 100 - 2),
        Some(_) => 4,
        None => 5,
    }
}

/// Captures of one month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Month {
    pub(super) classes: [u64; CLASSES],
    /// Bytes of records, as stored.
    pub(super) bytes: u64,
}

impl Month {
    fn add(&mut self, other: &Month) {
        for (count, more) in self.classes.iter_mut().zip(other.classes) {
            *count += more;
        }
        self.bytes += other.bytes;
    }
}

/// The number of a month since year 0.
pub(super) fn month_number(year: u16, month: u8) -> u32 {
    u32::from(year) * 12 + u32::from(month.clamp(1, 12)) - 1
}

/// Months from the first to the last that has captures.
#[derive(Clone, Debug, Default)]
pub(super) struct Months {
    first: u32,
    months: Vec<Month>,
    /// Captures without a valid time.
    undated: Month,
}

impl Months {
    fn of(&mut self, number: Option<u32>) -> &mut Month {
        let Some(number) = number else {
            return &mut self.undated;
        };
        if self.months.is_empty() {
            self.first = number;
        }
        if number < self.first {
            let more = (self.first - number) as usize;
            self.months
                .splice(..0, std::iter::repeat_n(Month::default(), more));
            self.first = number;
        }
        let at = (number - self.first) as usize;
        if at >= self.months.len() {
            self.months.resize(at + 1, Month::default());
        }
        &mut self.months[at]
    }

    fn merge(&mut self, other: &Months) {
        for (number, month) in other.iter() {
            self.of(Some(number)).add(month);
        }
        self.undated.add(&other.undated);
    }

    /// The months that have captures, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Month)> {
        let numbered = self.months.iter().enumerate();
        numbered
            .map(|(at, month)| (self.first + at as u32, month))
            .filter(|(_, month)| month.classes != [0; CLASSES])
    }

    /// Captures without a valid time.
    pub(super) fn undated(&self) -> &Month {
        &self.undated
    }
}

/// A sample of pages: those with the smallest hashes, whatever the order of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Hash, timestamp and URL, sorted.
    pages: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

/// How many pages are kept.
const PAGES: usize = 10;

impl Sample {
    #[inline]
    fn add(&mut self, capture: &Capture<'_>) {
        let hash = xxh3_64(capture.key()) ^ xxh3_64(capture.timestamp()).rotate_left(17);
        if self.pages.len() == PAGES && self.pages.last().is_some_and(|last| hash > last.0) {
            return;
        }
        let Some(url) = capture.url() else {
            return;
        };
        self.insert((hash, capture.timestamp().to_vec(), url.into_owned()));
    }

    fn insert(&mut self, page: (u64, Vec<u8>, Vec<u8>)) {
        if let Err(at) = self.pages.binary_search(&page) {
            self.pages.insert(at, page);
            self.pages.truncate(PAGES);
        }
    }

    /// The pages: timestamp and URL.
    pub(super) fn pages(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pages
            .iter()
            .map(|(_, time, url)| (&time[..], &url[..]))
    }
}

/// All of them together.
pub(super) struct Tallies {
    pub(super) months: Months,
    /// Three digits of the status, or `---`, then the media type as written.
    pub(super) mimes: Counter,
    /// The same with the detected media type, where there is one.
    pub(super) detected: Counter,
    /// `1` and the first language of a capture; `+` and each of its languages.
    pub(super) languages: Counter,
    pub(super) sample: Sample,
    scratch: Vec<u8>,
}

impl Tallies {
    pub(super) fn new(share: usize, spill: &Arc<Spill>) -> Tallies {
        Tallies {
            months: Months::default(),
            mimes: Counter::new(share, spill),
            detected: Counter::new(share, spill),
            languages: Counter::new(share, spill),
            sample: Sample::default(),
            scratch: Vec::new(),
        }
    }

    /// The fields that are used.
    pub(super) const FIELDS: [Field; 6] = [
        Field::Url,
        Field::Mime,
        Field::MimeDetected,
        Field::Status,
        Field::Length,
        Field::Languages,
    ];

    pub(super) fn add(&mut self, capture: &Capture<'_>) {
        let status = capture.status();
        let month = self.months.of(month_of(capture));
        month.classes[class_of(status)] += 1;
        month.bytes += capture.number(Field::Length).unwrap_or(0);
        let digits = capture.text(Field::Status).filter(|_| status.is_some());
        let scratch = &mut self.scratch;
        scratch.clear();
        scratch.extend_from_slice(digits.as_deref().unwrap_or(b"---"));
        let mime = capture.text(Field::Mime);
        let mime = mime.as_deref().unwrap_or(b"-");
        scratch.extend_from_slice(mime);
        self.mimes.add(scratch);
        if let Some(detected) = capture.text(Field::MimeDetected) {
            scratch.truncate(3);
            scratch.extend_from_slice(&detected);
            self.detected.add(scratch);
        }
        if let Some(languages) = capture.text(Field::Languages) {
            for (at, language) in languages.split(|byte| *byte == b',').enumerate() {
                scratch.clear();
                scratch.push(b'+');
                scratch.extend_from_slice(language.trim_ascii());
                self.languages.add(scratch);
                if at == 0 {
                    scratch[0] = b'1';
                    self.languages.add(scratch);
                }
            }
        }
        if status == Some(200) && mime == b"text/html" && !capture.key().ends_with(b"/robots.txt") {
            self.sample.add(capture);
        }
    }

    pub(super) fn merge(&mut self, later: Tallies) -> Result<()> {
        self.months.merge(&later.months);
        self.mimes.merge(later.mimes)?;
        self.detected.merge(later.detected)?;
        self.languages.merge(later.languages)?;
        for page in later.sample.pages {
            self.sample.insert(page);
        }
        Ok(())
    }

    pub(super) fn encode(&self, out: &mut Encoder) -> Result<()> {
        let months: Vec<(u32, &Month)> = self.months.iter().collect();
        out.number(months.len() as u64);
        for (number, month) in months {
            out.number(u64::from(number));
            encode_month(month, out);
        }
        encode_month(&self.months.undated, out);
        for counter in [&self.mimes, &self.detected, &self.languages] {
            counter.encode(out)?;
        }
        out.number(self.sample.pages.len() as u64);
        for (hash, time, url) in &self.sample.pages {
            out.number(*hash);
            out.text(time);
            out.text(url);
        }
        Ok(())
    }

    pub(super) fn decode(mut self, from: &mut Decoder<'_>) -> Result<Tallies> {
        for _ in 0..from.count()? {
            // No timestamp is later than the year 9999.
            let number = from.number()?.min(u64::from(month_number(9_999, 12))) as u32;
            let month = decode_month(from)?;
            self.months.of(Some(number)).add(&month);
        }
        self.months.undated = decode_month(from)?;
        self.mimes = self.mimes.decode(from)?;
        self.detected = self.detected.decode(from)?;
        self.languages = self.languages.decode(from)?;
        for _ in 0..from.count()? {
            let hash = from.number()?;
            self.sample
                .insert((hash, from.text()?.to_vec(), from.text()?.to_vec()));
        }
        Ok(self)
    }
}

fn encode_month(month: &Month, out: &mut Encoder) {
    month.classes.iter().for_each(|count| out.number(*count));
    out.number(month.bytes);
}

fn decode_month(from: &mut Decoder<'_>) -> Result<Month> {
    let mut month = Month::default();
    for count in &mut month.classes {
        *count = from.number()?;
    }
    month.bytes = from.number()?;
    Ok(month)
}

/// The month of a capture. `None` if its timestamp is not valid.
#[inline]
pub(super) fn month_of(capture: &Capture<'_>) -> Option<u32> {
    let raw = capture.timestamp();
    if let [a, b, c, d, e, f, ..] = raw
        && raw.len() == 14
        && is_plausible(raw)
    {
        let digit = |byte: &u8| u32::from(byte - b'0');
        let year = ((digit(a) * 10 + digit(b)) * 10 + digit(c)) * 10 + digit(d);
        return Some(year * 12 + digit(e) * 10 + digit(f) - 1);
    }
    let time = capture.time()?;
    Some(month_number(time.year(), time.month()))
}
