//! Whether files are probably sorted, as far as a look at their ends tells.

use waypost_index::scan::{self, At, Job};
use waypost_index::{Capture, Fields};
use waypost_io::{Source, adapters};

use super::Input;
use super::row::{RowReader, RowTools};
use super::sniff::{Content, tell};
use super::stream::not_divisible;

/// How many bytes at the start of a file are read.
const HEAD: usize = 64 << 10;

/// How many bytes at its end, as stored: enough for a few gzip members.
const TAIL: u64 = 1 << 20;

/// A file with no more bytes than these is read as a whole, because its ends overlap.
const SMALL: u64 = HEAD as u64 + TAIL;

/// Whether all sources are indexes that can be read again, and both they and their lines are in the order of
/// SURTs as far as the start of each tells, and the end of each that another one follows.
pub(super) fn looks_sorted(input: &Input) -> bool {
    let job = Ends(RowReader::new(input.dialect, None));
    let mut select = input.select.clone();
    select.dialect(input.dialect);
    let mut all = job.empty();
    let mut follows = |keys: Option<EndKeys>| {
        keys.is_some_and(|keys| job.merge(&mut all, keys, At::default()).is_ok() && all.in_order)
    };
    let is_index = |source: &Source| match tell(source) {
        Ok(told) => matches!(told.content, Content::Index(_) | Content::Empty),
        Err(_) => false,
    };
    // A look would download the ends of remote files once more.
    let is_remote = |source: &Source| adapters::url_of(source.path()).is_some();
    if input.sources.iter().any(is_remote) {
        return false;
    }
    input.sources.iter().enumerate().all(|(number, source)| {
        let head = || scan::head(source, &job, &select, HEAD);
        let tail = |size| scan::tail(source, &job, &select, size);
        if !is_index(source) {
            return false;
        }
        if number + 1 == input.sources.len() {
            return follows(head());
        }
        match source.stored() {
            Ok(Some(..=SMALL)) => follows(tail(SMALL)),
            Ok(Some(_)) => follows(head()) && follows(tail(TAIL)),
            _ => false,
        }
    })
}

/// The scan job.
struct Ends(RowReader);

/// The first and the last SURT of some captures.
struct EndKeys {
    first: Option<Vec<u8>>,
    last: Vec<u8>,
    in_order: bool,
    tools: Option<Box<RowTools>>,
}

impl Job for Ends {
    type Partial = EndKeys;

    fn fields(&self) -> Fields {
        self.0.fields()
    }

    fn empty(&self) -> EndKeys {
        EndKeys {
            first: None,
            last: Vec::new(),
            in_order: true,
            tools: None,
        }
    }

    fn add(&self, keys: &mut EndKeys, capture: &Capture<'_>, _: At) {
        let tools = (keys.tools).get_or_insert_with(|| self.0.tools());
        let (surt, _) = self.0.of_capture(tools, capture);
        keys.in_order &= *surt >= keys.last[..];
        if keys.first.is_none() {
            keys.first = Some(surt.to_vec());
        }
        keys.last.clear();
        keys.last.extend_from_slice(&surt);
    }

    fn merge(&self, earlier: &mut EndKeys, later: EndKeys, _: At) -> waypost_io::Result<()> {
        earlier.in_order &= later.in_order;
        if let Some(first) = later.first {
            earlier.in_order &= first >= earlier.last;
            earlier.first.get_or_insert(first);
            earlier.last = later.last;
        }
        Ok(())
    }

    fn to_bytes(&self, _: &EndKeys) -> waypost_io::Result<Vec<u8>> {
        Err(not_divisible())
    }

    fn from_bytes(&self, _: &[u8]) -> waypost_io::Result<EndKeys> {
        Err(not_divisible())
    }
}
