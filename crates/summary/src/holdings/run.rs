//! Captures of one URI-R, joined across the borders of blocks.

use std::cmp::Ordering;
use std::sync::Mutex;

use waypost_index::key::{KeyCheck, Rekeyer};
use waypost_index::scan::{At, Job};
use waypost_index::timestamp::Time;
use waypost_index::{Capture, Field, Fields};
use waypost_surt::Dialect;

use super::{Consumer, escaped, once};
use crate::about::By;
use crate::error::{Error, Result};
use crate::profile::records::{Count, Counts};

/// A URI-R and what was counted of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) surt: Vec<u8>,
    pub(crate) counts: Counts,
    /// The same by second keys, if there are any.
    pub(crate) seconds: Vec<(Vec<u8>, Counts)>,
}

impl Run {
    fn begin(&mut self, surt: &[u8]) {
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

    fn join(&mut self, other: Run) {
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
pub(crate) struct Span {
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    /// The same as their digits, so that few timestamps must be understood.
    low: [u8; 14],
    high: [u8; 14],
}

impl Span {
    #[inline]
    pub(crate) fn add(&mut self, capture: &Capture<'_>) {
        if let Ok(digits) = <&[u8; 14]>::try_from(capture.timestamp()) {
            if self.first.is_some() && *digits >= self.low && *digits <= self.high {
                return;
            }
            if self.first.is_none() || *digits < self.low {
                self.low = *digits;
            }
            if *digits > self.high {
                self.high = *digits;
            }
        }
        self.extend(capture.time(), capture.time());
    }

    fn extend(&mut self, first: Option<Time>, last: Option<Time>) {
        self.first = [self.first, first].into_iter().flatten().min();
        self.last = [self.last, last].into_iter().flatten().max();
    }

    pub(crate) fn merge(&mut self, other: &Span) {
        self.extend(other.first, other.last);
    }
}

/// The URI-Rs of some captures that follow each other. The first and the last may go on in the
/// blocks before and behind.
pub(crate) struct Block<P> {
    /// The first, if there is another.
    head: Option<Run>,
    /// The last.
    tail: Run,
    empty: bool,
    part: Option<P>,
    /// Whether a URI-R was smaller than the one before.
    disorder: bool,
    urirs: u64,
    pub(crate) span: Span,
    rekeyer: Option<Rekeyer>,
    second: Vec<u8>,
}

impl<P> Default for Block<P> {
    fn default() -> Block<P> {
        Block {
            head: None,
            tail: Run::default(),
            empty: true,
            part: None,
            disorder: false,
            urirs: 0,
            span: Span::default(),
            rekeyer: None,
            second: Vec::new(),
        }
    }
}

impl<P: Send> Block<P> {
    /// Counts captures of a URI-R.
    #[inline]
    pub(crate) fn add<C: Consumer<Part = P>>(
        &mut self,
        consumer: &C,
        surt: &[u8],
        second: Option<&[u8]>,
        captures: u64,
        source: u64,
    ) {
        if self.empty {
            self.empty = false;
            self.tail.begin(surt);
        } else if surt != self.tail.surt {
            if surt < &self.tail.surt[..] {
                self.disorder = true;
            }
            if self.head.is_none() {
                self.head = Some(std::mem::take(&mut self.tail));
            } else {
                let part = self.part.get_or_insert_with(|| consumer.part());
                consumer.run(part, &self.tail);
                self.urirs += 1;
            }
            self.tail.begin(surt);
        }
        self.tail.add(second, captures, source);
    }
}

/// Blocks put together.
#[derive(Default)]
pub(crate) struct Joiner {
    carry: Option<Run>,
    disorder: bool,
    error: Option<Error>,
    pub(crate) urirs: u64,
    pub(crate) span: Span,
    pub(crate) keys: KeyCheck,
}

impl Joiner {
    /// Whether more input is of no use.
    pub(crate) fn has_ended(&self) -> bool {
        self.disorder || self.error.is_some()
    }

    /// Takes in the next block.
    pub(crate) fn take<C: Consumer>(&mut self, consumer: &C, block: Block<C::Part>) {
        if self.has_ended() || block.empty {
            return;
        }
        self.span.merge(&block.span);
        if let Some(rekeyer) = &block.rekeyer {
            self.keys.merge(rekeyer.check());
        }
        self.disorder |= block.disorder;
        let result = match block.head {
            None => self.join(consumer, block.tail),
            Some(head) => self.join(consumer, head).and_then(|()| {
                self.complete(consumer)?;
                if let Some(part) = block.part {
                    self.urirs += block.urirs;
                    consumer.take(part, &block.tail.surt)?;
                }
                self.carry = Some(block.tail);
                Ok(())
            }),
        };
        self.error = result.err();
    }

    fn join<C: Consumer>(&mut self, consumer: &C, run: Run) -> Result<()> {
        match &mut self.carry {
            None => self.carry = Some(run),
            Some(carry) => match carry.surt.cmp(&run.surt) {
                Ordering::Equal => carry.join(run),
                Ordering::Less => {
                    self.complete(consumer)?;
                    self.carry = Some(run);
                }
                Ordering::Greater => self.disorder = true,
            },
        }
        Ok(())
    }

    fn complete<C: Consumer>(&mut self, consumer: &C) -> Result<()> {
        let Some(run) = self.carry.take() else {
            return Ok(());
        };
        let mut part = consumer.part();
        consumer.run(&mut part, &run);
        self.urirs += 1;
        consumer.take(part, &run.surt)
    }

    /// Everything was taken. `None` if it was not in order.
    pub(crate) fn finish<C: Consumer>(mut self, consumer: &C) -> Result<Option<Joiner>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.disorder {
            return Ok(None);
        }
        self.complete(consumer)?;
        Ok(Some(self))
    }
}

/// Reads captures for a consumer, from indexes in order.
pub(crate) struct Collect<'a, C> {
    pub(crate) consumer: &'a C,
    pub(crate) by: Option<By>,
    pub(crate) dialect: Dialect,
    pub(crate) joiner: Mutex<Joiner>,
}

/// The fields that a second key needs.
pub(crate) fn fields_of(by: Option<By>) -> Fields {
    match by {
        Some(By::Language) => Fields::from(Field::Url) | Field::Languages,
        Some(By::Mime) => Fields::from(Field::Url) | Field::Mime,
        _ => Field::Url.into(),
    }
}

impl<C: Consumer> Job for Collect<'_, C> {
    type Partial = Block<C::Part>;

