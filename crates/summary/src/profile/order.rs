//! Sorting the rows of one policy as they arrive.
//!
//! Records are held back until no smaller key can follow ([`super::low`]). If too many are held
//! back, they are spilled as a sorted run, and from then on nothing is released until the end, when
//! the runs are merged. Keys of registered domains are spilled from the start: some arrive below
//! the bound.

use std::ops::Range;
use std::sync::Arc;

use waypost_io::partial::{RowBlock, Runs, Spill};
use waypost_surt::Policy;

use super::low::low;
use super::records::{Count, Records};
use crate::error::{Error, Result};

/// Receives rows in order.
pub(crate) trait Sink<C> {
    /// A row.
    fn row(&mut self, key: &[u8], counts: &C) -> Result<()>;

    /// Rows as text. `rows` has the end of each, as an offset into a larger text in which `text` begins at
    /// `start`.
    fn text(&mut self, text: &[u8], rows: &[TextRow], start: usize) -> Result<()>;
}

/// Where a row ends in a text.
pub(crate) type TextRow = u32;

/// What a piece of the input has under a policy.
#[derive(Default)]
pub(crate) struct Piece<C> {
    /// In order, once it is complete.
    pub(super) records: Records<C>,
    /// The rows of all records as text, if they were written already.
    text: Vec<u8>,
    rows: Vec<TextRow>,
}

