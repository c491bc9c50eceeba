//! Writing a map piece by piece, on all cores.
//!
//! Each piece writes the rows of its own nodes, in order. The row of a node that pieces share is
//! complete only when the last of them is done, but belongs before most of their rows. So from there
//! on, all rows wait on a tape.

use memchr::memmem;
use waypost_io::Phase;

use super::queue::{Kind, Queue};
use super::{Counting, Passed, Style, Summed, Writer};
use crate::error::{Error, Result};
use crate::frequency::Frequency;
use crate::map::compact::SourceMap;
use crate::map::solve::{Loan, Outline, Solution, Tape};
use crate::map::tree::cut::{Borders, Handed, join};
use crate::map::tree::sample::Sample;
use crate::map::tree::second::Names;
use crate::map::tree::{Part, TreeNode};

/// The rows of a piece.
struct WrittenPiece {
    borders: Borders,
    lines: Vec<u8>,
    /// Where rows of shared nodes belong, in the order of the lines.
    gaps: Vec<usize>,
    written: Summed,
    shared: Vec<(Handed, SharedPart)>,
}

/// What a piece has of a shared node.
pub(super) struct SharedPart {
    node: Passed,
    gap: Gap,
}

/// The place of a shared node's row in a piece.
enum Gap {
    /// Another piece has the row, or the node has none.
    Elsewhere,
    /// After a line with this key.
    Key(Vec<u8>),
    /// By its number.
    Number(usize),
}

/// A shared node.
struct Shared {
    node: Passed,
    stem: Vec<u8>,
    part: Part,
    /// Its row among those that wait, if it has one.
    row: Option<usize>,
}

/// What waits for the row of a shared node.
enum Waiting {
    /// A chunk of the tape.
    Lines(usize),
    Row(Vec<u8>),
}

/// The rows of all pieces, in order.
struct Assembly<S> {
    sink: S,
    counting: Counting,
    open: Vec<Shared>,
    waiting: Vec<Waiting>,
    tape: Tape,
    /// Rows that are not complete.
    incomplete: usize,
    written: Summed,
}

/// Passes the rows that follow from a solution to `sink`, in order and as whole lines.
pub(crate) fn write_pieces(
    given: &SourceMap,
    outline: &Outline,
    solution: &Solution,
    sample: Option<&Sample>,
    phase: Phase,
    sink: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Summed> {
    let counting = given.counting;
    let folder = &given.room.temporary;
    let mut assembly = Assembly {
        sink,
        counting,
        open: Vec::new(),
        waiting: Vec::new(),
        tape: Tape::new(folder),
        incomplete: 0,
        written: Summed::default(),
    };
    given.walk_pieces_again(
        phase,
        sample,
        |piece| {
            let choices = Loan::Read(solution.choices(outline, piece.number, folder)?);
            let queue = Queue::to_bytes(Style::Published);
            let mut writer = Writer::new(choices, Style::Published, counting, queue);
            writer.borders = piece.borders.clone();
            Ok(writer)
        },
        |writer| finish(writer).map(Some),
        |piece| assembly.take(piece),
    )?;
    Ok(assembly.written)
}

/// The rows of a piece that has been walked.
fn finish(mut writer: Writer<'_>) -> Result<WrittenPiece> {
    let borders = std::mem::take(&mut writer.borders);
    let mut shared = std::mem::take(&mut writer.shared);
    let (all, mut written) = writer.queue.take_lines();
    written.keys = writer.keys;
    // Rows of shared nodes were written without their frequencies.
    let mut found = Vec::new();
    for (_, part) in &mut shared {
        if let Gap::Key(key) = &part.gap {
            let at = match all.starts_with(&key[1..]) {
                true => Some(0),
                false => memmem::find(&all, key).map(|at| at + 1),
            };
            found.push((at.ok_or_else(lost)?, &mut part.gap));
        }
    }
    found.sort_unstable_by_key(|(at, _)| *at);
    let mut lines = Vec::with_capacity(all.len());
    let mut gaps = Vec::new();
    let mut end = 0;
    for (at, gap) in found {
        lines.extend_from_slice(&all[end..at]);
        end = at + memchr::memchr(b'\n', &all[at..]).map_or(all.len() - at, |end| end + 1);
        written.rows -= 1;
        written.wildcards -= 1;
        written.bytes -= (end - at) as u64;
        *gap = Gap::Number(gaps.len());
        gaps.push(lines.len());
    }
    lines.extend_from_slice(&all[end..]);
    Ok(WrittenPiece {
        borders,
        lines,
        gaps,
        written,
        shared,
    })
}

fn lost() -> Error {
    Error::invalid("a row of a piece is missing")
}

impl Writer<'_> {
    /// Hands over what a piece has of a shared node.
    pub(super) fn hand_over(&mut self, place: &TreeNode<'_>, node: Passed, handed: Handed) {
        let mut gap = Gap::Elsewhere;
        if node.written {
            let mut key = vec![b'\n'];
            place.write_wildcard(&mut key);
            if self.borders.contain(&key[1..]) {
                let nothing = Frequency::default();
                (self.queue).push(Kind::Wildcard, &nothing, None, None, |out| {
                    place.write_wildcard(out);
                });
                key.push(b' ');
                gap = Gap::Key(key);
            }
        }
        self.shared.push((handed, SharedPart { node, gap }));
    }
}

