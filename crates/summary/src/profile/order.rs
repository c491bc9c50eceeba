//! Sorting the rows of one policy as they arrive.
//!
//! Records are held back until no smaller key can follow ([`super::low`]). If too many are held
//! back, they are spilled as a sorted run, and from then on nothing is released until the end, when
//! the runs are merged. Keys of registered domains are spilled from the start: some arrive below
//! the bound.

use std::sync::Arc;

use waypost_io::partial::{RowBlock, Runs, Spill};
use waypost_surt::Policy;

use super::low::low;
use super::records::{Count, Records};
use crate::error::{Error, Result};

/// Sorts incoming rows.
pub(crate) type Give<'a, C> = &'a mut dyn FnMut(&[u8], &C) -> Result<()>;

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
    mark: Vec<u8>,
    payload: Vec<u8>,
    late: bool,
}

impl<C: Count> Order<C> {
    /// Holds back up to `most` bytes. With `waits`, rows need no bound.
    pub(crate) fn new(policy: Policy, most: usize, waits: bool, spill: &Arc<Spill>) -> Order<C> {
        Order {
            policy,
            held: Records::default(),
            most,
            waits: waits || matches!(policy, Policy::Domain(_)),
            spilled: None,
            spill: Arc::clone(spill),
            low: Vec::new(),
            mark: Vec::new(),
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

    /// Adds records of SURTs up to `last`, and releases complete rows.
    pub(crate) fn take(
        &mut self,
        batches: Vec<Records<C>>,
        last: &[u8],
        give: Give<'_, C>,
    ) -> Result<()> {
        for mut records in batches {
            records.settle();
            if !self.mark.is_empty() && records.first_key().is_some_and(|key| key <= &self.mark[..])
            {
                self.late = true;
                return Ok(());
            }
            self.held.absorb(records);
        }
        if !self.waits {
            let mut bound = std::mem::take(&mut self.low);
            low(self.policy, last, &mut bound);
            let complete = self.held.below(&bound);
            self.low = bound;
            if complete > 0 {
                for (key, counts) in self.held.iter().take(complete) {
                    give(key, counts)?;
                }
                self.mark.clear();
                self.mark.extend_from_slice(self.held.key(complete - 1));
                self.held.drop_first(complete);
            }
        }
        if self.held.size() > self.most {
            self.waits = true;
            self.spill_held()?;
        }
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
    pub(crate) fn finish(mut self, give: Give<'_, C>) -> Result<()> {
        if self.spilled.is_none() {
            return self
                .held
                .iter()
                .try_for_each(|(key, counts)| give(key, counts));
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
                            give(&key, &counts)?;
                        }
                    }
                }
            }
        }
        match current {
            Some((key, counts)) => give(&key, &counts),
            None => Ok(()),
        }
    }
}