impl<C: Count> Piece<C> {
    /// Sorts records.
    pub(crate) fn new(mut records: Records<C>) -> Piece<C> {
        records.settle();
        Piece {
            records,
            text: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Writes all rows. Most are complete, because no other piece has their keys, so that only the text
    /// is used, and writing rows is the work of all cores.
    pub(crate) fn write(&mut self, mut write: impl FnMut(&[u8], &C, &mut Vec<u8>)) {
        // Offsets have 32 bits. Pieces have a few thousand rows.
        if self.records.size() < 1 << 30 {
            for (key, counts) in self.records.iter() {
                write(key, counts, &mut self.text);
                self.rows.push(self.text.len() as TextRow);
            }
        }
    }

    /// Gives back the memory of a piece that is no longer used, to be filled again.
    pub(crate) fn emptied(mut self) -> Piece<C> {
        self.records.clear();
        self.text.clear();
        self.rows.clear();
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Its memory use.
    pub(crate) fn size(&self) -> usize {
        self.records.size() + self.text.len() + 4 * self.rows.len()
    }

    /// Passes on some of the rows.
    fn give(&self, rows: Range<usize>, sink: &mut impl Sink<C>) -> Result<()> {
        if self.rows.is_empty() {
            let mut records = self.records.iter().take(rows.end).skip(rows.start);
            return records.try_for_each(|(key, counts)| sink.row(key, counts));
        }
        let start = match rows.start {
            0 => 0,
            row => self.rows[row - 1] as usize,
        };
        let rows = &self.rows[rows];
        let end = rows.last().map_or(start, |&end| end as usize);
        sink.text(&self.text[start..end], rows, start)
    }
}

/// Sorts incoming rows.
pub(crate) struct Order<C> {
    policy: Policy,
    held: Records<C>,
    /// How many bytes may be held back.
    most: usize,
    /// Whether nothing is released before the end.
    waits: bool,
    spilled: Option<Runs>,
    spill: Arc<Spill>,
    low: Vec<u8>,
    /// The largest key released.
    mark: Option<Vec<u8>>,
    payload: Vec<u8>,
    late: bool,
}

/// Whether the rows of a policy always wait until the end: some arrive below the bound.
pub(crate) fn always_waits(policy: Policy) -> bool {
    matches!(policy, Policy::Domain(_))
}

impl<C: Count> Order<C> {
    /// Holds back up to `most` bytes. With `waits`, rows need no bound.
    pub(crate) fn new(policy: Policy, most: usize, waits: bool, spill: &Arc<Spill>) -> Order<C> {
        Order {
            policy,
            held: Records::default(),
            most,
            waits: waits || always_waits(policy),
            spilled: None,
            spill: Arc::clone(spill),
            low: Vec::new(),
            mark: None,
            payload: Vec::new(),
            late: false,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether a key arrived below those already released. If so, the rows are wrong and have to be
    /// produced again by an order that waits.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Adds a piece of SURTs up to `last`, and releases complete rows.
    pub(crate) fn take(
        &mut self,
        piece: &Piece<C>,
        last: &[u8],
        sink: &mut impl Sink<C>,
    ) -> Result<()> {
        if let (Some(mark), Some(first)) = (&self.mark, piece.records.first_key())
            && first <= &mark[..]
        {
            self.late = true;
            return Ok(());
        }
        let count = piece.records.len();
        if self.waits {
            self.held.absorb(&piece.records, 0..count);
        } else {
            let mut bound = std::mem::take(&mut self.low);
            low(self.policy, last, &mut bound);
            // Keys of the piece among those that are held back are sorted; those above them need not.
            let among = match self.held.last_key() {
                Some(key) => piece.records.up_to(key),
                None => 0,
            };
            if count > among && self.held.last_key().is_none_or(|key| key < &bound[..]) {
                let complete = piece.records.below(&bound).max(among);
                self.held.absorb(&piece.records, 0..among);
                self.release(self.held.len(), sink)?;
                if complete > among {
                    piece.give(among..complete, sink)?;
                    self.mark = Some(piece.records.key(complete - 1).to_vec());
                }
                self.held.absorb(&piece.records, complete..count);
            } else {
                self.held.absorb(&piece.records, 0..count);
                self.release(self.held.below(&bound), sink)?;
            }
            self.low = bound;
        }
        if self.held.size() > self.most {
            self.waits = true;
            self.spill_held()?;
        }
        Ok(())
    }

    /// Releases the first rows that are held back.
    fn release(&mut self, count: usize, sink: &mut impl Sink<C>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        for (key, counts) in self.held.iter().take(count) {
            sink.row(key, counts)?;
        }
        self.mark = Some(self.held.key(count - 1).to_vec());
        self.held.drop_first(count);
        Ok(())
    }

    fn spill_held(&mut self) -> Result<()> {
        let mut run = Runs::new(0, &self.spill);
        for (key, counts) in self.held.iter() {
            self.payload.clear();
            counts.encode(&mut self.payload);
            run.push(key, &self.payload);
        }
        self.held = Records::default();
        self.spilled
            .get_or_insert_with(|| Runs::new(0, &self.spill))
            .merge(run)?;
        Ok(())
    }

    /// Releases the remaining rows.
    pub(crate) fn finish(mut self, sink: &mut impl Sink<C>) -> Result<()> {
        if self.spilled.is_none() {
            return self
                .held
                .iter()
                .try_for_each(|(key, counts)| sink.row(key, counts));
        }
        self.spill_held()?;
        let Some(mut runs) = self.spilled else {
            return Ok(());
        };
        let damaged = || Error::format("a temporary file was changed while it was in use");
        let mut reader = runs.reader()?;
        let mut rows = RowBlock::default();
        let mut current: Option<(Vec<u8>, C)> = None;
        while reader.next(&mut rows)? {
            rows.open()?;
            for (key, payload) in rows.iter() {
                let counts = C::decode(payload).ok_or_else(damaged)?;
                match &mut current {
                    Some((known, sum)) if known == key => sum.add(&counts),
                    _ => {
                        if let Some((key, counts)) = current.replace((key.to_vec(), counts)) {
                            sink.row(&key, &counts)?;
                        }
                    }
                }
            }
        }
        match current {
            Some((key, counts)) => sink.row(&key, &counts),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use waypost_surt::Surt;

    use super::*;
    use crate::profile::cut::Cut;
    use crate::profile::cut::tests::surts;
    use crate::profile::records::Counts;

    /// Collects rows, and how many came as text.
    #[derive(Default)]
    struct Collected {
        rows: Vec<u8>,
        as_text: usize,
    }

    fn write(key: &[u8], counts: &Counts, out: &mut Vec<u8>) {
        out.extend_from_slice(key);
        out.extend_from_slice(format!(" {} {}\n", counts.captures, counts.urirs).as_bytes());
    }

    impl Sink<Counts> for Collected {
        fn row(&mut self, key: &[u8], counts: &Counts) -> Result<()> {
            write(key, counts, &mut self.rows);
            Ok(())
        }

        fn text(&mut self, text: &[u8], rows: &[TextRow], start: usize) -> Result<()> {
            let end = rows.last().map_or(0, |&end| end as usize - start);
            assert_eq!(end, text.len());
            assert_eq!(
                memchr::memchr_iter(b'\n', text).count(),
                rows.len(),
                "each row has its end"
            );
            self.as_text += rows.len();
            self.rows.extend_from_slice(text);
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn rows_do_not_depend_on_how_the_input_is_cut(
            set in prop::collection::btree_set(surts(), 1..120),
            cuts in prop::collection::btree_set(1..120usize, 0..30),
            small in any::<bool>(),
            written in any::<bool>(),
        ) {
            let surts: Vec<&[u8]> = set.iter().map(Vec::as_slice).collect();
            let folder = tempfile::tempdir().unwrap();
            let spill = Spill::new(folder.path());
            for policy in Policy::ALL {
                let mut expected: BTreeMap<Vec<u8>, Counts> = BTreeMap::new();
                for surt in &surts {
                    let mut key = Vec::new();
                    policy.cut(&Surt::new(surt), &mut key);
                    expected.entry(key).or_default().add(&Counts::of_captures(2));
                }
                let mut lines = Vec::new();
                for (key, counts) in &expected {
                    write(key, counts, &mut lines);
                }
                let most = if small { 100 } else { 1 << 20 };
                let run = |waits| {
                    let mut order: Order<Counts> = Order::new(policy, most, waits, &spill);
                    let mut sink = Collected::default();
                    let mut start = 0;
                    let ends = cuts.iter().copied().filter(|&cut| cut < surts.len());
                    for end in ends.chain([surts.len()]) {
                        let policies = [policy];
                        let mut cut = Cut::new(&policies, false, &[]);
                        for surt in &surts[start..end] {
                            cut.add(surt, Counts::of_captures(2));
                        }
                        let mut piece = cut.finish().0.remove(0);
                        if written {
                            piece.write(write);
                        }
                        order.take(&piece, surts[end - 1], &mut sink).unwrap();
                        start = end;
                    }
                    let late = order.is_late();
                    order.finish(&mut sink).unwrap();
                    (!late).then_some(sink.rows)
                };
                // Keys of odd hosts may arrive late; then all rows wait until the end.
                let rows = run(false).or_else(|| run(true)).unwrap();
                prop_assert_eq!(
                    String::from_utf8_lossy(&rows),
                    String::from_utf8_lossy(&lines),
                    "{}", policy
                );
            }
        }
    }

    #[test]
    fn most_rows_are_passed_on_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let policies = [Policy::Whole];
        let mut order: Order<Counts> =
            Order::new(Policy::Whole, 1 << 20, false, &Spill::new(folder.path()));
        let mut sink = Collected::default();
        for piece in 0..10 {
            let mut cut = Cut::new(&policies, false, &[]);
            let surts: Vec<String> = (0..100).map(|n| format!("com,a)/{piece}{n:02}")).collect();
            for surt in &surts {
                cut.add(surt.as_bytes(), Counts::of_captures(1));
            }
            let mut piece = cut.finish().0.remove(0);
            piece.write(write);
            order.take(&piece, surts[99].as_bytes(), &mut sink).unwrap();
        }
        order.finish(&mut sink).unwrap();
        assert_eq!(sink.as_text, 990);
    }
}