    fn fields(&self) -> Fields {
        fields_of(self.by)
    }

    fn partial(&self) -> Block<C::Part> {
        Block::default()
    }

    fn capture(&self, block: &mut Block<C::Part>, capture: &Capture<'_>, _: At) {
        // Behind a disorder nothing counts any more.
        if block.disorder {
            return;
        }
        block.span.add(capture);
        let mut rekeyer = block
            .rekeyer
            .take()
            .unwrap_or_else(|| Rekeyer::new(self.dialect));
        let mut second = std::mem::take(&mut block.second);
        let surt = escaped(rekeyer.surt(capture));
        let has_second = second_key(self.by, capture, &mut second);
        block.add(
            self.consumer,
            &surt,
            has_second.then_some(&second[..]),
            1,
            1,
        );
        drop(surt);
        block.second = second;
        block.rekeyer = Some(rekeyer);
    }

    fn merge(&self, _: &mut Block<C::Part>, later: Block<C::Part>, _: At) {
        if let Ok(mut joiner) = self.joiner.lock() {
            joiner.take(self.consumer, later);
        }
    }
}

/// Writes the second key of a capture into `out`. `false` if there is none to be.
pub(crate) fn second_key(by: Option<By>, capture: &Capture<'_>, out: &mut Vec<u8>) -> bool {
    let Some(by) = by else {
        return false;
    };
    out.clear();
    let time = |digits: usize, out: &mut Vec<u8>| match capture.time() {
        Some(time) => {
            let text = format!("{:014}", time.digits14());
            out.extend_from_slice(&text.as_bytes()[..digits]);
        }
        None => out.push(b':'),
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
    }
    if out.is_empty() {
        out.push(b'-');
    }
    true
}
