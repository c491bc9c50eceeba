//! Lists of URIs, one per line.

use waypost_index::rejects::{Bad, Rejects};
use waypost_index::select::Select;
use waypost_io::Source;

use crate::error::{Error, Result};

/// The maximum number of examples kept.
const EXAMPLES: usize = 3;

/// Lines of lists that have no SURT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadUri {
    /// Their number.
    pub count: u64,
    /// The first of them: position and reason.
    pub examples: Vec<String>,
}

impl BadUri {
    /// Adds the bad lines of lists.
    pub(crate) fn add(&mut self, rejects: &Rejects) {
        self.count += rejects.total();
        for example in rejects.examples() {
            if self.examples.len() < EXAMPLES {
                let why = match (&example.detail, example.kind) {
                    (Some(detail), Bad::Url) => detail,
                    (_, kind) => kind.meaning(),
                };
                self.examples.push(format!(
                    "{}: line {}: {why}: {}",
                    example.file,
                    waypost_report::count(example.line),
                    example.start
                ));
            }
        }
    }
}

/// Rejects capture filters on fields that lists don't have: they would silently let everything
/// through.
pub(crate) fn check_filters(select: &Select, source: &Source) -> Result<()> {
    match select.needs_captures() {
        None => Ok(()),
        Some(missing) => Err(Error::invalid(format!(
            "a list of URIs has no {missing} to filter by"
        ))
        .in_file(source)),
    }
}