impl<S: FnMut(&[u8]) -> Result<()>> Assembly<S> {
    fn take(&mut self, piece: WrittenPiece) -> Result<()> {
        self.written.add(&piece.written);
        let mut rows = Vec::new();
        let mut end = 0;
        for &at in &piece.gaps {
            self.lines(&piece.lines[end..at])?;
            end = at;
            rows.push(self.waiting.len());
            self.waiting.push(Waiting::Row(Vec::new()));
            self.incomplete += 1;
        }
        self.lines(&piece.lines[end..])?;
        let mut open = std::mem::take(&mut self.open);
        let mut started = piece.borders.started();
        let mut failed = None;
        let row_of = |gap: &Gap| match gap {
            Gap::Number(number) => rows.get(*number).copied(),
            _ => None,
        };
        join(
            &mut open,
            piece.shared,
            self,
            |_, part| {
                let (_, stem, of_tree) = started.next().unwrap_or((0, b"", Part::Root));
                Shared {
                    row: row_of(&part.gap),
                    node: part.node,
                    stem: stem.to_vec(),
                    part: of_tree,
                }
            },
            |_, shared, part| {
                shared.row = shared.row.or(row_of(&part.gap));
                let part = part.node;
                shared.node.total.add_all(&part.total);
                shared.node.given.add_all(&part.given);
            },
            |assembly, shared, parent| {
                if let Err(error) = assembly.close(shared, parent) {
                    failed.get_or_insert(error);
                }
            },
        )?;
        self.open = open;
        if let Some(error) = failed {
            return Err(error);
        }
        if self.incomplete == 0 {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds rows.
    fn lines(&mut self, lines: &[u8]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.waiting.is_empty() {
            return (self.sink)(lines);
        }
        self.waiting.push(Waiting::Lines(self.tape.chunks()));
        self.tape.push(lines)
    }

    /// Writes the row of a shared node, all parts of which are known.
    fn close(&mut self, mut shared: Shared, parent: Option<&mut Shared>) -> Result<()> {
        let node = &mut shared.node;
        node.settle(self.counting);
        if !node.written {
            if let Some(parent) = parent {
                parent.node.total.add_all(&node.total);
            }
            return Ok(());
        }
        let row = shared.row.ok_or_else(lost)?;
        let mut queue = Queue::to_bytes(Style::Published);
        let place = TreeNode::alone(&shared.stem, shared.part);
        node.push_wildcards(&place, &Names::default(), &mut queue);
        let (line, written) = queue.take_lines();
        self.written.add(&written);
        self.waiting[row] = Waiting::Row(line);
        self.incomplete -= 1;
        Ok(())
    }

    /// Passes on what waits.
    fn flush(&mut self) -> Result<()> {
        let mut lines = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Lines(chunk) => {
                    self.tape.read(chunk, &mut lines)?;
                    (self.sink)(&lines)?;
                }
                Waiting::Row(row) => (self.sink)(&row)?,
            }
        }
        self.tape.clear();
        Ok(())
    }
}
