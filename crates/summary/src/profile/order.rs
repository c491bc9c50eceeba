//! The rows of one policy, put in order and given away while they come.
//!
//! Records are held back until no smaller key can come ([`super::low`]). When too many are held, they
//! are spilled as a sorted run, and from then on nothing is given away until the end, when the runs
//! are merged. Keys of registered domains are spilled from the start: some come below the bound.

use std::sync::Arc;

use waypost_io::partial::{RowBlock, Runs, Spill};
use waypost_surt::Policy;

use super::low::low;
use super::records::{Count, Records};
use crate::error::{Error, Result};

/// Takes in rows in order.
pub(crate) type Give<'a, C> = &'a mut dyn FnMut(&[u8], &C) -> Result<()>;

pub(crate) struct Order<C> {
    policy: Policy,
    held: Records<C>,
    /// How much may be held.
    most: usize,
    /// Whether nothing is given away before the end.
    waits: bool,
    spilled: Option<Runs>,
    spill: Arc<Spill>,
    low: Vec<u8>,
    /// The largest key given away.
    mark: Vec<u8>,
    payload: Vec<u8>,
    late: bool,
}

impl<C: Count> Order<C> {
    /// Holds `most` bytes. With `waits`, rows need not come with a bound.
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

    /// Whether a key came below those that were given away: then the rows are not what they should
    /// be, and must be made again by an order that waits.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Takes in records of SURTs up to `last`, and gives away what is complete.
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

    /// Gives what is left.
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
