//! Whether files are probably sorted, as far as a look at their ends tells.

use waypost_index::scan::{self, At, Job};
use waypost_index::{Capture, Fields};

use super::Input;
use super::row::{RowReader, RowTools};
use super::sniff::{Content, tell};
use super::stream::not_sent;

/// How many bytes of the start of a file are read.
const HEAD: usize = 64 << 10;

/// The same of its end, as stored: enough for a few gzip members.
const TAIL: u64 = 1 << 20;

/// Whether all sources are indexes that can be read again, and both they and their lines are in order as
/// far as their first and last lines tell.
pub(super) fn looks_sorted(input: &Input) -> bool {
    let job = Ends(RowReader::new(input.dialect, None));
    let mut select = input.select.clone();
    select.dialect(input.dialect);
    let mut all = job.empty();
    let mut follows = |found: Option<Found>| {
        found.is_some_and(|found| job.merge(&mut all, found, At::default()).is_ok() && all.in_order)
    };
    let is_index = |source| match tell(source) {
        Ok(told) => matches!(told.content, Content::Index(_) | Content::Empty),
        Err(_) => false,
    };
    input.sources.iter().enumerate().all(|(number, source)| {
        // Nothing follows the last file. The end of a small file is all of it.
        let needs_tail = number + 1 < input.sources.len();
        let is_small = matches!(source.stored(), Ok(Some(size)) if size <= TAIL);
        is_index(source)
            && ((needs_tail && is_small) || follows(scan::head(source, &job, &select, HEAD)))
            && (!needs_tail || follows(scan::tail(source, &job, &select, TAIL)))
    })
}

/// The scan job.
struct Ends(RowReader);

/// The first and the last SURT of some captures.
struct Found {
    first: Option<Vec<u8>>,
    last: Vec<u8>,
    in_order: bool,
    tools: Option<Box<RowTools>>,
}

impl Job for Ends {
    type Partial = Found;

    fn fields(&self) -> Fields {
        self.0.fields()
    }

    fn empty(&self) -> Found {
        Found {
            first: None,
            last: Vec::new(),
            in_order: true,
            tools: None,
        }
    }

    fn add(&self, found: &mut Found, capture: &Capture<'_>, _: At) {
        let tools = (found.tools).get_or_insert_with(|| self.0.tools());
        let (surt, _) = self.0.of_capture(tools, capture);
        found.in_order &= *surt >= found.last[..];
        if found.first.is_none() {
            found.first = Some(surt.to_vec());
        }
        found.last.clear();
        found.last.extend_from_slice(&surt);
    }

    fn merge(&self, earlier: &mut Found, later: Found, _: At) -> waypost_io::Result<()> {
        earlier.in_order &= later.in_order;
        if let Some(first) = later.first {
            earlier.in_order &= first >= earlier.last;
            earlier.first.get_or_insert(first);
            earlier.last = later.last;
        }
        Ok(())
    }

    fn to_bytes(&self, _: &Found) -> waypost_io::Result<Vec<u8>> {
        Err(not_sent())
    }

    fn from_bytes(&self, _: &[u8]) -> waypost_io::Result<Found> {
        Err(not_sent())
    }
}
