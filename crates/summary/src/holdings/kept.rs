//! Holdings that are needed several times in a run.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Held, Input, Reading, gather};
use crate::error::Result;

/// What was read, if anything was.
type Read = Option<(Held, Arc<Reading>)>;

/// The holdings of an archive: an index, a list of URIs, their hashes, or a `URIR` profile. However
/// often they are needed, they are read and sorted only once; clones share what was read.
#[derive(Clone)]
pub struct Holdings {
    input: Input,
    read: Arc<Mutex<Read>>,
}

impl Holdings {
    /// The holdings of these inputs.
    pub fn new(input: Input) -> Holdings {
        Holdings {
            input,
            read: Arc::default(),
        }
    }

    /// What is read.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// Passes the URI-Rs to `use_them`.
    pub(crate) fn held<T>(
        &self,
        use_them: impl FnOnce(&mut Held) -> Result<T>,
    ) -> Result<(T, Arc<Reading>)> {
        let mut read = self.lock();
        let (held, reading) = match &mut *read {
            Some(both) => both,
            empty => {
                let (held, reading) = gather(&self.input, None)?;
                empty.insert((held, Arc::new(reading)))
            }
        };
        Ok((use_them(held)?, Arc::clone(reading)))
    }

    /// Writes what was read to temporary files, so that it takes no memory until it is needed again.
    pub(crate) fn spill(&self) -> Result<()> {
        match &mut *self.lock() {
            Some((held, _)) => Ok(held.runs().spill_all()?),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Holdings").field(&self.input).finish()
    }
}
