//! Lists of URIs, one a line.

use waypost_index::rejects::{Bad, Rejects};
use waypost_index::select::Select;
use waypost_io::Source;

use crate::error::{Error, Result};

/// How many examples are kept.
const EXAMPLES: usize = 3;

/// Lines of lists that have no SURT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadUri {
    /// How many there are.
    pub count: u64,
    /// The first of them: where, and what is wrong.
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

/// Refuses filters that look at what lists do not have: they would silently let everything through.
pub(crate) fn check_filters(select: &Select, source: &Source) -> Result<()> {
    match select.needs_captures() {
        None => Ok(()),
        Some(missing) => Err(Error::invalid(format!(
            "a list of URIs has no {missing} to filter by"
        ))
        .in_file(source)),
    }
}
